"""Walking the conditional game in the p latent variables, with a square root of their covariance.

For x = W z + noise, a coalition S knows the latent variables by their posterior mean z and covariance R R^T. When
feature j with loadings w and noise variance psi joins:

    f = R^T w,  variance = psi + f^T f,  y = R f / variance,  delta = x_j - w^T z
    z <- z + y delta
    R <- R - variance y f^T / (variance + sqrt(variance psi))

R rather than R R^T is updated because noise of 1e-12 of the first eigenvalue would cost R R^T all its digits. Compiled
walks update triangular factors of it instead (`culpa._kernels.factored_steps`). These are as accurate and cheaper, but not
with arrays.

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

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from array_api_compat import array_namespace

from culpa._core.types import Array, Floats, Positions
from culpa.games.arrays import as_array_like
from culpa.games.bases import Quadratic
from culpa.games.batch import Batch
from culpa.models import LatentGaussian


def isotropic_weights(score: Quadratic) -> tuple[float, Floats] | None:
    """``(a, b')`` of the formula above, or ``None`` where features differ in noise or weight."""
    g, weights = score.gaussian, score.residual_weights
    if np.ndim(g.noise_variance) or (weights != weights[0]).any():
        return None
    a, psi = float(weights[0]), float(g.noise_variance)
    return a, score.latent_weights - a * psi * shrinkage(g)


def shrinkage(g: LatentGaussian) -> Floats | float:
    """(1 + g) / g of each latent variable, or 1 for the posterior reconstruction."""
    return 1.0 if g.reconstruction == "posterior" else (1 + g.signal) / np.where(g.signal > 0, g.signal, 1.0)


def array_cost(p: int) -> tuple[float, float]:
    """About how many operations a coalition takes as arrays, once and per row."""
    return 60.0 + 6.0 * p**2, 6.0 * p


class Seen(NamedTuple):
    """What a joining feature tells about the latent variables."""

    feature: Array  # (B,)
    noise: Array  # (B,): psi
    variance: Array  # (B,)
    gain: Array  # (B, p): y
    delta: Array  # (B, n)
    root: Array  # (B, p, p): R afterwards
    z: Array  # (B, p, n): afterwards

    def marks(self, d: int) -> Array:
        """1 at the feature, 0 elsewhere, (B, d)."""
        xp = array_namespace(self.feature)
        everybody = xp.arange(d, device=self.feature.device)[None, :]
        return xp.astype(self.feature[:, None] == everybody, self.gain.dtype)


@dataclass(frozen=True)
class Posterior(Batch):
    """Coalitions that know the latent variables by mean and root of the covariance, whatever the score."""

    SHARED: ClassVar[tuple[str, ...]] = ("W", "noise", "rows")

    W: Array  # (d, p)
    noise: Array  # (d,)
    rows: Array  # (d, n)
    queue: Array  # (B, k)
    root: Array  # (B, p, p)
    z: Array  # (B, p, n)

    @staticmethod
    def prior(gaussian: LatentGaussian, X: Array, queues: Positions) -> tuple[Array, Array, Array, Array, Array, Array]:
        """The fields above where nothing is known yet."""
        xp = array_namespace(X)
        W, noise, queue = (as_array_like(array, X) for array in (gaussian.loadings, gaussian.noise, queues))
        B, p, n = len(queues), gaussian.n_components, X.shape[0]
        root = xp.broadcast_to(xp.eye(p, dtype=X.dtype, device=X.device), (B, p, p))
        z = xp.zeros((B, p, n), dtype=X.dtype, device=X.device)
        return W, noise, xp.permute_dims(X, (1, 0)), queue, root, z

    def surprise(self) -> tuple[Array, Array]:
        """What the first feature of every queue is beyond what was expected, (B, n), and the variance of that, (B,)."""
        xp, (_, delta, f) = array_namespace(self.root), self._first()
        return delta, xp.take(self.noise, self.queue[:, 0]) + xp.sum(f * f, axis=1)

    def see(self) -> Seen:
        """The step above, as far as the score does not matter."""
        xp, (who, delta, f) = array_namespace(self.root), self._first()
        psi = xp.take(self.noise, who)
        variance = psi + xp.sum(f * f, axis=1)
        Rf = xp.sum(self.root * f[:, None, :], axis=2)
        y = Rf / variance[:, None]
        shrink = f / (variance + xp.sqrt(variance * psi))[:, None]
        root = self.root - Rf[:, :, None] * shrink[:, None, :]
        return Seen(who, psi, variance, y, delta, root, self.z + y[:, :, None] * delta[:, None, :])

    def skip(self) -> Self:
        """The feature stays outside, and the queue moves on."""
        return replace(self, queue=self.queue[:, 1:])

    def _first(self) -> tuple[Array, Array, Array]:
        """The first feature of every queue, (B,), its delta, (B, n), and f, (B, p)."""
        xp, who = array_namespace(self.root), self.queue[:, 0]
        w = xp.take(self.W, who, axis=0)
        delta = xp.take(self.rows, who, axis=0) - xp.sum(w[:, :, None] * self.z, axis=1)
        return who, delta, xp.sum(self.root * w[:, :, None], axis=1)


@dataclass(frozen=True)
class Latent(Posterior):
    """Coalitions of a conditional game: latent variables and residuals, given each coalition."""

    SHARED = (*Posterior.SHARED, "b", "a", "leak")

    b: Array  # (p,): b' where features are alike, else b
    a: Array  # (): one weight where features are alike; else (d,)
    leak: Array  # (d, p): decoder - W
    members: Array  # (B, d) of 0 and 1; (B, 0) where features are alike
    rho: Array  # (B, d, n); (B, 0, n) where features are alike

    @classmethod
    def start(cls, score: Quadratic, X: Array, queues: Positions) -> Self:
        """Empty coalitions, in which latent variables have their prior covariance."""
        xp, g = array_namespace(X), score.gaussian
        a, b = isotropic_weights(score) or (score.residual_weights, score.latent_weights)
        weights = (as_array_like(array, X) for array in (b, a, g.decoder - g.loadings))
        tracked = (len(queues), g.n_features if np.ndim(a) else 0)
        zeros = (xp.zeros(shape, dtype=X.dtype, device=X.device) for shape in (tracked, (*tracked, X.shape[0])))
        return cls(*cls.prior(g, X, queues), *weights, *zeros)

    def join(self) -> tuple[Self, Array]:
        """The next feature becomes known, and the latent variables are updated."""
        after, delta, slope, constant = self.join_factored()
        return after, delta * slope + constant[:, None]

    def join_factored(self) -> tuple[Self, Array, Array, Array]:
        """The same with the change of value as delta * slope + constant; delta and slope are linear in the rows."""
        xp, seen = array_namespace(self.root), self.see()
        y, delta, variance = seen.gain, seen.delta, seen.variance
        cross = xp.sum((self.b * y)[:, :, None] * self.z, axis=1)
        curvature = xp.sum(self.b * y * y, axis=1)
        members, rho = self.members, self.rho
        if members.shape[1]:
            here = seen.marks(members.shape[1])
            h = here * (seen.noise / variance)[:, None] - y @ self.leak.T - members * (y @ self.W.T)
            cross = cross + xp.sum((self.a * h)[:, :, None] * rho, axis=1)
            curvature = curvature + xp.sum(self.a * h * h, axis=1)
            rho = rho + h[:, :, None] * delta[:, None, :]
            members = members + here
        else:
            curvature = curvature + self.a * seen.noise / variance
        after = replace(self, queue=self.queue[:, 1:], root=seen.root, z=seen.z, members=members, rho=rho)
        return after, delta, 2 * cross + curvature[:, None] * delta, -curvature * variance


def values_of(score: Quadratic, X: Floats, members: Floats) -> Floats:
    """Conditional expectation (B, n) of a score, for coalitions given as (B, d) arrays of 0 and 1.

    Features outside are at W z, where z is the mean of the latent variables given the coalition, with the uncertainty of
    z and their own noise on top.
    """
    g, F = score.gaussian, score.root
    W, p = g.loadings, g.n_components
    outside = 1 - members
    known = members / g.noise
    # (B, p, p) and (B, p, n): the normal equations of the latent variables
    H = np.eye(p) + (known @ (W[:, :, None] * W[:, None, :]).reshape(len(W), p * p)).reshape(len(members), p, p)
    z = np.linalg.solve(H, ((known[:, None, :] * X) @ W).transpose(0, 2, 1))
    mean = members[:, None, :] * X + outside[:, None, :] * (z.transpose(0, 2, 1) @ W.T)
    # F W over the features outside: how their uncertainty enters the score
    spread = (outside @ (W[:, None, :] * F.T[:, :, None]).reshape(len(W), len(F) * p)).reshape(len(members), len(F), p)
    doubt = (np.linalg.solve(H, spread.transpose(0, 2, 1)).transpose(0, 2, 1) * spread).sum(axis=(1, 2))
    noise = outside @ ((F**2).sum(axis=0) * g.noise)
    return np.asarray(((mean @ F.T) ** 2).sum(axis=2) + (doubt + noise)[:, None])
