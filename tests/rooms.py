"""The picture of the rooms at the top of the architecture page, drawn from the code.

``python tests/rooms.py`` draws it anew: a row for each layer of imports, a box for each room, as wide as its code is
long. A test compares it with the code.
"""

import ast
import importlib.util
import re
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "culpa"
PICTURE = ROOT / "docs" / "figures" / "rooms.svg"
_WIDTH, _ROW, _LEFT, _GAP = 980, 44, 46, 8
_PER_LINE = 0.088  # pixels
_LEAST = 150
_COLOURS = {  # what the rooms are about, from the user's files down to arrays
    "for people": ("#fdebd3", "cli report spark mlflow paper plots jobs io"),
    "detectors": ("#dcebf7", "calibration datasets detecting fitting monitoring fitted"),
    "explanations": ("#ddf0e3", "explaining shapley ranking scores games"),
    "ground": ("#ececf2", "models columns _kernels _core"),
}


def layers():
    """Rooms by layer, the highest first, as the contract of imports lists them."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contract = tomllib.load(file)["tool"]["importlinter"]["contracts"][0]
    return [[name.strip().removeprefix("culpa.") for name in layer.split("|")] for layer in contract["layers"]]


def sizes():
    """Lines of code of each room."""
    spec = importlib.util.spec_from_file_location("count_lines", ROOT / ".ci" / "count_lines.py")
    count_lines = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(count_lines)
    return {
        room: sum(count_lines.lines_of_code(path.read_text(encoding="utf-8")) for path in files(room))
        for layer in layers()
        for room in layer
    }


def files(room):
    """The modules of a room."""
    folder = SOURCE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def users():
    """How many other rooms import each room."""
    found = {room: set() for layer in layers() for room in layer}
    for room in found:
        for path in files(room):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
                if isinstance(node, ast.ImportFrom):
                    names = [f"{node.module}.{name}" for name in names]
                for name in names:
                    used = name.split(".")[1] if name.startswith("culpa.") else ""
                    if used in found and used != room:
                        found[used].add(room)
    return {room: len(others) for room, others in found.items()}


def drawn():
    """The picture, as SVG."""
    size, used, rows = sizes(), users(), layers()
    colour = {room: tint for tint, rooms in _COLOURS.values() for room in rooms.split()}
    height = _ROW * len(rows) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif">',
        "<title>The rooms of culpa, by layer of imports</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for k, rooms in enumerate(rows):
        y, x = _ROW * k + 6, _LEFT
        parts.append(f'<text x="14" y="{y + 23}" font-size="13" fill="#777">{k + 1}</text>')
        for room in rooms:
            width = max(_LEAST, round(size[room] * _PER_LINE))
            lines = f"{round(size[room], -2) or 100:,} lines, used by {used[room]}"
            parts += [
                f'<g data-room="{escape(room)}" data-layer="{k + 1}" data-lines="{size[room]}" data-users="{used[room]}">',
                f'<rect x="{x}" y="{y}" width="{width}" height="{_ROW - 10}" rx="5" fill="{colour[room]}" stroke="#999"/>',
                f'<text x="{x + 9}" y="{y + 15}" font-size="13" font-weight="bold" fill="#222">{escape(room)}</text>',
                f'<text x="{x + 9}" y="{y + 28}" font-size="10.5" fill="#555">{lines}</text>',
                "</g>",
            ]
            x += width + _GAP
    parts.append(
        f'<text x="{_LEFT}" y="{height - 14}" font-size="12" fill="#555">A room imports only from rows below. '
        "Width: lines of code. &quot;Used by&quot;: how many other rooms import it.</text>"
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


def in_picture():
    """Layer, lines and users of each room in the picture that is kept."""
    found = re.findall(
        r'data-room="(\w+)" data-layer="(\d+)" data-lines="(\d+)" data-users="(\d+)"', PICTURE.read_text()
    )
    return {room: tuple(map(int, numbers)) for room, *numbers in found}


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
