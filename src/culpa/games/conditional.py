"""The conditional game: a coalition is worth the expected score of the row given the coalition's features.

v(S) = E[q(x) | x_S] = m^T A m + Tr(A V) with m and V the conditional mean and covariance of the whole row: for the
score "mse" the paper's v2. Two ways to walk it, chosen by cost and by conditioning:

- `culpa.games.elimination`: Gaussian elimination over the features still waiting. Any Gaussian, any quadratic score;
  unbeatable for trees of coalitions.
- `culpa.games.latent`: the p latent variables with the root or factors of their covariance. For sampled orders, where all
  features alike make it cheap, and for tiny noise.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Array, Floats
from culpa.games import elimination
from culpa.games.game import Coalitions, Cost, Game
from culpa.games.latent import Latent, array_cost, isotropic_weights
from culpa.scores import QuadraticScore

# Elimination loses log10(largest eigenvalue / noise) digits of a residual and twice as many of a latent variable.
# Below these ratios of noise to largest eigenvalue it is not used, so that ten digits remain.
_WELL_CONDITIONED = {"residuals": 1e-5, "latent variables": 1e-3}
_FORMS_KEEP_DIGITS, _FORMS_ON_AXES_KEEP_DIGITS = 1e-4, 1e-9  # the same for quadratic forms
_MOSTLY_LATENT = 0.01  # what residuals weigh against latent variables in a score that hardly counts them


class Conditional(Game):
    """Expected score given some of the features, exactly, under the model's own correlations.

    >>> import numpy as np
    >>> from culpa import LatentGaussian
    >>> from culpa.scores import spe
    >>> game = Conditional(spe(LatentGaussian([0.0, 0.0], [[2.0], [0.0]], 0.5)))
    >>> game.base_value, game.value(np.array([[1.0, 3.0]]), np.array([0]))
    (0.5, array([0.5]))
    """

    quadratic = True

    def __init__(self, score: QuadraticScore) -> None:
        self.score = score
        self.n_features = score.gaussian.n_features

    @cached_property
    def cost(self) -> Cost:  # type: ignore[override]
        """A tree that only looks at who waits costs next to nothing; else latent variables pay for their covariance."""
        p = self.score.gaussian.n_components
        alike = isotropic_weights(self.score) is not None
        tree = array_cost(p)
        if self._well_conditioned:
            tree = 0.0, elimination.OPERATIONS
        elif alike:
            tree = 0.0, 2 * elimination.OPERATIONS
        order = (6.0 * p**2, 6.0 * p) if alike else (2.0 * self.n_features**2, 4.0 * self.n_features)
        return Cost(*tree, *order)

    @cached_property
    def forms_keep_digits(self) -> bool:  # type: ignore[override]
        """Forms take differences of numbers as large as x^2 / noise, which for normal rows are small."""
        return self._noise_ratio >= _FORMS_KEEP_DIGITS or self.axes is not None

    @cached_property
    def axes(self) -> tuple[Floats, Floats] | None:  # type: ignore[override]
        """Principal axes, as long as the standard deviation along them, where noise is tiny: no differences there.

        Not for T2 and the like, which are small for rows far out along the shortest of them.
        """
        g, alike = self.score.gaussian, isotropic_weights(self.score)
        if alike is None or not _FORMS_ON_AXES_KEEP_DIGITS <= self._noise_ratio < _FORMS_KEEP_DIGITS:
            return None
        noise = float(g.noise_variance)
        if alike[0] * noise < _MOSTLY_LATENT * np.abs(self.score.latent_weights).max(initial=0.0):
            return None
        directions, sizes, _ = np.linalg.svd(g.loadings)
        variance = np.full(self.n_features, noise)
        variance[: len(sizes)] += sizes**2
        return (directions * np.sqrt(variance)).T, directions / np.sqrt(variance)

    @cached_property
    def scale(self) -> Floats:  # type: ignore[override]
        """Standard deviations under the model."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def base_value(self) -> float:
        """Mean score of normal rows."""
        return self.score.expectation

    def start(self, X: Array, queues: NDArray[np.intp], *, branching: bool) -> Coalitions:
        """Pick the cheaper of the two walks that is accurate enough."""
        if self._well_conditioned and (branching or isotropic_weights(self.score) is None):
            return elimination.Elimination.start(self.covariance, self.sandwich, X, queues)
        return Latent.start(self.score, X, queues)

    def deciding_order(self, players: list[list[int]]) -> list[int]:
        """Where noise is tiny, of equally large players those that others explain come first: that keeps digits."""
        order = super().deciding_order(players)
        if self._well_conditioned or not all(players):
            return order
        from scipy.linalg import qr

        features = [feature for player in players for feature in player]
        pivots = qr(self.score.gaussian.loadings[features].T, mode="r", pivoting=True)[1]
        rank = {features[at]: place for place, at in enumerate(pivots)}
        return sorted(order, key=lambda i: (-len(players[i]), -min(rank[feature] for feature in players[i])))

    def value(self, X: Floats, members: NDArray[np.intp]) -> Floats:
        """Formula (16) of the paper, with a linear solve."""
        C, A = self.covariance, self.score.matrix
        hidden = np.setdiff1d(np.arange(self.n_features), members)
        gain = np.linalg.solve(C[np.ix_(members, members)], C[np.ix_(members, hidden)]).T
        spread = C[np.ix_(hidden, hidden)] - gain @ C[np.ix_(members, hidden)]
        mean = X.copy()
        mean[:, hidden] = X[:, members] @ gain.T
        return np.asarray((mean @ A * mean).sum(axis=1) + (A[np.ix_(hidden, hidden)] * spread).sum())

    def total(self, X: Floats, observed: NDArray[np.intp]) -> Floats:
        """The score itself, which knows how to treat missing cells."""
        return self.score(X)

    @cached_property
    def covariance(self) -> Floats:
        """C, (d, d)."""
        return self.score.gaussian.covariance

    @cached_property
    def sandwich(self) -> Floats:
        """C A C, (d, d), without ever forming the product: what elimination needs to know of the score."""
        g = self.score.gaussian
        residual = np.diag(g.noise) - (g.decoder - g.loadings) @ g.loadings.T
        weighted = residual.T @ (self.score.residual_weights[:, None] * residual)
        return np.asarray(weighted + (g.loadings * self.score.latent_weights) @ g.loadings.T)

    @cached_property
    def _well_conditioned(self) -> bool:
        weighed = "latent variables" if self.score.latent_weights.any() else "residuals"
        return self._noise_ratio >= _WELL_CONDITIONED[weighed]

    @cached_property
    def _noise_ratio(self) -> float:
        """Of noise to largest eigenvalue."""
        g = self.score.gaussian
        return float(g.noise.min() / ((g.loadings**2).sum(axis=0).max(initial=0.0) + g.noise.max()))
