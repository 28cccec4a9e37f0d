"""Marginal contributions of all players to one coalition at once, for quadratic scores of Gaussian rows.

Given a coalition S, the latent variables have the mean z and the covariance V:

    V = (I + W_S^T Psi_S^-1 W_S)^-1,   z = V W_S^T Psi_S^-1 x_S

A score weighs residuals by a and latent variables by b. Let L = decoder - W, alpha = a Psi, and s = 1 for a player outside
S and -1 for one inside. With K = W V W^T and

    Q     = b + W_S^T a W_S + L_S^T a W_S + W_S^T a L_S + L^T a L
    m     = W V (Q z - (W + L)_S^T a x_S) - alpha L z,       r = x - W z
    kappa = W V Q V W^T - (alpha L V W^T + W V L^T alpha) - (alpha K + K alpha) / 2

the contribution v(S and g) - v(S without g) of a player with features g is, restricted to g and with D = Psi + s K,

    2 r^T D^-1 m + s r^T D^-1 kappa D^-1 r + r^T D^-1 alpha r - Tr(D^-1 kappa + alpha)

For a player outside, this is its step when it joins (`culpa.games.latent`). For a player inside, it is the same step
seen from its other end. For players of one feature, all of this are matrix products with W and with the products w w^T of
its rows.

If alpha is the same for all features, and L = W diag(l) with l = 0 or 1 / g (g is the signal of `LatentGaussian`), then
Q z - ... may be replaced by b' z and Q by b' = b - alpha (1 + l), and L by 0, whatever the coalition.

D is a difference for players inside S. It loses as many digits as the noise is smaller than the largest eigenvalue.

| symbol | code | meaning |
| --- | --- | --- |
| C, n, d, k, p | | coalitions, rows, features, features of players, latent variables |
| W, Psi | ``loadings``, ``noise`` | (d, p) and (d,) |
| alpha, b or b' | ``alpha``, ``b`` | (d,) and (p,) |
| L | ``leak`` | (d, p); ``None`` if b' serves |
| r D^-1 ... | ``slope`` | contributions are the sum of r slope over the features of a player, plus a constant |
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from culpa._core.copies import CopiedInUse
from culpa._core.types import Array, Floats, Positions
from culpa.games.arrays import as_array_like

_MOST_PRODUCTS = 1 << 27  # numbers


class Block(NamedTuple):
    """A player of several features: their places among the features of all players, and D^-1 ... of coalitions."""

    places: slice
    of_m: Array  # (C, g, g): 2 D^-1
    of_r: Array  # (C, g, g): D^-1 (s kappa D^-1 + alpha)


class Known(NamedTuple):
    """What coalitions know whatever the row."""

    members: Array  # (C, d) of 0 and 1
    weights: Array  # (C, d): 1 / Psi inside the coalition, 0 outside
    V: Array  # (C, p, p)
    Q: Array | None  # (C, p, p); ``None`` if b' serves
    of_m: Array  # (C, k): 2 / D
    of_r: Array  # (C, k): (s kappa / D + alpha) / D
    blocks: list[Block]
    constants: Array  # (C, players)

    def weighed(self, by: Array) -> "Known":
        """With the contributions to each coalition times a number, (C,)."""
        each, pairs = by[:, None], by[:, None, None]
        blocks = [Block(block.places, block.of_m * pairs, block.of_r * pairs) for block in self.blocks]
        return self._replace(
            of_m=self.of_m * each, of_r=self.of_r * each, blocks=blocks, constants=self.constants * each
        )

    def some(self, these: slice) -> "Known":
        """Some of the coalitions."""
        blocks = [Block(block.places, block.of_m[these, ...], block.of_r[these, ...]) for block in self.blocks]
        arrays = {
            name: None if (array := getattr(self, name)) is None else array[these, ...] for name in _PER_COALITION
        }
        return self._replace(blocks=blocks, **arrays)


_PER_COALITION = ("members", "weights", "V", "Q", "of_m", "of_r", "constants")


def as_they_are(X: Array) -> Array:
    """Rows of a game that are those of its Gaussian; a name, so that explainers can be pickled."""
    return X


@dataclass(frozen=True, eq=False)
class Marginals(CopiedInUse):
    """A game that knows the contributions of all players to a coalition."""

    loadings: Floats
    noise: Floats
    alpha: Floats
    b: Floats
    leak: Floats | None = None
    trace: float = 1.0  # 0 for a game whose contributions have no constant
    moves: Callable[[Array], Array] = as_they_are  # rows of the Gaussian, from rows of the game

    @property
    def fits(self) -> bool:
        """Whether the products of loadings fit into memory."""
        d, p = self.loadings.shape
        return bool(d * p * (p + 1) // 2 <= _MOST_PRODUCTS)

    @cached_property
    def pairs(self) -> tuple[Positions, Positions]:
        """Positions of all pairs of latent variables."""
        return np.triu_indices(len(self.b))

    @cached_property
    def symmetric(self) -> Positions:
        """Where a symmetric matrix has its entries among those pairs, (p * p,)."""
        p, (first, second) = len(self.b), self.pairs
        places = np.empty((p, p), dtype=np.intp)
        places[first, second] = places[second, first] = np.arange(len(first))
        return places.ravel()

    @cached_property
    def products(self) -> Floats:
        """w w^T of every feature, by pairs."""
        first, second = self.pairs
        return np.ascontiguousarray(self.loadings[:, first] * self.loadings[:, second])

    @cached_property
    def leaking(self) -> Floats:
        """(w l^T + l w^T) / 2 of every feature, by pairs."""
        assert self.leak is not None
        (first, second), W, L = self.pairs, self.loadings, self.leak
        return np.ascontiguousarray(W[:, first] * L[:, second] + L[:, first] * W[:, second]) / 2


class PlayersAtOnce(CopiedInUse):
    """Contributions of some players, of rows in arrays like ``X`` in which the same features are observed."""

    def __init__(self, game: Marginals, players: list[list[int]], X: Array) -> None:
        def here(array: Any) -> Array:
            return as_array_like(array, X)

        self.xp, self.game, who = array_namespace(X), game, np.concatenate(players).astype(np.intp)
        self.who = here(who)
        p, (first, second) = len(game.b), game.pairs
        sizes = np.array([len(player) for player in players])
        ends = np.cumsum(sizes)
        self.groups = [(k, slice(ends[k] - sizes[k], ends[k])) for k in np.flatnonzero(sizes > 1).tolist()]
        self.alone = None if not self.groups else here(np.flatnonzero(np.repeat(sizes == 1, sizes)))
        self.starts, self.sizes = ends - sizes, sizes
        self.W, self.noise, self.alpha, self.b = (here(a) for a in (game.loadings, game.noise, game.alpha, game.b))
        self.WT = here(np.ascontiguousarray(game.loadings[who].T))
        self.products = here(game.products)
        twice = np.where(first == second, 1.0, 2.0)[:, None]
        self.products_of_players = here(np.ascontiguousarray(twice * game.products[who].T))
        self.eye, self.symmetric = here(np.eye(p)), here(game.symmetric)
        self.packed = here(first * p + second)
        if game.leak is not None:
            self.L, self.LT = here(game.leak), here(np.ascontiguousarray(game.leak[who].T))
            a = game.alpha / game.noise
            self.a, self.decoder = here(a), here(game.loadings + game.leak)
            self.spread = here(a[:, None] * (game.products + 2 * game.leaking))
            self.always = here(np.diag(game.b) + (game.leak.T * a) @ game.leak)
            self.leaking_of_players = here(np.ascontiguousarray(twice * game.leaking[who].T))

    def known(self, members: Array) -> Known:
        """What coalitions (C, d) of 0 and 1 know."""
        xp, game = self.xp, self.game
        weights = members / self.noise
        V = xp.linalg.inv(self._unpacked(weights @ self.products) + self.eye)
        side = 1 - 2 * xp.take(members, self.who, axis=1)
        psi, alpha = xp.take(self.noise, self.who), xp.take(self.alpha, self.who)
        Q = None if game.leak is None else self._unpacked(members @ self.spread) + self.always
        bent = (V * self.b) @ V if Q is None else V @ Q @ V
        g = self._packed(V) @ self.products_of_players
        kappa = self._packed(bent) @ self.products_of_players if self._bends else 0.0 * g
        if game.leak is not None:
            kappa = kappa - 2 * alpha * (self._packed(V) @ self.leaking_of_players) - alpha * g
        inverse = 1 / (psi + side * g)
        kappa_D = kappa * inverse
        constants, found = -game.trace * (kappa_D + alpha), [self._block(at, V, bent, side) for _, at in self.groups]
        if found:
            constants = self._by_player(constants, [constant for _, constant in found])
        blocks = [block for block, _ in found]
        return Known(members, weights, V, Q, 2 * inverse, (side * kappa_D + alpha) * inverse, blocks, constants)

    def _block(self, places: slice, V: Array, bent: Array, side: Array) -> tuple[Block, Array]:
        """Of a group, and its constants (C,)."""
        xp, game = self.xp, self.game
        W, features = xp.permute_dims(self.WT[:, places], (1, 0)), self.who[places]
        psi, alpha = xp.take(self.noise, features), xp.take(self.alpha, features)
        sign = side[:, places][:, 0][:, None, None]
        WT = self.WT[:, places]
        K, kappa = W @ V @ WT, W @ bent @ WT
        if game.leak is not None:
            left = alpha[:, None] * (xp.permute_dims(self.LT[:, places], (1, 0)) @ V @ WT + K / 2)
            kappa = kappa - left - xp.permute_dims(left, (0, 2, 1))
        eye = xp.eye(psi.shape[0], dtype=psi.dtype, device=psi.device)
        inverse = xp.linalg.inv(psi[:, None] * eye + sign * K)
        constants = -game.trace * (xp.sum(xp.sum(inverse * kappa, axis=2), axis=1) + xp.sum(alpha))
        return Block(places, 2 * inverse, inverse @ (sign * kappa @ inverse + alpha[:, None] * eye)), constants

    def factors(self, known: Known, rows: Array) -> tuple[Array, Array]:
        """r and slope (C, n, k) of rows (n, d) that have been moved."""
        xp, game = self.xp, self.game
        (C, d), (n, p) = known.members.shape, (rows.shape[0], len(game.b))
        seen = known.weights[:, None, :] * rows[None, :, :]
        z = xp.reshape(xp.reshape(seen, (C * n, d)) @ self.W, (C, n, p)) @ known.V
        r = xp.take(rows, self.who, axis=1)[None, :, :] - self._of_players(z)
        if known.Q is not None:
            pull = xp.reshape((known.members * self.a)[:, None, :] * rows[None, :, :], (C * n, d)) @ self.decoder
            push = (z @ known.Q - xp.reshape(pull, (C, n, p))) @ known.V
            m = self._of_players(push) - xp.take(self.alpha, self.who) * self._of_players(z, self.LT)
        elif self._bends:
            m = self._of_players((z * self.b) @ known.V)
        else:
            m = None
        slope = known.of_r[:, None, :] * r
        if m is not None:
            slope += known.of_m[:, None, :] * m
        for block in known.blocks:
            own = r[:, :, block.places] @ xp.permute_dims(block.of_r, (0, 2, 1))
            slope[:, :, block.places] = own if m is None else own + m[:, :, block.places] @ block.of_m
        return r, slope

    def contributions(self, known: Known, rows: Array) -> Array:
        """Of all players, added up over the coalitions, (n, players)."""
        r, slope = self.factors(known, rows)
        r *= slope
        paid = self.xp.sum(r, axis=0)
        return (self.of_players(paid) if self.groups else paid) + self.xp.sum(known.constants, axis=0)

    def of_players(self, paid: Array) -> Array:
        """Sums over the features of each player, (..., players)."""
        xp = self.xp
        if not self.groups:
            return paid
        return xp.stack(
            [xp.sum(paid[..., at : at + size], axis=-1) for at, size in zip(self.starts, self.sizes, strict=True)],
            axis=-1,
        )

    @cached_property
    def _bends(self) -> bool:
        """Whether m and kappa are anything but 0."""
        return self.game.leak is not None or bool(self.game.b.any())

    def _by_player(self, constants: Array, of_groups: list[Array]) -> Array:
        columns = [constants[:, at] for at in self.starts.tolist()]
        for (k, _), constant in zip(self.groups, of_groups, strict=True):
            columns[k] = constant
        return self.xp.stack(columns, axis=1)

    def _of_players(self, z: Array, WT: Array | None = None) -> Array:
        """z W^T, (C, n, k)."""
        (C, n, p), WT = z.shape, self.WT if WT is None else WT
        return self.xp.reshape(self.xp.reshape(z, (C * n, p)) @ WT, (C, n, WT.shape[1]))

    def _packed(self, matrices: Array) -> Array:
        """Entries of symmetric matrices (C, p, p) by pairs."""
        C, p = matrices.shape[:2]
        return self.xp.take(self.xp.reshape(matrices, (C, p * p)), self.packed, axis=1)

    def _unpacked(self, packed: Array) -> Array:
        p = len(self.game.b)
        return self.xp.reshape(self.xp.take(packed, self.symmetric, axis=1), (packed.shape[0], p, p))
