"""Small pieces of HTML for notebooks. Every text is escaped, and styles are inline, so nothing leaks into the page."""

import math
from collections.abc import Iterable, Sequence
from html import escape

RAISES, LOWERS = "#d55e00", "#0072b2"  # as in all pictures
_CELL = "padding:.2em .7em;text-align:{align};vertical-align:top;{more}"
_LINE = "border-top:1px solid rgba(128,128,128,.35);"


class Markup(str):
    """HTML that is safe already: `text` leaves it as it is."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Any value as text in a page."""
    return value if isinstance(value, Markup) else Markup(escape(_shown(value)))


def _shown(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    return "" if value is None else str(value)


def bar(part: float, colour: str = RAISES) -> Markup:
    """A bar whose length is a share of the cell."""
    width = 100 * min(max(part if part == part else 0.0, 0.0), 1.0)
    return Markup(
        '<div style="width:8em;height:1em"><div style="height:100%;border-radius:2px;'
        f'background:{colour};width:{width:.1f}%"></div></div>'
    )


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, new: Sequence[bool] = ()) -> Markup:
    """A table; numbers are aligned right. ``new`` says which rows start with a line above them; all, if left out."""
    lines = []
    for at, row in enumerate(rows):
        line = _LINE if not new or new[at] else ""
        lines.append("<tr>" + "".join(_cell("td", cell, line) for cell in row) + "</tr>")
    head = "".join(_cell("th", header, "") for header in headers)
    return Markup(
        '<table style="border-collapse:collapse;font-size:90%;margin:.3em 0">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )


def _cell(tag: str, value: object, line: str) -> str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    style = _CELL.format(align="right" if number else "left", more=line)
    return f'<{tag} style="{style}">{text(value)}</{tag}>'


def block(title: str, *parts: str) -> str:
    """A title and what it is about."""
    inner = "".join(parts)
    return f'<div style="max-width:60em"><div><strong>{text(title)}</strong></div>{inner}</div>'


def note(words: str) -> Markup:
    """A remark below a table."""
    return Markup(f'<div style="font-size:85%;opacity:.75">{text(words)}</div>' if words else "")


def frame(page: str, title: str, height: int = 640) -> str:
    """A whole page inside a notebook; it cannot reach the notebook around it."""
    return (
        f'<iframe title="{escape(title)}" sandbox="allow-scripts allow-popups allow-downloads" '
        f'style="width:100%;height:{height}px;border:1px solid rgba(128,128,128,.35)" srcdoc="{escape(page)}"></iframe>'
    )
