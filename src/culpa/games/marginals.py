"""Marginal contributions of all features to one coalition at once, in the conditional game.

For features with the same noise psi and the same weight a (`culpa.games.latent`), let z and V be the mean and covariance of
the latent variables given a coalition S, and B the diagonal matrix of b'. Each feature i, with loadings w_i, needs

    r_i = x_i - w_i^T z,   t_i = w_i^T V B z,   g_i = w_i^T V w_i,   q_i = w_i^T V B V w_i

and its contribution v(S + i) - v(S - i) is, with s_i = 1 if i is outside S and -1 if it is inside,

    (r_i (2 t_i + (s_i q_i / h_i + a psi) r_i) - q_i) / h_i - a psi,   h_i = psi + s_i g_i.

For a feature outside, this is the step of `culpa.games.latent`. For a feature inside, it is the same step seen from its
other end: leaving S changes V by V w w^T V / (psi - g), and z by -V w r / (psi - g). That difference psi - g loses as many
digits as elimination does, so models with tiny noise have no such contributions.
"""

import math
from typing import NamedTuple

import numpy as np

from culpa._core.types import Floats, Mask
from culpa._kernels.contrasts import Alike, Prepared
from culpa._kernels.vectors import TILE, aligned_zeros


class Marginals(NamedTuple):
    """A game that knows the contributions of all features to a coalition."""

    loadings: Floats  # (d, p)
    psi: float
    a: float
    b: Floats  # (p,): b'

    def of(self, X: Floats, members: Mask) -> Floats:
        """Contributions (coalitions, n, d) to coalitions (coalitions, d)."""
        W, psi, a_psi = self.loadings, self.psi, self.a * self.psi
        gains, inside = self._gains(members), members.astype(np.float64)[:, None, :]
        z = (X * inside) @ gains / psi
        r, t = X - z @ W.T, (z * self.b) @ gains.swapaxes(1, 2)
        g, q = (array[:, None, :] for array in self._spread_and_bend(gains))
        side = 1 - 2 * inside
        h = psi + side * g
        return np.asarray((r * (2 * t + (side * q / h + a_psi) * r) - q) / h - a_psi)

    def prepare(self, members: Mask) -> Prepared:
        """What the kernel needs to know about coalitions (coalitions, d) for all rows."""
        gains, side = self._gains(members), np.where(members, -1.0, 1.0)
        g, q = self._spread_and_bend(gains)
        by_component = in_columns(gains.swapaxes(1, 2))
        return Prepared(
            np.argsort(~members, axis=1, kind="stable"),
            members.sum(axis=1),
            in_columns(side),
            by_component,
            in_columns(by_component.swapaxes(1, 2)),
            *(in_columns(array) for array in (g, q, 1 / (self.psi + side * g))),
        )

    @property
    def model(self) -> Alike:
        """The same for the kernel."""
        return Alike(in_columns(self.loadings.T), in_columns(self.b), self.psi, self.a)

    def _gains(self, members: Mask) -> Floats:
        """V w of every feature, (coalitions, d, p)."""
        d, p = self.loadings.shape
        squares = (self.loadings[:, :, None] * self.loadings[:, None, :]).reshape(d, p * p)
        precision = np.eye(p) + (members.astype(np.float64) @ squares).reshape(len(members), p, p) / self.psi
        return np.asarray(self.loadings @ np.linalg.inv(precision))

    def _spread_and_bend(self, gains: Floats) -> tuple[Floats, Floats]:
        """g and q, (coalitions, d)."""
        return (gains * self.loadings).sum(axis=2), (gains**2 * self.b).sum(axis=2)


def in_columns(array: Floats) -> Floats:
    """The last axis filled up to whole vectors by zeros."""
    shape = (*array.shape[:-1], -(-array.shape[-1] // TILE) * TILE)
    filled = aligned_zeros(math.prod(shape)).reshape(shape)
    filled[..., : array.shape[-1]] = array
    return filled
