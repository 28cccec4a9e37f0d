"""What normal rows showed of each column by itself: its range, how long it stands still, where it rests."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats, Mask

Counts = NDArray[np.int64]
_ROUNDING = 1e-9  # of the range
_FEWEST_RESTS = 3  # runs at an end of the range that show that the column rests there

N_FIELDS = 7


@dataclass(frozen=True, eq=False)
class NormalSignals:
    """What normal rows showed of each column, (d,) each.

    ``longest`` is the longest run of equal cells, of ``n_runs`` in ``n_cells``. ``rests_low`` and ``rests_high`` say
    whether the column rests at an end of its range from ``low`` to ``high``.
    """

    low: Floats
    high: Floats
    longest: Floats
    n_runs: Floats
    n_cells: Floats
    rests_low: Mask
    rests_high: Mask

    @classmethod
    def of(cls, X: Floats) -> "NormalSignals":
        """Of normal rows in order; NaN where a cell is missing.

        >>> NormalSignals.of(np.array([[1.0, 5.0], [1.0, 6.0], [2.0, np.nan]])).longest
        array([2., 1.])
        """
        learner = SignalsLearner(X.shape[1])
        learner.add(X)
        return learner.finish()

    def to_array(self) -> Floats:
        """For model files, (7, d)."""
        return np.stack([np.asarray(getattr(self, one.name), dtype=np.float64) for one in fields(self)])

    @classmethod
    def from_array(cls, array: Floats) -> Self:
        """Inverse of `to_array`."""
        return cls(*array[:5], *array[5:].astype(np.bool_))

    @property
    def usual(self) -> Floats:
        """Usual number of cells from one change of a signal to the next."""
        return self.n_cells / np.maximum(self.n_runs, 1)

    def of_columns(self, at: NDArray[np.intp]) -> Self:
        """Of some of the columns."""
        return replace(self, **{one.name: getattr(self, one.name)[at] for one in fields(self)})

    def then(self, later: Self) -> Self:
        """Of later rows as well."""
        low, high = np.minimum(self.low, later.low), np.maximum(self.high, later.high)
        return replace(
            self,
            low=low,
            high=high,
            longest=np.maximum(self.longest, later.longest),
            n_runs=self.n_runs + later.n_runs,
            n_cells=self.n_cells + later.n_cells,
            rests_low=np.any([one.rests_low & (one.low == low) for one in (self, later)], axis=0),
            rests_high=np.any([one.rests_high & (one.high == high) for one in (self, later)], axis=0),
        )

    def moved(self, shift: Floats, stretch: Floats) -> Self:
        """Of the same rows in other units: shift + stretch * cell, with a positive stretch."""
        return replace(self, low=shift + stretch * self.low, high=shift + stretch * self.high)

    def rests_at(self, columns: Counts, values: Floats) -> Mask:
        """Whether columns rest at these values."""
        low, high = self.low[columns], self.high[columns]
        near = _ROUNDING * (high - low)
        at_low, at_high = np.abs(values - low) <= near, np.abs(values - high) <= near
        return np.asarray((self.rests_low[columns] & at_low) | (self.rests_high[columns] & at_high))


class SignalsLearner:
    """Takes normal rows in order, in any number of batches, and learns what `NormalSignals` know."""

    def __init__(self, n_columns: int) -> None:
        self.n_rows, self._columns = 0, [_RunsLearner() for _ in range(n_columns)]

    def add(self, X: Floats) -> None:
        """Take the next rows into account."""
        self.n_rows += len(X)
        for column, x in zip(self._columns, map(np.ascontiguousarray, X.T), strict=True):
            missing = np.isnan(x)
            column.add(x[~missing] if missing.any() else x)

    def watch(self, batches: Iterable[Floats]) -> Iterator[Floats]:
        """Pass on rows that may have past values behind the columns, and look at them."""
        for batch in batches:
            self.add(batch[:, : len(self._columns)])
            yield batch

    def finish(self) -> NormalSignals:
        """What the rows so far showed."""
        return NormalSignals.from_array(np.array([column.learned() for column in self._columns]).T)


class _Learned(NamedTuple):
    """The range of a column, its longest run, the numbers of runs and cells, and whether it rests at each end."""

    low: float
    high: float
    longest: int
    n_runs: int
    n_cells: int
    rests_low: bool
    rests_high: bool


class _RunsLearner:
    """Takes the cells of a column in order, in any number of pieces."""

    def __init__(self) -> None:
        self._longest, self._n_runs, self._n_cells = 0, 0, 0
        self._low = self._high = _End(-np.inf)  # of the range with the sign changed, and of the range
        self._value, self._size = np.nan, 0  # of the run that may go on

    def add(self, x: Floats) -> None:
        """The next cells, of which none is missing.

        >>> learner = _RunsLearner()
        >>> learner.add(np.array([2.0, 1.0, 1.0]))
        >>> learner.add(np.array([1.0, 3.0]))
        >>> learner.learned()
        _Learned(low=1.0, high=3.0, longest=3, n_runs=3, n_cells=5, rests_low=False, rests_high=False)
        """
        if not len(x):
            return
        starts = np.append(0, np.flatnonzero(x[1:] != x[:-1]) + 1)
        values, sizes = x[starts], np.diff(starts, append=len(x))
        if values[0] == self._value:
            sizes[0] += self._size
        elif self._size:
            self._take(np.array([self._value]), np.array([self._size]))
        if len(values) > 1:
            self._take(values[:-1], sizes[:-1])
        self._value, self._size, self._n_cells = float(values[-1]), int(sizes[-1]), self._n_cells + len(x)

    def learned(self) -> _Learned:
        """What the cells so far showed."""
        low, high = self._low, self._high
        if self._size:
            value, size = np.array([self._value]), np.array([self._size])
            low, high = low.then(-value, size), high.then(value, size)
        longest, n_runs = max(self._longest, self._size), self._n_runs + (self._size > 0)
        return _Learned(-low.value, high.value, longest, n_runs, self._n_cells, low.rests, high.rests)

    def _take(self, values: Floats, sizes: Counts) -> None:
        """Take runs of equal values that are over."""
        self._longest, self._n_runs = max(self._longest, int(sizes.max())), self._n_runs + len(sizes)
        self._low, self._high = self._low.then(-values, sizes), self._high.then(values, sizes)


class _End(NamedTuple):
    """The largest value so far, the number of runs at it, and the longest of them."""

    value: float
    n_runs: int = 0
    longest: int = 0

    @property
    def rests(self) -> bool:
        """Whether the column rests there."""
        return self.n_runs >= _FEWEST_RESTS and self.longest > 1

    def then(self, values: Floats, sizes: Counts) -> "_End":
        """The same, after more runs of equal values."""
        top = max(self.value, float(values.max()))
        at, before = np.flatnonzero(values == top), self if top == self.value else _End(top)
        return _End(top, before.n_runs + len(at), int(sizes[at].max(initial=before.longest)))
