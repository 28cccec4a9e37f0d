"""What would have to change: the fewest players, and their values, with which a row would not be flagged.

The players T of a row may take any values, and take those that make the score smallest. For a score |F x|^2 + constant
with A = F^T F and u = A x, the score falls by

    gain(T) = u_T^T A_TT^+ u_T,    with x_T moved by -A_TT^+ u_T

so a row is cleared if the gain is at least its score less the limit. For the Mahalanobis distance the new values are what
the other features imply for those in T, all at once.

All sets of one player are tried, then all of two, and so on, for all rows at once. Sets of k players are tried by adding
each player to each set of k - 1. The first size with a set that clears the row is the smallest number, and of the sets of
that size the one with the lowest score is taken. Two bounds end the search: a row that not even all players clear is not
searched, and if the sets of a size are too many, the remaining rows get a greedy answer. It adds the player with the
largest gain until the row is cleared, and is marked as exact only if all smaller sizes have been tried.

| symbol | code | meaning |
| --- | --- | --- |
| A | ``curvature`` | (d, d) |
| u | ``pull`` | (n, d) |
| T | ``chosen`` | positions of players |
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.missing import patterns
from culpa._core.types import DataFrame, Floats, Mask, Positions
from culpa._core.validation import frame_like
from culpa._core.words import count
from culpa.scores import QuadraticScore

if TYPE_CHECKING:
    from culpa.explanation import Explanation

_OPERATIONS = 3e8  # of the exhaustive search of one size, for all rows of a pattern: about a second
_CELLS = 1 << 21  # numbers held at a time
_RANK = 1e-10  # eigenvalues below, relative to the largest, are 0
_ROUNDING = 1e-12  # of a score, by which it may exceed the limit
_SHOWN = 10  # rows in a repr

Chosen = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Counterfactual:
    """The fewest players to change in each row, and their new values, so that the row is not flagged.

    Attributes
    ----------
    players : list of tuple of str
        Names of the players to change in each row; empty if the row is not flagged.
    features : list of tuple of int
        Positions of the columns of these players.
    data, changed : ndarray of shape (rows, features)
        The rows, and the rows with new values, in the user's units. The other cells are the same. Given columns, which
        never change, are not among them.
    score, score_if_changed : ndarray of shape (rows,)
    limit : float
    exact : ndarray of shape (rows,)
        Whether no smaller number of players would do. If not, a greedy search found them.
    possible : ndarray of shape (rows,)
        Whether the row can be cleared at all; if not, nothing is changed. Missing cells may alone exceed the limit.
    row_labels : ndarray of shape (rows,)
    feature_names : tuple of str
    """

    players: list[tuple[str, ...]]
    features: list[tuple[int, ...]]
    data: NDArray[Any]
    changed: NDArray[Any]
    score: Floats
    score_if_changed: Floats
    limit: float
    exact: Mask
    possible: Mask
    row_labels: NDArray[Any]
    feature_names: tuple[str, ...]
    native: Any = None  # the table that was explained, kept to answer in kind

    @classmethod
    def of(cls, why: "Explanation", limit: float | None = None) -> "Counterfactual":
        """Of the rows of an explanation, which must know its explainer; ``limit`` is the detector's unless given."""
        origin = why.known_origin("counterfactual()")
        limit = origin.limit if limit is None else limit
        if limit is None:
            raise ValueError("counterfactual() needs a limit: give limit=..., or explain with a PCADetector.")
        explainer, reading = origin.explainer, origin.rows
        statistic = explainer.score
        if not isinstance(statistic, QuadraticScore):
            raise ValueError("counterfactual() is for quadratic scores, and this one is a function.")
        standard = explainer.model.standardise(reading.features)
        score = explainer.score(standard)
        moved = standard.copy()
        answers: list[Answer] = [Answer((), True, True)] * len(standard)
        for at, observed in patterns(standard):
            seen = [np.intersect1d(player, observed).tolist() for player in explainer.players]
            root, _ = statistic.given(observed)
            rows = np.nan_to_num(standard[at], nan=0.0)
            found = search(root.T @ root, (rows @ root.T + statistic.offset) @ root, seen, score[at] - limit)
            for row, answer in zip(at, found, strict=True):
                answers[row] = answer
                members = [i for player in answer.chosen for i in seen[player]]
                pull = (np.nan_to_num(standard[row], nan=0.0) @ root.T + statistic.offset) @ root[:, members]
                moved[row, members] -= _pseudo_inverse((root.T @ root)[np.ix_(members, members)]) @ pull
        columns = [tuple(sorted(i for p in answer.chosen for i in why.players[p])) for answer in answers]
        return cls(
            [tuple(why.player_names[p] for p in answer.chosen) for answer in answers],
            columns,
            why.data,
            _changed_cells(why.data, explainer.model.to_cells(moved, reading, explainer.columns), columns),
            score,
            explainer.score(moved),
            limit,
            np.array([answer.exact for answer in answers], dtype=bool),
            np.array([answer.possible for answer in answers], dtype=bool),
            why.row_labels,
            why.feature_names,
            why.native,
        )

    def __len__(self) -> int:
        return len(self.score)

    def to_frame(self) -> DataFrame:
        """One line per row and column to change."""
        pairs = [(row, column) for row, columns in enumerate(self.features) for column in columns]
        row, column = (np.array([pair[k] for pair in pairs], dtype=np.intp) for k in (0, 1))
        columns: dict[str, Any] = {
            "row": self.row_labels[row],
            "score": self.score[row],
            "score_if_changed": self.score_if_changed[row],
            "exact": self.exact[row],
            "feature": np.array(self.feature_names, dtype=np.str_)[column],
        }
        for name, cells in (("actual", self.data), ("change_to", self.changed)):
            here = cells[row, column]
            columns[name] = here if here.dtype.kind == "f" else [_text(cell) for cell in here]
        return frame_like(self.native, columns)

    def __repr__(self) -> str:
        head = f"<Counterfactual: what would bring {count(len(self), 'row')} to the limit {self.limit:.4g}>"
        more = [f"  and {count(len(self) - _SHOWN, 'more row')}"] if len(self) > _SHOWN else []
        return "\n".join([head, *(self._line(row) for row in range(min(len(self), _SHOWN))), *more])

    def _line(self, row: int) -> str:
        label = f"  row {self.row_labels[row]}: "
        if not self.possible[row]:
            return f"{label}no change of the observed features clears it (score {self.score[row]:.4g})"
        if not self.features[row]:
            return f"{label}not flagged (score {self.score[row]:.4g})"
        changes = ", ".join(
            f"{self.feature_names[i]} {_text(self.data[row, i])} -> {_text(self.changed[row, i])}"
            for i in self.features[row]
        )
        how = "" if self.exact[row] else "; fewer may do"
        return f"{label}{changes} (score {self.score[row]:.4g} -> {self.score_if_changed[row]:.4g}{how})"


