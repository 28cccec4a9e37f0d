"""What a table is to the rest: named columns of a few kinds, and batches of numbers; and cells before they are read."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats, Mask
from culpa.io.reading import TableError as TableError


class JsonCells(list[Any]):
    """Values from NDJSON that pass through untouched; formats with types take them as texts, whatever comes first."""


Carried = Any  # an Arrow array, or a list, of NDJSON

LARGEST = 1e100  # larger cells are broken rather than measured, and their squares would overflow


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
    """Some rows: their positions in the table (from 0), their features as numbers (NaN is missing), the rest as it was.

    ``times`` reads the times of the rows, or of those at some positions, where their column is known; ``clocks`` are these
    times on local clocks, where the carried cells do not show them. Rows were left out before those in ``cut``, ``begins``
    says that the first row is that of another file, and ``missing`` counts the rows that are missing before each row,
    where somebody has looked (`culpa.jobs.following`). ``spelling`` is how carried texts write
    numbers, where that is known.
    """

    rows: NDArray[np.int64]
    X: Floats
    carried: Mapping[str, Carried] = field(default_factory=dict)
    times: Callable[..., Any] | None = None
    clocks: Any = None
    cut: Mask | None = None
    begins: bool = False
    missing: Floats | None = None
    spelling: Any = None

    def some(self, keep: Mask) -> "Batch":
        """Some of the rows. What is known beside the cells is left to those who choose."""
        at = np.flatnonzero(keep)
        carried = {name: take(cells, at) for name, cells in self.carried.items()}
        clocks = None if self.clocks is None else self.clocks[at]
        return replace(self, rows=self.rows[at], X=self.X[at], carried=carried, times=None, clocks=clocks)


def take(cells: Carried, at: Any) -> Carried:
    """Some cells of a carried column, by their positions."""
    if isinstance(cells, list):
        return type(cells)(cells[k] for k in at)
    import pyarrow as pa

    in_order = len(at) == len(cells) and bool((np.diff(at) > 0).all())
    return cells if in_order else cells.take(pa.array(at, pa.int64()))


class Source(Protocol):
    """A table that can be read in batches."""

    name: str
    kind: str  # the format, such as "csv"
    again: bool  # whether it can be read more than once
    live: bool  # whether rows come one by one and are to be answered at once

    def columns(self) -> Mapping[str, Column]:
        """The columns, in the order of the table."""

    def files(self) -> "Sequence[Source]":
        """The tables in files behind this one; itself, if it is one."""

    def look(self, name: str) -> list[Any]:
        """The first cells of a column, without missing ones."""

    def batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        """All rows; a column that is not there or not numeric is a `TableError`."""

    def share(self) -> float | None:
        """How much of the table has been read, if that can be known."""

    @property
    def time(self) -> str | None:
        """The column of times, if the format of the table settles it."""

    @property
    def hints(self) -> Mapping[str, str]:
        """Decisions that later tables of the same kind may need."""

    @property
    def decisions(self) -> list[str]:
        """How the table is read, where that was not given."""

    @property
    def missing_found(self) -> Counter[str]:
        """Texts of missing cells that say more than NA, as far as the table has been read."""

    @property
    def units(self) -> Mapping[str, str]:
        """Units of columns that the table names apart from them."""

    @property
    def skipped(self) -> int:
        """Rows that could not be used and were reported."""


class FileTable:
    """What tables in a single file, or on standard input for the path ``None``, have in common."""

    kind = ""
    time = None
    live = False
    units: Mapping[str, str] = MappingProxyType({})
    hints: Mapping[str, str] = MappingProxyType({})

    def __init__(self, path: Path | None) -> None:
        self.path, self.again = path, path is not None
        self.name = "standard input" if path is None else str(path)
        self.decisions: list[str] = []
        self.missing_found: Counter[str] = Counter()

    def files(self) -> Sequence[Any]:
        """The single file that the table is."""
        return [self]


class Stage:
    """A table made of another one. What it does not change is that of the table within."""

    def __init__(self, inner: Source) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not yet there in a copy
            raise AttributeError(name)
        return getattr(self.inner, name)


class Wanted(NamedTuple):
    """Columns to read from some rows, by position: numbers, and others as they are.

    Numbers come as texts if a cell is something else. ``odd`` columns are known to have such cells, and ``coded`` ones may
    be dictionaries.
    """

    numbers: Sequence[int] = ()
    texts: Sequence[int] = ()
    odd: Collection[int] = ()
    coded: Collection[int] = ()


class Block(Protocol):
    """Some rows. ``n`` and ``ragged`` are known after reading: rows, and places of others with their number of cells."""

    ragged: list[tuple[int, int]]

    @property
    def n(self) -> int:
        """Number of rows."""

    def read(self, wanted: Wanted, spelling: Any) -> tuple[list[Any], list[Any]]:
        """Columns of numbers, and columns as they are."""

    def marked(self, columns: Sequence[int], most: int, spelling: Any) -> list[list[str]]:
        """Texts of columns with a mark that may be part of a number."""


class Cells(Protocol):
    """The cells of a table, which are not yet interpreted."""

    kind: str
    nulls: Sequence[str]  # texts that mean no more than an empty cell
    typed: bool  # whether numbers and times are not texts
    path: Path | None
    live: bool
    delimiter: str
    decisions: list[str]

    def head(self, *, whole: bool = False) -> list[list[Any]]:
        """The cells of the first rows that are not blank, or with ``whole`` of more of them to learn marks from."""

    def about(self, names: Sequence[str]) -> list[str]:
        """What else is to be said about columns."""

    def sample(self, width: int, skip: int) -> Block:
        """Cells of the first rows."""

    def blocks(self, width: int, skip: int) -> Iterator[Block]:
        """Cells of all rows, block by block."""

    def share(self) -> float | None:
        """How much has been read, if that can be known."""


def as_text(cell: Any) -> str:
    """A cell as a table writes it."""
    return "" if cell is None else repr(cell) if isinstance(cell, float) else str(cell)
