"""Which block and which stretch a row belongs to, where the rows of a table are spread over many processes.

The library cuts a table into consecutive blocks, and judges each block by the model of the others. In a table without an
order, the row's own numbers decide by a hash: every process comes to the same result, however the rows are spread, and
equal rows are in the same block. Rows that follow each other resemble each other, so a column that orders them makes better
blocks: those are consecutive again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.models.blocks import N_BLOCKS, block_starts
from culpa.models.normal_range import count_stretches

Integers = NDArray[np.int64]


class Places(Protocol):
    """Places of rows, which every process finds by itself."""

    @property
    def order(self) -> str | None:
        """The column that orders the rows, if there is one."""

    def blocks(self, X: Floats, order: Floats | None) -> Integers:
        """The blocks of complete rows; ``order`` are their values in the column that orders them."""

    def stretches(self, X: Floats, order: Floats | None, n_rows: int) -> Integers:
        """Their stretches: shorter than blocks, for the range of normal rows; the table has so many rows in all."""


@dataclass(frozen=True)
class HashedPlaces:
    """Places by the row's own numbers."""

    order: None = None

    def blocks(self, X: Floats, order: Floats | None) -> Integers:
        """The blocks of complete rows."""
        return (hash_rows(X) % np.uint64(N_BLOCKS)).astype(np.int64)

    def stretches(self, X: Floats, order: Floats | None, n_rows: int) -> Integers:
        """Their stretches, each of which lies in one block."""
        per_block = max(count_stretches(n_rows) // N_BLOCKS, 1)
        within = (hash_rows(X) // np.uint64(N_BLOCKS) % np.uint64(per_block)).astype(np.int64)
        return self.blocks(X, order) * per_block + within


@dataclass(frozen=True)
class OrderedPlaces:
    """Places between values of a column: the first value of each block, and of each stretch, except for the first."""

    order: str
    block_cuts: tuple[float, ...]
    stretch_cuts: tuple[float, ...]

    @classmethod
    def of(cls, order: str, n_rows: int, at_ranks: Callable[[Sequence[int]], Sequence[float]]) -> "OrderedPlaces":
        """Cut ``n_rows`` rows as the library does. ``at_ranks`` finds values of the column by rank, counted from 0.

        They may be approximate, as Spark's are in large tables. The blocks are then only nearly as long as the library's.
        """
        blocks = block_starts(n_rows)[1:].tolist()
        n_stretches = count_stretches(n_rows)
        stretches = [-(-n_rows * at // n_stretches) for at in range(1, n_stretches)]
        values = at_ranks([*blocks, *stretches])
        return cls(order, tuple(values[: len(blocks)]), tuple(values[len(blocks) :]))

    def blocks(self, X: Floats, order: Floats | None) -> Integers:
        """The blocks of complete rows."""
        return self._between(self.block_cuts, order)

    def stretches(self, X: Floats, order: Floats | None, n_rows: int) -> Integers:
        """Their stretches."""
        return self._between(self.stretch_cuts, order)

    def _between(self, cuts: tuple[float, ...], order: Any) -> Integers:
        if np.isnan(order).any():
            raise ValueError(
                f"column {self.order!r} orders the rows, but some of its cells are missing. Drop these rows."
            )
        return np.searchsorted(np.array(cuts), order, side="right").astype(np.int64)


def hash_rows(X: Floats) -> NDArray[np.uint64]:
    """A number per row that looks random, and depends on nothing but the row's numbers (the mixer of SplitMix64).

    >>> import numpy as np
    >>> rows = np.array([[1.0, 0.0], [1.0, -0.0], [0.0, 1.0]])
    >>> first, same, other = hash_rows(rows)
    >>> bool(first == same), bool(first == other)
    (True, False)
    """
    bits = np.ascontiguousarray(X + 0.0).view(np.uint64)  # of which -0.0 has others than 0.0
    state = np.zeros(len(X), dtype=np.uint64)
    for column in bits.T:
        state = (state ^ column) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return state


def chosen_rows(X: Floats, share: float) -> NDArray[np.bool_]:
    """A share of the rows, chosen by their own numbers, and independently of their blocks."""
    if share >= 1:
        return np.ones(len(X), dtype=bool)
    return np.asarray((hash_rows(X[:, ::-1]) >> np.uint64(11)) < np.uint64(int(share * 2**53)))
