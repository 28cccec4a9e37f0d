"""Small words and numbers for the page, and what the user calls rows."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.words import cut
from culpa.monitoring import digits
from culpa.monitoring.when import LONGEST_LABEL
from culpa.plots.content import RowAxis
from culpa.plots.text import are_days, moment, row_label

Label = str | int | float
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


def in_sd(deviation: float) -> str:
    """A distance in standard deviations, with the digits that sentences have, and its side.

    >>> in_sd(-2.345), in_sd(18.4), in_sd(1e5)
    ('2.3 sd below', '18 sd above', 'more than 1,000 sd above')
    """
    return f"{digits.in_sd(deviation)} {'below' if deviation < 0 else 'above'}"


class Labels:
    """What the user calls the rows, as plain texts and numbers, and where they lie on the chart."""

    def __init__(self, axis: RowAxis) -> None:
        self.axis, self._daily = axis, are_days(axis.labels)

    def text(self, position: int) -> Label:
        """The label of a row as text."""
        label, clocks = _plain(self.axis.labels[position], daily=self._daily), self.axis.clocks
        return label if clocks is None else f"{label}{clocks[position]}"

    def texts(self, positions: NDArray[Any]) -> list[Label] | None:
        """Labels of rows, or ``None`` where they are where the rows lie anyway."""
        return None if self.axis.labelled else [self.text(position) for position in positions]

    def places(self, positions: NDArray[Any]) -> list[Label] | None:
        """Where rows lie on the chart, or ``None`` where that is `rows`."""
        if (not self.axis.labelled or self._are_positions) and self.rows(positions) == positions.tolist():
            return None
        return [_plain(self.axis.x[position], daily=self._daily) for position in positions]

    def rows(self, positions: Any) -> list[int]:
        """Positions of rows in the user's files, of which some rows may have been left out."""
        places = self.axis.places
        return [int(k if places is None else places[k]) for k in positions]

    def row(self, position: int) -> int:
        """Position of a row in the user's files."""
        return self.rows([position])[0]

    @property
    def _are_positions(self) -> bool:
        x = self.axis.x
        return x.dtype.kind in "iu" and bool((x == np.arange(len(x))).all())


def place(x: Any) -> Label:
    """A place on the chart's axis as JSON has it."""
    return moment(x) if isinstance(x, np.datetime64) else _plain(x)


def _plain(label: Any, *, daily: bool = True) -> Label:
    if isinstance(label, (np.datetime64, np.timedelta64)):
        return row_label(label, daily=daily)
    if isinstance(label, np.generic):
        label = label.item()
    return label if isinstance(label, (int, float)) and label == label else cut(str(label), LONGEST_LABEL)
