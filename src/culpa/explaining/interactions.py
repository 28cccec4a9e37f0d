"""Which players matter together: pairwise Shapley interactions.

The Shapley interaction index of two players is the mean, over coalitions of the others, of what both add together beyond
what each adds alone:

    I_ij = sum over S without i and j of |S|! (P - |S| - 2)! / (P - 1)! (v(S+i+j) - v(S+i) - v(S+j) + v(S))

Half of it is put down to each of the two. What is left of a player's Shapley value is its main effect. So in a matrix with
half-indices beside the diagonal and main effects on it, each row adds up to the Shapley value of its player.

Values of all coalitions are computed once for all pairs: with m_i = 1 for members of T, and w_s the weight above for
|S| = s, every coalition T counts in I_ij with

    m_i m_j (w_(t-2) + 2 w_(t-1) + w_t) - (m_i + m_j) (w_(t-1) + w_t) + w_t,    t = |T|

where weights of impossible sizes are 0. If values are quadratic in the row, so are interactions: many rows cost a matrix
product each, from the forms of `culpa.shapley.QuadraticForms`.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.comparing import ranked
from culpa._core.missing import patterns
from culpa._core.types import DataFrame, Floats
from culpa._core.validation import frame_like
from culpa.explaining.origin import origin_of
from culpa.games import Game
from culpa.shapley import Players, tabulate
from culpa.shapley.exact import size_weights
from culpa.shapley.forms import forms_from_probes

if TYPE_CHECKING:
    from culpa.explaining.explanation import Explanation

MOST_PLAYERS = 20
_CELLS = 1 << 24  # values of coalitions held at a time
_SHOWN = 5  # pairs of a row in a repr


@dataclass(frozen=True, eq=False)
class Interactions:
    """Shapley values taken apart: main effects on the diagonal, and half of each interaction beside it.

    Attributes
    ----------
    values : ndarray of shape (rows, players, players)
        Symmetric. ``values.sum(axis=2)`` are the Shapley values.
    player_names : tuple of str
        Names of the players.
    row_labels : ndarray of shape (rows,)
        What the user calls the rows.

    Examples
    --------
    >>> from culpa import PCADetector
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> detector = PCADetector().fit(plant.normal)
    >>> why = detector.explain(plant.new[50:53])
    >>> pairs = why.interactions()
    >>> bool(abs(pairs.values.sum(axis=2) - why.values).max() < 1e-9)
    True
    """

    values: Floats
    player_names: tuple[str, ...]
    row_labels: NDArray[Any]
    native: Any = None  # the table that was explained, kept to answer in kind

    def __len__(self) -> int:
        return len(self.values)

    @property
    def main_effects(self) -> Floats:
        """What each player adds on its own, (rows, players)."""
        return np.diagonal(self.values, axis1=1, axis2=2)

    @property
    def indices(self) -> Floats:
        """Shapley interaction indices, (rows, players, players); 0 on the diagonal."""
        return 2 * self.values * (1 - np.eye(self.values.shape[1]))

    def top(self, k: int = 5) -> DataFrame:
        """The ``k`` strongest interactions of each row. Positive means that both together add more than each alone."""
        first, second = np.triu_indices(self.values.shape[1], 1)
        strength = self.indices[:, first, second]
        strongest = ranked(np.abs(strength))[:, :k]
        row = np.repeat(np.arange(len(self)), strongest.shape[1])
        pair = strongest.ravel()
        names = np.array(self.player_names, dtype=np.str_)
        return frame_like(
            self.native,
            {
                "row": self.row_labels[row],
                "rank": np.tile(np.arange(1, strongest.shape[1] + 1), len(self)),
                "feature": names[first[pair]],
                "other": names[second[pair]],
                "interaction": strength[row, pair],
            },
        )

    def __repr__(self) -> str:
        head = f"<Interactions: {len(self)} rows x {len(self.player_names)} players"
        if not len(self) or len(self.player_names) < 2:
            return f"{head}>"
        first, second = np.triu_indices(self.values.shape[1], 1)
        strength = self.indices[0, first, second]
        lines = [
            f"  {self.player_names[first[pair]]} and {self.player_names[second[pair]]}: {strength[pair]:+.4g}"
            for pair in ranked(np.abs(strength))[:_SHOWN]
        ]
        return "\n".join([f"{head}; strongest in row {self.row_labels[0]}>", *lines])


def interactions_of(why: "Explanation") -> Interactions:
    """The interactions behind an explanation that knows its explainer."""
    origin = origin_of(why, "interactions()")
    explainer, players = origin.explainer, origin.explainer.players
    if why.method == "simulated":
        raise ValueError("interactions() needs exact values of coalitions, and a score that is a function has none.")
    if len(players) > MOST_PLAYERS:
        raise ValueError(
            f"interactions() values all coalitions of players, up to {MOST_PLAYERS} of them, and here are "
            f"{len(players)}. Put features into groups."
        )
    standard = explainer.model.standardise(origin.rows.features)
    result = np.zeros((len(why), len(players), len(players)))
    for at, observed in patterns(standard):
        if not len(observed):
            result[at] = np.nan
            continue
        present = [k for k, player in enumerate(players) if np.isin(player, observed).any()]
        members = [np.intersect1d(players[k], observed).tolist() for k in present]
        game = explainer.game.where(np.isin(np.arange(standard.shape[1]), observed))
        rows = np.nan_to_num(standard[at], nan=0.0)
        if present:
            result[np.ix_(at, np.array(present), np.array(present))] = matrices(game, rows, members)
    return Interactions(result, why.player_names, why.row_labels, why.native)


def matrices(game: Game, X: Floats, players: Players) -> Floats:
    """Main effects and half-indices of rows with the same features observed, (n, players, players)."""
    n_players, d = len(players), game.n_features
    if game.quadratic and game.forms_keep_digits and len(X) > 1 + d * (d + 1) // 2:
        pairs = np.triu_indices(n_players)
        forms = forms_from_probes(game, lambda probes: _from_tables(game, probes, players)[None, :, pairs[0], pairs[1]])
        result = np.empty((len(X), n_players, n_players))
        result[:, pairs[0], pairs[1]] = result[:, pairs[1], pairs[0]] = forms(X).values
        return result
    return _from_tables(game, X, players)


def _from_tables(game: Game, X: Floats, players: Players) -> Floats:
    """The same from the values of all coalitions, some rows at a time."""
    step = max(1, _CELLS >> len(players))
    parts = [_of_table(tabulate(game, X[at : at + step], players), len(players)) for at in range(0, len(X), step)]
    return np.concatenate(parts) if parts else np.empty((0, len(players), len(players)))


def _of_table(table: Floats, n_players: int) -> Floats:
    """The same from values (2^players, n), where bit i of the row number says whether player i is in."""
    member = (np.arange(len(table))[:, None] >> np.arange(n_players) & 1).astype(np.float64)
    size = member.sum(axis=1).astype(np.intp)
    w = _weights(n_players)
    none, one, two = w[size + 2], w[size + 1], w[size]
    both, either = two + 2 * one + none, one + none
    result = np.empty((table.shape[1], n_players, n_players))
    of_members, of_all = size_weights(member.shape[1])
    shapley = member * of_members[size, None] - of_all[size, None]
    for row, values in enumerate(table.T):
        weighted = either * values
        alone = weighted @ member
        index = (member.T * (both * values)) @ member - alone[:, None] - alone + (none * values).sum()
        np.fill_diagonal(index, 0.0)
        result[row] = index / 2
        np.fill_diagonal(result[row], values @ shapley - index.sum(axis=1) / 2)
    return result


def _weights(n_players: int) -> Floats:
    """w_s at position s + 2, for sizes -2 to P; 0 for sizes that no coalition without two players has."""
    w = [1 / ((n_players - 1) * math.comb(n_players - 2, s)) for s in range(n_players - 1)] if n_players > 1 else []
    return np.array([0.0, 0.0, *w, *([0.0] * (n_players + 1 - len(w)))])
