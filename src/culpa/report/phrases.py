"""The verdict in words, and small words and numbers for the page."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from culpa.monitoring.when import LONGEST_LABEL, cut
from culpa.plots.content import RowAxis
from culpa.plots.text import are_days, row_label

MOST_BY_CHANCE = 0.01  # chance of so many flags among normal rows below which they are called too many


def count(n: int, noun: str) -> str:
    """A number and its noun.

    >>> count(1, "row"), count(12345, "row")
    ('1 row', '12,345 rows')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def share(part: float) -> str:
    """A share in percent, to two digits of it or of what is missing to the whole.

    >>> share(0.5), share(0.01234), share(0.00004), share(1.0), share(0.995), share(0.99997)
    ('50%', '1.2%', '0.004%', '100%', '99.5%', '99.997%')
    """
    smaller = float(f"{100 * min(part, 1 - part):.2g}")
    return f"{smaller if part < 0.5 else 100 - smaller:.12g}%"


def is_by_chance(n_rows: int, n_flagged: int, confidence: float) -> bool:
    """Whether that many rows would be above the limit now and then although all are normal."""
    return bool(stats.binom.sf(n_flagged - 1, n_rows, 1 - confidence) > MOST_BY_CHANCE)


def verdict(
    n_rows: int, n_scored: int, n_flagged: int, n_incidents: int, confidence: float, worst: str | None
) -> tuple[str, str]:
    """What to make of the rows, and the mood of it: "calm", "unsure" or "alarm"."""
    limit = f"the {share(confidence)} limit"
    if not n_scored:
        none = "the row has no" if n_rows == 1 else f"none of the {n_rows:,} rows has an"
        return f"No verdict: {none} observed feature.", "unsure"
    scored = " with a score" if n_scored < n_rows else ""
    rows = f"{count(n_scored, 'row')}{scored}"
    usual = n_scored * (1 - confidence)
    chance = (
        f"about {count(max(round(usual), 1), 'row')} would be by chance" if usual >= 0.5 else "none would be by chance"
    )
    if not n_flagged:
        none = f"the row{scored} is not" if n_scored == 1 else f"none of the {rows} is"
        return f"Nothing unusual: {none} above {limit}.", "calm"
    told = f" The worst: {worst}" if worst else ""
    some = f"{n_flagged:,} of {rows} ({share(n_flagged / n_scored)})"
    if n_scored == 1:
        return f"The row{scored} is above {limit}.{told}", "alarm"
    where = f", in {count(n_incidents, 'incident')}" if n_incidents else ""
    if n_flagged > n_scored / 2:
        who = f"Every row{scored} is" if n_flagged == n_scored else f"Most rows, {some}, are"
        return (
            f"{who} above {limit}{where}: these data as a whole are not what the "
            f"model learned. Check columns, units and operating point before looking for single culprits.{told}",
            "alarm",
        )
    are = "is" if n_flagged == 1 else "are"
    if is_by_chance(n_scored, n_flagged, confidence):
        return f"Hardly unusual: {some} {are} above {limit}{where}; {chance}.{told}", "unsure"
    return f"{some} {are} above {limit}{where}; {chance}.{told}", "alarm"


class Labels:
    """What the user calls the rows, as plain texts and numbers, and where they lie on the chart."""

    def __init__(self, axis: RowAxis) -> None:
        self.axis, self._daily = axis, are_days(axis.labels)

    def text(self, position: int) -> str | int | float:
        """Label of a row."""
        return _plain(self.axis.labels[position], daily=self._daily)

    def texts(self, positions: NDArray[Any]) -> list[str | int | float] | None:
        """Labels of rows, or ``None`` where they are where the rows lie anyway."""
        return None if self.axis.labelled else [self.text(position) for position in positions]

    def places(self, positions: NDArray[Any]) -> list[str | int | float] | None:
        """Where rows lie on the chart, or ``None`` where that is their position in the table."""
        if not self.axis.labelled or self._are_positions:
            return None
        return [_plain(self.axis.x[position], daily=self._daily) for position in positions]

    @property
    def _are_positions(self) -> bool:
        x = self.axis.x
        return x.dtype.kind in "iu" and bool((x == np.arange(len(x))).all())


def place(x: Any) -> str | int | float:
    """A place on the chart's axis as JSON has it."""
    return str(x.astype("datetime64[ms]")) if isinstance(x, np.datetime64) else _plain(x)


def _plain(label: Any, *, daily: bool = True) -> str | int | float:
    if isinstance(label, np.datetime64):
        return row_label(label, daily=daily)
    if isinstance(label, np.timedelta64):
        return str(pd.Timedelta(label)).removeprefix("0 days ")
    if isinstance(label, np.generic):
        label = label.item()
    return label if isinstance(label, (int, float)) and label == label else cut(str(label), LONGEST_LABEL)