class Answer(NamedTuple):
    """The players to change, whether fewer would not do, and whether it is possible at all."""

    chosen: Chosen
    exact: bool
    possible: bool


def search(curvature: Floats, pull: Floats, players: Sequence[Sequence[int]], wanted: Floats) -> list[Answer]:
    """The fewest players whose gain is ``wanted`` (n,), for rows with the same features observed.

    Players without observed features are never chosen.
    """
    tolerance = _ROUNDING * np.abs(wanted).max(initial=0.0)
    answers = [Answer((), True, True) for _ in wanted]
    usable = [k for k, player in enumerate(players) if len(player)]
    game = _Gains(curvature, pull, [list(players[k]) for k in usable])
    everything = game.gain(tuple(range(len(usable))))
    hopeless = ~(everything >= wanted - tolerance) & ~(wanted <= 0)
    waiting = np.flatnonzero((wanted > 0) & ~hopeless)
    for row in np.flatnonzero(hopeless):
        answers[row] = Answer((), True, False)
    for size in range(1, len(usable) + 1):
        if not len(waiting):
            break
        if game.operations(size, len(waiting)) > _OPERATIONS:
            for row in waiting:
                chosen = game.greedy(int(row), wanted[row] - tolerance)
                answers[row] = Answer(chosen, len(chosen) == size, True)  # smaller sizes were tried
            break
        best, gains = game.best(size, waiting)
        done = gains >= wanted[waiting] - tolerance
        for row, chosen in zip(waiting[done], itertools.compress(best, done), strict=True):
            answers[row] = Answer(chosen, True, True)
        waiting = waiting[~done]
    return [answer._replace(chosen=tuple(usable[k] for k in answer.chosen)) for answer in answers]


