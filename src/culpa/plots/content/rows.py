"""Where rows lie along an axis: at their times, at their numbers, or one after the other."""

from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.monitoring.times import clocks_of

Positions = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class RowAxis:
    """Rows along an axis.

    ``x`` is where they lie: their labels where these are increasing times or numbers, else their positions: ``places`` in
    the user's files, of which some rows may have been left out, or 0, 1, 2, ... ``clocks`` tell equal labels apart, where
    clocks showed a time twice.
    """

    labels: NDArray[Any]
    x: NDArray[Any]
    places: NDArray[Any] | None = None
    clocks: NDArray[Any] | None = None

    @classmethod
    def of(cls, labels: Any) -> "RowAxis":
        """From row labels or times, one per row.

        >>> RowAxis.of(np.array(["2024-03-01", "2024-03-02"], dtype="datetime64[D]")).in_time
        True
        """
        labels, clocks = wall_clock(np.asarray(labels)), clocks_of(_zoned(labels))
        if labels.dtype.kind == "M":
            coarse = labels.astype("datetime64[us]")  # half a day must be possible
            labels = coarse if ((labels == coarse) | np.isnat(labels)).all() else labels
        return cls(labels, labels if _increasing(labels) else np.arange(len(labels)), clocks=clocks)

    @classmethod
    def of_table(cls, labels: Any) -> "RowAxis":
        """From the labels of a table's rows: whole numbers with holes, as filtering leaves them, are names, not places.

        >>> RowAxis.of_table([3, 5, 9]).x, RowAxis.of_table([3, 4, 5]).x
        (array([0, 1, 2]), array([3, 4, 5]))
        """
        axis = cls.of(labels)
        steps = np.diff(axis.x) if axis.x.dtype.kind in "iu" else np.zeros(0)
        return replace(axis, x=np.arange(len(axis))) if len(set(steps.tolist())) > 1 else axis

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def in_time(self) -> bool:
        """Whether rows lie at their times."""
        return self.x.dtype.kind == "M"

    @property
    def labelled(self) -> bool:
        """Whether ``x`` are the labels themselves."""
        return self.x is self.labels

    @property
    def named(self) -> bool:
        """Whether rows lie one after the other and have names: labels that are no whole numbers."""
        return not self.labelled and self.labels.dtype.kind not in "iu"

    def span(self, first: int = 0, last: int = -1) -> tuple[Any, Any]:
        """Ends of the stretch that rows ``first`` to ``last``, both included, own together.

        A row owns the axis half way to its neighbours, or half the usual way where a neighbour is far.
        """
        return self.x[first] - self._reach[0][first], self.x[last] + self._reach[1][last]

    @cached_property
    def _reach(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """How far each row reaches to either side."""
        steps = np.diff(self.x)
        if not len(steps):
            alone = np.array([np.timedelta64(24 * 3600 * 10**6, "us") if self.in_time else 1.0])
            return alone / 2, alone / 2
        usual = np.sort(steps)[len(steps) // 2]
        steps = np.minimum(steps, usual)
        return np.concatenate([[usual], steps]) / 2, np.concatenate([steps, [usual]]) / 2


def thin(values: Floats, keep: NDArray[np.bool_], max_points: int = 4000) -> Positions:
    """Positions of points that draw the same line: highest and lowest of each stretch, gaps, and all of ``keep``.

    >>> values = np.zeros(100_000); values[7777] = 5.0
    >>> chosen = thin(values, np.zeros(100_000, dtype=bool))
    >>> len(chosen) <= 4002, 7777 in chosen
    (True, True)
    """
    n = len(values)
    if n <= max_points:
        return np.arange(n)
    width = -(-n // max(max_points // 2, 1))
    starts = np.arange(0, n, width)
    padded = np.full(len(starts) * width, np.nan)
    padded[:n] = values
    stretches = padded.reshape(len(starts), width)
    missing = np.isnan(stretches)
    highest = starts + np.where(missing, -np.inf, stretches).argmax(axis=1)
    lowest = starts + np.where(missing, np.inf, stretches).argmin(axis=1)
    gaps = (starts + missing.argmax(axis=1))[missing.any(axis=1)]
    ends = np.array([0, n - 1])
    chosen = np.concatenate([highest, lowest, gaps, ends, np.flatnonzero(keep)])
    return np.unique(chosen[chosen < n])


def wall_clock(labels: NDArray[Any]) -> NDArray[Any]:
    """Times with a zone, which NumPy holds as objects, as the clock on the wall showed them; other labels unchanged.

    >>> from datetime import datetime, timezone
    >>> wall_clock(np.array([datetime(2024, 3, 1, 12, tzinfo=timezone.utc)])).astype("datetime64[h]")
    array(['2024-03-01T12'], dtype='datetime64[h]')
    """
    zoned = _zoned(labels)
    return labels if zoned is None else np.asarray(zoned.tz_localize(None).to_numpy())


def _zoned(labels: Any) -> Any:
    """Times as an index that knows their zone, if they have one; ``None`` for other labels."""
    if hasattr(labels, "asi8"):
        return labels
    cells = np.asarray(labels)
    if cells.dtype != object or not len(cells) or not all(isinstance(label, date) for label in cells):
        return None
    import pandas as pd

    try:
        return pd.DatetimeIndex(cells)
    except (TypeError, ValueError):  # several zones in one column
        return None


def _increasing(labels: NDArray[Any]) -> bool:
    # comparisons with NaN and with "not a time" are false
    return labels.dtype.kind in "iufM" and bool((labels[1:] > labels[:-1]).all()) and bool((labels == labels).all())
