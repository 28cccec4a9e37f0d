"""Tables for people: aligned and rounded, what to act on first, in colour where a terminal shows it."""

import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer

from culpa._core.words import cut
from culpa.cli.console import plain

_TITLES = {
    "feature": "culprit",
    "score_if_fixed": "if fixed",
    "score_if_changed": "if changed",
    "change_to": "change to",
    "p_value": "p-value",
    "anomaly": "",
    "n_flagged": "rows",
}
# what only programs need, beside culprits, and of incidents
_HIDDEN = {
    "feature": ("limit", "rank", "value", "suspicion", "std_error", "exact"),
    "sentence": (
        *("sentence", "peak", "first", "last", "limit", "p_value", "score", "probability", "share", "expected_sd"),
        *("deviation", "against", "instead", "culprits", "moved_most", "to_fix", "score_if_fixed", "mode"),
    ),
    "score": ("limit",),
}
_LEGEND = (
    "share: part of the score that is due to the culprit. expected: what the others imply. if fixed: score with the "
    "culprit at its expected value; a tick means that the alarm is cleared."
)
_NUMBER = re.compile(r"[-+✓]?\s?[\d.,]")
_NARROWEST = 12  # columns of a text that is cut to fit the terminal


def number(value: float, digits: int = 4) -> str:
    """A number rounded for people.

    >>> number(0.123456), number(1234567.8), number(12.0), number(0.0), number(1e-7), number(float("nan"))
    ('0.1235', '1,234,568', '12.00', '0', '1.000e-07', '')
    """
    if math.isnan(value):
        return ""
    return f"{value:,.0f}" if not value or 10**digits <= abs(value) < 1e12 else f"{value:#.{digits}g}".rstrip(".")


def width_of(stream: Any = None) -> int:
    """The columns of the terminal; a file or a pipe has no width of its own."""
    return shutil.get_terminal_size().columns if (stream or sys.stdout).isatty() else 140


def sheet(
    headers: Sequence[str],
    lines: Iterable[Sequence[str]],
    *,
    title: str = "",
    caption: str = "",
    strong: Iterable[int] = (),
    spare: Iterable[int] = (),
) -> str:
    """A table of texts. Columns of numbers are aligned right, lines in ``strong`` are bold.

    Where the terminal is narrow, columns in ``spare`` are left out, and then long texts are cut.
    """
    cells = [[plain(cell) for cell in line] for line in lines]
    for k in sorted(spare, reverse=True):
        if sum(2 + max(map(len, column)) for column in zip(headers, *cells, strict=True)) > width_of() + 2:
            headers, cells = [*headers[:k], *headers[k + 1 :]], [[*line[:k], *line[k + 1 :]] for line in cells]
    right = [all(_NUMBER.match(line[k]) for line in cells if line[k]) for k in range(len(headers))]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    texts = [k for k, is_number in enumerate(right) if not is_number]
    while sum(widths) + 2 * len(widths) > width_of() + 2 and any(widths[k] > _NARROWEST for k in texts):
        widths[max(texts, key=widths.__getitem__)] -= 1
    rows = [[cut(cell, width) for cell, width in zip(line, widths, strict=True)] for line in (headers, *cells)]
    aligned = [
        "  ".join(
            f"{cell:>{w}}" if r else f"{cell:<{w}}" for cell, w, r in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in rows
    ]
    bold = {k + 1 for k in strong}
    body = [_styled(row, "1") if k in bold else row for k, row in enumerate(aligned)]
    above, below = ([_styled(title, "1")] if title else []), textwrap.wrap(caption, width_of())
    return "\n".join([*above, _styled(body[0], "2"), *body[1:], *(_styled(line, "2") for line in below)])


def say(text: str) -> None:
    """Paragraphs, wrapped to the width of the terminal; indented lines stay as they are."""
    for line in text.split("\n"):
        kept = line.startswith(" ") or not sys.stdout.isatty()
        typer.echo(line if kept else "\n".join(textwrap.wrap(line, width_of(), break_on_hyphens=False)))


def _styled(text: str, code: str) -> str:
    shown = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return f"\x1b[{code}m{text}\x1b[0m" if shown and text else text


class Screen:
    """A sink that prints a table, a part of it for each batch."""

    def __init__(self) -> None:
        self.labels: Sequence[str] = ()  # columns of the user's own, which come first and may have any name
        self._blames = False

    def write(self, columns: Mapping[str, Any]) -> None:
        """Print some rows of the table."""
        cells = {name: _as_list(column) for name, column in columns.items()}
        labels = {name: cells.pop(name) for name in self.labels}
        cells = {name.rstrip("_"): column for name, column in cells.items()}  # labels may have taken their names
        self._blames |= "score_if_fixed" in cells and "feature" in cells
        kind = next((name for name in _HIDDEN if name in cells), "")
        if "sentence" in cells:
            cells["end"] = [_later(*pair) for pair in zip(cells["start"], cells["end"], strict=True)]
            cells["status"] = ["" if status == "over" else status for status in cells["status"]]  # nearly all are
            cells = {name: cells[name] for name in dict.fromkeys(("start", "end", "culprit", *cells))}
        limits = cells.get("limit", [math.nan] * len(next(iter(cells.values()))))
        begins = [rank == 1 for rank in cells.get("rank", [1] * len(limits))]  # a row, which may have several lines
        shown = [
            (name, [_label(cell) * begin for cell, begin in zip(column, begins, strict=True)])
            for name, column in labels.items()
        ] + [
            (_TITLES.get(name, name), [_cell(name, *each) for each in zip(column, limits, begins, strict=True)])
            for name, column in cells.items()
            if name not in _HIDDEN.get(kind, ())
        ]
        used = [(title, column) for title, column in shown if any(column)]
        strong = [k for k, begin in enumerate(begins) if begin and not all(begins)]
        if limits:
            titles, texts = [title for title, _ in used], zip(*(column for _, column in used), strict=True)
            typer.echo(sheet(titles, list(texts), strong=strong))

    def finish(self) -> None:
        """Say how to read the table."""
        if self._blames:
            typer.echo("\n".join(_styled(line, "2") for line in textwrap.wrap(_LEGEND, width_of())))


def _later(start: object, end: object) -> object:
    """The end of a period, without the date if that is the same."""
    return str(end)[11:] if len(str(end)) > 11 and str(start)[:11] == str(end)[:11] else end


def _as_list(column: Any) -> list[Any]:
    return list(column.to_pylist() if hasattr(column, "to_pylist") else getattr(column, "tolist", lambda: column)())


def _label(cell: object) -> str:
    """A cell of the user's own, as it is."""
    return "" if cell is None or cell != cell else str(cell)


def _cell(name: str, cell: Any, limit: float, begins: bool) -> str:
    if cell is None or (
        not begins and name not in ("feature", "member", "share", "actual", "expected", "score_if_fixed")
    ):
        return ""
    if isinstance(cell, bool):
        return ("flagged" if name == "anomaly" else "yes") * cell
    if not isinstance(cell, float):
        return str(cell)
    if name == "share":
        return f"{cell:.0%}"
    cleared = name == "score_if_fixed" and cell <= limit
    return "✓ " * cleared + number(cell, 2 if name == "p_value" else 4)
