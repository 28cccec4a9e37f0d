"""Rows of a table, as they come, become incidents.

Rows may come in batches of any size. Of an incident, only its first and its worst rows and running sums are kept, so it may
last for any number of rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats, Mask
from culpa.explaining.explainer import Explainer
from culpa.explaining.explanation import Explanation
from culpa.fitted import FittedDetector
from culpa.monitoring.clearing import Around
from culpa.monitoring.digits import decimals_of_columns
from culpa.monitoring.incident import Incident, Moved, Reached, Stage
from culpa.monitoring.moments import Judge
from culpa.monitoring.running import Draft, Movement, RowNames, Snapshot, plain_label
from culpa.monitoring.story import Storyteller
from culpa.monitoring.times import Span, Times
from culpa.monitoring.when import Clock
from culpa.ranking.recent import FORGOTTEN, Recent
from culpa.scores import ScoredRows

_SMALLEST_SHARE = 0.01  # that a stage mentions
_FEWEST_BEFORE = 10  # normal rows that a baseline takes


@dataclass(frozen=True)
class Event:
    """Something that happened to an incident: it opened, it reached more features, or it closed."""

    event: Literal["opened", "grew", "closed"]
    incident: Incident
    new: tuple[str, ...] = ()  # features that it reached


@dataclass(frozen=True, eq=False)
class Batch:
    """The next rows of a table, those that belong to incidents, and those that begin one whatever comes before.

    Rows were left out before those in ``cut``, which ends an incident; ``missing`` counts the missing rows before each.
    """

    names: RowNames
    rows: ScoredRows
    flagged: Mask
    times: Times | None = None
    begins: Mask | None = None
    cut: Mask | None = None
    missing: Floats | None = None

    @property
    def flagged_at(self) -> NDArray[np.intp]:
        """Places of the flagged rows in this batch."""
        return np.flatnonzero(self.flagged)


class IncidentFinder:
    """Takes rows in order and hands out incidents that are over; ``live`` also when they open and grow.

    The first ``n_days`` rows have times that are days, so that sentences about them do not mention the time of day.
    """

    n_days: float = 0

    def __init__(
        self,
        fitted: FittedDetector,
        explainer: Explainer,
        clock: Clock,
        *,
        gap: int | Span = 0,
        min_length: int = 1,
        units: Sequence[str],
        baseline: int = 0,
        live: bool = False,
    ) -> None:
        if not isinstance(min_length, (int, np.integer)) or min_length < 1:
            raise ValueError(f"min_length must be a whole number of at least 1, got {min_length!r}.")
        if not isinstance(baseline, (int, np.integer)) or baseline < 0:
            raise ValueError(f"baseline must be a whole number of rows, 0 for none, got {baseline!r}.")
        self.fitted, self.explainer, self.clock = fitted, explainer, clock
        self.gap, self.min_length, self.units = gap, min_length, units_of_columns(explainer, units)
        self.baseline, self.live = int(baseline), live
        self._main = np.array([members[0] for members in explainer.columns.members])
        n_modes = fitted.n_modes or 1
        self._in_mode = [fitted.in_mode(mode) for mode in range(n_modes)]
        self._offset = [fitted.model.standard.modes[mode].mean for mode in range(n_modes)]
        self._seen = [one.normal_range.of_columns(self._main) for one in self._in_mode]
        self._judges: list[Judge] = []  # one per mode
        self._storyteller: Storyteller | None = None
        self._open: Draft | None = None
        self._last_time: Any = None  # of the last flagged row
        self._recent = np.zeros((0, explainer.model.standard.n_features))  # unflagged rows before, for a baseline
        # levels in the unflagged rows before; with a baseline or modes, the mean of these is the level
        self._follows = not baseline and n_modes == 1
        start = (
            fitted.recent if fitted.recent is not None and self._follows else Recent.none(len(self.fitted.model.scale))
        )
        self._level = self._start_level = start.of_features(self._main)
        self._levelled = 0  # rows of the batch that the level has taken into account

    def add(self, batch: Batch, why: Explanation | None) -> list[Event]:
        """Take the next rows; ``why`` explains the flagged ones, and is ``None`` where there are none."""
        events: list[Event] = []
        at = batch.flagged_at
        done = 0
        if len(at):
            assert why is not None
            self._meet(why)
            starts = np.flatnonzero(self._begins(batch, at))
            goes_on = not len(starts) or starts[0] != 0
            cuts = [0, *starts.tolist()] if goes_on else starts.tolist()
            for k, (cut, end) in enumerate(zip(cuts, [*cuts[1:], len(at)], strict=True)):
                if k or not goes_on:
                    events += self._close()
                    self._start(batch, int(at[cut]))
                events += self._take(batch, why, at, slice(cut, end), 0 if k == 0 and goes_on else int(at[cut]))
                done = int(at[end - 1]) + 1
        events += self._after(batch, done)
        return events

    @property
    def is_waiting(self) -> bool:
        """Whether an incident is open, so that the next rows matter even if none of them is flagged."""
        return self._open is not None

    def finish(self) -> list[Event]:
        """The incident that the table ended in, if any."""
        self._recent, self._level = self._recent[:0], self._start_level
        return self._close()

    def _meet(self, why: Explanation) -> None:
        """The first explanation knows what features are called."""
        if not self._judges:
            decimals = decimals_of_columns(self.fitted, self.explainer.columns)
            self._judges = [
                Judge(one, Around(self.explainer.score, offset), self.explainer.columns, why, self.units, decimals)
                for one, offset in zip(self._in_mode, self._offset, strict=True)
            ]
            self._storyteller = Storyteller(
                self.clock,
                self.explainer.score.name,
                _members(why),
                noun=self.fitted.settings.noun,
                averaged=self.explainer.columns.smooth is not None,
            )

    def _begins(self, batch: Batch, at: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which flagged rows begin an incident."""
        result = np.ones(len(at), dtype=bool)
        counts = batch.names.counts[at]
        if isinstance(self.gap, int):
            result[1:] = np.diff(counts) - 1 > self.gap
            if self._open is not None:
                result[0] = counts[0] - self._open.latest - 1 > self.gap
        else:
            assert batch.times is not None
            times = batch.times[at]
            result[1:] = np.asarray(times[1:] - times[:-1] > self.gap)
            if self._open is not None:
                result[0] = times[0] - self._last_time > self.gap
        if self._open is None:
            result[0] = True
        if batch.cut is not None:
            result |= np.diff(np.cumsum(batch.cut)[at], prepend=0) > 0
        return result if batch.begins is None else result | batch.begins[at]

    def _start(self, batch: Batch, first: int) -> None:
        shift, model = np.zeros(self._recent.shape[1]), self.fitted.model
        mode = int(model.standard.mode_of(batch.rows.standard[first : first + 1])[0])
        if self.baseline:
            before = self._unflagged(batch, first)
            before = before[model.standard.mode_of(before) == mode] - self._offset[mode]
            if len(before) >= _FEWEST_BEFORE:
                shift = np.nan_to_num(np.nanmean(before, axis=0))
        label = plain_label(batch.names.labels[first])
        names, movement = batch.names, Movement.none(len(self._main))
        self._follow(batch, first)
        origin = int(names.counts[first])
        self._open = Draft(int(names.positions[first]), label, origin, shift, movement, self._level, mode)

    def _take(self, batch: Batch, why: Explanation, at: NDArray[np.intp], piece: slice, begin: int) -> list[Event]:
        """Add flagged rows, and the rows between them, to the open incident."""
        draft = self._open
        assert draft is not None
        if draft.pending is not None:
            draft.movement.merge(draft.pending)
            draft.pending = None
        rows = at[piece]
        self._move(draft.movement, batch, begin, int(rows[-1]) + 1)

        def snapshot(k: int) -> Snapshot:
            here, place = int(rows[k]), piece.start + k
            return Snapshot(
                int(batch.names.positions[here]),
                plain_label(batch.names.labels[here]),
                float(batch.rows.score[here]),
                batch.rows.standard[here] - self._offset[draft.mode],
                batch.rows.reading.choose(here),
                why.values[place].copy(),
                why.std_error[place].copy(),
            )

        before = draft.n
        draft.add_flagged(batch.names.choose(rows), batch.rows.score[rows], why.values[piece], snapshot)
        if batch.times is not None:
            self._last_time = batch.times[int(rows[-1])]
        return self._news(draft, before) if self.live else []

    def _move(self, movement: Movement, batch: Batch, begin: int, end: int) -> None:
        draft = self._open
        assert draft is not None
        if begin >= end:
            return
        Z = (batch.rows.standard[begin:end] - self._offset[draft.mode] - draft.shift)[:, self._main]
        names = batch.names.choose(slice(begin, end))
        cells = batch.rows.reading.cells[begin:end]
        movement.add(self._seen[draft.mode], draft.recent, Z, draft.origin, names, cells)

    def _after(self, batch: Batch, done: int) -> list[Event]:
        """Rows after the last flagged one: they end the incident, or wait to see whether it goes on."""
        events: list[Event] = []
        n = len(batch.names.positions)
        if self._open is not None and done < n:
            if self._is_over(batch, done):
                events = self._close()
            else:
                if self._open.pending is None:
                    self._open.pending = Movement.none(len(self._main))
                self._move(self._open.pending, batch, done, n)
        if self.baseline:
            self._recent = self._unflagged(batch, n)
        self._follow(batch, n)
        self._levelled = 0
        return events

    def _follow(self, batch: Batch, end: int) -> None:
        """Take the unflagged rows before a place in the batch into account; it starts anew where many rows are missing."""
        if not self._follows:
            return
        start = self._levelled
        missing = np.zeros(0) if batch.missing is None else batch.missing[start : end + 1]
        if (missing >= FORGOTTEN).any():
            self._level, start = self._start_level, start + int(np.flatnonzero(missing >= FORGOTTEN)[-1])
        rows = batch.rows.standard[start:end][~batch.flagged[start:end]]
        self._level, self._levelled = self._level.then(rows[:, self._main]), end

    def _unflagged(self, batch: Batch, end: int) -> Floats:
        """As many rows as a baseline takes, of those that are not flagged, before a place in the batch.

        It starts anew where as many rows are missing as it takes.
        """
        holes = np.zeros(0) if batch.missing is None else np.flatnonzero(batch.missing[: end + 1] >= self.baseline)
        start = int(holes[-1]) if len(holes) else 0
        here = batch.rows.standard[start:end][~batch.flagged[start:end]]
        return np.concatenate([self._recent[: 0 if len(holes) else None], here])[-self.baseline :]

    def _is_over(self, batch: Batch, done: int) -> bool:
        assert self._open is not None
        if batch.cut is not None and batch.cut[done:].any():
            return True
        if isinstance(self.gap, int):
            return bool(int(batch.names.counts[-1]) - self._open.latest > self.gap)
        assert batch.times is not None
        return bool(batch.times[-1] - self._last_time > self.gap)

    def _news(self, draft: Draft, before: int) -> list[Event]:
        """What to say while an incident goes on."""
        if draft.n < self.min_length:
            return []
        off = int((draft.movement.off_row >= 0).sum())
        if before < self.min_length:
            draft.reported = off
            return [Event("opened", self._incident(draft))]
        if off == draft.reported:
            return []
        incident, draft.reported, had = self._incident(draft), off, draft.reported
        return [Event("grew", incident, tuple(one.feature for one in incident.spread[had:]))]

    def _close(self) -> list[Event]:
        draft, self._open = self._open, None
        if draft is None or draft.n < self.min_length:
            return []
        return [Event("closed", self._incident(draft, over=True))]

    def _incident(self, draft: Draft, *, over: bool = False) -> Incident:
        judge, storyteller = self._judges[draft.mode], self._storyteller
        assert storyteller is not None
        assert draft.worst is not None
        onset = judge.onset(draft)
        worst = onset.moment if draft.n == 1 else judge.worst(draft)
        incident = Incident(
            first=draft.first,
            last=draft.last,
            peak=draft.worst.row,
            start=draft.start,
            end=draft.end,
            peak_label=draft.worst.label,
            n_flagged=draft.n,
            score=draft.worst.score,
            limit=self.fitted.limit,
            p_value=worst.p_value,
            kind=onset.kind,
            explained=onset.explained,
            onset=onset.moment,
            worst=worst,
            spread=tuple(_spread(draft, judge.names)),
            timeline=tuple(_timeline(draft, judge.player_names)),
            ranking=tuple(self._ranking(draft, judge)),
            mode=None if self.fitted.n_modes is None else draft.mode + 1,
        )
        self.clock.daily = draft.latest < self.n_days
        return replace(incident, sentence=storyteller.story(incident, over=over))

    def _ranking(self, draft: Draft, judge: Judge) -> Iterator[Moved]:
        """All features that were observed, by the evidence that they moved."""
        model = self._in_mode[draft.mode].model
        movement, sd = draft.movement, model.spread[self._main]
        normal = np.asarray(model.usual[self._main], dtype=np.float64)
        for k in np.argsort(-movement.evidence, kind="stable").tolist():
            row = int(movement.row[k])
            yield Moved(
                judge.names[k],
                float(movement.evidence[k]),
                row if row >= 0 else draft.first,
                movement.label[k] if row >= 0 else draft.start,
                float("nan") if movement.actual[k] is None else float(movement.actual[k]),
                float(normal[k]),
                float(movement.strongest[k] / sd[k]),
            )


