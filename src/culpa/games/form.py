"""The conditional game of any quadratic form q(x) = |F x + r|^2, under any Gaussian with latent variables.

The walk by elimination (`culpa.games.elimination`) needs C and C A C only, with A = F^T F. The offset r changes one thing:
c = V (A m + F^T r) does not start at 0 but at C F^T r.

With tiny noise, where elimination loses digits, the latent variables are walked as in `culpa.games.latent`. When feature j
joins, F m + r changes by delta times

    h = F_j + F_T W_T y

with T the features that are still outside, and

    change of value = 2 delta h^T (F m + r) + |h|^2 (delta^2 - variance).

| symbol | code | meaning |
| --- | --- | --- |
| F | ``F`` | root of the form, (k, d) |
| F m + r | ``rho`` | expected residuals, given the coalition |
| W, R, z, y, variance | | see `culpa.games.latent` |
"""

from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from array_api_compat import array_namespace

from culpa._core.types import Array, Floats, Positions
from culpa._kernels.tree import TreeJob
from culpa.games.arrays import as_array_like, gather_columns
from culpa.games.conditional import Conditional
from culpa.games.elimination import Elimination
from culpa.games.game import FactoredCoalitions, Game
from culpa.scores.form import QuadraticForm

WELL_CONDITIONED = 1e-3  # smallest ratio of noise to largest eigenvalue with which elimination keeps ten digits


class ConditionalForm(Conditional):
    """Expected value of a quadratic form given some of the features, exactly.

    >>> import numpy as np
    >>> from culpa import LatentGaussian
    >>> gaussian = LatentGaussian([0.0, 0.0], [[2.0], [0.0]], 0.5)
    >>> F, r = np.array([[1.0, 1.0]]), np.array([3.0])
    >>> game = ConditionalForm(QuadraticForm("spe", gaussian, np.zeros(2), np.zeros(1), F, r))
    >>> game.base_value, game.value(np.array([[1.0, 3.0]]), np.array([0]))
    (14.0, array([16.5]))
    """

    score: QuadraticForm

    def __init__(self, score: QuadraticForm) -> None:
        super().__init__(score)

    @property
    def quadratic(self) -> bool:
        """Compiled forms have no linear part, so an offset keeps values from being compiled."""
        return not self._shifted

    def start_factored(self, X: Array, queues: Positions) -> FactoredCoalitions:
        """Both walks have steps that factorise."""
        return self.start(X, queues, branching=False)

    def values(self, X: Array, members: Array) -> Array:
        """One by one: the latent variables alone do not tell the value of a form."""
        return Game.values(self, X, members)

    def start(self, X: Array, queues: Positions, *, branching: bool) -> FactoredCoalitions:
        """By elimination where it is accurate enough."""
        if not self._well_conditioned:
            return FormWalk.start(self.score, X, queues)
        start = Elimination.start(self.covariance, self.sandwich, X, queues)
        if not self._shifted:
            return start
        pull = as_array_like((self.covariance @ self.score.slope)[:, None], X)
        one_row = gather_columns(array_namespace(X).permute_dims(pull, (1, 0)), queues)  # the same for all rows
        return start._replace(c=start.c + one_row)

    def tree_job(self, X: Floats, queue: Positions) -> TreeJob | None:
        """By elimination, if that is accurate enough; the kernel knows no offset."""
        return super().tree_job(X, queue) if self._well_conditioned and not self._shifted else None

    def value(self, X: Floats, members: Positions) -> Floats:
        """By the definition."""
        mean, spread = self.score.gaussian.conditional(np.where(np.isnan(X), 0.0, X), members)
        return np.asarray(self.score.complete(mean) + (self.score.matrix * spread).sum())

    @cached_property
    def sandwich(self) -> Floats:
        """C A C, (d, d)."""
        response = self.score.root @ self.covariance
        return np.asarray(response.T @ response)

    @property
    def _shifted(self) -> bool:
        return bool(self.score.form_offset.any())

    @cached_property
    def _well_conditioned(self) -> bool:
        """The form may be about latent variables, for which elimination needs more noise."""
        return self._noise_ratio >= WELL_CONDITIONED

    @cached_property
    def _isotropic(self) -> None:
        """Features are never alike."""
        return None


