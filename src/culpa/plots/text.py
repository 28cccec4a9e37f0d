"""Names and numbers as pictures show them: short, on one line, distinguishable."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa.plots.content.rows import RowAxis, wall_clock
from culpa.scores.following import FOLLOWING

TITLES = {
    "spe": "SPE",
    "mse": "MSE",
    "t2": "T²",
    "mahalanobis": "Mahalanobis distance²",
    "combined": "combined index",
    "nll": "negative log-likelihood",
    FOLLOWING: "score / limit that follows",
}


def number(value: float | str, digits: int = 3) -> str:
    """A number with few digits, without an exponent unless it is huge or tiny; a text as it is, if it is short.

    >>> [number(value) for value in (1234.56, 0.5, -12.3456, 1e9, 2e-7, float("nan"))]
    ['1,235', '0.5', '−12.3', '1e+09', '2e−07', '–']
    """
    if isinstance(value, str):
        return shorten(value, 12)
    if np.isnan(value):
        return "–"
    if value and not 1e-4 <= abs(value) < 1e6:
        text = f"{value:.{digits}g}"
    elif abs(value) >= 10**digits:
        text = f"{value:,.0f}"
    else:
        text = f"{float(f'{value:.{digits}g}'):,}".removesuffix(".0")
    return text.replace("-", "−")


def shorten(name: str, width: int = 28) -> str:
    """A name on one line, its middle left out where it is long.

    >>> shorten("temperature of the upper bearing, drive end")
    'temperature of…ng, drive end'
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    if len(line) <= width:
        return line or "(no name)"
    head = width // 2
    return f"{line[:head]}…{line[len(line) - (width - head - 1) :]}"


def shorten_all(names: Iterable[str], width: int = 28) -> list[str]:
    """Short names that stay different.

    >>> shorten_all(["a" * 40, "a" * 41, "b"], width=9)
    ['aaaa…aaaa (1)', 'aaaa…aaaa (2)', 'b']
    """
    short = [shorten(name, width) for name in names]
    counts, seen = Counter(short), Counter[str]()
    for place, name in enumerate(short):
        if counts[name] > 1:
            seen[name] += 1
            short[place] = f"{name} ({seen[name]})"
    return short


def are_days(labels: NDArray[Any]) -> bool:
    """Whether labels are days, so that the time of day need not be shown; also true if they are not times."""
    labels = wall_clock(labels)
    return labels.dtype.kind != "M" or bool((np.isnat(labels) | (labels == labels.astype("datetime64[D]"))).all())


def moment(time: np.datetime64) -> str:
    """A time with all the digits that it has, at least to the minute.

    >>> moment(np.datetime64("2024-03-01", "ns")), moment(np.datetime64("2024-03-01T12:30:00.000001", "ns"))
    ('2024-03-01T00:00', '2024-03-01T12:30:00.000001')
    """
    text = str(np.datetime_as_string(time, unit="auto"))
    return text if "T" in text else f"{text}T00:00"


def row_label(label: Any, *, daily: bool = True) -> str:
    """What the user calls a row; times without the parts that are zero, midnight only where rows are ``daily``.

    >>> [row_label(np.datetime64(time, "ns")) for time in ("2024-03-01T12:30:00", "2024-03-01")]
    ['2024-03-01 12:30', '2024-03-01']
    >>> row_label(np.datetime64("2024-03-01"), daily=False), row_label(np.timedelta64(90, "m")), row_label(7)
    ('2024-03-01 00:00', '01:30:00', '7')
    """
    axis = RowAxis.of([label])
    label = axis.labels[0]
    if isinstance(label, np.datetime64):
        if np.isnat(label):
            return "no time"
        day, _, clock = moment(label).partition("T")
        told = "" if axis.clocks is None else axis.clocks[0]
        return day if daily and clock == "00:00" and not told else f"{day} {clock}{told}"
    if isinstance(label, np.timedelta64):
        import pandas as pd

        return str(pd.Timedelta(label)).removeprefix("0 days ")
    return shorten(str(label))
