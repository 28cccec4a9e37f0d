"""The first pass of a fit over many processes: each sums up its rows, and sums are merged in any order.

Sums travel as record batches with one row per block: number of rows, and mean and scatter around a reference point near
the data. So they stay exact for data far from zero, and engines can merge them on the way. A row with block -1 counts the
rows that were left out, and the missing cells of each column.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from culpa._core.types import Floats
from culpa._core.words import count
from culpa.jobs.places import Integers, Places, rows_of
from culpa.jobs.record_batches import in_larger_batches
from culpa.models import Moments
from culpa.models.blocks import BlockMoments
from culpa.models.scatter import Scatter

_LEFT_OUT = -1
_NUMBERS = pa.list_(pa.float64())


@dataclass(frozen=True, eq=False)
class GatheredMoments:
    """What all rows add up to: moments of the blocks that have rows, their numbers, and what was left out."""

    blocks: BlockMoments
    ids: Integers
    n_left_out: int
    missing: Floats  # by column

    def check(self, names: Sequence[str], *, complete_only: bool) -> None:
        """Refuse what cannot be learned from, with a sentence that names the column."""
        n = round(self.blocks.total.n)
        if (empty := np.flatnonzero(self.missing == n + self.n_left_out)).size and self.n_left_out:
            raise ValueError(f"all cells of column {names[empty[0]]!r} are missing. Leave it out with columns=.")
        if self.n_left_out and not complete_only:
            worst = int(np.argmax(self.missing))
            raise ValueError(
                f"{count(self.n_left_out, 'row')} of {n + self.n_left_out:,} have missing cells, most of them in column "
                f"{names[worst]!r}. Leave these rows out with complete_only=True, or fill the cells."
            )
        if n < 2:
            raise ValueError(f"at least 2 complete rows are needed to learn from, got {n}.")


@dataclass(frozen=True)
class MomentsPass:
    """Sums up the rows of partitions. Its fields are plain, so that any engine can send it to its processes."""

    names: tuple[str, ...]
    places: Places

    key: ClassVar[str] = "block"  # sums of one block can be merged by a process of its own
    schema: ClassVar[pa.Schema] = pa.schema(
        {
            "block": pa.int32(),
            "n": pa.int64(),
            "reference": _NUMBERS,
            "offset": _NUMBERS,
            "scatter": _NUMBERS,
            "missing": _NUMBERS,
        }
    )

    def part(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The sums of some record batches of the table."""
        found: dict[int, Moments] = {}
        n_left_out, missing = 0, np.zeros(len(self.names))
        for batch in in_larger_batches(batches):
            rows = rows_of(batch, self.names, self.places, complete_only=True)
            n_left_out, missing = n_left_out + batch.num_rows - len(rows.X), missing + rows.missing
            for k in np.unique(rows.block).tolist():
                part = Moments.of(rows.X[rows.block == k])
                found[k] = found[k].merge(part) if k in found else part
        yield _to_record_batch(found, n_left_out, missing)

    def merge(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The sums of several parts."""
        found, n_left_out, missing = _merged(batches, len(self.names))
        yield _to_record_batch(found, n_left_out, missing)

    def read(self, table: pa.Table) -> GatheredMoments:
        """What the sums of all parts say."""
        return read_moments(table, len(self.names))


def read_moments(table: pa.Table, n_features: int) -> GatheredMoments:
    """Moments of blocks from sums that travelled."""
    found, n_left_out, missing = _merged(table.to_batches(), n_features)
    ids = sorted(found)
    moments = tuple(found[k] for k in ids) or (Moments.of(np.empty((0, n_features))),)
    return GatheredMoments(BlockMoments(moments), np.array(ids, dtype=np.int64), n_left_out, missing)


def _merged(batches: Iterable[Any], n_features: int) -> tuple[dict[int, Moments], int, Floats]:
    found: dict[int, Moments] = {}
    n_left_out, missing = 0, np.zeros(n_features)
    for batch in batches:
        for line in batch.to_pylist():
            if line["block"] == _LEFT_OUT:
                n_left_out, missing = n_left_out + line["n"], missing + np.array(line["missing"])
                continue
            reference, offset, scatter = (np.array(line[name]) for name in ("reference", "offset", "scatter"))
            part = Moments(line["n"], reference, offset, Scatter.of_matrix(scatter.reshape(n_features, n_features)))
            known = found.get(line["block"])
            found[line["block"]] = part if known is None else known.merge(part)
    return found, n_left_out, missing


def _to_record_batch(found: dict[int, Moments], n_left_out: int, missing: Floats) -> pa.RecordBatch:
    lines: list[dict[str, Any]] = [
        {
            "block": k,
            "n": round(moments.n),
            "reference": moments.reference,
            "offset": moments.offset,
            "scatter": moments.scatter.ravel(),
        }
        for k, moments in sorted(found.items())
    ]
    lines.append({"block": _LEFT_OUT, "n": n_left_out, "missing": missing})
    return pa.RecordBatch.from_pylist(lines, schema=MomentsPass.schema)
