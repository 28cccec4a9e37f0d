"""Numbers as JSON has them."""

import math
from collections.abc import Iterable
from typing import Any

Number = float | None


def number(value: Any, digits: int | None = None) -> Number:
    """A float, to so many significant digits; ``None`` for what is no finite number.

    >>> number(1 / 3), number(1234.5678, 6), number(float("nan"))
    (0.3333333333333333, 1234.57, None)
    """
    value = float(value)
    if not math.isfinite(value):
        return None
    return value if digits is None else float(f"{value:.{digits}g}")


def numbers(values: Iterable[Any], digits: int | None = None) -> list[Number]:
    """A list of such numbers."""
    return [number(value, digits) for value in values]
