"""Numbers that may stand for missing cells, such as -9999, noticed while the rows of a table go by.

Such a number stands alone at one end of its column. There is a gap between it and the other cells, and the gap is much
wider than the range of the other cells. Standard deviations would not help, because the number itself makes them large. Nor
would distances alone: a lognormal column has far outliers, too, but there are other cells in between.

The gap before the outermost value must be wider than the range of the other cells, times this factor:

| outermost value | factor |
| --- | --- |
| 99, 999, 9999.9 and similar numbers of either sign, or a limit of an integer type (65535) | 1 |
| occurs three times or more, but not in most rows | 10 |
| otherwise | 50 |

If a column has two values, such as 0 and 1, the other cells have no range, and only the first line counts. In the first
line the gap must also be wider than half of the neighbouring value.

In rows that are judged by a model, only numbers of the first line are reported, if they are far from the training rows.
In rows that a fitted detector learns from, all lines count, if the number is also far from the earlier rows.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from culpa._core.json_values import as_typed
from culpa._core.types import Floats
from culpa._core.validation import Table
from culpa.models import Moments
from culpa.models.scatter import Scatter

_CODE, _REPEATED, _LONE = 1.0, 10.0, 50.0  # widths
_OFTEN = 3
_MOST = 3  # sentences
_FAR = 20.0  # standard deviations, in rows to be judged
_ROUNDING = 1e-9  # width, relative to the cells, that is no width
_CANCELLED = 1e-10  # share of a variance below which what is left after subtraction is rounding
_ENDS = {2.0**15 - 1, -(2.0**15), 2.0**16 - 1, 2.0**31 - 1, -(2.0**31), 2.0**32 - 1, 2.0**63, -(2.0**63), 2.0**64}


@dataclass(frozen=True)
class Advice:
    """What to do about a number that may stand for missing cells: a sentence, and the remedy if it is a fault."""

    missing: Callable[[str], str]
    trim: str = ""

    def about(self, number: str) -> str:
        """All sentences about suspicious values."""
        return f"{self.missing(number)} If it is a fault, {self.trim}." if self.trim else self.missing(number)


IN_PYTHON = Advice(
    lambda number: "If it means a missing cell, replace it by NaN.", "leave out such rows with the parameter trim"
)
COMPLETE_ROWS = Advice(lambda number: "If it means a missing cell or is a fault, leave out such rows.")


@dataclass(frozen=True)
class FillValue:
    """A number that stands alone in its column: how often and where first, and between which the other cells lie."""

    column: int
    value: float
    count: int
    first: int
    low: float
    high: float
    widths: float  # its distance from the nearest other cell, in widths of the other cells


class Ends:
    """Outermost values of every column on both sides, how often and where first they occur, and the values next to them.

    Arrays are (2, columns): the lower end, with its sign changed so that larger is further out, and the upper end.
    """

    def __init__(self, n_columns: int) -> None:
        self.value, self.next = np.full((2, 2, n_columns), -np.inf)
        self.count, self.first = np.zeros((2, 2, n_columns), dtype=np.int64)

    def add(self, rows: NDArray[np.int64], X: Floats) -> None:
        """Look at some rows, numbered ``rows``; NaN is missing."""
        if not len(X):
            return
        outermost = np.stack([-np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)])
        for side, column in np.argwhere(outermost > self.next):  # rarely any, once many rows have been seen
            cells = X[:, column] if side else -X[:, column]
            self._look(rows, cells, float(outermost[side, column]), (side, column))

    def _look(self, rows: NDArray[np.int64], cells: Floats, outermost: float, at: tuple[int, int]) -> None:
        if outermost < self.value[at]:
            self.next[at] = outermost
            return
        here = cells == outermost
        if outermost > self.value[at]:
            self.next[at] = self.value[at]
            self.value[at], self.count[at], self.first[at] = outermost, 0, rows[here.argmax()]
        count = np.count_nonzero(here)
        self.count[at] += count
        if np.count_nonzero(cells > self.next[at]) > count:  # which a switch spends no time on, batch after batch
            self.next[at] = np.where(cells < outermost, cells, -np.inf).max()

    def alone(self, n_cells: int | NDArray[np.int64]) -> list[FillValue]:
        """Values that stand alone, furthest first; ``n_cells`` are not missing in a column."""
        often = (self.count >= _OFTEN) & (2 * self.count <= n_cells)
        needed = np.where(often, _REPEATED, np.where(2 * self.count > n_cells, np.inf, _LONE))
        found = [value for column in range(len(needed[0])) for value in self._alone(column, needed[:, column])]
        return sorted(found, key=lambda value: -value.widths)

    def _alone(self, column: int, needed: Floats) -> list[FillValue]:
        value, next = self.value[:, column], self.next[:, column]
        if not np.isfinite(next).all():  # not even two values
            return []
        actual = (0.0 - float(value[0]), float(value[1]))  # 0.0, not -0.0
        coded = [is_code(number) for number in actual]
        needed = np.where(coded, _CODE, needed)
        gap, others = value - next, next.sum()  # of two values there are no others: this is below 0
        found = []
        for side, other in ((0, 1), (1, 0)):
            # an isolated value at the other end does not belong to the range of the other cells
            between = _width(others, next[other], coded=coded[other])
            end = next[other] if others >= 0 and gap[other] > needed[other] * between else value[other]
            width = _width(next[side] + end, next[side], coded=coded[side])
            if gap[side] > needed[side] * width:
                low, high = (-end, next[1]) if side else (-next[0], end)
                count, first = int(self.count[side, column]), int(self.first[side, column])
                widths = float(gap[side] / width) if width else math.inf
                found.append(FillValue(column, actual[side], count, first, 0.0 + low, 0.0 + high, widths))
        return found if others >= 0 else sorted(found, key=lambda value: value.count)[:1]


def _width(width: float, nearest: float, *, coded: bool) -> float:
    """The width that a gap is compared with; beside a code it is also their size that counts: 99 may precede 100."""
    if coded:
        return max(width, abs(nearest) / 2)
    return width if width > _ROUNDING * abs(nearest) else math.inf


def is_code(number: float) -> bool:
    """Whether a number looks like one that people and machines write if there is no measurement.

    >>> [is_code(number) for number in (-9999.0, float(np.float32(999.9)), 99.0, 65535.0, 9.0, 99.99, 1000.0)]
    [True, True, True, True, False, False, False]
    """
    if 99 < abs(number) < 100:  # a valve or a level close to 100%
        return False
    digits = (f"{abs(number):.15g}", f"{abs(number):.7g}")  # of 64 and of 32 bits
    return number in _ENDS or (abs(number) >= 99 and any(set(text) <= {"9", "."} for text in digits))


class Codes:
    """Numbers like -9999 in rows to be judged, far from where the model has seen the column.

    As in training, the gap must also be more than half the numbers at its other side: 99 may precede 100.
    """

    def __init__(self, mean: Floats, std: Floats) -> None:
        gap = np.maximum(_FAR * std, np.abs(mean) / 2)
        self.low, self.high = mean - gap, mean + gap
        self.found: dict[int, dict[float, tuple[int, int]]] = {}  # by column and number: how often, and where first
        self.moments: dict[int, str] = {}  # times of some rows, which messages name instead of the rows

    def first_rows(self) -> set[int]:
        """The rows in which numbers were found first."""
        return {first for known in self.found.values() for _, first in known.values()}

    def add(self, rows: NDArray[np.int64], X: Floats) -> None:
        """Look at some rows, numbered ``rows``; NaN is missing."""
        far = (self.low > X) | (self.high < X)
        for column in np.flatnonzero(far.any(axis=0)):
            here = np.flatnonzero(far[:, column])
            here = here[_may_be_code(X[here, column])]
            for value, first, count in zip(
                *np.unique(X[here, column], return_index=True, return_counts=True), strict=True
            ):
                if is_code(value):
                    known = self.found.setdefault(int(column), {})
                    before, place = known.get(float(value), (0, int(rows[here[first]])))
                    known[float(value)] = before + int(count), place

    def sentences(
        self, names: Sequence[str], table: str, advice: Callable[[str], str] = IN_PYTHON.missing
    ) -> list[str]:
        """Warnings about the columns with most of them; ``advice`` is what to do about a number."""
        worst = [(max(known.items(), key=lambda item: item[1][0]), column) for column, known in self.found.items()]
        worst.sort(key=lambda item: -item[0][1][0])
        told = [
            f"{table}: column {names[column]!r} contains {as_typed(value)} {_times(*where, self.moments)}, far from the "
            f"training rows. "
            f"{advice(as_typed(value))}"
            for (value, where), column in worst[:_MOST]
        ]
        return told + _and_more(len(worst) - _MOST, table)


class CodesLearned(Codes):
    """The same in rows to learn from, beside numbers that stand alone in these rows."""

    def __init__(self, earlier: Moments, n_columns: int) -> None:
        std = np.sqrt(earlier.about_mean.diagonal[:n_columns] / max(earlier.n - 1, 1.0))
        super().__init__(earlier.mean[:n_columns], std)
        self.ends, self.n_rows = Ends(n_columns), 0

    def add(self, rows: NDArray[np.int64], X: Floats) -> None:
        """Look at some complete rows, numbered ``rows``."""
        super().add(rows, X)
        self.ends.add(rows, X)
        self.n_rows += len(X)

    def sentences(
        self, names: Sequence[str], table: str, advice: Callable[[str], str] = IN_PYTHON.missing
    ) -> list[str]:
        """Warnings about the columns with most of them."""
        for alone in self.ends.alone(self.n_rows):
            if not self.low[alone.column] <= alone.value <= self.high[alone.column]:
                self.found.setdefault(alone.column, {})[alone.value] = alone.count, alone.first
        return super().sentences(names, table, advice)


def _may_be_code(numbers: Floats) -> NDArray[np.bool_]:
    """Whether `is_code` is worth asking: just below a power of ten, or an end of an integer type."""
    size = np.abs(numbers)
    nearly = size / 10 ** np.ceil(np.log10(np.maximum(size, 1.0))) > 0.98
    return np.asarray(nearly | np.isin(numbers, list(_ENDS)))


def sentences(
    found: Sequence[FillValue],
    names: Sequence[str],
    table: str,
    column_moments: Callable[[int], Moments],
    advice: Advice = IN_PYTHON,
) -> list[str]:
    """Warnings about the worst columns; ``column_moments`` returns the moments of all cells of a column."""
    columns = list(dict.fromkeys(value.column for value in found))
    told = []
    for column in columns[:_MOST]:
        here = [value for value in found if value.column == column]
        whole = column_moments(column)
        rest = whole.without(reduce(Moments.merge, [_repeated(value.value, value.count) for value in here]))
        told += [_sentence(value, names[column], table, _distance(value, rest, whole), advice) for value in here]
    return told + _and_more(len(columns) - _MOST, table)


def about_table(table: Table, advice: Advice = IN_PYTHON) -> list[str]:
    """`sentences` about a table in memory."""
    ends, observed, cells = Ends(table.array.shape[1]), ~np.isnan(table.array), table.array.T
    ends.add(np.arange(len(table.array)), table.array)
    alone = ends.alone(observed.sum(axis=0))
    return sentences(alone, table.feature_names(), "X", lambda j: Moments.of(cells[j, observed[:, j]][:, None]), advice)


def _and_more(columns: int, table: str) -> list[str]:
    if columns <= 0:
        return []
    return [f"{table}: {columns:,} more column{'s' * (columns > 1)} contain{'s' * (columns == 1)} such numbers."]


def _times(count: int, first: int, moments: Mapping[int, str] = MappingProxyType({})) -> str:
    place = f"at {moments[first]}" if first in moments else f"in row {first}"
    return place if count == 1 else f"{count:,} times, first {place}"


def _sentence(value: FillValue, name: str, table: str, distance: str, advice: Advice) -> str:
    spread = f", which are between {value.low:.6g} and {value.high:.6g}"
    others = f"{distance}{spread}" if distance else f"; its other cells are all {value.low:.6g}"
    number, times = as_typed(value.value), _times(value.count, value.first)
    return f"{table}: column {name!r} contains {number} {times}{others}. {advice.about(number)}"


def _distance(value: FillValue, rest: Moments, whole: Moments) -> str:
    """How far away a number is, in standard deviations of the other cells; nothing if these are all the same."""
    if value.low == value.high:
        return ""
    if rest.scatter[0, 0] > _CANCELLED * whole.scatter[0, 0]:
        exactly, deviations = "", abs(value.value - rest.mean[0]) / np.sqrt(rest.covariance[0, 0])
    else:  # the number is so large that its square drowned theirs; but they vary by half their width at most
        exactly, deviations = "more than ", 2 * value.widths
    told = f"{deviations:,.0f}" if deviations < 1e6 else f"{deviations:.1g}"
    return f", {exactly}{told} standard deviations from the mean of the other cells"


def _repeated(value: float, count: int) -> Moments:
    return Moments(count, np.array([value]), np.zeros(1), Scatter.of_matrix(np.zeros((1, 1))))
