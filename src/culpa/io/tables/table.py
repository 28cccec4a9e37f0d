"""What a table is to the rest: named columns of a few kinds, and batches of numbers."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats

Carried = Any  # an Arrow array, or a plain list from NDJSON: values that pass through untouched


LARGEST = 1e100  # larger cells are broken rather than measured, and their squares would overflow


class TableError(ValueError):
    """What is wrong with a table, in one sentence that names file, column and row."""


@dataclass(frozen=True)
class Column:
    """A column before it is read: what it holds ("number", "text", "time" or "other") and one example.

    ``row`` is the example's place if it stands among numbers.
    """

    kind: str
    example: Any = None
    row: int | None = None


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows: their positions in the table (from 0), their features as numbers (NaN is missing), the rest as it was."""

    rows: NDArray[np.int64]
    X: Floats
    carried: Mapping[str, Carried] = field(default_factory=dict)


class Source(Protocol):
    """A table that can be read in batches."""

    name: str
    again: bool  # whether it can be read more than once
    live: bool  # whether rows come one by one and are to be answered at once

    def columns(self) -> Mapping[str, Column]:
        """The columns, in the order of the table."""

    def batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        """All rows; a column that is not there or not numeric is a `TableError`."""

    def share(self) -> float | None:
        """How much of the table has been read, if that can be known."""

    @property
    def skipped(self) -> int:
        """Rows that could not be used and were reported."""


def standard_input() -> BufferedReader:
    """Standard input as bytes."""
    return cast(BufferedReader, sys.stdin.buffer)