class Constants(NamedTuple):
    """What all coalitions share: model, form and rows."""

    W: Array  # (d, p)
    noise: Array  # (d,)
    rows: Array  # (d, n)
    F: Array  # (k, d)


class FormWalk(NamedTuple):
    """Coalitions of the game: latent variables and expected residuals, given each coalition."""

    constants: Constants
    queue: Array  # (B, waiting)
    root: Array  # (B, p, p)
    z: Array  # (B, p, n)
    outside: Array  # (B, d) of 0 and 1
    rho: Array  # (B, k, n)

    @classmethod
    def start(cls, score: QuadraticForm, X: Array, queues: Positions) -> Self:
        """Empty coalitions."""
        xp, g = array_namespace(X), score.gaussian
        W, noise, F, r = (as_array_like(array, X) for array in (g.loadings, g.noise, score.root, score.form_offset))
        B, (d, p), n = len(queues), g.loadings.shape, X.shape[0]
        root = xp.broadcast_to(xp.eye(p, dtype=X.dtype, device=X.device), (B, p, p))
        z = xp.zeros((B, p, n), dtype=X.dtype, device=X.device)
        outside = xp.ones((B, d), dtype=X.dtype, device=X.device)
        rho = xp.broadcast_to(r[None, :, None], (B, r.shape[0], n))
        return cls(Constants(W, noise, xp.permute_dims(X, (1, 0)), F), as_array_like(queues, X), root, z, outside, rho)

    def join(self) -> tuple[Self, Array]:
        """The step above."""
        after, delta, slope, constant = self.join_factored()
        return after, delta * slope + constant[:, None]

    def join_factored(self) -> tuple[Self, Array, Array, Array]:
        """The same with the change of value as delta * slope + constant; linear in the rows where there is no offset."""
        xp, known = array_namespace(self.root), self.constants
        who = self.queue[:, 0]
        w, psi = xp.take(known.W, who, axis=0), xp.take(known.noise, who)
        f = xp.sum(self.root * w[:, :, None], axis=1)
        variance = psi + xp.sum(f * f, axis=1)
        Rf = xp.sum(self.root * f[:, None, :], axis=2)
        y = Rf / variance[:, None]
        delta = xp.take(known.rows, who, axis=0) - xp.sum(w[:, :, None] * self.z, axis=1)
        here = xp.astype(who[:, None] == xp.arange(self.outside.shape[1], device=who.device)[None, :], w.dtype)
        outside = self.outside * (1 - here)
        h = (here + outside * (y @ known.W.T)) @ known.F.T
        cross = xp.sum(h[:, :, None] * self.rho, axis=1)
        curvature = xp.sum(h * h, axis=1)
        shrink = f / (variance + xp.sqrt(variance * psi))[:, None]
        after = type(self)(
            known,
            self.queue[:, 1:],
            self.root - Rf[:, :, None] * shrink[:, None, :],
            self.z + y[:, :, None] * delta[:, None, :],
            outside,
            self.rho + h[:, :, None] * delta[:, None, :],
        )
        return after, delta, 2 * cross + curvature[:, None] * delta, -curvature * variance

    def skip(self) -> Self:
        """The feature stays outside, and the queue moves on."""
        return self._replace(queue=self.queue[:, 1:])

    def concat(self, other: Self) -> Self:
        """Both batches."""
        xp = array_namespace(self.root)
        pairs = zip(self[1:], other[1:], strict=True)
        return type(self)(self.constants, *(xp.concat(pair, axis=0) for pair in pairs))

    def choose(self, which: Array) -> Self:
        """Some of the batch."""
        xp = array_namespace(self.root)
        return type(self)(self.constants, *(xp.take(array, which, axis=0) for array in self[1:]))
