"""Walking the conditional game of Student-t rows, beside that of Gaussian rows with the same mean and covariance.

A coalition S of k features is worth

    v(S) = m^T A m + T (1 + t D) / (1 + t k),   T = Tr(A V)

with m and V the conditional mean and covariance of Gaussian rows, t = 1 / (nu - 2), and D the squared Mahalanobis distance
of x_S. When feature j joins, the Gaussian walk tells the changes of m^T A m and of T, and D grows by delta_j^2 / V_jj.

| symbol | code | meaning |
| --- | --- | --- |
| T | ``trace`` | expected score of what the coalition leaves open, for Gaussian rows |
| D | ``distance`` | squared Mahalanobis distance of the coalition's features |
| k | ``size`` | number of features in the coalition |
| t | ``tail`` | see `culpa.models.latent` |
"""

from dataclasses import dataclass, replace
from typing import Self

from array_api_compat import array_namespace

from culpa._core.types import Array
from culpa.games.batch import Batch
from culpa.games.elimination import Elimination
from culpa.games.latent import Latent

SLOWER = 30.0  # measured: walking with arrays instead of a compiled kernel


@dataclass(frozen=True)
class Student(Batch):
    """Coalitions of a conditional game of Student-t rows."""

    SHARED = ("tail",)

    gaussian: Elimination | Latent
    tail: float
    trace: Array  # (B,)
    distance: Array  # (B, n)
    size: Array  # (B,)

    @classmethod
    def start(cls, gaussian: Elimination | Latent, tail: float, trace: float, X: Array, n_coalitions: int) -> Self:
        """Empty coalitions; ``trace`` is the mean score of normal rows."""
        xp = array_namespace(X)
        zeros = xp.zeros((n_coalitions,), dtype=X.dtype, device=X.device)
        distance = xp.zeros((n_coalitions, X.shape[0]), dtype=X.dtype, device=X.device)
        return cls(gaussian, tail, zeros + trace, distance, zeros)

    def join(self) -> tuple[Self, Array]:
        """The next feature becomes known, and its surprise adds to the distance of the known ones."""
        delta, variance = self.gaussian.surprise()
        distance = self.distance + delta**2 / variance[:, None]
        gaussian, left, right, fall = self.gaussian.join_factored()
        after = type(self)(gaussian, self.tail, self.trace + fall, distance, self.size + 1)
        return after, left * right + after.open() - self.open()

    def open(self) -> Array:
        """Expected score of what each coalition leaves open, (B, n)."""
        return (self.trace / (1 + self.tail * self.size))[:, None] * (1 + self.tail * self.distance)

    def skip(self) -> Self:
        """The next feature stays outside of the coalition."""
        return replace(self, gaussian=self.gaussian.skip())
