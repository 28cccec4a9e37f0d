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

from culpa._compiled import kernel
from culpa.games.base import Array, Floats, gather_columns, gather_pairs


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

    def take(self, batch: slice) -> Self:
        """Some of the coalitions."""
        return type(self)(*(field[batch] for field in self))

    def walk_tree(self, value: Floats, inside: Floats, outside: Floats, sizes: list[int]) -> tuple[Floats, ...]:
        """Decide all waiting players in every way at once, compiled; see `tree_kernel` for what comes back."""
        B, k, n = self.delta.shape
        lower = np.tril_indices(k)
        V, K = (np.ascontiguousarray(matrix[:, *lower].T) for matrix in (self.V, self.K))
        delta, c = (np.ascontiguousarray(np.moveaxis(rows, 0, 1)).reshape(k, B * n) for rows in (self.delta, self.c))
        weights = (np.ascontiguousarray(np.repeat(weight, n, axis=1)) for weight in (inside, outside))
        with_player, everybody, nobody = tree_kernel(
            V, K, delta, c, value.reshape(B * n), *weights, np.array(sizes, dtype=np.int64)
        )
        return with_player.reshape(-1, B, n).sum(axis=1), everybody.reshape(B, n), nobody.reshape(B, n).sum(axis=0)

    @staticmethod
    def tree_pays(operations: float) -> bool:
        """Whether `walk_tree` is worth its preparation."""
        return tree_kernel.pays(operations)


@kernel(worth=3e9)
def tree_kernel(V0, K0, delta0, c0, value0, inside, outside, sizes):  # type: ignore[no-untyped-def]
    """The same step for all coalitions that extend the given ones, depth first.

    Lanes (L) are coalitions x rows. They take the same decisions from here on, so the loops over them are vectorised. The
    matrices have one lane per coalition (B): lane b serves the n = L / B rows b n .. b n + n - 1.

    Takes V0, K0 (k (k + 1) / 2, B), the lower triangles row by row; delta0, c0 (k, L); value0 (L,); inside, outside
    (players + 1, L), the weights of a coalition's value by the number of players that have joined here; sizes
    (players,), the features of each waiting player. Returns sums over all those coalitions: inside-weighted values of
    the ones with each player (players, L), of all (L,), and outside-weighted values of all (L,).
    """
    k, B, L, P = delta0.shape[0], V0.shape[1], delta0.shape[1], sizes.shape[0]
    n = L // B
    first = np.zeros(P + 1, np.int64)
    first[1:] = np.cumsum(sizes)
    # Each depth keeps triangles of the features that may still wait there, behind those of the depth before: `rows[t] + a`
    # is where feature a has its numbers, `cells[t] + (a - start[t]) (a - start[t] + 1) / 2 + e` where the pair a, e has.
    start, rows, cells = np.zeros(P + 1, np.int64), np.zeros(P + 1, np.int64), np.zeros(P + 1, np.int64)
    n_rows, n_cells = k, k * (k + 1) // 2
    for t in range(1, P + 1):
        start[t] = first[t - 1] + 1
        rows[t], cells[t] = n_rows - start[t], n_cells - start[t]
        waiting = k - start[t]
        n_rows += waiting
        n_cells += waiting * (waiting + 1) // 2
    V, K = np.empty((n_cells, B)), np.empty((n_cells, B))
    delta, c = np.empty((n_rows, L)), np.empty((n_rows, L))
    value, below = np.empty((P + 1, L)), np.empty((P + 1, L))
    V[: V0.shape[0]], K[: K0.shape[0]], delta[:k], c[:k] = V0, K0, delta0, c0
    value[0], below[0] = value0, inside[0] * value0
    with_player, all_outside = np.zeros((P, L)), outside[0] * value0
    inverse, kappa, g = np.empty(L), np.empty(L), np.empty(L)
    v, w = np.empty((k, B)), np.empty((k, B))
    turn, joined = np.zeros(P + 1, np.int64), np.zeros(P + 1, np.int64)
    depth = 0  # players that have joined; each depth keeps the state before its next player joins
    while True:
        i = turn[depth]
        if i == P:  # everybody had a turn: hand the sums up
            if depth == 0:
                return with_player, below[0], all_outside
            mine, up, down = with_player[joined[depth]], below[depth - 1], below[depth]
            for r in range(L):
                mine[r] += down[r]
                up[r] += down[r]
            depth -= 1
            continue
        turn[depth] = i + 1
        here, there = depth, depth + 1
        for j in range(first[i], first[i + 1]):
            own = cells[here] + (j - start[here]) * (j - start[here] + 1) // 2 + j
            for b in range(B):
                inv = 1.0 / V[own, b]
                kap = K[own, b] * inv
                for r in range(b * n, b * n + n):
                    inverse[r] = inv
                    kappa[r] = kap
            x, y, before = delta[rows[here] + j], c[rows[here] + j], value[here]
            if i + 1 == P and sizes[i] == 1:  # half of all coalitions end here, with nobody waiting
                mine, up, win, wout = with_player[i], below[depth], inside[there], outside[there]
                for r in range(L):
                    q = x[r] * inverse[r]
                    q = before[r] + 2 * q * y[r] + kappa[r] * (q * x[r] - 1)
                    all_outside[r] += wout[r] * q
                    q *= win[r]
                    mine[r] += q
                    up[r] += q
                break
            after = value[there]
            for r in range(L):
                g[r] = x[r] * inverse[r]
                after[r] = before[r] + 2 * g[r] * y[r] + kappa[r] * (g[r] * x[r] - 1)
            for a in range(j + 1, k):
                row0 = cells[here] + (a - start[here]) * (a - start[here] + 1) // 2
                row1 = cells[there] + (a - start[there]) * (a - start[there] + 1) // 2
                va, wa, Vaj, Kaj = v[a], w[a], V[row0 + j], K[row0 + j]
                for b in range(B):
                    va[b] = Vaj[b] * inverse[b * n]
                    wa[b] = Kaj[b] - kappa[b * n] * Vaj[b]
                for e in range(j + 1, a + 1):
                    pair = cells[here] + (e - start[here]) * (e - start[here] + 1) // 2 + j
                    V0ae, K0ae, V1ae, K1ae = V[row0 + e], K[row0 + e], V[row1 + e], K[row1 + e]
                    Vej, Kej, ve = V[pair], K[pair], v[e]
                    for b in range(B):
                        V1ae[b] = V0ae[b] - va[b] * Vej[b]
                        K1ae[b] = K0ae[b] - va[b] * Kej[b] - wa[b] * ve[b]
                x0, y0 = delta[rows[here] + a], c[rows[here] + a]
                x1, y1 = delta[rows[there] + a], c[rows[there] + a]
                if n == 1:
                    for r in range(L):
                        x1[r] = x0[r] - va[r] * x[r]
                        y1[r] = y0[r] + wa[r] * g[r] - va[r] * y[r]
                else:
                    for b in range(B):
                        vb, wb = va[b], wa[b]
                        for r in range(b * n, b * n + n):
                            x1[r] = x0[r] - vb * x[r]
                            y1[r] = y0[r] + wb * g[r] - vb * y[r]
            here = there
        else:
            depth += 1
            joined[depth], turn[depth] = i, i + 1
            win, wout, now, down = inside[depth], outside[depth], value[depth], below[depth]
            for r in range(L):
                down[r] = win[r] * now[r]
                all_outside[r] += wout[r] * now[r]