class _Gains:
    """By how much the score of each row falls if sets of players take their best values."""

    def __init__(self, curvature: Floats, pull: Floats, players: list[list[int]]) -> None:
        self.curvature, self.pull, self.players = curvature, pull, players
        self.widest = max(map(len, players), default=0)

    def gain(self, chosen: Chosen, rows: Any = slice(None)) -> Floats:
        """Of one set, (n,)."""
        members = [i for k in chosen for i in self.players[k]]
        pull = self.pull[rows][..., members]
        return np.asarray((pull @ _pseudo_inverse(self.curvature[np.ix_(members, members)]) * pull).sum(axis=-1))

    def greedy(self, row: int, wanted: float) -> Chosen:
        """Players of one row, each the one that adds most, until the gain is enough."""
        chosen: Chosen = ()
        while len(chosen) < len(self.players) and not (chosen and self.gain(chosen, row) >= wanted):
            gains = np.array([gain[0, 0] for gain in self._with_one_more([chosen], np.array([row]))])
            gains[list(chosen)] = -np.inf
            chosen = (*chosen, int(np.argmax(gains)))
        return chosen

    def operations(self, size: int, n_rows: int) -> float:
        """About how many operations `best` takes."""
        members = (size - 1) * self.widest
        each = len(self.players) * self.widest * (members**2 + n_rows * (members + self.widest)) + 300.0
        return math.comb(len(self.players), size - 1) * each

    def best(self, size: int, rows: Positions) -> tuple[list[Chosen], Floats]:
        """The set of so many players with the largest gain, for each row, and its gain."""
        best: list[Chosen] = [()] * len(rows)
        highest = np.full(len(rows), -np.inf)
        for smaller in self._sets(size - 1, len(rows)):
            for player, gain in enumerate(self._with_one_more(smaller, rows)):
                # each set is seen once: its last player is added to the others
                last = np.array([not chosen or chosen[-1] < player for chosen in smaller])
                gain = np.where(last[:, None], gain, -np.inf)
                at = gain.argmax(axis=0)
                found = gain[at, np.arange(len(rows))]
                for k in np.flatnonzero(found > highest):
                    highest[k], best[k] = found[k], (*smaller[at[k]], player)
        return best, highest

    def _sets(self, size: int, n_rows: int) -> Iterator[list[Chosen]]:
        """All sets of so many players, some at a time."""
        members = max(1, size * self.widest)
        batch = max(1, _CELLS // (members * (members + self.widest + n_rows)))
        return _batches(itertools.combinations(range(len(self.players)), size), batch)

    def _with_one_more(self, sets: list[Chosen], rows: Positions) -> Iterator[Floats]:
        """Gains (sets, rows) of the sets with player 0, with player 1, and so on. The sets are of one size."""
        A, u = self.curvature, self.pull[rows]
        members, inverse = self._inverses(sets)
        absent = members < 0
        own = np.where(absent[:, None, :], 0.0, u[:, members].transpose(1, 0, 2))  # (sets, rows, members)
        solved = own @ inverse
        before = (solved * own).sum(axis=2)
        for player in self.players:
            cross = np.where(absent[:, None, :], 0.0, A[np.array(player)[None, :, None], members[:, None, :]])
            left = A[np.ix_(player, player)] - cross @ inverse @ cross.transpose(0, 2, 1)
            rest = u[:, player] - solved @ cross.transpose(0, 2, 1)
            if len(player) == 1:
                size = left[:, 0, 0]
                alive = size > _RANK * A[player[0], player[0]]
                yield before + np.where(alive, 1 / np.where(alive, size, 1.0), 0.0)[:, None] * rest[:, :, 0] ** 2
            else:
                yield before + ((rest @ _pseudo_inverse(left)) * rest).sum(axis=2)

    def _inverses(self, sets: list[Chosen]) -> tuple[Positions, Floats]:
        """Members of each set, -1 where a set has fewer than others, and (A_TT)^+, with zeros there."""
        listed = [[i for k in chosen for i in self.players[k]] for chosen in sets]
        width = max(map(len, listed), default=0)
        members = np.array([row + [-1] * (width - len(row)) for row in listed], dtype=np.intp).reshape(len(sets), width)
        present = members >= 0
        both = present[:, :, None] & present[:, None, :]
        blocks = np.where(both, self.curvature[members[:, :, None], members[:, None, :]], 0.0)
        return members, _pseudo_inverse(blocks)


def _pseudo_inverse(matrix: Floats) -> Floats:
    """Of symmetric matrices (..., k, k) without negative eigenvalues."""
    if not matrix.size:
        return matrix
    return np.asarray(np.linalg.pinv(matrix, rcond=_RANK, hermitian=True))


def _batches(items: Iterator[Chosen], size: int) -> Iterator[list[Chosen]]:
    while batch := list(itertools.islice(items, size)):
        yield batch


def _changed_cells(data: NDArray[Any], moved: NDArray[Any], columns: list[tuple[int, ...]]) -> NDArray[Any]:
    """The rows with new cells in these columns; cells that were missing stay missing."""
    result = data.copy()
    for row, changed in enumerate(columns):
        for column in changed:
            if data[row, column] == data[row, column]:
                result[row, column] = moved[row, column]
    return result


def _text(cell: Any) -> str:
    return f"{cell:.4g}" if isinstance(cell, (float, np.floating)) else str(cell)
