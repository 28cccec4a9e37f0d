"""What would have to change: the fewest players, and their values, with which a row would not be flagged.

The players T of a row may take any values, and take those that make the score smallest. For a score |e|^2 with
e = F x + r, these values take from e all that the columns F_T can reach:

    lowest(T) = |e - B B^T e|^2,    with B an orthonormal basis of F_T, and x_T moved by -F_T^+ e

For the Mahalanobis distance the new values are what the other features imply for those in T, all at once. All of it comes
from the root F and never from F^T F, whose condition is that of F squared: where columns are nearly collinear, nothing
would be left of its small eigenvalues.

All sets of one player are tried, then all of two, and so on, for all rows at once. Sets of k players are tried by adding
each player to each set of k - 1. The first size with a set that clears the row is the smallest number, and of the sets of
that size the one with the lowest score is taken, the first of those that are equal. Two bounds end the search: a row that
not even all players clear is not searched, and if the sets of a size are too many, the remaining rows get a greedy answer.
It adds the player that leaves the least until the row is cleared, and is marked as exact only if all smaller sizes have
been tried. How many sets are too many does not depend on the other rows.

A score far above the limit leaves no digits to a difference from it. So a set that may clear such a row is valued without
that difference, with the cells of the set out of e from the start. Every answer is scored again, and is one only if the
changed row is at or below the limit.

| symbol | code | meaning |
| --- | --- | --- |
| F, r | ``root``, ``offset`` | (m, d), (m,) |
| e | ``parts`` | (n, m) |
| T | ``chosen`` | positions of players |
| B | ``basis`` | (m, features of T) |
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.comparing import ROUNDING, exceeds
from culpa._core.missing import patterns
from culpa._core.types import DataFrame, Floats, Mask, Positions
from culpa._core.validation import frame_like
from culpa._core.words import count
from culpa.explaining.origin import origin_of
from culpa.scores import QuadraticForm

if TYPE_CHECKING:
    from culpa.explaining.explanation import Explanation

_OPERATIONS = 1e9  # of preparing the sets of one size, which takes a few seconds
_OPERATIONS_PER_ROW = 1e7  # of trying them on a row
_PER_SET = 1e4  # operations that take as long as calling LAPACK
_CELLS = 1 << 21  # numbers held at a time
_RANK = 1e-10  # singular values of a root below, relative to the largest, are 0
_FAR = 1e3  # limits: a score above leaves no digits to differences from it
_DIGITS = 1e-9  # of a score, by which differences from it may be wrong
_EQUAL = 1e-8  # of the limit, by which scores that are equal may differ
_CANCELLED = 1e-3  # share of its terms below which a difference is computed otherwise, to keep its digits
_REFINEMENTS = 3  # steps to the best values
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
        The score as it is, and with the new values.
    limit : float
        A score up to here raises no alarm.
    exact : ndarray of shape (rows,)
        Whether no smaller number of players would do. If not, a greedy search found them.
    possible : ndarray of shape (rows,)
        Whether the row can be cleared at all; if not, nothing is changed. Missing cells may alone exceed the limit.
    row_labels : ndarray of shape (rows,)
        What the user calls the rows.
    feature_names : tuple of str
        Names of the columns of ``data``.

    Examples
    --------
    >>> from culpa import PCADetector
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> detector = PCADetector().fit(plant.normal)
    >>> why = detector.explain(plant.new[50:53])
    >>> change = why.counterfactual()
    >>> change.players, bool((change.score_if_changed <= detector.limit_).all())
    ([('x2',), ('x2',), ('x2',)], True)
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


def counterfactual_of(why: "Explanation", limit: float | None = None) -> Counterfactual:
    """Of the rows of an explanation, which must know its explainer; ``limit`` is the detector's unless given."""
    origin = origin_of(why, "counterfactual()")
    limit = origin.limit if limit is None else limit
    if limit is None:
        raise ValueError("counterfactual() needs a limit: give limit=..., or explain with a PCADetector.")
    explainer, reading = origin.explainer, origin.rows
    standard = explainer.model.standardise(reading.features)
    score = explainer.score(standard)
    moved = standard.copy()
    answers: list[Answer] = [Answer((), True, True)] * len(standard)
    flagged = exceeds(score, limit) | np.isnan(score)
    for at, observed in patterns(standard):
        at = at[flagged[at]]
        seen = [np.intersect1d(player, observed).tolist() for player in explainer.players]
        lowest = Lowest(explainer.score.given_observed(observed), np.nan_to_num(standard[at], nan=0.0), seen)
        for place, (row, answer) in enumerate(zip(at, lowest.search(limit), strict=True)):
            members = [i for player in answer.chosen for i in seen[player]]
            moved[row, members] = lowest.best_values(place, members)
            answers[row] = answer
    if_changed = explainer.score(moved)
    for row in np.flatnonzero(flagged & exceeds(if_changed, limit)):
        moved[row], if_changed[row], answers[row] = standard[row], score[row], Answer((), True, False)
    columns = [tuple(sorted(i for p in answer.chosen for i in why.players[p])) for answer in answers]
    return Counterfactual(
        [tuple(why.player_names[p] for p in answer.chosen) for answer in answers],
        columns,
        why.data,
        _changed_cells(why.data, explainer.model.to_cells(moved, reading, explainer.columns), columns),
        score,
        if_changed,
        limit,
        np.array([answer.exact for answer in answers], dtype=bool),
        np.array([answer.possible for answer in answers], dtype=bool),
        why.row_labels,
        why.feature_names,
        why.native,
    )


