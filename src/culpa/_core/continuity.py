"""Which rows follow each other. Whatever remembers earlier rows restarts where rows or times jump."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats, Mask

_JUMP = 1.5  # a step this much longer than usual is a hole: at least one row is missing
_STEPS = 100  # of the latest steps, whose median is the usual one


class Step(NamedTuple):
    """How far apart rows usually are: nanoseconds if ``timed``, else what numbers that label rows differ by."""

    size: float
    timed: bool


@dataclass(frozen=True, eq=False)
class RowOrder:
    """How the rows of a table follow each other.

    ``missing`` counts the rows that are missing right before each row: 0 where it follows the row above, infinity where
    nobody knows. ``cut`` marks rows before which others were left out, and ``places`` are positions in the user's files.
    ``step`` is the usual one, where rows have times.
    """

    missing: Floats
    cut: Mask | None = None
    places: NDArray[np.int64] | None = None
    step: Step | None = None


class Continuity:
    """Counts the missing rows before each row of a table that comes in pieces, by times if there are any, else by places.

    A step in time is a hole if it is more than 1.5 times as long as usual. The usual step is the median of the (at most
    100) steps before, so it does not depend on how the table is cut into pieces. ``usual`` is a step that is known before,
    and ``always`` says that no other one is usual. ``memory`` holds these steps, and the place or time of the row before;
    set it to go on from there.

    >>> import numpy as np
    >>> Continuity().follow(np.arange(5), np.array([0.0, 10.0, 20.0, 50.0, 60.0]))
    array([0., 0., 0., 2., 0.])
    >>> Continuity().follow(np.array([0, 1, 4]))
    array([0., 0., 2.])
    """

    def __init__(self, usual: float | None = None, *, always: bool = False) -> None:
        self._known = usual if always else None
        self.memory: tuple[Floats, Any] = np.array([] if usual is None else [usual]), None

    @property
    def usual(self) -> float | None:
        """The usual step of the latest rows."""
        return _median(self.memory[0])

    def follow(
        self, places: NDArray[Any], times: NDArray[Any] | None = None, cut: Mask | None = None, begins: bool = False
    ) -> Floats:
        """The missing rows before each of the next rows. Times are numbers; NaN is unknown.

        Rows were left out before those in ``cut``, and ``begins`` says that the first row is that of another file.
        """
        if not len(places):
            return np.zeros(0)
        values, (before, last) = places if times is None else times, self.memory
        known = np.concatenate([values[:1] if last is None else [last], values])
        steps = np.diff(known).astype(np.float64)
        self.memory = before, values[-1]
        if times is None:
            missing = np.maximum(steps - 1, 0)
            missing[steps <= 0] = np.inf
        else:
            missing = self._by_times(steps)
        if cut is not None:
            missing[cut] = np.inf
        if begins and times is None:
            missing[0] = np.inf
        if last is None:
            missing[0] = 0.0
        return missing

    def _by_times(self, steps: Floats) -> Floats:
        missing = np.where(steps >= 0, 0.0, np.inf)  # NaN, too
        longer = np.flatnonzero(steps > 0)
        (before, last), new = self.memory, steps[longer]
        known, n = np.concatenate([before, new]), len(before)
        self.memory = known[-_STEPS:], last
        if self._known is not None:
            hole = new > _JUMP * self._known
            missing[longer[hole]] = np.maximum(np.rint(new[hole] / self._known) - 1, 1)
        elif len(new) and new.max() > _JUMP * known.min():
            import pandas as pd

            windows = pd.Series(known).rolling(_STEPS, min_periods=1)
            usual = windows.quantile(0.5, interpolation="lower").shift(1).to_numpy()[n:]
            hole = new > _JUMP * usual
            missing[longer[hole]] = np.maximum(np.rint(new[hole] / usual[hole]) - 1, 1)
        return missing


def missing_between(missing: Floats, kept: Mask) -> Floats:
    """The missing rows before each of those that are kept, where the others are left out.

    >>> import numpy as np
    >>> missing_between(np.array([0.0, 0.0, 5.0, 0.0]), np.array([True, False, True, True]))
    array([0., 6., 0.])
    """
    at = np.flatnonzero(kept)
    if not len(at):
        return np.zeros(0)
    return np.asarray(np.add.reduceat(missing[: at[-1] + 1] + 1, np.append(0, at[:-1] + 1)) - 1)


def usual_step(labels: Any) -> Step | None:
    """How far apart the rows of a whole table usually are, by times or numbers that label them."""
    numbers = as_numbers(labels)
    size = None if numbers is None else _median(np.diff(numbers))
    return None if size is None else Step(size, hasattr(labels, "asi8"))


def closer(now: Step | None, known: Step | None) -> bool:
    """Whether rows are clearly closer to each other than those that were known before."""
    return known is not None and _are_alike(now, known) and now is not None and _JUMP * now.size < known.size


def _are_alike(now: Step | None, known: Step) -> bool:
    """Whether steps can be compared. Rows that are numbered one by one may be any time apart."""
    return now is not None and now.timed == known.timed and (now.timed or now.size != 1)


def _median(steps: NDArray[Any]) -> float | None:
    """Of those that go forwards; one of the steps, and not between two of them."""
    forwards = steps[steps > 0]
    return float(np.quantile(forwards, 0.5, method="lower")) if len(forwards) else None


def order_of(labels: Any, step: Step | None = None) -> Floats | None:
    """The missing rows before each row of a whole table, by times or numbers that label its rows; else ``None``.

    ``step`` is the usual one of rows that were known before, if these are to be as far apart.
    """
    numbers = as_numbers(labels)
    if numbers is None or len(numbers) < 2:
        return None
    if step is not None and _are_alike(usual_step(labels), step):
        return Continuity(step.size, always=True).follow(np.arange(len(numbers)), numbers)
    steps = np.diff(numbers)
    if hasattr(labels, "step"):  # a RangeIndex: of every third row of a table, two are missing before each
        return Continuity().follow(numbers)
    usual = _median(steps)
    if usual is None:
        return None if not (steps < 0).any() else np.where(np.append(0.0, steps) < 0, np.inf, 0.0)
    return Continuity(usual).follow(np.arange(len(numbers)), numbers)


def as_numbers(labels: Any) -> NDArray[Any] | None:
    """Times, durations or numbers as numbers that can be subtracted; ``None`` for anything else."""
    if hasattr(labels, "asi8"):  # of pandas: nanoseconds, so that pieces of a table have the same unit
        whole = labels.as_unit("ns") if hasattr(labels, "as_unit") else labels
        unknown = np.asarray(labels.isna())
        return np.where(unknown, np.nan, whole.asi8) if unknown.any() else np.asarray(whole.asi8)
    cells = np.asarray(labels)
    return cells.astype(np.float64) if cells.dtype.kind in "iuf" and cells.ndim == 1 else None
