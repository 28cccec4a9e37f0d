"""The conditional game: a coalition is worth the expected score of the row, given the coalition's features.

v(S) = E[q(x) | x_S] = m^T A m + Tr(A V), where m and V are the conditional mean and covariance of the whole row. For the
score "mse" this is the paper's v2. The game can be walked in two ways, chosen by cost and by conditioning:

- `culpa.games.elimination`: Gaussian elimination over the features still waiting. For any Gaussian and any quadratic
  score, and by far the fastest for the tree of coalitions.
- `culpa.games.latent`: the p latent variables with a root or factors of their covariance. For sampled orders, where
  features with the same noise and weight make it cheap, and for tiny noise.

For Student-t rows, `culpa.games.student` walks beside one of these. There are no kernels for it.

| symbol | code | meaning |
| --- | --- | --- |
| C | ``covariance`` | covariance of the row |
| A | ``score.matrix`` | matrix of the score |
| C A C | ``sandwich`` | |
| W, psi, a, b | | see `culpa.games.latent` |
"""

from functools import cached_property

import numpy as np

from culpa._core.types import Array, Floats, Positions
from culpa._kernels.elimination_steps import ELIMINATION, elimination_model
from culpa._kernels.factored_steps import FACTORED, factored_model
from culpa._kernels.tree import TreeJob, TreeModel
from culpa.games.bases import Expected, Quadratic
from culpa.games.coordinates import axes_of
from culpa.games.elimination import OPERATIONS, Elimination
from culpa.games.game import Axes, Coalitions, Cost
from culpa.games.latent import Latent, array_cost, isotropic_weights, shrinkage, values_of
from culpa.games.marginals import Marginals
from culpa.games.student import SLOWER, Student
from culpa.models.latent import RELATIVE_FLOOR

# Elimination loses log10(largest eigenvalue / noise) digits of a residual, and twice as many of a latent variable.
# Below these ratios of noise to largest eigenvalue it is not used, so that ten digits remain.
_WELL_CONDITIONED = {"residuals": 1e-5, "latent variables": 1e-3}
# Contributions of all players at once lose twice as many digits, and samples need four.
_MARGINALS_KEEP_DIGITS = 1e-6
_ALIKE = 1e-12  # relative difference of weights that are the same but for rounding
# The same for quadratic forms: in the rows' own coordinates, and on axes, where they serve all models but those with
# Student-t tails. The forms of these are steep along some directions of the noise and flat along others.
_FORMS_KEEP_DIGITS, _FORMS_ON_AXES_KEEP_DIGITS, _STUDENT_FORMS_ON_AXES_KEEP_DIGITS = 1e-4, 0.9 * RELATIVE_FLOOR, 1e-9


