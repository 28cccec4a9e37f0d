"""Walking the conditional game in the p latent variables, with a square root of their covariance.

For x = W z + noise, a coalition S knows the latent variables by their posterior mean z and covariance R R^T. When
feature j with loadings w and noise variance psi joins:

    f = R^T w,  variance = psi + f^T f,  y = R f / variance,  delta = x_j - w^T z
    z <- z + y delta
    R <- R - variance y f^T / (variance + sqrt(variance psi))

R rather than R R^T is updated because noise of 1e-12 of the first eigenvalue would cost R R^T all its digits. Compiled
walks update triangular factors of it instead (`culpa._kernels.orders`, `culpa._kernels.factored_steps`). These are as
accurate and cheaper, but not with arrays.

The score weighs residuals rho (by a) and latent variables (by b). Its conditional expectation changes with rho and z,
and rho changes by delta times

    h = -(decoder - W) y - 1_S W y + 1_j psi / variance

so that, summing over features and over latent variables,

    change of value = 2 delta (sum a h rho + sum b y z) + (sum a h^2 + sum b y^2) (delta^2 - variance).

With one noise variance psi and one weight a for all features (SPE, T2, Mahalanobis and combined of PPCA), rho drops out:
W^T (x - W z)_S = psi z turns the two sums into

    sum b' y z  and  sum b' y^2 + a psi / variance,   b' = b - a psi (1 + g) / g,

where g is the signal-to-noise ratio of the latent variable (for the posterior reconstruction, b' = b - a psi).
Then a step costs O(p^2) plus O(p) per row.

| symbol | code | meaning |
| --- | --- | --- |
| W | ``W`` | loadings, (d, p) |
| R | ``root`` | root of the covariance of the latent variables, given the coalition |
| z | ``z`` | their mean, given the coalition |
| y | ``y`` | gain of the latent variables |
| variance | ``variance`` | variance of the joining feature, given the coalition |
| rho | ``rho`` | residuals, given the coalition |
| a, b | ``a``, ``b`` | weights of the score |
"""

from typing import NamedTuple, Self

import numpy as np
from array_api_compat import array_namespace

from culpa._core.types import Array, Floats, Positions
from culpa.games.arrays import as_array_like
from culpa.scores import QuadraticScore


def isotropic_weights(score: QuadraticScore) -> tuple[float, Floats] | None:
    """``(a, b')`` of the formula above, or ``None`` where features differ in noise or weight."""
    g, weights = score.gaussian, score.residual_weights
    if np.ndim(g.noise_variance) or (weights != weights[0]).any():
        return None
    a, psi = float(weights[0]), float(g.noise_variance)
    shrinkage = 1.0 if g.reconstruction == "posterior" else (1 + g.signal) / np.where(g.signal > 0, g.signal, 1.0)
    return a, score.latent_weights - a * psi * shrinkage


def array_cost(p: int) -> tuple[float, float]:
    """About how many operations a coalition takes as arrays, once and per row."""
    return 60.0 + 6.0 * p**2, 6.0 * p


class Constants(NamedTuple):
    """What all coalitions share: model, score and rows."""

    W: Array  # (d, p)
    noise: Array  # (d,)
    rows: Array  # (d, n)
    b: Array  # (p,): b' where features are alike, else b
    a: Array  # (): one weight where features are alike; else (d,)
    leak: Array  # (d, p): decoder - W