def _members(why: Explanation) -> dict[str, list[str]]:
    """The features of every player."""
    return {name: [why.feature_names[k] for k in at] for name, at in zip(why.player_names, why.players, strict=True)}


def _spread(draft: Draft, names: Sequence[str]) -> Iterator[Reached]:
    movement = draft.movement
    order = np.lexsort((-movement.evidence, movement.off_row))
    for k in order.tolist():
        if movement.off_row[k] >= 0:
            yield Reached(names[k], int(movement.off_row[k]), movement.off_label[k])


def _timeline(draft: Draft, players: Sequence[str]) -> Iterator[Stage]:
    for key in sorted(draft.stages.parts):
        first, last, start, end, n, score, total, sums = draft.stages.parts[key]
        shares = {
            name: share
            for name, share in zip(players, (sums / total).tolist(), strict=True)
            if abs(share) >= _SMALLEST_SHARE
        }
        yield Stage(first, last, start, end, n, score, shares)


def units_of_columns(explainer: Explainer, units: Sequence[str]) -> tuple[str, ...]:
    """Units of the explainer's columns from those of the model's: a past value has that of its feature."""
    of_feature = {i: unit for unit, at in zip(units, explainer.model.columns.members, strict=True) for i in at}
    return tuple(of_feature[at[0]] for at in explainer.columns.members)
