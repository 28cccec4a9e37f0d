"""What is sampled: coalitions of evenly spread sizes, or orders. It does not depend on the rows, only on seed and number.

A rule has several replicates, each an estimate of its own. Their mean is the result, and their spread gives its standard
error. Points are those of scrambled Sobol sequences, which are spread more evenly than random ones.

*Coalitions.* With each player inside with probability q, the mean contribution of a player to the others' coalitions is a
function of q, and its mean over q from 0 to 1 is the Shapley value (Owen 1972). The interval is cut into strata, narrow at
both ends, where the function may be steep. In each of them, q is spread evenly over the points of a sequence, and a player
is inside where its coordinate of a point is below q. Every other q is mirrored within its share of the stratum, so that
what is linear in q has no error. Every stratum of every replicate has random numbers of its own for q and for a digital
shift of the points (an exclusive or), so that replicates are independent, and no estimate is biased.

*Orders.* Players join in the order of a point's coordinates. Every replicate is a scrambled sequence of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core import memory
from culpa._core.threads import in_own_thread
from culpa._core.types import Floats, Mask, Positions

N_REPLICATES = 6
_MOST_STRATA = 12
_BITS = 30
_MOST_SOBOL = 21_201  # dimensions
_SPREAD = (2, 4, 8, 8, 8, 8, 8, 8, 4, 4, 2, 2)  # coalitions in twelve strata, before anything is known about the game


class Piece(NamedTuple):
    """Some coalitions of one replicate of a rule."""

    replicate: int
    start: int
    stop: int


@dataclass(frozen=True)
class CoalitionRule:
    """Coalitions of players: so many in each stratum, in each replicate."""

    n_players: int
    sizes: tuple[int, ...]
    seed: int
    n_replicates: int = N_REPLICATES

    @classmethod
    def first(cls, n_players: int, seed: int) -> "CoalitionRule":
        """A small rule, to find out how many coalitions are needed."""
        n_strata = min(_MOST_STRATA, max(1, -(-n_players // 2)))
        at = ((np.arange(n_strata) + 0.5) * len(_SPREAD) / n_strata).astype(np.intp)
        return cls(n_players, tuple(np.array(_SPREAD)[at].tolist()), seed)

    @property
    def n_coalitions(self) -> int:
        """Number of coalitions in all replicates together."""
        return self.n_replicates * sum(self.sizes)

    @property
    def least(self) -> int:
        """Coalitions of the smallest rule."""
        return self.n_replicates * len(self.sizes)

    @property
    def weights(self) -> Floats:
        """Width of each stratum, in shares of the players."""
        return np.diff(_edges(len(self.sizes)))

    def pieces(self, most: int) -> list["Piece"]:
        """All coalitions, at most so many at a time, of one replicate each."""
        return [
            Piece(replicate, start, min(start + most, sum(self.sizes)))
            for replicate in range(self.n_replicates)
            for start in range(0, sum(self.sizes), most)
        ]

    def strata(self, piece: "Piece") -> list[tuple[int, slice]]:
        """Which of its coalitions are in which stratum."""
        ends = np.clip(np.cumsum([0, *self.sizes]) - piece.start, 0, piece.stop - piece.start).tolist()
        return [(stratum, slice(*pair)) for stratum, pair in enumerate(pairwise(ends)) if pair[0] < pair[1]]

    def members(self, piece: "Piece") -> tuple[Mask, Floats]:
        """Its coalitions, (coalitions, players), and the weight of each in the estimate of its replicate."""
        sizes, rng = np.array(self.sizes), np.random.default_rng([self.seed, piece.replicate])
        shifts = rng.integers(0, 1 << _BITS, (len(sizes), self.n_players), dtype=np.uint32)
        at, edges = rng.random(len(sizes)), _edges(len(sizes))
        stratum = np.repeat(np.arange(len(sizes)), sizes)[piece.start : piece.stop]
        place = np.arange(piece.start, piece.stop) - (np.cumsum(sizes) - sizes)[stratum]
        within = (place + np.where(place % 2, 1 - at[stratum], at[stratum])) / sizes[stratum]
        q = edges[stratum] + self.weights[stratum] * within
        points = _net(self.n_players, max(self.sizes), self.seed)[place] ^ shifts[stratum]
        inside = points < (q * (1 << _BITS)).astype(np.uint32)[:, None]
        return np.asarray(inside), (self.weights / sizes)[stratum]

    def allocated(self, needs: Floats, total: float) -> "CoalitionRule":
        """At least ``total`` coalitions, in proportion to what the strata need; powers of 2, as the points want it."""
        needs = np.maximum(needs, 1e-9 * needs.max(initial=0.0) + 1e-300)
        each = needs / needs.sum() * total / self.n_replicates
        for more in 2.0 ** np.arange(0.0, 1.01, 0.125):
            sizes = 2 ** np.maximum(0, np.round(np.log2(np.maximum(each * more, 1.0)))).astype(np.int64)
            if self.n_replicates * sizes.sum() >= total:
                break
        return self.of_sizes(sizes)

    def within(self, most: float) -> "CoalitionRule":
        """At most so many coalitions, if that is possible."""
        sizes = np.array(self.sizes)
        while self.n_replicates * sizes.sum() > most and sizes.max() > 1:
            sizes[sizes.argmax()] //= 2
        return self.of_sizes(sizes)

    def of_sizes(self, sizes: Positions) -> "CoalitionRule":
        """The same with other sizes."""
        return CoalitionRule(self.n_players, tuple(sizes.tolist()), self.seed, self.n_replicates)


def _edges(n_strata: int) -> Floats:
    return np.asarray(np.sin(np.pi / 2 * np.arange(n_strata + 1) / n_strata) ** 2)


@lru_cache(maxsize=4)
def _net(n_players: int, size: int, seed: int) -> NDArray[np.uint32]:
    """The first points of a sequence, as integers, (size, players)."""
    memory.claim_sample(size, n_players)
    draw = points(n_players, np.random.default_rng(seed))
    return np.asarray(draw((1 << (size - 1).bit_length(), n_players)) * (1 << _BITS)).astype(np.uint32)


@dataclass(frozen=True, eq=False)
class OrderRule:
    """Orders of players, (replicates, orders, players)."""

    orders: Positions

    @property
    def n_coalitions(self) -> int:
        """Coalitions that are valued."""
        return int(self.orders.size)

    @property
    def n_replicates(self) -> int:
        """Independent estimates."""
        return len(self.orders)

    def among(self, present: Sequence[int]) -> "OrderRule":
        """Orders of some of the players, numbered anew."""
        n_players = self.orders.shape[2]
        if len(present) == n_players:
            return self
        number = np.full(n_players, -1)
        number[list(present)] = np.arange(len(present))
        found = number[self.orders]
        return OrderRule(found[found >= 0].reshape(*found.shape[:2], len(present)))


@lru_cache(maxsize=4)
def order_rule(n_players: int, log2_orders: int, seed: int) -> OrderRule:
    """So many orders in each replicate, which are spread evenly: everybody is equally often at each position."""
    memory.claim_sample(N_REPLICATES << log2_orders, n_players)
    rng = np.random.default_rng(seed)
    nets = [points(n_players, rng)((1 << log2_orders, n_players)) for _ in range(N_REPLICATES)]
    return OrderRule(np.argsort(np.stack(nets), axis=2))


def points(n_dimensions: int, rng: np.random.Generator) -> Callable[[tuple[int, int]], Floats]:
    """Draws the next points of a scrambled Sobol sequence, given how many and their dimensions.

    Sobol has no more dimensions than `scipy.stats.qmc.Sobol.MAXDIM`. Beyond, points are independent.
    """
    if n_dimensions > _MOST_SOBOL:
        return rng.random
    sequence = in_own_thread(_sobol, n_dimensions, rng)  # SciPy would go on with wrong numbers after an interrupt
    return lambda shape: np.asarray(sequence.random(shape[0]), dtype=np.float64)


def _sobol(n_dimensions: int, rng: np.random.Generator) -> Any:
    from scipy.stats import qmc  # takes a third of a second to load

    return qmc.Sobol(n_dimensions, scramble=True, rng=rng)