class Conditional(Expected[Quadratic]):
    """Expected score given some of the features, exactly, under the model's own correlations.

    >>> import numpy as np
    >>> from culpa import LatentGaussian
    >>> from culpa.scores import spe
    >>> game = Conditional(spe(LatentGaussian([0.0, 0.0], [[2.0], [0.0]], 0.5)))
    >>> game.base_value, game.value(np.array([[1.0, 3.0]]), np.array([0]))
    (0.5, array([0.5]))
    """

    def __init__(self, score: Quadratic) -> None:
        super().__init__(score)

    @property
    def quadratic(self) -> bool:
        """Yes: the conditional mean is linear in the row."""
        return True

    @cached_property
    def cost(self) -> Cost:
        """In a tree, elimination costs next to nothing per coalition; latent variables pay for their covariance."""
        p = self.score.gaussian.n_components
        alike = self._isotropic is not None
        tree = array_cost(p)
        if self._well_conditioned:
            tree = 0.0, OPERATIONS
        elif alike:
            tree = 0.0, 2 * OPERATIONS
        order = (6.0 * p**2, 6.0 * p) if alike else (2.0 * self.n_features**2, 4.0 * self.n_features)
        return Cost(*(SLOWER * cost for cost in (*tree, *order))) if self._tail else Cost(*tree, *order)

    @cached_property
    def forms_keep_digits(self) -> bool:
        """On `axes` they do; in the rows' own coordinates they take differences of numbers as large as x^2 / noise."""
        return self._noise_ratio >= self._least_noise_on_axes

    @cached_property
    def axes(self) -> Axes | None:
        """Those of `culpa.games.coordinates`, where noise is tiny."""
        tiny = self._least_noise_on_axes <= self._noise_ratio < _FORMS_KEEP_DIGITS
        return axes_of(self.score) if tiny else None

    @cached_property
    def scale(self) -> Floats:
        """Standard deviations under the model."""
        return np.sqrt(np.diag(self.covariance))

    def start(self, X: Array, queues: Positions, *, branching: bool) -> Coalitions:
        """The cheaper of the two walks that is accurate enough."""
        gaussian = self.start_gaussian(X, queues, branching=branching)
        if not self._tail:
            return gaussian
        return Student.start(gaussian, self._tail, self.base_value, X, len(queues))

    def start_gaussian(self, X: Array, queues: Positions, *, branching: bool) -> Elimination | Latent:
        """`start`, as if rows were Gaussian."""
        if self._well_conditioned and (branching or self._isotropic is None):
            return Elimination.start(self.covariance, self.sandwich, X, queues)
        return Latent.start(self.score, X, queues)

    def tree_job(self, X: Floats, queue: Positions) -> TreeJob | None:
        """By elimination if it is accurate enough, else by factors of the covariance if features are alike."""
        if self._tail:
            return None
        if self._well_conditioned:

            def eliminate() -> TreeModel:
                pairs = np.ix_(queue, queue)
                return elimination_model(self.covariance[pairs], self.sandwich[pairs], X[:, queue], self.base_value)

            return TreeJob(ELIMINATION, OPERATIONS * len(X), eliminate)
        if self._isotropic is None:
            return None
        (a, b), g = self._isotropic, self.score.gaussian
        psi = float(g.noise_variance)
        once, per_row = array_cost(g.n_components)
        return TreeJob(
            FACTORED,
            once + per_row * len(X),
            lambda: factored_model(g.loadings[queue], psi, a, b, X[:, queue], self.base_value),
        )

    @cached_property
    def marginals(self) -> Marginals | None:
        """Of Gaussian rows, unless noise is so small that too few digits would be left."""
        if self._tail or self._noise_ratio < _MARGINALS_KEEP_DIGITS:
            return None
        g, b = self.score.gaussian, self.score.latent_weights
        alpha = self.score.residual_weights * g.noise
        found = Marginals(g.loadings, g.noise, alpha, b, g.decoder - g.loadings)
        if np.ptp(alpha) <= _ALIKE * alpha.max():
            found = Marginals(g.loadings, g.noise, alpha, b - alpha[0] * shrinkage(g))
        return found if found.fits else None

    def deciding_order(self, players: list[list[int]]) -> list[int]:
        """With tiny noise, features that others predict well decide first among equally large players, to keep digits."""
        order = super().deciding_order(players)
        if self._well_conditioned or not all(players):
            return order
        from scipy.linalg import qr

        features = [feature for player in players for feature in player]
        pivots = qr(self.score.gaussian.loadings[features].T, mode="r", pivoting=True)[1]
        rank = {features[at]: place for place, at in enumerate(pivots)}
        return sorted(order, key=lambda i: (-len(players[i]), -min(rank[feature] for feature in players[i])))

    def value(self, X: Floats, members: Positions) -> Floats:
        """Formula (16) of the paper, with a linear solve; its last term grows with the distance of Student-t rows."""
        C, A = self.covariance, self.score.matrix
        hidden = np.setdiff1d(np.arange(self.n_features), members)
        gain = np.linalg.solve(C[np.ix_(members, members)], C[np.ix_(members, hidden)]).T
        spread = C[np.ix_(hidden, hidden)] - gain @ C[np.ix_(members, hidden)]
        mean = X.copy()
        mean[:, hidden] = X[:, members] @ gain.T
        known = X[:, members]
        distance = (known * np.linalg.solve(C[np.ix_(members, members)], known.T).T).sum(axis=1)
        factor = (1 + self._tail * distance) / (1 + self._tail * len(members))
        return np.asarray((mean @ A * mean).sum(axis=1) + factor * (A[np.ix_(hidden, hidden)] * spread).sum())

    def values(self, X: Array, members: Array) -> Array:
        """In the latent variables, many coalitions at once; step by step where that would lose digits."""
        if self._well_conditioned and not self._tail:
            return values_of(self.score, X, members)
        result = np.full((len(members), len(X)), self.base_value)
        sizes = np.asarray(members).sum(axis=1).astype(np.int64)
        for size in np.unique(sizes[sizes > 0]).tolist():
            at = np.flatnonzero(sizes == size)
            walk = self.start(X, np.nonzero(members[at])[1].reshape(len(at), size), branching=False)
            for _ in range(size):
                walk, change = walk.join()
                result[at] += change
        return result

    def total(self, X: Floats, observed: Positions) -> Floats:
        """The score itself, which knows how to treat missing cells."""
        return self.score(X)

    @cached_property
    def covariance(self) -> Floats:
        """Covariance C of normal rows, (d, d)."""
        return self.score.gaussian.covariance

    @cached_property
    def sandwich(self) -> Floats:
        """C A C, (d, d), computed without forming A: what elimination needs to know about the score."""
        g = self.score.gaussian
        residual = np.diag(g.noise) - (g.decoder - g.loadings) @ g.loadings.T
        weighted = residual.T @ (self.score.residual_weights[:, None] * residual)
        return np.asarray(weighted + (g.loadings * self.score.latent_weights) @ g.loadings.T)

    @property
    def _least_noise_on_axes(self) -> float:
        """Smallest ratio of noise to largest eigenvalue with which forms on axes keep digits."""
        return _STUDENT_FORMS_ON_AXES_KEEP_DIGITS if self._tail else _FORMS_ON_AXES_KEEP_DIGITS

    @property
    def _tail(self) -> float:
        """How heavy the rows' tails are; 0 for Gaussian rows."""
        return self.score.gaussian.tail

    @cached_property
    def _isotropic(self) -> tuple[float, Floats] | None:
        """Weights ``(a, b')`` of `culpa.games.latent`, or ``None`` where features differ in noise or weight."""
        return isotropic_weights(self.score)

    @cached_property
    def _well_conditioned(self) -> bool:
        weighed = "latent variables" if self.score.latent_weights.any() else "residuals"
        return self._noise_ratio >= _WELL_CONDITIONED[weighed]

    @cached_property
    def _noise_ratio(self) -> float:
        """Of noise to largest eigenvalue."""
        g = self.score.gaussian
        return float(g.noise.min() / ((g.loadings**2).sum(axis=0).max(initial=0.0) + g.noise.max()))
