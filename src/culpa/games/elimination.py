"""Walking the conditional game by Gaussian elimination over the features still waiting.

The value of a coalition depends on a Gaussian's covariance C and a quadratic score's matrix A only through C and
C A C. For the features that still wait, given that the coalition S has joined, keep

| symbol | code | start | meaning |
| --- | --- | --- | --- |
| V | ``V`` | C | covariance given x_S |
| K | ``K`` | C A C | V A V |
| delta | ``delta`` | x | x - m, m the mean given x_S |
| c | ``c`` | 0 | V A m |

each for the waiting features only. When feature j joins, with g = delta_j / V_jj, kappa = K_jj / V_jj,
gain = V[:, j] / V_jj and shift = K[:, j] - kappa V[:, j]:

    change of value = 2 g c_j + kappa (g delta_j - 1)
    delta <- delta - gain delta_j
    c     <- c - gain c_j + shift g
    V     <- V - gain V[j, :]
    K     <- K - gain K[j, :] - shift gain^T

A step costs O(k^2) plus O(k) per row, where k features wait. In the tree of all coalitions half of them have no feature
left to wait for, a quarter have one, and so on. On average k is 1, so exact enumeration costs a handful of operations
per coalition and row, whatever the number of features and components.
"""

from dataclasses import dataclass
from typing import Self

from array_api_compat import array_namespace

from culpa._core.types import Array, Floats, Positions
from culpa.games.arrays import gather_columns, gather_pairs
from culpa.games.batch import Batch

OPERATIONS = 38.0  # about, per coalition and row in a tree


@dataclass(frozen=True)
class Elimination(Batch):
    """Coalitions of a conditional game: what matters to the features that still wait."""

    V: Array  # (B, k, k)
    K: Array  # (B, k, k)
    delta: Array  # (B, k, n)
    c: Array  # (B, k, n)

    @classmethod
    def start(cls, covariance: Floats, sandwich: Floats, X: Array, queues: Positions) -> Self:
        """Empty coalitions, for which all features wait."""
        delta = gather_columns(X, queues)
        V, K = gather_pairs(covariance, queues, X), gather_pairs(sandwich, queues, X)
        return cls(V, K, delta, array_namespace(X).zeros_like(delta))

    def surprise(self) -> tuple[Array, Array]:
        """What the first feature of every queue is beyond what was expected, (B, n), and the variance of that, (B,)."""
        return self.delta[:, 0, :], self.V[:, 0, 0]

    def join(self) -> tuple[Self, Array]:
        """One step of Gaussian elimination: the next feature becomes known."""
        after, g, slope, constant = self.join_factored()
        return after, g * slope + constant[:, None]

    def join_factored(self) -> tuple[Self, Array, Array, Array]:
        """The same with the change of value as g * slope + constant; g and slope are linear in the rows."""
        V_jj = self.V[:, 0, 0][:, None]
        kappa = self.K[:, 0, 0][:, None] / V_jj
        delta_j, c_j = self.delta[:, 0, :], self.c[:, 0, :]
        g = delta_j / V_jj
        gain, shift = self.V[:, 1:, 0] / V_jj, self.K[:, 1:, 0] - kappa * self.V[:, 1:, 0]
        K_j = self.K[:, 0, 1:]
        after = type(self)(
            self.V[:, 1:, 1:] - gain[:, :, None] * self.V[:, 0:1, 1:],
            self.K[:, 1:, 1:] - gain[:, :, None] * K_j[:, None, :] - shift[:, :, None] * gain[:, None, :],
            self.delta[:, 1:, :] - gain[:, :, None] * delta_j[:, None, :],
            self.c[:, 1:, :] + shift[:, :, None] * g[:, None, :] - gain[:, :, None] * c_j[:, None, :],
        )
        return after, g, 2 * c_j + kappa * delta_j, -kappa[:, 0]

    def skip(self) -> Self:
        """Drop the feature: no other feature needs it any more."""
        return type(self)(self.V[:, 1:, 1:], self.K[:, 1:, 1:], self.delta[:, 1:, :], self.c[:, 1:, :])