class Answer(NamedTuple):
    """The players to change, whether fewer would not do, and whether it is possible at all."""

    chosen: Chosen
    exact: bool
    possible: bool


class Lowest:
    """The lowest scores of rows with the same features observed, with sets of players at their best values.

    ``players`` lists the observed features of each; those without any are never chosen.
    """

    def __init__(self, form: QuadraticForm, X: Floats, players: Sequence[Sequence[int]]) -> None:
        varies = form.root.any(axis=1)
        self.root, self.offset, self.X = form.root[varies], form.offset[varies], X
        self.constant = float((form.offset[~varies] ** 2).sum())
        sizes = np.linalg.norm(self.root, axis=0)
        self.sizes = np.where(sizes > _RANK * sizes.max(initial=0.0), sizes, np.inf)
        self.directions = self.root / self.sizes  # of length 1, or 0 where a feature does not matter
        self.parts = X @ self.root.T + self.offset
        self.score = (self.parts**2).sum(axis=1)
        self.pull = self.parts @ self.directions
        self.usable = [k for k, player in enumerate(players) if len(player)]
        self.players = [list(players[k]) for k in self.usable]
        self.widest = max(map(len, self.players), default=0)

    def search(self, limit: float) -> list[Answer]:
        """The fewest players of each row with which its score is at most the limit."""
        room = limit * (1 + ROUNDING) - self.constant
        found: dict[int, Answer] = {}
        waiting = np.flatnonzero(self._all_free() <= room)
        for size in range(1, len(self.players) + 1):
            if not len(waiting):
                break
            if self._is_too_much(size):
                for row in waiting.tolist():
                    chosen = self._greedy(row, room)
                    found[row] = Answer(chosen, len(chosen) == size, True)  # smaller sizes were tried
                break
            best, lowest = self._best(size, waiting, room)
            for row, chosen in itertools.compress(zip(waiting.tolist(), best, strict=True), lowest <= room):
                found[row] = Answer(chosen, True, True)
            waiting = waiting[~(lowest <= room)]
        impossible = Answer((), True, False)
        answers = [found.get(row, impossible) for row in range(len(self.X))]
        return [answer._replace(chosen=tuple(self.usable[k] for k in answer.chosen)) for answer in answers]

    def best_values(self, row: int, members: list[int]) -> Floats:
        """Of these features, those that make the row's score smallest, and of these the closest."""
        x, F = self.X[row].copy(), self.directions[:, members]
        for _ in range(_REFINEMENTS if members else 0):  # a far value leaves few digits to the first step
            x[members] -= np.linalg.lstsq(F, self.root @ x + self.offset, rcond=_RANK)[0] / self.sizes[members]
        return np.asarray(x[members])

    def _all_free(self) -> Floats:
        """Scores with all players at their best values, (n,)."""
        members = sorted(i for player in self.players for i in player)
        basis = _bases(self.directions[:, members])
        parts = np.delete(self.X, members, axis=1) @ np.delete(self.root, members, axis=1).T + self.offset
        return np.asarray(((parts - parts @ basis @ basis.T) ** 2).sum(axis=1))

    def _is_too_much(self, size: int) -> bool:
        """Whether sets of so many players are too many to try."""
        members, (m, d) = (size - 1) * self.widest, self.root.shape
        n_sets = math.comb(len(self.players), size - 1)
        each = _PER_SET + 2.0 * m * (members * (members + d) + (d * self.widest if self.widest > 1 else 0))
        return bool(n_sets * each > _OPERATIONS or 2.0 * n_sets * d * (members + 1) > _OPERATIONS_PER_ROW)

    def _best(self, size: int, rows: Positions, room: float) -> tuple[list[Chosen], Floats]:
        """The set of so many players with the lowest score, for each row, and that score."""
        best: list[Chosen] = [()] * len(rows)
        lowest = np.full(len(rows), np.inf)
        equal = _EQUAL * max(room, 0.0)
        for smaller in self._sets(size - 1, len(rows)):
            for player, left in enumerate(self._with_one_more(smaller, rows, room)):
                # each set is seen once: its last player is added to the others
                last = np.array([not chosen or chosen[-1] < player for chosen in smaller])
                left[~last] = np.inf
                least = left.min(axis=0)
                at = (left <= least + equal).argmax(axis=0)
                for k in np.flatnonzero(least < lowest - equal):
                    lowest[k], best[k] = least[k], (*smaller[at[k]], player)
        return best, lowest

    def _greedy(self, row: int, room: float) -> Chosen:
        """Players of one row, each the one that leaves least, until that is at most ``room``."""
        chosen: Chosen = ()
        left = np.array([np.inf])
        while len(chosen) < len(self.players) and not left.min() <= room:
            left = np.concatenate([left[0] for left in self._with_one_more([chosen], np.array([row]), room)])
            left[list(chosen)] = np.inf
            chosen = (*chosen, int(np.argmin(left)))
        return chosen

    def _sets(self, size: int, n_rows: int) -> Iterator[list[Chosen]]:
        """All sets of so many players, some at a time."""
        m, d = self.root.shape
        batch = max(1, _CELLS // ((size * self.widest + 1) * (m + d) + n_rows * d))
        return _batches(itertools.combinations(range(len(self.players)), size), batch)

    def _with_one_more(self, sets: list[Chosen], rows: Positions, room: float) -> Iterator[Floats]:
        """Scores (sets, rows) with each set and player 0 at their best values, with player 1, and so on.

        The sets are of one size. Of far rows, scores that are clearly above ``room`` are rough.
        """
        basis = _bases(self._columns(sets))  # (sets, m, members)
        own = self.parts[rows] @ basis
        before = self.score[rows] - (own**2).sum(axis=2)
        shadows = basis.transpose(0, 2, 1) @ self.directions  # (sets, members, d)
        far = np.flatnonzero(self.score[rows] > _FAR * room)
        slack = _DIGITS * self.score[rows]
        for k, player in enumerate(self.players):
            apart = self._apart(player, basis, shadows)  # (sets, m, features) or the lengths (sets,) of one
            if len(player) == 1:
                i = player[0]
                rest = self.pull[rows, i] - (own @ shadows[:, :, i, None])[:, :, 0]
                left = before - np.divide(rest**2, apart[:, None], out=np.zeros_like(rest), where=apart[:, None] > 0)
            else:
                left = before - ((self.parts[rows] @ _bases(apart)) ** 2).sum(axis=2)
            for row in far:
                for at in _portions(np.flatnonzero(left[:, row] <= room + slack[row]), self.root.size):
                    left[at, row] = self._exactly([(*sets[s], k) for s in at], int(rows[row]))
            yield left

    def _apart(self, player: list[int], basis: Floats, shadows: Floats) -> Floats:
        """What the sets cannot reach of a player's directions: of one feature its squared length, of several these."""
        if len(player) > 1:
            return np.asarray(self.directions[:, player] - basis @ shadows[:, :, player])
        i = player[0]
        own = float(self.directions[:, i] @ self.directions[:, i])
        apart = np.asarray(own - (shadows[:, :, i] ** 2).sum(axis=1))
        some = np.flatnonzero(apart < _CANCELLED * own)  # a difference without digits
        left = self.directions[:, i] - (basis[some] @ shadows[some, :, i, None])[:, :, 0]
        apart[some] = (left**2).sum(axis=1)
        return np.where(apart > _RANK**2 * own, apart, 0.0)

    def _exactly(self, sets: list[Chosen], row: int) -> Floats:
        """Scores (sets,) of one row with each set at its best values, whatever its values are now."""
        x = np.tile(self.X[row], (len(sets), 1))
        for k, chosen in enumerate(sets):
            x[k, [i for player in chosen for i in self.players[player]]] = 0.0
        parts = x @ self.root.T + self.offset
        basis = _bases(self._columns(sets))
        own = parts[:, None, :] @ basis
        return np.asarray(((parts - (basis @ own.transpose(0, 2, 1))[:, :, 0]) ** 2).sum(axis=1))

    def _columns(self, sets: list[Chosen]) -> Floats:
        """Directions of the features of each set, (sets, m, features); zeros where a set has fewer than others."""
        listed = [[i for k in chosen for i in self.players[k]] for chosen in sets]
        result = np.zeros((len(sets), max(map(len, listed), default=0), len(self.root)))
        for place, members in enumerate(listed):
            result[place, : len(members)] = self.directions.T[members]
        return result.transpose(0, 2, 1)


def _bases(columns: Floats) -> Floats:
    """Orthonormal bases of the columns (..., m, k), with zeros where these are not independent."""
    if not columns.size:
        return columns
    basis, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(basis * (sizes > _RANK)[..., None, :])


def _portions(items: Positions, cells: int) -> list[Positions]:
    """The items, so many at a time that each may take so many numbers."""
    step = max(1, _CELLS // max(1, cells))
    return [items[start : start + step] for start in range(0, len(items), step)]


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
