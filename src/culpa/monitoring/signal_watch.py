"""Signals that are wrong by themselves, in the rows of a table as they come: since when, and until when."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa.explaining.explainer import Explainer
from culpa.fitted import FittedDetector
from culpa.models.normal_signals import NormalSignals
from culpa.monitoring.running import RowNames, Snapshot, plain_label
from culpa.monitoring.signals import Finding, Signals

_Name = tuple[int, Any]  # position and label of a row


@dataclass
class WrongSignal:
    """A finding with the names of its first and last rows; ``column`` is that of the explainer, -1 for all.

    ``seen`` is the row that showed it.
    """

    finding: Finding
    column: int
    first: int
    start: Any
    last: int
    end: Any
    seen: Snapshot
    is_over: bool = False


class SignalWatch:
    """Looks at the cells of rows in order. ``normal`` is what normal rows showed of the columns of the model."""

    def __init__(
        self, fitted: FittedDetector, explainer: Explainer, normal: NormalSignals, units: Sequence[str]
    ) -> None:
        model = {members[0]: k for k, members in enumerate(explainer.model.columns.members)}
        members = [each[0] for each in explainer.columns.members]
        self._columns = [k for k, feature in enumerate(members) if feature in model]  # the others are past values
        at = [explainer.model.columns.positions[model[members[k]]] for k in self._columns]
        self._signals = Signals(normal.of_columns(np.array(at)), [units[k] for k in self._columns])
        self._state = self._signals.start()
        self._starts: dict[int, _Name] = {}  # of runs that may turn out to be too long
        self._open: dict[tuple[str, int], WrongSignal] = {}
        self._last: _Name = (-1, None)

    def look(
        self, names: RowNames, cells: NDArray[Any], snapshot: Callable[[int], Snapshot], begins: bool
    ) -> list[WrongSignal]:
        """The next rows: signals that turned out to be wrong, or are right again. ``snapshot(k)`` shows the k-th row.

        So many rows are missing before those where it ``begins`` anew that earlier ones do not matter.
        """
        before, result = self._state.rows, []
        if begins:
            result += self.finish(over=True)
        self._state, found = self._signals.look(self._state, np.asarray(cells[:, self._columns], dtype=np.float64))

        def name(row: int) -> _Name:
            if row < before:
                return self._starts.get(row, self._last)
            return int(names.positions[row - before]), plain_label(names.labels[row - before])

        for one in found:
            key = one.kind, one.column
            if key not in self._open:
                column = -1 if one.column < 0 else self._columns[one.column]
                self._open[key] = WrongSignal(one, column, *name(one.since), *name(one.row), snapshot(one.row - before))
                result.append(replace(self._open[key]))
            if one.until is not None:
                wrong = self._open.pop(key)
                wrong.last, wrong.end = name(one.until - 1)
                wrong.is_over = True
                result.append(wrong)
        last = before + len(cells) - 1
        for wrong in self._open.values():
            wrong.last, wrong.end = name(last)
        state = self._state
        rows = {*state.since.tolist(), *state.outside.tolist(), *(state.stopped or ())}
        self._starts = {row: name(row) for row in rows if row >= 0}
        self._last = name(last)
        return result

    @property
    def memory(self) -> tuple[Any, ...]:
        """What matters of earlier rows; set it to go on from there."""
        return self._state, self._starts, self._open, self._last

    @memory.setter
    def memory(self, memory: tuple[Any, ...]) -> None:
        self._state, self._starts, self._open, self._last = memory

    @property
    def began(self) -> list[int]:
        """Where the signals that are wrong now began, and runs that may turn out to be too long."""
        runs = self._state.since[(self._state.size > 0) & np.isfinite(self._state.need)]
        return [*(wrong.first for wrong in self._open.values()), *(self._starts[row][0] for row in runs.tolist())]

    def finish(self, *, over: bool = False) -> list[WrongSignal]:
        """The signals that are wrong at the end of the rows; the next ones are new."""
        wrong, self._open = list(self._open.values()), {}
        for one in wrong:
            one.is_over = over
        self._state = self._signals.start()._replace(rows=self._state.rows)
        return wrong


def watch_of(fitted: FittedDetector, explainer: Explainer, units: Sequence[str]) -> SignalWatch | None:
    """Of a detector that knows what columns of normal rows do by themselves."""
    return None if fitted.signals is None else SignalWatch(fitted, explainer, fitted.signals, units)
