"""NDJSON, one JSON object per line: read as lines arrive, so that a pipe is answered at once.

A line that cannot be used is reported with its number and skipped, or stops the run if asked to be strict.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from culpa.io.reading import Options
from culpa.io.tables.columns import near_miss
from culpa.io.tables.numbers import KNOWN, Missing
from culpa.io.tables.pipe import Pipe
from culpa.io.tables.table import LARGEST, Batch, Column, FileTable, JsonCells, TableError

_CHUNK = 1 << 20  # bytes read at a time; fewer where fewer have arrived
_LONGEST_LINE = 1 << 24
_MOST_SEEN = 2000  # lines looked at to learn what fields hold
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

Line = tuple[int, bytes]


class NdjsonTable(FileTable):
    """An NDJSON file or pipe. With ``sparse``, a field that a line leaves out is a missing cell."""

    kind = "ndjson"
    skipped = 0

    def __init__(self, path: Path | None, options: Options, report: Callable[[str], None], pipe: Pipe | None) -> None:
        super().__init__(path)
        self.options, self.report, self.live = options, report, path is None
        self.missing = Missing((*KNOWN, *options.missing))
        self._file: Any = None
        self._pipe = pipe or (Pipe() if path is None else None)

    @cached_property
    def _first(self) -> list[dict[str, Any]]:
        """Records of the first lines, which say what columns there are."""
        if self._pipe is not None:
            return _records(self._pipe.look(lambda seen: bool(_records(seen)), _LONGEST_LINE)[0])
        found = (_records(b"\n".join(line for _, line in lines)) for lines in self._lines())
        return next(filter(None, found), [])

    def columns(self) -> Mapping[str, Column]:
        """The fields of the first record; what they hold, by their first cells that are not missing."""
        if not self._first:
            raise TableError(
                f"{self.name}: no line is a JSON object. If the table has another format, specify it with --input-format."
            )
        fields = dict.fromkeys(self._first[0])  # null is a missing cell, and no type
        for name in fields:
            cells = (record.get(name) for record in self._first)
            fields[name] = next((cell for cell in cells if cell is not None and not self.missing.has(cell)), None)
        return {name: _column(cell) for name, cell in fields.items()}

    def look(self, name: str) -> list[Any]:
        """The first cells of a field."""
        cells = [record.get(name) for record in self._first]
        return [cell for cell in cells if cell is not None and not self.missing.has(cell)]

    def batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        """All lines that can be used, in as many batches as they arrive."""
        self.skipped, used, row = 0, 0, -1  # blank lines are no rows, and lines that are skipped are
        self.missing_found.clear()
        for lines in self._lines():
            rows, cells, rest, fatal = [], [], [], None
            for number, line in lines:
                row += 1
                try:
                    record = _parse(line)
                    numbers = [self._number(record, name) for name in features]
                    rest.append([self._get(record, name) for name in carried])
                except TableError as error:
                    fatal = self._complain(number, error)
                    if fatal is not None:
                        break
                    continue
                rows.append(row)
                cells.append(numbers)
            used += len(rows)
            if rows:
                X = np.array(cells, dtype=np.float64).reshape(len(rows), len(features))
                values = {name: JsonCells(cells[i] for cells in rest) for i, name in enumerate(carried)}
                yield Batch(np.array(rows), X, values)
            if fatal is not None:  # only now, so that the lines before it are answered
                raise fatal
        if self.skipped and not used:
            raise TableError(
                f"{self.name}: no line could be used. Each line must be a JSON object. If the table has another "
                "format, specify it with --input-format."
            )

    def share(self) -> float | None:
        """Bytes read of all bytes."""
        if self.path is None or self._file is None or self._file.closed:
            return None
        return float(self._file.tell()) / max(1, self.path.stat().st_size)

    def _lines(self) -> Iterator[list[Line]]:
        if self._pipe is not None:
            yield from _split(self._pipe.read1, self.name)
            return
        assert self.path is not None
        with self.path.open("rb") as self._file:
            yield from _split(self._file.read1, self.name)

    def _get(self, record: dict[str, Any], name: str) -> Any:
        if name in record:
            return record[name]
        if self.options.sparse:
            return None
        raise TableError(f"there is no field {name!r}{near_miss(name, list(record))}")

    def _number(self, record: dict[str, Any], name: str) -> float:
        value = record.get(name)
        if type(value) is float and -LARGEST <= value <= LARGEST and not self.missing.numbers:  # as nearly all cells
            return value
        value = self._get(record, name)
        if value is None or self.missing.has(value):
            if value is not None:
                self.missing_found[value if isinstance(value, str) else self.missing.text_of(value)] += 1
            return math.nan
        if not isinstance(value, (int, float)):
            raise TableError(f"field {name!r} contains {json.dumps(value)[:40]}, which is not a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if abs(number) > LARGEST:
            raise TableError(f"field {name!r} is infinite or too large")
        return number

    def _complain(self, number: int, error: TableError) -> TableError | None:
        """Report a line that is skipped, or return the error that stops the run."""
        message = f"{self.name}, line {number}: {str(error).rstrip('.')}"
        if self.options.strict:
            return TableError(f"{message}.")
        self.skipped += 1
        self.report(f"{message}; the line is skipped.")
        return None


def _split(read: Callable[[int], bytes], name: str) -> Iterator[list[Line]]:
    """Lines with their numbers, from 1, in the portions in which they arrive; blank lines are passed over."""
    number, rest = 0, b""
    while chunk := read(_CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            raise TableError(
                f"{name}, line {number + len(whole) + 1}: the line is longer than {_LONGEST_LINE:,} bytes."
            )
        lines = [(number + i, line) for i, line in enumerate(whole, 1) if line.strip()]
        number += len(whole)
        if lines:
            yield lines
    if rest.strip():
        yield [(number + 1, rest)]


def _records(text: bytes) -> list[dict[str, Any]]:
    """The records of the first lines; others are reported when the table is read."""
    records = []
    for line in text.split(b"\n", _MOST_SEEN)[:_MOST_SEEN]:
        with suppress(TableError):
            records.append(_parse(line))
    return records


def _parse(line: bytes) -> dict[str, Any]:
    try:
        text = line.decode("utf-8-sig")
        record = json.loads(text)
        if isinstance(record, dict) and not (line.count(b'":') == len(record) and _has_tight_colons(line)):
            record = json.loads(text, object_pairs_hook=_unrepeated)  # which takes longer
    except UnicodeError:
        raise TableError("not UTF-8 text") from None
    except TableError:
        raise
    except (ValueError, RecursionError):
        raise TableError("not JSON") from None
    if not isinstance(record, dict):
        raise TableError('not a JSON object, as in {"temperature": 21.5}')
    if b"\\u" in line and _SURROGATE.search(line):
        _refuse_halves(record)
    return record


def _has_tight_colons(line: bytes) -> bool:
    return b" :" not in line and b"\t:" not in line and b"\r:" not in line


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a field that it has twice has no certain value."""
    record = dict(pairs)
    if len(record) < len(pairs):
        name = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        raise TableError(f"there are several fields {name!r}")
    return record


def _refuse_halves(record: Mapping[str, Any]) -> None:
    r"""Refuse texts such as "\ud800": half of a pair of codes that would be a character, which no file can hold."""
    for name, value in record.items():
        try:
            name.encode()
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeError:
            shown = name.encode("ascii", "backslashreplace").decode()
            raise TableError(f"field '{shown}' contains a broken character (half of a surrogate pair)") from None


def _column(value: Any) -> Column:
    if value is None or isinstance(value, (int, float)):
        return Column("number")
    return Column("text" if isinstance(value, str) else "other", value)
