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

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np
from array_api_compat import array_namespace

from culpa._core.types import Array, Floats, Positions
from culpa._kernels.tree import TreeJob
from culpa.games.arrays import as_array_like, gather_columns
from culpa.games.bases import Quadratic
from culpa.games.conditional import Conditional
from culpa.games.elimination import Elimination
from culpa.games.game import Coalitions, Game
from culpa.games.latent import Posterior


class Form(Quadratic, Protocol):
    """A score |F x + r|^2; see `culpa.scores.QuadraticForm`."""

    @property
    def form_offset(self) -> Floats:
        """Value r of the linear map at the origin, (k,)."""
        ...

    @property
    def slope(self) -> Floats:
        """Gradient F^T r of half the score at the origin, (d,)."""
        ...


WELL_CONDITIONED = 1e-3  # smallest ratio of noise to largest eigenvalue with which elimination keeps ten digits


class ConditionalForm(Conditional):
    """Expected value of a quadratic form given some of the features, exactly.

    >>> import numpy as np
    >>> from culpa import LatentGaussian
    >>> gaussian = LatentGaussian([0.0, 0.0], [[2.0], [0.0]], 0.5)
    >>> F, r = np.array([[1.0, 1.0]]), np.array([3.0])
    >>> from culpa.scores import QuadraticForm
    >>> game = ConditionalForm(QuadraticForm("spe", gaussian, np.zeros(2), np.zeros(1), F, r))
    >>> game.base_value, game.value(np.array([[1.0, 3.0]]), np.array([0]))
    (14.0, array([16.5]))
    """

    score: Form

    def __init__(self, score: Form) -> None:
        super().__init__(score)

    @property
    def quadratic(self) -> bool:
        """Compiled forms have no linear part, so an offset keeps values from being compiled."""
        return not self._shifted

    def values(self, X: Array, members: Array) -> Array:
        """One by one: the latent variables alone do not tell the value of a form."""
        return Game.values(self, X, members)

    def start(self, X: Array, queues: Positions, *, branching: bool) -> Coalitions:
        """By elimination where it is accurate enough."""
        if not self._well_conditioned:
            return FormWalk.start(self.score, X, queues)
        start = Elimination.start(self.covariance, self.sandwich, X, queues)
        if not self._shifted:
            return start
        pull = as_array_like((self.covariance @ self.score.slope)[:, None], X)
        one_row = gather_columns(array_namespace(X).permute_dims(pull, (1, 0)), queues)  # the same for all rows
        return replace(start, c=start.c + one_row)

    def tree_job(self, X: Floats, queue: Positions) -> TreeJob | None:
        """By elimination, if that is accurate enough; the kernel knows no offset."""
        return super().tree_job(X, queue) if self._well_conditioned and not self._shifted else None

    def value(self, X: Floats, members: Positions) -> Floats:
        """Value of one coalition by the definition, without steps."""
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

    @property
    def marginals(self) -> None:
        """A form has no weights of residuals."""
        return None

    @cached_property
    def _isotropic(self) -> None:
        """Whether all features are alike to the game: with a matrix of the user's, they are not."""
        return None


@dataclass(frozen=True)
class FormWalk(Posterior):
    """Coalitions of the game: latent variables and expected residuals, given each coalition."""

    SHARED = (*Posterior.SHARED, "F")

    F: Array  # (k, d)
    outside: Array  # (B, d) of 0 and 1
    rho: Array  # (B, k, n)

    @classmethod
    def start(cls, score: Form, X: Array, queues: Positions) -> Self:
        """Empty coalitions, for which all features wait."""
        xp, g = array_namespace(X), score.gaussian
        F, r = as_array_like(score.root, X), as_array_like(score.form_offset, X)
        outside = xp.ones((len(queues), g.n_features), dtype=X.dtype, device=X.device)
        rho = xp.broadcast_to(r[None, :, None], (len(queues), r.shape[0], X.shape[0]))
        return cls(*cls.prior(g, X, queues), F, outside, rho)

    def join(self) -> tuple[Self, Array]:
        """The next feature becomes known, and the others are expected given it."""
        xp, seen = array_namespace(self.root), self.see()
        delta, here = seen.delta, seen.marks(self.outside.shape[1])
        outside = self.outside * (1 - here)
        h = (here + outside * (seen.gain @ self.W.T)) @ self.F.T
        cross = xp.sum(h[:, :, None] * self.rho, axis=1)
        curvature = xp.sum(h * h, axis=1)
        rho = self.rho + h[:, :, None] * delta[:, None, :]
        after = replace(self, queue=self.queue[:, 1:], root=seen.root, z=seen.z, outside=outside, rho=rho)
        return after, 2 * delta * cross + curvature[:, None] * (delta**2 - seen.variance[:, None])
