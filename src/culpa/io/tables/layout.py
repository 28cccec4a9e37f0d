"""Where the rows of a sheet begin and what its columns are called: lines above the header, several header rows, units."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from culpa.columns.units import is_unit
from culpa.io.reading import Options
from culpa.io.tables.table import TableError
from culpa.io.tables.times import is_time, readings

Cells = Sequence[str]
_MOST_ABOVE = 30  # lines above the header
_MOST_HEADERS = 5


@dataclass(frozen=True)
class Layout:
    """Names and units of the columns, and how many lines come before the first row.

    ``doubtful`` means that the header looks like a row.
    """

    names: list[str]
    skip: int
    header_rows: int = 1
    units: dict[str, str] = field(default_factory=dict)
    doubtful: bool = False


def find(
    table: str,
    lines: Sequence[Cells],
    is_number: Callable[[str], bool],
    is_missing: Callable[[str], bool],
    options: Options,
) -> Layout:
    """The layout of a sheet, from its first lines. Blank lines must have been removed; errors name the table."""
    names, header_rows, width = options.names, options.header_rows, _width(lines)
    above = _lines_above(lines, width)
    lines = lines[above:]
    if header_rows is None:
        header_rows = 0 if names else _count_headers(lines, is_number, is_missing)
    head = [_padded(cells, width) for cells in lines[:header_rows]]
    if header_rows and not head:
        raise TableError(f"{table}: there is no header.")
    units = head.pop() if len(head) > 1 and _are_units(head[-1]) else []
    called = [_clean(name) for name in names] or (_joined(head) if head else [f"c{i + 1}" for i in range(width)])
    if len(called) != width:
        raise TableError(f"{table}: --names has {len(called)} names, but the table has {width} columns.")
    _check_widths(table, lines, header_rows, width)
    doubtful = options.header_rows is None and header_rows == 1 and _like_a_row(head[0], is_number, is_missing)
    found = {name: _bare(unit) for name, unit in zip(called, units, strict=False) if _bare(unit)}
    return Layout(called, above + header_rows, header_rows, found, doubtful)


def _check_widths(table: str, lines: Sequence[Cells], header_rows: int, width: int) -> None:
    """Refuse rows with more or fewer cells than the header: nobody knows which names belong to which cells.

    Empty cells at the end do not matter; some programs write a delimiter after the last cell.
    """
    head, rows = lines[:header_rows], lines[header_rows:]
    if not head:
        return
    named, filled = max(map(len, head)), max(_filled(cells) for cells in head)
    if filled > width or (named < width and any(_filled(cells) > named for cells in rows)):
        raise TableError(
            f"{table}: the header has {max(named, filled)} cells, but most rows have {width}. Correct the header, or name "
            "all columns with --names and --header-rows."
        )


def _filled(cells: Cells) -> int:
    """The number of cells up to the last one that is not empty."""
    return max((position for position, cell in enumerate(cells, 1) if cell.strip()), default=0)


def in_words(layout: Layout, given: int | None) -> list[str]:
    """What was decided about lines above the rows, unless it was given."""
    above = layout.skip - layout.header_rows
    words = [f"{above} line{'s' * (above > 1)} above the header skipped"] if above else []
    if layout.header_rows > 1 and given is None:
        what = "one of names and one of units" if layout.units and layout.header_rows == 2 else "joined"
        words.append(f"{layout.header_rows} header rows, {what}")
    return words


def _width(lines: Sequence[Cells]) -> int:
    """The number of cells that most lines have."""
    counts: dict[int, int] = {}
    for cells in lines:
        counts[len(cells)] = counts.get(len(cells), 0) + 1
    return max(counts, key=lambda width: (counts[width], width)) if counts else 0


def _lines_above(lines: Sequence[Cells], width: int) -> int:
    """Titles and comments before the header: lines with a single cell above lines with several."""
    if width < 2:
        return 0
    count = 0
    while count < min(_MOST_ABOVE, len(lines) - 1) and sum(bool(cell.strip()) for cell in lines[count]) < 2:
        count += 1
    return count if count < min(_MOST_ABOVE, len(lines) - 1) else 0


def _count_headers(lines: Sequence[Cells], is_number: Callable[[str], bool], is_missing: Callable[[str], bool]) -> int:
    """1, or more where text stands above columns of numbers in the lines that follow as well."""
    filled = [[cell.strip() for cell in cells] for cells in lines[:60]]
    count = 1
    while count < min(_MOST_HEADERS, len(filled) - 1):
        below = max(count + 1, min(_MOST_HEADERS, len(filled) - 1))  # where no header can be
        columns = _number_columns(filled[below:], is_number, is_missing)
        line = filled[count]
        texts = [line[j] for j in columns if j < len(line) and line[j] and not is_missing(line[j])]
        if not texts or any(is_number(cell) or readings([cell]) for cell in line if cell):
            break
        if len(line) < len(filled[0]) and not _are_units([cell for cell in line if cell not in "-–"]):
            break  # rather a row that was torn apart
        if not (_are_units(line) or not all(filled[0]) or len({*texts}) == len(texts) > 1):
            break  # rather a row whose cells all say that they are bad
        count += 1
    return count


def _number_columns(
    lines: Sequence[Cells], is_number: Callable[[str], bool], is_missing: Callable[[str], bool]
) -> list[int]:
    """Columns in which most of the cells that are there are numbers."""
    columns = []
    for j in range(max(map(len, lines), default=0)):
        cells = [line[j] for line in lines if j < len(line) and line[j] and not is_missing(line[j])]
        if cells and sum(map(is_number, cells)) > len(cells) / 2:
            columns.append(j)
    return columns


def _joined(head: Sequence[Cells]) -> list[str]:
    """One name per column. An empty cell of an upper row takes the text to its left, as merged cells are written."""
    rows = [list(cells) for cells in head]
    for row, below in pairwise(rows):
        for j in range(1, len(row)):
            if not row[j].strip() and below[j].strip() and row[j - 1].strip():
                row[j] = row[j - 1]
    return [
        _clean(" ".join(dict.fromkeys(_clean(row[j]) for row in rows if row[j].strip()))) for j in range(len(rows[0]))
    ]


def _clean(text: str) -> str:
    """A name on one line."""
    return re.sub(r"\s+", " ", text).strip() if re.search(r"[\r\n\x0b\x0c]", text) else text


def _padded(cells: Cells, width: int) -> list[str]:
    return [*cells, *[""] * (width - len(cells))][:width]


def _bare(unit: str) -> str:
    """A unit without brackets; nothing where there is none."""
    bare = re.sub(r"^[\[(](.*)[\])]$", r"\1", unit.strip()).strip()
    return "" if bare in ("-", "–", "1") else bare


def _are_units(cells: Cells) -> bool:
    """Whether most of a line are units: symbols that are known, or texts in brackets."""
    texts = [cell.strip() for cell in cells if cell.strip()]
    hits = sum(is_unit(_bare(text)) or bool(re.fullmatch(r"[\[(].*[\])]|[-–]", text)) for text in texts)
    return bool(texts) and hits > len(texts) / 2


def _like_a_row(cells: Cells, is_number: Callable[[str], bool], is_missing: Callable[[str], bool]) -> bool:
    """Whether names look like cells: numbers, times and words for missing cells, or a time and a number among others.

    They may be 0, 1, 2 and so on, which programs write where there are no names.
    """
    texts = [cell.strip() for cell in cells if cell.strip() and not is_missing(cell.strip())]
    numbers, times = sum(map(is_number, texts)), sum(map(is_time, texts))
    if not numbers or (numbers < len(texts) and not times):
        return False
    counted = [[str(start + i) for i in range(len(texts))] for start in (0, 1)]
    return texts not in counted
