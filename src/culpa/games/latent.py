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

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from culpa._compiled import kernel
from culpa.games.base import Array, Floats, like
from culpa.games.side_by_side import side_by_side_kernel
from culpa.scores import QuadraticScore

Queues = NDArray[np.intp]
# Everybody joins. Takes features (B, k) in the order in which they join, whom each step pays (B, k), and weights
# (R, B, players) of the steps that pay each player. Returns weighted changes of value by player (R, players, n), and their
# plain total (n,).
CompiledWalk = Callable[[Queues, Queues, Floats], tuple[Floats, Floats]]


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
    well_conditioned: bool  # whether a covariance would do instead of its root


class Latent(NamedTuple):
    """Coalitions of a conditional game, each knowing the latent variables by mean and covariance root."""

    constants: Constants
    queue: Array  # (B, k)
    R: Array  # (B, p, p)
    z: Array  # (B, p, n)
    members: Array  # (B, d) of 0 and 1; (B, 0) where features are alike
    rho: Array  # (B, d, n); (B, 0, n) where features are alike

    @classmethod
    def start(cls, score: QuadraticScore, X: Array, queues: NDArray[np.intp], *, well_conditioned: bool) -> Self:
        """Nobody has joined yet."""
        xp, g = array_namespace(X), score.gaussian
        a, b = isotropic_weights(score) or (score.residual_weights, score.latent_weights)
        rows = xp.permute_dims(X, (1, 0))
        arrays = (g.loadings, g.noise, b, a, g.decoder - g.loadings)
        W, noise, b, a, leak = (like(array, X) for array in arrays)
        constants = Constants(W, noise, rows, b, a, leak, well_conditioned)
        B, (d, p), n = len(queues), g.loadings.shape, X.shape[0]
        tracked = d if np.ndim(a) else 0
        R = xp.broadcast_to(xp.eye(p, dtype=X.dtype, device=X.device), (B, p, p))
        zeros = [
            xp.zeros(shape, dtype=X.dtype, device=X.device) for shape in ((B, p, n), (B, tracked), (B, tracked, n))
        ]
        return cls(constants, like(queues, X), R, *zeros)

    def join(self) -> tuple[Self, Array]:
        """The step above."""
        after, delta, slope, constant = self.join_factored()
        return after, delta * slope + constant[:, None]

    def join_factored(self) -> tuple[Self, Array, Array, Array]:
        """The same with the change of value as delta * slope + constant; delta and slope are linear in the rows."""
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
        R = self.R - Rf[:, :, None] * (f / (V + xp.sqrt(V * psi))[:, None])[:, None, :]
        z = self.z + y[:, :, None] * delta[:, None, :]
        after = type(self)(known, self.queue[:, 1:], R, z, members, rho)
        return after, delta, 2 * cross + curvature[:, None] * delta, -curvature * V

    def skip(self) -> Self:
        """The feature stays outside: the queue moves on."""
        return self._replace(queue=self.queue[:, 1:])

    def concat(self, other: Self) -> Self:
        """Both batches."""
        xp = array_namespace(self.R)
        pairs = zip(self[1:], other[1:], strict=True)
        return type(self)(self.constants, *(xp.concat(pair, axis=0) for pair in pairs))

    def compiled_walk(self, operations: float) -> CompiledWalk | None:
        """A compiled walk of these rows that applies and is worth its preparation, if there is one."""
        if not self._kernels_apply():
            return None
        if self.constants.well_conditioned and side_by_side_kernel.pays(operations):
            return self._walk_side_by_side
        return self._walk_orders if orders_kernel.pays(operations) else None

    def _walk_orders(self, queues: Queues, paid: Queues, weights: Floats) -> tuple[Floats, Floats]:
        nothing = np.empty((0, 0, 0))
        values, total, _ = self._compiled(queues, paid, np.ascontiguousarray(weights), nothing, nothing)
        return values, total

    def _walk_side_by_side(self, queues: Queues, paid: Queues, weights: Floats) -> tuple[Floats, Floats]:
        known = self.constants
        arrays = (known.W, known.rows.T, known.b, weights)
        W, rows, b, weights = (np.ascontiguousarray(array, dtype=np.float64) for array in arrays)
        psi, a = float(known.noise[0]), float(known.a)
        values, total = side_by_side_kernel(W, psi, a, b, rows, queues, paid, weights)
        return values.transpose(0, 2, 1), total

    def walk_forms(self) -> tuple[Floats, Floats, Floats]:
        """Everybody joins, compiled: delta and slope (d, B, n) and constants (d, B) of the step in which i joined."""
        B, n, d = self.queue.shape[0], self.z.shape[2], self.constants.W.shape[0]
        delta, slope = np.zeros((d, B, n)), np.zeros((d, B, n))
        _, _, constant = self._compiled(self.queue, self.queue, np.empty((0, B, d)), delta, slope)
        return delta, slope, constant

    def forms_pay(self, operations: float) -> bool:
        """Whether `walk_forms` applies and is worth its preparation."""
        return self._kernels_apply() and orders_kernel.pays(operations)

    def _kernels_apply(self) -> bool:
        return not self.members.shape[1] and isinstance(self.R, np.ndarray)

    def _compiled(
        self, queues: Queues, paid: Queues, weights: Floats, delta: Floats, slope: Floats
    ) -> tuple[Floats, Floats, Floats]:
        known = self.constants
        d, p = known.W.shape
        padded = -(-p // 4) * 4  # whole vector registers; latent variables without loadings change nothing
        W, b = np.zeros((d, padded)), np.zeros(padded)
        W[:, :p], b[:p] = known.W, known.b
        rows = np.ascontiguousarray(known.rows)
        psi, a = float(known.noise[0]), float(known.a)
        return orders_kernel(W, psi, a, b, rows, queues, paid, weights, delta, slope)  # type: ignore[no-any-return]


@kernel(worth=2e8)
def orders_kernel(W, psi, a, b, rows, queues, paid, weights, delta_out, slope_out):  # type: ignore[no-untyped-def]
    """The same step for features that are alike, order after order.

    Returns the changes of value, weighted (R, B, players) and added up by whom each step pays, (R, players, n); their plain
    total (n,); and the constants of the steps by feature, (d, B). Where ``delta_out`` and ``slope_out`` (d, B, n) are not
    empty, each step's factors are kept there under its feature.
    """
    p, n = W.shape[1], rows.shape[1]
    n_replicates, _, n_players = weights.shape
    B, k = queues.shape
    values, total = np.zeros((n_replicates, n_players, n)), np.zeros(n)
    constants = np.zeros((W.shape[0], B))
    keep = delta_out.shape[0] > 0
    R, z = np.empty((p, p)), np.empty((p, n))
    f, y, by = np.empty(p), np.empty(p), np.empty(p)
    delta, slope, change = np.empty(n), np.empty(n), np.empty(n)
    for q in range(B):
        R[:] = 0.0
        z[:] = 0.0
        for i in range(p):
            R[i, i] = 1.0
        for step in range(k):
            feature = queues[q, step]
            w, x = W[feature], rows[feature]
            f[:] = 0.0
            for i in range(p):
                Ri, wi = R[i], w[i]
                for j in range(p):
                    f[j] += Ri[j] * wi
            V = psi
            for j in range(p):
                V += f[j] * f[j]
            shrink = V / (V + np.sqrt(V * psi))
            curvature = a * psi / V
            for i in range(p):
                Ri, Rf = R[i], 0.0
                for j in range(p):
                    Rf += Ri[j] * f[j]
                y[i] = Rf / V
                by[i] = b[i] * y[i]
                curvature += by[i] * y[i]
                pull = y[i] * shrink
                for j in range(p):
                    Ri[j] -= pull * f[j]
            constant = -curvature * V
            constants[feature, q] = constant
            delta[:] = x
            slope[:] = 0.0
            for j in range(0, p, 2):  # two at a time: fewer passes over delta and slope
                z0, z1, w0, w1, b0, b1 = z[j], z[j + 1], w[j], w[j + 1], 2 * by[j], 2 * by[j + 1]
                for r in range(n):
                    delta[r] -= w0 * z0[r] + w1 * z1[r]
                    slope[r] += b0 * z0[r] + b1 * z1[r]
            for j in range(p):
                zj, yj = z[j], y[j]
                for r in range(n):
                    zj[r] += yj * delta[r]
            for r in range(n):
                slope[r] += curvature * delta[r]
                change[r] = delta[r] * slope[r] + constant
                total[r] += change[r]
            if keep:
                delta_out[feature, q] = delta
                slope_out[feature, q] = slope
            for s in range(n_replicates):
                mine, weight = values[s, paid[q, step]], weights[s, q, paid[q, step]]
                for r in range(n):
                    mine[r] += weight * change[r]
    return values, total, constants
