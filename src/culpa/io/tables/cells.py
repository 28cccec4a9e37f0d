"""What a table of cells is before anybody knows what the cells mean: CSV, and sheets."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from culpa.io.tables.numbers import Spelling


class Block(Protocol):
    """Some rows. ``n`` and ``ragged`` are known after reading: rows, and places of others with their number of cells."""

    ragged: list[tuple[int, int]]

    @property
    def n(self) -> int:
        """Number of rows."""

    def read(
        self,
        numbers: Sequence[int],
        texts: Sequence[int],
        spelling: Spelling,
        odd: Collection[int] = (),
        coded: Collection[int] = (),
    ) -> tuple[list[Any], list[Any]]:
        """Columns of numbers, and columns as they are. Numbers come as texts if a cell is something else.

        ``odd`` columns are known to have such cells, and ``coded`` ones may be dictionaries.
        """

    def marked(self, columns: Sequence[int], most: int, spelling: Spelling) -> list[list[str]]:
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
        """The first rows."""

    def blocks(self, width: int, skip: int) -> Iterator[Block]:
        """All rows."""

    def share(self) -> float | None:
        """How much has been read, if that can be known."""


def as_text(cell: Any) -> str:
    """A cell as a table writes it."""
    return "" if cell is None else repr(cell) if isinstance(cell, float) else str(cell)
