"""What a table may be that has too few columns of numbers: a long table, or no table at all."""

import csv
import io
import re
import shlex
from collections.abc import Mapping, Sequence

from culpa.io.tables.problems import LEAST_COLUMNS, Problem, usable
from culpa.io.tables.qualities import Judge
from culpa.io.tables.table import Column, Source, TableError

_SHOWN = 3  # problems in one sentence
_MOST_TAGS = 0.5  # different tags per line
_TAGS = r"tag|tags|tag ?names?|point|sensor|signal|variable|item|channel|kanal|messstelle|name|measurement|metric"
_VALUES = r"value|val|wert|messwert|reading"
_QUALITIES = r"quality|qualit(?:ä|ae)t|status|state|flag|good|qc|q"


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
