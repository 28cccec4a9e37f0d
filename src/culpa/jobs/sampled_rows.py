"""Some rows of a table that is spread over many processes, brought to the caller: limits and ranges rest on them.

A hash of the row's numbers chooses it, so the sample does not depend on how the rows are spread. Up to `MOST_ROWS` rows
it is the whole table, and everything learned from it is the library's.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from culpa._core.types import Floats, Mask
from culpa.jobs.places import Integers, Places, hash_rows, rows_of
from culpa.jobs.record_batches import in_larger_batches

MOST_ROWS = 200_000  # the rate of a 99% limit is then known to within 0.02% (one standard error)
_MOST_CELLS = 1 << 24  # 134 MB


def share_of(n_rows: float, n_features: int) -> float:
    """The share of a table's rows to sample."""
    return min(1.0, MOST_ROWS / max(n_rows, 1), _MOST_CELLS / max(n_rows * n_features, 1))


def is_chosen(X: Floats, share: float) -> Mask:
    """Which rows are sampled: by their own numbers, and independently of their blocks."""
    if share >= 1:
        return np.ones(len(X), dtype=bool)
    return np.asarray((hash_rows(X[:, ::-1]) >> np.uint64(11)) < np.uint64(int(share * 2**53)))


@dataclass(frozen=True)
class RowsPass:
    """Samples the rows of partitions. Its fields are plain, so that any engine can send it to its processes.

    With an order, the row that follows a sampled one comes along, if it is in the same record batch.
    """

    names: tuple[str, ...]
    places: Places
    share: float
    complete_only: bool = True

    key: ClassVar[str] = "block"
    schema: ClassVar[pa.Schema] = pa.schema(
        {"block": pa.int32(), "position": pa.float64(), "row": pa.list_(pa.float64())}
    )

    def part(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The sampled rows of some record batches of the table, with their places."""
        for batch in in_larger_batches(batches):
            X, block, position, _ = rows_of(batch, self.names, self.places, complete_only=self.complete_only)
            here = np.argsort(position, kind="stable")
            chosen = is_chosen(X[here], self.share)
            if self.places.order is not None:
                chosen[1:] |= chosen[:-1].copy()
            here = here[chosen]
            yield pa.record_batch([block[here].astype(np.int32), position[here], list(X[here])], schema=self.schema)

    def merge(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Rows stay as they are."""
        yield from batches

    def read(self, table: pa.Table) -> tuple[Floats, Integers]:
        """The sampled rows in order, and their blocks."""
        rows = table.column("row").combine_chunks().flatten().to_numpy().reshape(-1, len(self.names))
        block = table.column("block").to_numpy().astype(np.int64)
        here = np.lexsort((table.column("position").to_numpy(), block))
        return rows[here], block[here]
