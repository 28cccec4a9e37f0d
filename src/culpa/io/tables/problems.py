"""What is wrong with a table: everything in one go, with the options that solve it, or that it is another kind of table."""

import csv
import io
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from culpa.io.tables.qualities import Judge
from culpa.io.tables.table import LARGEST, Column, Source, TableError

LEAST_COLUMNS = 2  # of numbers, to learn from
_MOST_TEXTS = 5  # different texts among the numbers of a column; with more of them it is a column of text
_MOST_ROWS = 5_000_000  # rows looked at
_SHOWN = 3  # problems in one sentence
_MOST_TAGS = 0.5  # different tags per line
_TAGS = r"tag|tags|tag ?names?|point|sensor|signal|variable|item|channel|kanal|messstelle|name|measurement|metric"
_VALUES = r"value|val|wert|messwert|reading"
_QUALITIES = r"quality|qualit(?:ä|ae)t|status|state|flag|good|qc|q"


@dataclass(frozen=True)
class Problem:
    """What is wrong, and the options that solve it, if any do."""

    text: str
    options: tuple[str, ...] = ()
    dropped: str | None = None  # a column that cannot be used
    spoils: bool = False  # whether nothing of the table can be used


class TableProblems(TableError):
    """Several problems of a table at once."""

    def __init__(self, table: str, problems: Sequence[Problem]) -> None:
        self.table, self.problems = table, list(problems)
        listed = "; ".join(problem.text for problem in problems)
        advice = shlex.join(self._options(may_drop=True))
        super().__init__(f"{table} has {len(problems)} problems: {listed}." + (f" Add {advice}." if advice else ""))

    def command(self, words: Sequence[str]) -> str | None:
        """The command line that solves the problems, from the words of the one that met them."""
        added = self._options(may_drop=bool(words) and words[0] in ("fit", "calibrate"))
        return shlex.join(["culpa", *words, *added]) if added else None

    def _options(self, *, may_drop: bool) -> list[str]:
        """The options of all problems, each once."""
        each = dict.fromkeys(
            problem.options for problem in self.problems if may_drop or "--drop" not in problem.options
        )
        return [word for options in each for word in options]


def wrong_columns(columns: Mapping[str, Column], names: Sequence[str]) -> list[Problem]:
    """Columns that do not hold numbers."""
    return [
        Problem(f"column {name!r} contains {holds(columns[name])}", ("--drop", name), name)
        for name in names
        if not _is_numeric(columns[name])  # texts among numbers are found with the cells
    ]


def holds(column: Column) -> str:
    """What a column holds that has no numbers."""
    what = {"text": "text", "time": "times"}.get(column.kind, "something other than numbers")
    return what + ("" if column.example is None else f", for example {short(column.example)}")


def _of_cells(table: Any, names: Sequence[str]) -> list[Problem]:
    """Texts among numbers, numbers that are too large, and rows with too few or too many cells."""
    known = [name for name in dict.fromkeys(names) if table.names.count(name) == 1]
    bad: dict[str, dict[str, tuple[int, int]]] = {name: {} for name in known}  # text: number of cells, first row
    n_rows = 0
    for rows, cells in table.cells(known):
        n_rows += len(rows)
        for name, array in cells.items():
            _gather(bad[name], array, rows, table, flags=name in table.flags)
        if len(rows) and rows[-1] > _MOST_ROWS:
            break
    problems = [problem for name in known for problem in _of_column(name, bad[name])]
    return problems + _ragged(table, n_rows + len(table.ragged))


def _gather(found: dict[str, tuple[int, int]], array: Any, rows: Any, table: Any, *, flags: bool) -> None:
    import pyarrow.compute as pc

    if str(array.type) != "string":
        return  # numbers already
    numbers = table.spelling.read(array, flags=flags)
    if numbers is not None and not (abs(numbers) > LARGEST).any():
        return
    for item in pc.value_counts(array).to_pylist():
        text = item["values"]
        if text and (table.spelling.is_bad(text, flags=flags) or _is_huge(text, table)):
            before = found.get(text)
            row = int(rows[pc.index(array, text).as_py()]) if before is None else before[1]
            found[text] = (item["counts"] + (0 if before is None else before[0]), row)


def _is_huge(text: str, table: Any) -> bool:
    if table.missing.has(text.strip()) or not table.spelling.is_number(text):
        return False
    plain = text.strip().replace(table.thousands or "\0", "").replace(table.decimal, ".")
    return abs(float(plain)) > LARGEST


def _of_column(name: str, found: Mapping[str, tuple[int, int]]) -> list[Problem]:
    if len(found) > _MOST_TEXTS:
        text, (_, row) = next(iter(found.items()))
        more = f"{len(found):,} different texts, first {short(text)} in row {row}"
        return [Problem(f"column {name!r} contains {more}", ("--drop", name), name)]
    return [
        Problem(
            f"column {name!r} contains {short(text)} {'once' if n == 1 else f'{n:,} times'}, first in row {row}",
            ("--missing", text.strip()),
        )
        for text, (n, row) in found.items()
    ]


