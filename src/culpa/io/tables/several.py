"""Several files as one table, one after the other."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Any

from culpa.io.tables.table import Batch, Column, Source, Stage, TableError


def expand(texts: Sequence[str]) -> list[Path | None]:
    """The files that are meant by paths and patterns such as ``line3/*.parquet``; ``None`` for a dash.

    The files of a pattern are sorted by name, and numbers in names by their value.
    """
    paths: list[Path | None] = []
    for text in texts:
        if text == "-":
            paths.append(None)
        elif re.search(r"[*?\[]", text) and not Path(text).exists():
            found = sorted(glob(text, recursive=True), key=_natural)
            if not found:
                raise TableError(f"{text}: no file matches this pattern.")
            paths += map(Path, found)
        else:
            paths.append(Path(text))
    if None in paths and len(paths) > 1:
        raise TableError("standard input cannot be combined with files.")
    return paths


def _natural(name: str) -> list[tuple[int, int | str]]:
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name)]


class SeveralTables(Stage):
    """Tables with the same columns as one table; rows are numbered on. What is not said here is that of the first."""

    time = None

    def __init__(self, sources: Sequence[Source]) -> None:
        super().__init__(sources[0])
        self.sources = list(sources)
        self.name = f"{sources[0].name} and {len(sources) - 1} more"
        self.again = all(source.again for source in sources)
        self._at = 0

    @property
    def decisions(self) -> list[str]:
        """Those about the first file, and where others differ."""
        first = self.sources[0].decisions
        others = [
            f"{source.name}: {', '.join(source.decisions)}" for source in self.sources[1:] if source.decisions != first
        ]
        return [*first, *others[:3]]

    @property
    def missing_found(self) -> Counter[str]:
        """Of all files."""
        return sum((source.missing_found for source in self.sources), Counter[str]())

    @property
    def units(self) -> Mapping[str, str]:
        """Of the first file that names a unit."""
        return {name: unit for source in reversed(self.sources) for name, unit in source.units.items()}

    @property
    def skipped(self) -> int:
        """In all files."""
        return sum(source.skipped for source in self.sources)

    def columns(self) -> Mapping[str, Column]:
        """Those of the first file; a column is numeric if it is so in all files that have it."""
        columns = dict(self.sources[0].columns())
        for source in self.sources[1:]:
            others = source.columns()
            for name, column in columns.items():
                if column.kind == "number" and others.get(name, column).kind != "number":
                    columns[name] = others[name]
        return columns

    def files(self) -> Sequence[Source]:
        """All files."""
        return [file for source in self.sources for file in source.files()]

    def look(self, name: str) -> list[Any]:
        """The first cells of all files that have the column."""
        return [cell for source in self.sources if name in source.columns() for cell in source.look(name)]

    def batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        """The rows of all files."""
        done = 0
        for at, source in enumerate(self.sources):
            self._at, used, last = at, 0, -1
            for batch in source.batches(features, carried):
                last = int(batch.rows[-1]) if len(batch.rows) else last
                yield replace(batch, rows=batch.rows + done, begins=at > 0 and not used)
                used += len(batch.rows)
            done += max(last + 1, used + source.skipped)  # rows that were skipped at its end count, too

    def share(self) -> float | None:
        """Files read of all files."""
        share = self.sources[self._at].share()
        return None if share is None else (self._at + share) / len(self.sources)
