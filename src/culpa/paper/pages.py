"""Write Markdown pages from templates: tables, numbers in the paper's style, and paragraphs of at most 120 columns."""

import re
import textwrap
from collections.abc import Collection, Iterator, Sequence
from typing import Any

_WIDTH = 120


def render(template: str, values: dict[str, Any]) -> str:
    """The page that a Jinja template makes of values, with its paragraphs wrapped."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": number, "percent": percent}
    environment.globals["table"] = table
    text = environment.from_string(template).render(values)
    return "\n\n".join(map(_wrapped, _blocks(text))) + "\n"


def number(value: float | None, digits: int = 3) -> str:
    """A number in the paper's style, such as .316, or a dash for ``None``."""
    if value is None:
        return "-"
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def percent(share: float | None, digits: int = 1) -> str:
    """A share in percent, or a dash for ``None``."""
    return "-" if share is None else f"{share:.{digits}%}"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], strong: Collection[int] = ()) -> str:
    """A table in Markdown; ``strong`` has the positions of lines in bold."""
    lines = [columns, ["---"] * len(columns)]
    lines += [[f"**{cell}**" for cell in row] if k in strong else row for k, row in enumerate(rows)]
    # a bar would end the cell
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs, lists, tables and headings, and code between fences as a whole."""
    for piece in re.split(r"^(```.*?^```)$", text, flags=re.MULTILINE | re.DOTALL):
        if piece.startswith("```"):
            yield piece
        else:
            yield from (block for block in re.split(r"\n{2,}", piece.strip("\n")) if block)


def _wrapped(block: str) -> str:
    """Wrap a paragraph or a list; leave tables, headings, pictures and code alone."""
    if block.startswith(("|", "#", "!", "    ", "```")):
        return block
    items = re.split(r"\n(?=- )", block)
    hang = "  " if block.startswith("- ") else ""
    return "\n".join(
        textwrap.fill(
            " ".join(item.split()), _WIDTH, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False
        )
        for item in items
    )