def _ragged(table: Any, n_rows: int) -> list[Problem]:
    """Rows with another number of cells; skipping most of the rows is no solution."""
    rows = table.ragged
    most = len(rows) > n_rows / 2
    if not rows or (table.options.skip_ragged and not most):
        return []
    n = f"{len(rows):,}{f' of {n_rows:,}' * most} rows have" if len(rows) > 1 else "1 row has"
    first = f"first row {rows[0][0]} ({rows[0][1]} instead of {len(table.names)})"
    text = f"{n} another number of cells than the header, {first}"
    return [Problem(text, () if most else ("--skip-ragged",), spoils=most)]


def short(cell: Any) -> str:
    """A cell in quotes, on one line."""
    shown = repr(re.sub(r"\s+", " ", str(cell)))
    return shown if len(shown) <= 40 else shown[:37] + "...'"


def all_problems(source: Source, names: Sequence[str], others: Sequence[Problem] = ()) -> list[Problem]:
    """Those known already, and those in the cells of some columns. None if the table cannot be read to its end.

    Dropping columns is no solution where fewer than two would be left.
    """
    try:
        files = [file for file in source.files() if file.kind in ("csv", "excel") and file.again]
        problems = [*others, *(problem for file in files for problem in _of_cells(file, names))]
    except TableError:
        return []
    if len(usable(names, problems)) >= LEAST_COLUMNS:
        return problems
    return [replace(problem, options=()) if "--drop" in problem.options else problem for problem in problems]


def usable(names: Sequence[str], problems: Sequence[Problem]) -> list[str]:
    """Columns that none of the problems is about to drop."""
    dropped = {problem.dropped for problem in problems}
    return [name for name in names if name not in dropped]


def explained(error: TableError, source: Source, names: Sequence[str]) -> TableError:
    """An error with all other problems of its table, if there are several."""
    problems = all_problems(source, names)
    return TableProblems(source.name, problems) if len(problems) > 1 else error


def as_long(source: Source, columns: Mapping[str, Column]) -> TableError | None:
    """The error of a long table that is read as a wide one, if the table looks like one."""
    roles = _roles(source, columns)
    if roles is None:
        return None
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(roles)
    option = f"--long {shlex.quote(text.getvalue())}"
    if not _share_times(source, *roles[:2]):
        option += ", and --every 1min (or another interval) if tags have different times"
    return TableError(
        f"{source.name} looks like a long table, with one reading per line instead of one column per tag. Add {option}."
    )


def as_no_table(table: str, names: Sequence[str], problems: Sequence[Problem]) -> TableError | None:
    """The error of a table with too few columns of numbers, if it is one."""
    left = usable(names, problems)
    spoilt = any(problem.spoils for problem in problems)
    if not problems or (len(left) >= LEAST_COLUMNS and not spoilt):
        return None
    listed = "; ".join(problem.text for problem in sorted(problems, key=lambda problem: not problem.spoils)[:_SHOWN])
    more = len(problems) - _SHOWN
    listed += f"; and {more:,} more problem{'s' * (more > 1)}" if more > 0 else ""
    if not left or spoilt:
        return TableError(
            f"{table} does not look like a table with columns of numbers: {listed}. Check the file and its format "
            "(--input-format, --delimiter)."
        )
    return TableError(
        f"{table}: at least {LEAST_COLUMNS} numeric columns are needed, but only {left[0]!r} is numeric: {listed}."
    )


def _roles(source: Source, columns: Mapping[str, Column]) -> list[str] | None:
    """Columns of tag, time, value and, if there is one, quality."""
    time = source.time
    if time is None:
        return None
    others = [name for name in columns if name != time]
    qualities = [name for name in others if _is_quality(name, source, columns[name])]
    values = [name for name in others if _is_numeric(columns[name]) and name not in qualities]
    named = [name for name in values if _is_called(name, _VALUES)]
    value = (named if len(values) > 1 else values)[:2]
    texts = [name for name in others if columns[name].kind == "text" and name not in (*qualities, *values)]
    tags = sorted((name for name in texts if _repeats(source, name)), key=lambda name: not _is_called(name, _TAGS))
    tag = next((name for name in tags if _is_called(name, _TAGS) or _share_times(source, name, time)), None)
    return None if tag is None or len(value) != 1 else [tag, time, *value, *qualities[:1]]


def _is_called(name: str, words: str) -> bool:
    return re.fullmatch(rf"(.*[\W_])?({words})([\W_].*)?", name.strip(), re.IGNORECASE) is not None


def _is_numeric(column: Column) -> bool:
    return column.kind == "number" or column.row is not None


def _is_quality(name: str, source: Source, column: Column) -> bool:
    """Whether a column holds qualities, by its name or by its texts."""
    if _is_called(name, _QUALITIES):
        return True
    cells = [] if _is_numeric(column) else {str(cell) for cell in source.look(name)}
    judge = Judge(frozenset())
    return bool(cells) and any(map(judge.is_good, cells)) and len(cells) < 10


def _repeats(source: Source, name: str) -> bool:
    """Whether the same few texts come again and again."""
    cells = source.look(name)
    return len({*map(str, cells)}) <= _MOST_TAGS * len(cells)


def _share_times(source: Source, tag: str, time: str) -> bool:
    """Whether several tags have readings at the same times, and no tag has two."""
    tags, times = source.look(tag), source.look(time)
    if len(tags) != len(times) or len({*map(str, tags)}) < LEAST_COLUMNS:
        return False
    n_pairs = len({*zip(map(str, tags), map(str, times), strict=True)})
    return n_pairs > 0.95 * len(tags) and len({*map(str, times)}) < 0.7 * len(tags)
