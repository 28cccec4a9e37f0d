"""Walking the conditional game by Gaussian elimination over the features still waiting.

The value of a coalition depends on a Gaussian's covariance C and a quadratic score's matrix A only through C and
G = C A C. For the features T that still wait, given that the coalition S has joined, keep

| symbol | code | start | meaning |
| --- | --- | --- | --- |
| V | ``V`` | C | covariance given x_S |
| K | ``K`` | G | V A V |
| delta | ``delta`` | x | surprise x - m |
| c | ``c`` | 0 | V A m |

each on T only. When feature i joins, with g = delta_i / V_ii, kappa = K_ii / V_ii, v = V[:, i] / V_ii and
w = K[:, i] - kappa V[:, i]:

    change of value = 2 g c_i + kappa (g delta_i - 1)
    delta <- delta - v delta_i
    c     <- c - v c_i + w g
    V     <- V - v V[i, :]
    K     <- K - v K[i, :] - w v^T

A step costs O(|T|^2) plus O(|T|) per row. In the tree of all coalitions half of them have nothing left to wait for, a
quarter one feature, and so on: on average |T| is 1, so exact enumeration costs a handful of operations per coalition
and row, whatever the number of features and components.
"""

from typing import NamedTuple, Self

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from culpa._core.types import Array, Floats
from culpa._kernels.elimination_steps import ELIMINATION, elimination_tree
from culpa._kernels.tree import Tree
from culpa.games.game import gather_columns, gather_pairs

OPERATIONS = 38.0  # per coalition and row in a tree, about


class Elimination(NamedTuple):
    """Coalitions of a conditional game, seen by the features that still wait."""

    V: Array  # (B, k, k)
    K: Array  # (B, k, k)
    delta: Array  # (B, k, n)
    c: Array  # (B, k, n)

    @classmethod
    def start(cls, covariance: Floats, sandwich: Floats, X: Array, queues: NDArray[np.intp]) -> Self:
        """Nobody has joined yet."""
        delta = gather_columns(X, queues)
        V, K = gather_pairs(covariance, queues, X), gather_pairs(sandwich, queues, X)
        return cls(V, K, delta, array_namespace(X).zeros_like(delta))

    def join(self) -> tuple[Self, Array]:
        """The step above."""
        after, g, slope, constant = self.join_factored()
        return after, g * slope + constant[:, None]

    def join_factored(self) -> tuple[Self, Array, Array, Array]:
        """The same with the change of value as g * slope + constant; g and slope are linear in the rows."""
        pivot = self.V[:, 0, 0][:, None]
        kappa = self.K[:, 0, 0][:, None] / pivot
        delta, c = self.delta[:, 0, :], self.c[:, 0, :]
        g = delta / pivot
        v = self.V[:, 1:, 0] / pivot
        k, w = self.K[:, 0, 1:], self.K[:, 1:, 0] - kappa * self.V[:, 1:, 0]
        after = type(self)(
            self.V[:, 1:, 1:] - v[:, :, None] * self.V[:, 0:1, 1:],
            self.K[:, 1:, 1:] - v[:, :, None] * k[:, None, :] - w[:, :, None] * v[:, None, :],
            self.delta[:, 1:, :] - v[:, :, None] * delta[:, None, :],
            self.c[:, 1:, :] + w[:, :, None] * g[:, None, :] - v[:, :, None] * c[:, None, :],
        )
        return after, g, 2 * c + kappa * delta, -kappa[:, 0]

    def skip(self) -> Self:
        """Forget the feature: the others never ask for it again."""
        return type(self)(self.V[:, 1:, 1:], self.K[:, 1:, 1:], self.delta[:, 1:, :], self.c[:, 1:, :])

    def concat(self, other: Self) -> Self:
        """Both batches."""
        xp = array_namespace(self.V)
        return type(self)(*(xp.concat(pair, axis=0) for pair in zip(self, other, strict=True)))

    def tree(self, value: float, weights: tuple[Floats, Floats], sizes: list[int]) -> Tree:
        """All waiting players decide in every way, compiled; from the one coalition of this batch, worth ``value``."""
        return elimination_tree(self.V[0], self.K[0], self.delta[0].T, value, weights, sizes)

    def tree_pays(self, n_coalitions: float) -> bool:
        """Whether `tree` is worth its preparation."""
        return ELIMINATION.kernel.pays(n_coalitions * OPERATIONS * self.delta.shape[2])
