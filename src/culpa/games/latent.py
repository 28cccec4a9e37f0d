"""Walking the conditional game in the p latent variables, with a square-root covariance.

For x = W z + noise, a coalition S knows the latent variables by their posterior mean z and covariance R R^T. When
feature i with loadings w and noise variance psi joins:

    f = R^T w,  V = psi + f^T f,  y = R f / V,  delta = x_i - w^T z
    z <- z + y delta
    R <- R - V y f^T / (V + sqrt(V psi))

R rather than R R^T is updated because noise of 1e-12 of the first eigenvalue would cost R R^T all its digits. Compiled
walks update triangular factors of it instead (`culpa._kernels.orders`, `culpa._kernels.factored_steps`), which is as
accurate and cheaper, but not as arrays.

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

from culpa._core.types import Array, Floats
from culpa._kernels.factored_steps import FACTORED, factored_tree
from culpa._kernels.orders import side_by_side_kernel
from culpa._kernels.tree import Tree
from culpa.games.game import like
from culpa.scores import QuadraticScore

Queues = NDArray[np.intp]


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
        arrays = (g.loadings, g.noise, b, a, g.decoder - g.loadings)
        W, noise, b, a, leak = (like(array, X) for array in arrays)
        constants = Constants(W, noise, rows, b, a, leak)
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

    def walk_pays(self, operations: float) -> bool:
        """Whether `walk` and `walk_forms` apply and are worth their preparation."""
        return self._alike and isinstance(self.R, np.ndarray) and side_by_side_kernel.pays(operations)

    def walk(self, queues: Queues, paid: Queues, weights: Floats) -> tuple[Floats, Floats]:
        """Everybody joins, compiled, in other orders: features (B, k) in the order in which they join.

        Takes also whom each step pays, (B, k), and weights (R, B, players) of the steps that pay each player. Returns
        weighted changes of value by player (R, players, n), and their plain total (n,).
        """
        nothing = np.empty((0, 0, 0))
        values, total, _ = self._compiled(queues, paid, weights, nothing, nothing)
        return values.transpose(0, 2, 1), total

    def walk_forms(self) -> tuple[Floats, Floats, Floats]:
        """Everybody joins, compiled: delta and slope (d, B, n) and constants (d, B) of the step in which i joined."""
        B, n, d = self.queue.shape[0], self.z.shape[2], self.constants.W.shape[0]
        delta, slope = np.zeros((d, B, n)), np.zeros((d, B, n))
        _, _, constant = self._compiled(self.queue, self.queue, np.empty((0, B, d)), delta, slope)
        return delta, slope, constant

    def tree_pays(self, n_coalitions: float) -> bool:
        """Whether `tree` applies and is worth its preparation."""
        once, per_row = array_cost(self.z.shape[1])
        operations = n_coalitions * (once + per_row * self.z.shape[2])
        return self._alike and FACTORED.kernel.pays(operations)

    def tree(self, value: float, weights: tuple[Floats, Floats], sizes: list[int]) -> Tree:
        """All players decide in every way, compiled; nobody has joined yet, and that is worth ``value``."""
        known, queue = self.constants, self.queue[0]
        model = known.W[queue], float(known.noise[0]), float(known.a), known.b
        return factored_tree(*model, known.rows[queue].T, value, weights, sizes)

    @property
    def _alike(self) -> bool:
        """Whether features are alike in noise and weight."""
        return not self.members.shape[1]

    def _compiled(
        self, queues: Queues, paid: Queues, weights: Floats, delta: Floats, slope: Floats
    ) -> tuple[Floats, Floats, Floats]:
        known = self.constants
        arrays = (known.W, known.rows.T, known.b, weights)
        W, rows, b, weights = (np.ascontiguousarray(array, dtype=np.float64) for array in arrays)
        psi, a = float(known.noise[0]), float(known.a)
        return side_by_side_kernel(W, psi, a, b, rows, queues, paid, weights, delta, slope)  # type: ignore[no-any-return]
