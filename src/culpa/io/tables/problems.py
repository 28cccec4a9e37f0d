"""Everything that is wrong with a table, in one go, with the options that solve it."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from culpa.io.tables.table import Column, Source, TableError

LEAST_COLUMNS = 2  # of numbers, to learn from
_MOST_TEXTS = 5  # different texts among the numbers of a column; with more of them it is a column of text
_MOST_ROWS = 5_000_000  # rows looked at


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
    problems = []
    for name in names:
        column = columns[name]
        if column.kind == "number" or column.row is not None:  # texts among numbers are found with the cells
            continue
        what = {"text": "text", "time": "times"}.get(column.kind, "something other than numbers")
        example = "" if column.example is None else f", for example {_short(str(column.example))}"
        problems.append(Problem(f"column {name!r} contains {what}{example}", ("--drop", name), name))
    return problems


def wrong_cells(source: Source, names: Sequence[str]) -> list[Problem]:
    """Texts among numbers, numbers that are too large, and rows with too few or too many cells."""
    files = [file for file in source.files() if file.kind in ("csv", "excel") and file.again]
    return [problem for file in files for problem in _of_cells(file, names)]


def _of_cells(table: Any, names: Sequence[str]) -> list[Problem]:
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
    if numbers is not None and not (abs(numbers) > 1e100).any():
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
    return abs(float(plain)) > 1e100


def _of_column(name: str, found: Mapping[str, tuple[int, int]]) -> list[Problem]:
    if len(found) > _MOST_TEXTS:
        text, (_, row) = next(iter(found.items()))
        more = f"{len(found):,} different texts, first {_short(text)} in row {row}"
        return [Problem(f"column {name!r} contains {more}", ("--drop", name), name)]
    return [
        Problem(
            f"column {name!r} contains {_short(text)} {'once' if n == 1 else f'{n:,} times'}, first in row {row}",
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


def _short(text: str) -> str:
    shown = repr(re.sub(r"\s+", " ", text))
    return shown if len(shown) <= 40 else shown[:37] + "...'"


def all_problems(source: Source, names: Sequence[str], others: Sequence[Problem] = ()) -> list[Problem]:
    """Those known already, and those in the cells of some columns. None if the table cannot be read to its end.

    Dropping columns is no solution where fewer than two would be left.
    """
    try:
        problems = [*others, *wrong_cells(source, names)]
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
