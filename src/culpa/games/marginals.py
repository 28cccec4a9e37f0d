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

from culpa._core.types import Floats, Mask, Positions
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
        return self.look(X, members).contributions()

    def look(self, X: Floats, members: Mask, gains: Floats | None = None) -> "Seen":
        """What coalitions (coalitions, d) know about rows (n, d); their gains may be known already."""
        gains, inside = self.gains(members) if gains is None else gains, members[:, None, :]
        z = np.where(inside, X, 0.0) @ gains / self.psi
        t = (z * self.b) @ gains.swapaxes(1, 2)
        g, q = (np.broadcast_to(array[:, None, :], t.shape) for array in self._spread_and_bend(gains))
        return Seen(self, gains, np.where(inside, -1.0, 1.0), X - z @ self.loadings.T, t, g, q)

    def prepare(self, members: Mask) -> Prepared:
        """What the kernel needs to know about coalitions (coalitions, d) for all rows."""
        gains, side = self.gains(members), np.where(members, -1.0, 1.0)
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

    def gains(self, members: Mask) -> Floats:
        """V w of every feature, (coalitions, d, p)."""
        known = np.where(members[:, :, None], self.loadings, 0.0)
        precision = np.eye(len(self.b)) + known.swapaxes(1, 2) @ self.loadings / self.psi
        return np.asarray(self.loadings @ np.linalg.inv(precision))

    def _spread_and_bend(self, gains: Floats) -> tuple[Floats, Floats]:
        """g and q, (coalitions, d)."""
        return np.einsum("cdp,dp->cd", gains, self.loadings), np.einsum("cdp,cdp,p->cd", gains, gains, self.b)


class Seen(NamedTuple):
    """What coalitions know about rows: arrays (coalitions, n, d)."""

    game: Marginals
    gains: Floats  # (coalitions, d, p): V w
    side: Floats  # (coalitions, 1, d): s
    r: Floats
    t: Floats
    g: Floats
    q: Floats

    def contributions(self) -> Floats:
        """Of all features."""
        a_psi, h = self.game.a * self.game.psi, self.game.psi + self.side * self.g
        slope = 2 * self.t + (self.side * self.q / h + a_psi) * self.r
        return np.asarray((self.r * slope - self.q) / h - a_psi)

    def across(self, features: Positions) -> tuple[Floats, Floats]:
        """w_i^T V w_j and w_i^T V B V w_j of features j (n, k) of each row and all features i, (k, coalitions, n, d)."""
        own = self.gains[:, features.T].swapaxes(0, 1)
        return own @ self.game.loadings.T, (own * self.game.b) @ self.gains.swapaxes(1, 2)


def in_columns(array: Floats) -> Floats:
    """The last axis filled up to whole vectors by zeros."""
    shape = (*array.shape[:-1], whole_vectors(array.shape[-1]))
    filled = aligned_zeros(math.prod(shape)).reshape(shape)
    filled[..., : array.shape[-1]] = array
    return filled


def whole_vectors(n: int) -> int:
    """The next multiple of the numbers in a vector."""
    return -(-n // TILE) * TILE
