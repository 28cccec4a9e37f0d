"""The minimal game: absent features take the values near the row that make the score smallest.

v(S) = min over delta of q(x + delta) + gamma |delta|^2, where delta is 0 on S. It asks how much of the score could be
explained away by changing the absent features a little (Takeishi and Kawahara, "On anomaly interpretation via Shapley
values", 2020). Unlike the other games it does not need a distribution of the absent features.

For q(x) = x^T A x the minimum is a Schur complement. With P = (A + gamma I)^-1 and y = P A x,

    v(S) = v({}) + y_S^T (P_SS)^-1 y_S,    v({}) = gamma x^T P A x

So the changes of value are those of the squared Mahalanobis distance of the row y from the origin under the covariance P,
and the walk is Gaussian elimination: if j joins, the value grows by delta_j^2 / V_jj (see `culpa.games.elimination`, where
K = V then, so that c stays 0; the trace term is left out).

Moves are dear or cheap in comparison with the score, so gamma is the locality times the mean curvature Tr(A) / d. Then
a score in other units gives the same explanation in these units, and P is well conditioned: its largest eigenvalue is at
most 1 + d / locality times its smallest.

The score of a row with missing cells is a function of the observed ones, E[q(x) given x_observed] = |G x|^2 + constant.
Its game is the minimal game of this function, with the gamma of complete rows. So its values add up to the score.

| symbol | code | meaning |
| --- | --- | --- |
| F | ``root`` | A = F^T F; G where cells are missing |
| gamma | ``gamma`` | what a move costs |
| P | ``P`` | (A + gamma I)^-1 |
| y | ``moves`` | minus the best move if all features are absent |
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from culpa._core.types import Array, Floats, Mask, Positions
from culpa._kernels.elimination_steps import ELIMINATION, elimination_model
from culpa._kernels.tree import TreeJob
from culpa.games.arrays import as_array_like, gather_columns, gather_pairs
from culpa.games.bases import Quadratic, Relative
from culpa.games.batch import Batch
from culpa.games.conditional import Conditional
from culpa.games.elimination import OPERATIONS
from culpa.games.game import Coalitions, Cost
from culpa.games.marginals import Marginals
from culpa.models import LatentGaussian

# The kernels subtract a trace term, 1 per feature. With rows 2^40 times as large and a score 2^-80 times, the values stay
# as they are, exactly, and the trace term vanishes.
_TINY, _LARGE = 2.0**-80, 2.0**40
_SAME = 1e-12  # eigenvalues of P that differ by less, relative to the largest, are one


class Minimal(Relative):
    """The smallest score near the row that the absent features allow.

    >>> import numpy as np
    >>> from culpa import LatentGaussian
    >>> from culpa.scores import mahalanobis
    >>> game = Minimal(mahalanobis(LatentGaussian([0.0, 0.0], [[0.0], [0.0]], 1.0)), locality=1.0)
    >>> x = np.array([[2.0, 0.0]])
    >>> game.base_values(x), game.value(x, np.array([0]))  # half-way to the mean, and not at all
    (array([2.]), array([2.]))
    """

    def __init__(self, score: Quadratic, locality: float = 0.01, observed: Mask | None = None) -> None:
        self.score, self.locality = score, locality
        self.observed: Mask = np.ones(score.gaussian.n_features, dtype=np.bool_) if observed is None else observed
        # a score that is always 0, such as T2 without components, has no curvature to compare with
        self.gamma = locality * (float((score.root**2).sum()) / score.gaussian.n_features or 1.0)

    @cached_property
    def _likeness(self) -> Conditional:
        """The conditional game: forms take the same differences."""
        return Conditional(self.score)

    def base_values(self, X: Floats) -> Floats:
        """The smallest score near each row, v({})."""
        moves = self.moves(X)
        return np.asarray(self._seen_score.complete(X - moves) + self.gamma * (moves**2).sum(axis=1))

    def where(self, observed: Mask) -> "Minimal":
        """The game of the score as a function of the observed features."""
        return self if (observed == self.observed).all() else Minimal(self.score, self.locality, observed)

    def value(self, X: Floats, members: Positions) -> Floats:
        """The definition, with a linear solve, less v({})."""
        if len(X) and np.isnan(X[0]).any():
            return self.where(~np.isnan(X[0])).value(np.nan_to_num(X, nan=0.0), members)
        A = self.root.T @ self.root
        absent = np.setdiff1d(np.flatnonzero(self.observed), members)
        pull = X @ A[:, absent]
        curvature = A[np.ix_(absent, absent)] + self.gamma * np.eye(len(absent))
        gain = (pull * np.linalg.solve(curvature, pull.T).T).sum(axis=1)
        return np.asarray(self._seen_score.complete(X) - gain - self.base_values(X))

    def values(self, X: Array, members: Array) -> Array:
        """y_S^T (P_SS)^-1 y_S, with ones for absent features on the diagonal of P."""
        both = members[:, :, None] * members[:, None, :]
        P = self.P * both + np.eye(self.n_features) * (1 - members)[:, None, :]
        moves = np.asarray(self.moves(X)).T * members[:, :, None]
        return np.asarray((np.linalg.solve(P, moves) * moves).sum(axis=1))

    def total(self, X: Floats, observed: Positions) -> Floats:
        """The score itself, which knows how to treat missing cells."""
        return self.score(X)

    def start(self, X: Array, queues: Positions, *, branching: bool) -> Coalitions:
        """Empty coalitions: everybody has moved."""
        return _Walk(gather_pairs(self.P, queues, X), gather_columns(self.moves(X), queues))

    def tree_job(self, X: Floats, queue: Positions) -> TreeJob:
        """What the compiled walk by elimination needs."""
        P = self.P[np.ix_(queue, queue)]
        return TreeJob(
            ELIMINATION,
            OPERATIONS * len(X),
            lambda: elimination_model(P, _TINY * P, _LARGE * self.moves(X)[:, queue], 0.0),
        )

    @cached_property
    def marginals(self) -> Marginals | None:
        """Those of the Mahalanobis distance of a Gaussian whose covariance is P, without their constants."""
        g = self._latent
        ones, zeros = np.ones(g.n_features), np.zeros(g.n_components)
        found = Marginals(g.loadings, g.noise, ones, zeros, trace=0.0, moves=self.moves)
        return found if found.fits else None

    @cached_property
    def cost(self) -> Cost:
        """As in the conditional game."""
        p = self._latent.n_components
        return Cost(0.0, OPERATIONS, 6.0 * p**2, 6.0 * p)

    @property
    def quadratic(self) -> bool:
        """Yes: moves are linear in the row."""
        return True

    def moves(self, X: Array) -> Array:
        """y, (n, d): how far each feature would move towards a normal row if all were absent."""
        root = as_array_like(self.root, X)
        return (X @ root.T @ root) @ as_array_like(self.P, X)

    @cached_property
    def _seen_score(self) -> Quadratic:
        """The score as a function of the observed features."""
        return self.score if self.observed.all() else self.score.given_observed(np.flatnonzero(self.observed))

    @property
    def root(self) -> Floats:
        """F of that, with zeros for the other features."""
        return self._seen_score.root

    @cached_property
    def P(self) -> Floats:
        """(A + gamma I)^-1, (d, d)."""
        curvature, axes = self._curvatures
        return np.asarray((axes / (curvature + self.gamma)) @ axes.T)

    @cached_property
    def _curvatures(self) -> tuple[Floats, Floats]:
        """Eigenvalues and eigenvectors of A; from the root, so that no digits are lost."""
        _, sizes, axes = np.linalg.svd(self.root, full_matrices=True)
        return np.pad(sizes**2, (0, self.n_features - len(sizes))), axes.T

    @cached_property
    def _latent(self) -> LatentGaussian:
        """A Gaussian with covariance P, with as few latent variables as there are directions that differ from the rest."""
        curvature, axes = self._curvatures
        variance = 1 / (curvature + self.gamma)
        noise = variance.min()
        distinct = variance - noise > _SAME * variance.max()
        return LatentGaussian(
            np.zeros(self.n_features), axes[:, distinct] * np.sqrt(variance[distinct] - noise), float(noise)
        )


@dataclass(frozen=True)
class _Walk(Batch):
    V: Array  # (B, k, k)
    delta: Array  # (B, k, n)

    def join(self) -> tuple[Self, Array]:
        """The value grows by delta_j^2 / V_jj."""
        delta = self.delta[:, 0, :]
        gain = self.V[:, 1:, 0] / self.V[:, 0:1, 0]
        after = type(self)(
            self.V[:, 1:, 1:] - gain[:, :, None] * self.V[:, 0:1, 1:],
            self.delta[:, 1:, :] - gain[:, :, None] * delta[:, None, :],
        )
        return after, delta**2 / self.V[:, 0, 0][:, None]

    def skip(self) -> Self:
        """Drop the feature: no other feature needs it any more."""
        return type(self)(self.V[:, 1:, 1:], self.delta[:, 1:, :])