class Latent(NamedTuple):
    """Coalitions of a conditional game: mean and covariance root of the latent variables, given each coalition."""

    constants: Constants
    queue: Array  # (B, k)
    root: Array  # (B, p, p)
    z: Array  # (B, p, n)
    members: Array  # (B, d) of 0 and 1; (B, 0) where features are alike
    rho: Array  # (B, d, n); (B, 0, n) where features are alike

    @classmethod
    def start(cls, score: QuadraticScore, X: Array, queues: Positions) -> Self:
        """Empty coalitions."""
        xp, g = array_namespace(X), score.gaussian
        a, b = isotropic_weights(score) or (score.residual_weights, score.latent_weights)
        rows = xp.permute_dims(X, (1, 0))
        arrays = (g.loadings, g.noise, b, a, g.decoder - g.loadings)
        W, noise, b, a, leak = (as_array_like(array, X) for array in arrays)
        constants = Constants(W, noise, rows, b, a, leak)
        B, (d, p), n = len(queues), g.loadings.shape, X.shape[0]
        tracked = d if np.ndim(a) else 0
        root = xp.broadcast_to(xp.eye(p, dtype=X.dtype, device=X.device), (B, p, p))
        zeros = [
            xp.zeros(shape, dtype=X.dtype, device=X.device) for shape in ((B, p, n), (B, tracked), (B, tracked, n))
        ]
        return cls(constants, as_array_like(queues, X), root, *zeros)

    def surprise(self) -> tuple[Array, Array]:
        """What the first feature of every queue is beyond what was expected, (B, n), and the variance of that, (B,)."""
        xp, known = array_namespace(self.root), self.constants
        who = self.queue[:, 0]
        w = xp.take(known.W, who, axis=0)
        f = xp.sum(self.root * w[:, :, None], axis=1)
        delta = xp.take(known.rows, who, axis=0) - xp.sum(w[:, :, None] * self.z, axis=1)
        return delta, xp.take(known.noise, who) + xp.sum(f * f, axis=1)

    def join(self) -> tuple[Self, Array]:
        """The step above."""
        after, delta, slope, constant = self.join_factored()
        return after, delta * slope + constant[:, None]

    def join_factored(self) -> tuple[Self, Array, Array, Array]:
        """The same with the change of value as delta * slope + constant; delta and slope are linear in the rows."""
        xp, known = array_namespace(self.root), self.constants
        who = self.queue[:, 0]
        w, psi = xp.take(known.W, who, axis=0), xp.take(known.noise, who)
        f = xp.sum(self.root * w[:, :, None], axis=1)
        variance = psi + xp.sum(f * f, axis=1)
        Rf = xp.sum(self.root * f[:, None, :], axis=2)
        y = Rf / variance[:, None]
        delta = xp.take(known.rows, who, axis=0) - xp.sum(w[:, :, None] * self.z, axis=1)
        cross = xp.sum((known.b * y)[:, :, None] * self.z, axis=1)
        curvature = xp.sum(known.b * y * y, axis=1)
        members, rho = self.members, self.rho
        if members.shape[1]:
            here = xp.astype(who[:, None] == xp.arange(members.shape[1], device=who.device)[None, :], w.dtype)
            h = here * (psi / variance)[:, None] - y @ known.leak.T - members * (y @ known.W.T)
            cross = cross + xp.sum((known.a * h)[:, :, None] * rho, axis=1)
            curvature = curvature + xp.sum(known.a * h * h, axis=1)
            rho = rho + h[:, :, None] * delta[:, None, :]
            members = members + here
        else:
            curvature = curvature + known.a * psi / variance
        shrink = f / (variance + xp.sqrt(variance * psi))[:, None]
        root = self.root - Rf[:, :, None] * shrink[:, None, :]
        z = self.z + y[:, :, None] * delta[:, None, :]
        after = type(self)(known, self.queue[:, 1:], root, z, members, rho)
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


def values_of(score: QuadraticScore, X: Floats, members: Floats) -> Floats:
    """Conditional expectation (B, n) of a score, for coalitions given as (B, d) arrays of 0 and 1.

    Features outside are at W z, where z is the mean of the latent variables given the coalition, with the uncertainty of
    z and their own noise on top.
    """
    g, F = score.gaussian, score.root
    W, p = g.loadings, g.n_components
    outside = 1 - members
    known = members / g.noise
    # (B, p, p) and (B, p, n): the normal equations of the latent variables
    H = np.eye(p) + (known @ (W[:, :, None] * W[:, None, :]).reshape(len(W), p * p)).reshape(-1, p, p)
    z = np.linalg.solve(H, ((known[:, None, :] * X) @ W).transpose(0, 2, 1))
    mean = members[:, None, :] * X + outside[:, None, :] * (z.transpose(0, 2, 1) @ W.T)
    # F W over the features outside: how their uncertainty enters the score
    spread = (outside @ (W[:, None, :] * F.T[:, :, None]).reshape(len(W), -1)).reshape(len(members), len(F), p)
    doubt = (np.linalg.solve(H, spread.transpose(0, 2, 1)).transpose(0, 2, 1) * spread).sum(axis=(1, 2))
    noise = outside @ ((F**2).sum(axis=0) * g.noise)
    return np.asarray(((mean @ F.T) ** 2).sum(axis=2) + (doubt + noise)[:, None])
