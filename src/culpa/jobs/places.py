"""Which block a row belongs to, where the rows of a table are spread over many processes.

The library cuts a table into consecutive blocks, and judges each block by the model of the others. In a table without an
order, the row's own numbers decide by a hash: every process comes to the same result, however the rows are spread, and
equal rows are in the same block. Rows that follow each other resemble each other, so a column that orders them makes better
blocks: those are consecutive again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.jobs.record_batches import read_features
from culpa.models.blocks import N_BLOCKS, block_starts

Integers = NDArray[np.int64]


class Places(Protocol):
    """Places of rows, which every process finds by itself."""

    @property
    def order(self) -> str | None:
        """The column that orders the rows, if there is one."""

    def find(self, X: Floats, order: Floats | None) -> tuple[Integers, Floats]:
        """Blocks of rows, and numbers that sort the rows of a block.

        ``order`` are their values in the column that orders them.
        """


@dataclass(frozen=True)
class HashedPlaces:
    """Places by the row's own numbers."""

    order: None = None

    def find(self, X: Floats, order: Floats | None) -> tuple[Integers, Floats]:
        """Blocks of rows, and numbers that sort the rows of a block."""
        hashed = hash_rows(X)
        return (hashed % np.uint64(N_BLOCKS)).astype(np.int64), (hashed >> np.uint64(11)).astype(np.float64)


@dataclass(frozen=True)
class OrderedPlaces:
    """Places between values of a column: ``cuts`` are the first values of all blocks but the first."""

    order: str
    cuts: tuple[float, ...]

    @classmethod
    def of(cls, order: str, n_rows: int, at_ranks: Callable[[Sequence[int]], Sequence[float]]) -> "OrderedPlaces":
        """Cut ``n_rows`` rows as the library does. ``at_ranks`` finds values of the column by rank, counted from 0.

        They may be approximate, as Spark's are in large tables. The blocks are then only nearly as long as the library's.
        """
        return cls(order, tuple(at_ranks(block_starts(n_rows)[1:].tolist())))

    def find(self, X: Floats, order: Any) -> tuple[Integers, Floats]:
        """Blocks of rows, and numbers that sort the rows of a block."""
        if np.isnan(order).any():
            raise ValueError(
                f"column {self.order!r} orders the rows, but some of its cells are missing. Drop these rows."
            )
        return np.searchsorted(np.array(self.cuts), order, side="right").astype(np.int64), order


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


class Rows(NamedTuple):
    """Rows of a record batch and their places, and how many cells of each column are missing in the whole batch."""

    X: Floats
    block: Integers
    position: Floats
    missing: Floats


def rows_of(batch: pa.RecordBatch, names: Sequence[str], places: Places, *, complete_only: bool) -> Rows:
    """Read the rows of a record batch, or those that have all their cells."""
    X, order = read_features(batch, names), None
    if places.order is not None:
        order = read_features(batch, [places.order])[:, 0]
    missing = np.isnan(X)
    if complete_only and missing.any():
        complete = ~missing.any(axis=1)
        X, order = X[complete], None if order is None else order[complete]
    return Rows(X, *places.find(X, order), missing.sum(axis=0).astype(np.float64))
