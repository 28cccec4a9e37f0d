"""The interventional game: absent features are drawn from their marginal distribution, independently of the others.

v(S) = E[q(x_S, X_T)] = x_S^T A_SS x_S + Tr(A_TT C_TT), T the absent features. It breaks correlations apart, as kernel
SHAP does, and is here for comparison. Its Shapley values have a closed form, phi_i = x_i (A x)_i - (A C)_ii, so the
process engineer's "partial decomposition contribution" x_i (A x)_i is a Shapley value up to its base line.

The score of a row with missing cells is a function of the observed ones, E[q(x) given x_observed], and its game is the
interventional game of this function. So its values add up to the score, from the same base value as in complete rows.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Self

import numpy as np
from array_api_compat import array_namespace

from culpa._core.types import Array, Floats, Mask, Positions
from culpa.games.arrays import as_array_like, gather_columns, gather_pairs
from culpa.games.bases import Expected, Quadratic
from culpa.games.batch import Batch
from culpa.games.game import Coalitions, Cost


class Interventional(Expected[Quadratic]):
    """Expected score with absent features drawn from their own marginal."""

    def __init__(self, score: Quadratic) -> None:
        super().__init__(score)

    @cached_property
    def _mixed(self) -> Floats:
        """A * C, elementwise; the closed form does without this d x d matrix."""
        return self.score.matrix * self.score.gaussian.covariance

    @property
    def cost(self) -> Cost:
        """Next to nothing, because there is a closed form."""
        return Cost(0.0, 0.0, 0.0, 6.0)

    def start(self, X: Array, queues: Positions, *, branching: bool) -> Coalitions:
        """Empty coalitions: all features are drawn from the marginal."""
        rows = gather_columns(X, queues)
        absent = as_array_like(2 * self._mixed.sum(axis=1)[queues] - np.diag(self._mixed)[queues], X)
        A, mixed = gather_pairs(self.score.matrix, queues, X), gather_pairs(self._mixed, queues, X)
        return _Walk(A, mixed, rows, array_namespace(X).zeros_like(rows), absent)

    def where(self, observed: Mask) -> "Interventional":
        """Absent features are those observed in the row: the score is a function of them alone."""
        return self if observed.all() else Interventional(self.score.given_observed(np.flatnonzero(observed)))

    def total(self, X: Floats, observed: Positions) -> Floats:
        """The score itself, which knows how to treat missing cells."""
        return self.score(X)

    def value(self, X: Floats, members: Positions) -> Floats:
        """Value of one coalition by the definition: a mean over independent unknown features."""
        hidden = np.setdiff1d(np.arange(self.n_features), members)
        if not len(hidden):
            return self.score(X)
        present = X.copy()
        present[:, hidden] = 0.0
        return np.asarray(self.score(present) + self._mixed[np.ix_(hidden, hidden)].sum())

    @property
    def has_closed_form(self) -> bool:
        """Whether Shapley values have a formula: here they do."""
        return True

    def closed_form(self, X: Array, players: list[list[int]]) -> Array:
        """phi_i = x_i (A x)_i - (A C)_ii. Features outside are never known, and partners take over their share."""
        xp, members = array_namespace(X), [i for player in players for i in player]
        observed = np.zeros(self.n_features)
        observed[members] = 1.0
        present = X * as_array_like(observed, X)
        response = self.score.response(present, lambda array: as_array_like(array, X))
        per_feature = present * response - as_array_like(self._base(observed), X)
        joined = xp.take(per_feature, as_array_like(np.array(members, dtype=np.intp), X), axis=1)
        if all(len(player) == 1 for player in players):
            return joined
        ends = np.cumsum([0, *map(len, players)]).tolist()
        return xp.stack([xp.sum(joined[:, a:b], axis=1) for a, b in pairwise(ends)], axis=1)

    def _base(self, observed: Floats) -> Floats:
        """Each feature's share of the base value: the sum of A_ij C_ij over observed j, and twice that over the others.

        With C = W W^T + Psi, the sums are those of W_ik (A W)_ik over k, and A_ii Psi_ii.
        """
        g, weights = self.score.gaussian, 2 - observed
        mixed = g.loadings * self.score.response((weights[:, None] * g.loadings).T).T
        return np.asarray(mixed.sum(axis=1) + weights * self.score.diagonal * g.noise)


@dataclass(frozen=True)
class _Walk(Batch):
    A: Array  # (B, k, k)
    mixed: Array  # (B, k, k): A * C, elementwise
    x: Array  # (B, k, n)
    pull: Array  # (B, k, n): A[:, S] x_S
    absent: Array  # (B, k): A_ii C_ii + 2 sum of A_ij C_ij over absent j

    def join(self) -> tuple[Self, Array]:
        """x_i replaces a draw from the marginal."""
        x = self.x[:, 0, :]
        change = x * (2 * self.pull[:, 0, :] + self.A[:, 0:1, 0] * x) - self.absent[:, 0:1]
        rest = self.skip()
        return replace(
            rest, pull=rest.pull + self.A[:, 1:, 0:1] * x[:, None, :], absent=rest.absent - 2 * self.mixed[:, 1:, 0]
        ), change

    def skip(self) -> Self:
        """Drop the feature: no other feature needs it any more."""
        return type(self)(
            self.A[:, 1:, 1:], self.mixed[:, 1:, 1:], self.x[:, 1:, :], self.pull[:, 1:, :], self.absent[:, 1:]
        )
