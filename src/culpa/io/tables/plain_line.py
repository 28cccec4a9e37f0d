"""A line of a pipe that holds plain cells and nothing else, read without a parser of tables.

Most lines of a pipe are such, and come alone. A parser of tables takes longer to start than to read them.
"""

import re
from collections.abc import Sequence

import numpy as np

from culpa._core.types import Floats
from culpa.io.tables.table import LARGEST

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")  # what every parser reads as the same number
_NOT_PLAIN = re.compile(rb"[\"\n\r\x0b\x0c]")


def plain_cells(line: bytes, delimiter: bytes, width: int) -> list[bytes] | None:
    """The cells of a single line; ``None`` if it has other than ``width`` cells, or quotes or line breaks in them.

    >>> plain_cells(b"1.5,ok\\r\\n", b",", 2), plain_cells(b'1.5,"ok"\\n', b",", 2)
    ([b'1.5', b'ok'], None)
    """
    body = line.rstrip(b"\r\n")
    if _NOT_PLAIN.search(body):
        return None
    cells = body.split(delimiter)
    return cells if len(cells) == width else None


def plain_numbers(cells: Sequence[bytes]) -> Floats | None:
    """One row of numbers; ``None`` if a cell is anything else than a plain number."""
    if not all(map(_NUMBER.fullmatch, cells)):
        return None
    numbers = np.array([[float(cell) for cell in cells]])
    return numbers if (np.abs(numbers) <= LARGEST).all() else None
