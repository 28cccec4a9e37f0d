"""States of coalitions for `culpa._kernels.cuda.tree`, in NumPy: what goes to the GPU, and how players above decide.

There is a class for each kind of steps. Features are numbered from the one that decides last, so the one that decides next
is the last of those that wait. `states.cu` has a table of the numbers.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from culpa._core.types import Floats
from culpa._kernels.cuda.device import ProgramName
from culpa._kernels.elimination_steps import ELIMINATION
from culpa._kernels.factored_steps import FACTORED
from culpa._kernels.tree import Steps, TreeModel


class State(Protocol):
    """A coalition: the features that still wait, and what the game keeps about them."""

    @property
    def pairs(self) -> Floats:
        """Both numbers of every pair of features, (2, m, m + own); own numbers of feature a are in column a + 1."""
        ...

    @property
    def rows(self) -> Floats:
        """Value, then both numbers of each feature, (1 + 2 m, n)."""
        ...

    @property
    def constants(self) -> Floats:
        """What the kernels know besides, psi and a psi."""
        ...

    def join(self) -> "State":
        """Move the next feature into the coalition."""
        ...

    def skip(self) -> "State":
        """The next feature does not join."""
        ...


class Eliminating(NamedTuple):
    """Steps by elimination: pairs are (V, K), rows have the value and (delta, h)."""

    pairs: Floats
    rows: Floats
    constants: Floats

    @classmethod
    def start(cls, model: TreeModel) -> "Eliminating":
        """The empty coalition. Features are scaled by powers of two to variances near 1, which changes no value."""
        scale = np.exp2(-np.round(np.log2(np.diag(model.pairs[0])) / 2))
        return cls(model.pairs * scale * scale[:, None], _rows(model, scale), np.zeros(2))

    def join(self) -> "Eliminating":
        (V, K), j = self.pairs, self.pairs.shape[1] - 1
        inverse = 1 / V[j, j]
        kappa, gain = K[j, j] * inverse, V[j, :j] * inverse
        shift = K[j, :j] - kappa * V[j, :j]
        delta_j, h_j = self.rows[1 + 2 * j], self.rows[2 + 2 * j]
        g = delta_j * inverse
        rows = self.rows[: 1 + 2 * j].copy()
        rows[0] -= g * (h_j - kappa * delta_j) + kappa
        rows[1::2] -= np.outer(gain, delta_j)
        rows[2::2] -= np.outer(gain, h_j) + 2 * np.outer(shift, g)
        V_after = V[:j, :j] - np.outer(gain, V[j, :j])
        K_after = K[:j, :j] - np.outer(gain, K[j, :j]) - np.outer(shift, gain)
        return self._replace(pairs=np.stack([V_after, K_after]), rows=rows)

    def skip(self) -> "Eliminating":
        j = self.pairs.shape[1] - 1
        return self._replace(pairs=self.pairs[:, :j, :j], rows=self.rows[: 1 + 2 * j])


class Factored(NamedTuple):
    """Steps by factors: pairs are (L, Q), with D_a as the own number of feature a; rows have the value and (delta, s)."""

    pairs: Floats
    rows: Floats
    constants: Floats

    @classmethod
    def start(cls, model: TreeModel) -> "Factored":
        """The empty coalition. Features are scaled by a power of two to noise near 1, which changes no value."""
        psi, a_psi = model.constants
        scale = np.exp2(-np.round(np.log2(psi) / 2))
        k = len(model.own)
        pairs = np.zeros((2, k, k + 1))
        pairs[0, :, :k], pairs[1, :, :k] = model.pairs[0] * scale, model.pairs[1]
        pairs[0, np.arange(k), np.arange(1, k + 1)] = model.own[:, 0]
        return cls(pairs, _rows(model, np.full(k, scale)), np.array([psi * scale**2, a_psi]))

    def join(self) -> "Factored":
        j = self.pairs.shape[1] - 1
        L, Q, D = np.tril(self.pairs[0, :, :-1]), self.pairs[1, :, :-1], np.diagonal(self.pairs[0], 1)
        psi, a_psi = self.constants
        f, v = L[j], D * L[j]
        t = psi + np.append(np.cumsum((v * f)[::-1])[::-1], 0.0)
        u = Q @ v / t[0]
        M = np.eye(j + 1) - np.tril(np.outer(v, f / t[1:]), -1)
        rows, delta_j = self.rows[: 1 + 2 * j].copy(), self.rows[1 + 2 * j]
        s = self.rows[2::2] + np.outer(u, delta_j)
        rows[0] += delta_j / t[0] * (2 * v @ s + (a_psi - v @ u) * delta_j) - (v @ u + a_psi)
        rows[1::2] -= np.outer(L[:j] @ v / t[0], delta_j)
        rows[2::2] = (M.T @ s)[:j]
        pairs = np.zeros((2, j, j + 1))
        pairs[0, :, :j], pairs[1, :, :j] = (L @ M)[:j, :j], (M.T @ Q @ M)[:j, :j]
        pairs[0, np.arange(j), np.arange(1, j + 1)] = (D * t[1:] / t[:-1])[:j]
        return self._replace(pairs=pairs, rows=rows)

    def skip(self) -> "Factored":
        j = self.pairs.shape[1] - 1
        return self._replace(pairs=self.pairs[:, :j, : j + 1], rows=self.rows[: 1 + 2 * j])


def _rows(model: TreeModel, scale: Floats) -> Floats:
    rows = np.zeros((1 + 2 * len(scale), len(model.rows)))
    rows[0], rows[1::2] = model.value, (model.rows * scale).T
    return rows


class Kind(NamedTuple):
    """Steps that a GPU can do."""

    program: ProgramName
    start: Callable[[TreeModel], State]  # the empty coalition
    in_parallel: bool  # the first players: whether each feature of a coalition has a thread of its own
    n_step: int  # twos that a coalition needs there while a feature joins, for each feature that waits


_ELIMINATING, _FACTORED = Kind("elimination", Eliminating.start, True, 0), Kind("factors", Factored.start, False, 3)


def kind_of(steps: Steps) -> Kind | None:
    """The kind of the steps of a job; ``None`` if only the processor can do them."""
    if steps is ELIMINATION:
        return _ELIMINATING
    return _FACTORED if steps is FACTORED else None
