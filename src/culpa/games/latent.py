"""Walking the conditional game in the p latent variables, with a square-root covariance.

For x = W z + noise, a coalition S knows the latent variables by their posterior mean z and covariance R R^T. When
feature i with loadings w and noise variance psi joins:

    f = R^T w,  V = psi + f^T f,  y = R f / V,  delta = x_i - w^T z
    z <- z + y delta
    R <- R - V y f^T / (V + sqrt(V psi))

R rather than R R^T is updated because noise of 1e-12 of the first eigenvalue would cost R R^T all its digits.

The score weighs residuals rho (by a) and latent variables (by b). Its conditional expectation moves with rho and z, and
rho moves by delta times

    h = -(D - W) y - 1_S W y + 1_i psi / V,   D the decoder

so that, summing over features and over latent variables,

    change of value = 2 delta (sum a h rho + sum b y z) + (sum a h^2 + sum b y^2) (delta^2 - V).

With one noise variance psi and one weight a for all features (SPE, T2, Mahalanobis and combined of PPCA), rho drops out:
W^T (x - W z)_S = psi z turns the two sums into

    sum b' y z  and  sum b' y^2 + a psi / V,   b' = b - a psi (1 + g) / g,

where g is the signal-to-noise ratio of the latent variable (for the posterior reconstruction, b' = b - a psi).
Then a step costs O(p^2) plus O(p) per row.
"""

from typing import NamedTuple, Self

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from culpa.games.base import Array, Floats, like
from culpa.scores import QuadraticScore


def isotropic_weights(score: QuadraticScore) -> tuple[float, Floats] | None:
    """``(a, b')`` of the formula above, or ``None`` where features differ in noise or weight."""
    g, weights = score.gaussian, score.residual_weights
    if np.ndim(g.noise_variance) or (weights != weights[0]).any():
        return None
    a, psi = float(weights[0]), float(g.noise_variance)
    shrinkage = 1.0 if g.reconstruction == "posterior" else (1 + g.signal) / np.where(g.signal > 0, g.signal, 1.0)
    return a, score.latent_weights - a * psi * shrinkage


class Constants(NamedTuple):
    """What all coalitions share: model, score and rows."""

    W: Array  # (d, p)
    noise: Array  # (d,)
    rows: Array  # (d, n)
    b: Array  # (p,): b' where features are alike, else b
    a: Array  # (): one weight where features are alike; else (d,)
    leak: Array  # (d, p): decoder - W


class Latent(NamedTuple):
    """Coalitions of a conditional game, each knowing the latent variables by mean and covariance root."""

    constants: Constants
    queue: Array  # (B, k)
    R: Array  # (B, p, p)
    z: Array  # (B, p, n)
    members: Array  # (B, d) of 0 and 1; (B, 0) where features are alike
    rho: Array  # (B, d, n); (B, 0, n) where features are alike

    @classmethod
    def start(cls, score: QuadraticScore, X: Array, queues: NDArray[np.intp]) -> Self:
        """Nobody has joined yet."""
        xp, g = array_namespace(X), score.gaussian
        a, b = isotropic_weights(score) or (score.residual_weights, score.latent_weights)
        rows = xp.permute_dims(X, (1, 0))
        constants = Constants(
            like(g.loadings, X), like(g.noise, X), rows, like(b, X), like(a, X), like(g.decoder - g.loadings, X)
        )
        B, (d, p), n = len(queues), g.loadings.shape, X.shape[0]
        tracked = d if np.ndim(a) else 0
        R = xp.broadcast_to(xp.eye(p, dtype=X.dtype, device=X.device), (B, p, p))
        zeros = [
            xp.zeros(shape, dtype=X.dtype, device=X.device) for shape in ((B, p, n), (B, tracked), (B, tracked, n))
        ]
        return cls(constants, like(queues, X), R, *zeros)

    def join(self) -> tuple[Self, Array]:
        """The step above."""
        xp, known = array_namespace(self.R), self.constants
        who = self.queue[:, 0]
        w, psi = xp.take(known.W, who, axis=0), xp.take(known.noise, who)
        f = xp.sum(self.R * w[:, :, None], axis=1)
        V = psi + xp.sum(f * f, axis=1)
        Rf = xp.sum(self.R * f[:, None, :], axis=2)
        y = Rf / V[:, None]
        delta = xp.take(known.rows, who, axis=0) - xp.sum(w[:, :, None] * self.z, axis=1)
        cross = xp.sum((known.b * y)[:, :, None] * self.z, axis=1)
        curvature = xp.sum(known.b * y * y, axis=1)
        members, rho = self.members, self.rho
        if members.shape[1]:
            here = xp.astype(who[:, None] == xp.arange(members.shape[1], device=who.device)[None, :], w.dtype)
            h = here * (psi / V)[:, None] - y @ known.leak.T - members * (y @ known.W.T)
            cross = cross + xp.sum((known.a * h)[:, :, None] * rho, axis=1)
            curvature = curvature + xp.sum(known.a * h * h, axis=1)
            rho = rho + h[:, :, None] * delta[:, None, :]
            members = members + here
        else:
            curvature = curvature + known.a * psi / V
        change = 2 * delta * cross + curvature[:, None] * (delta * delta - V[:, None])
        R = self.R - Rf[:, :, None] * (f / (V + xp.sqrt(V * psi))[:, None])[:, None, :]
        z = self.z + y[:, :, None] * delta[:, None, :]
        return type(self)(known, self.queue[:, 1:], R, z, members, rho), change

    def skip(self) -> Self:
        """The feature stays outside: the queue moves on."""
        return self._replace(queue=self.queue[:, 1:])

    def concat(self, other: Self) -> Self:
        """Both batches."""
        xp = array_namespace(self.R)
        pairs = zip(self[1:], other[1:], strict=True)
        return type(self)(self.constants, *(xp.concat(pair, axis=0) for pair in pairs))
