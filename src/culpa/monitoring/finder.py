"""Rows of a table, as they come, become incidents.

Rows may come in batches of any size. Of an incident, only its first and its worst rows and running sums are kept, so it may
last for any number of rows. Flagged rows are grouped by `culpa.scores.grouping`, so that several incidents may go on at
the same time.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from culpa._core.continuity import as_numbers
from culpa._core.types import Floats, Mask
from culpa.explaining.explainer import Explainer
from culpa.fitted import FittedDetector
from culpa.monitoring.describing import Describer
from culpa.monitoring.incident import Incident, Status
from culpa.monitoring.judged import Blame, Judged, RowJudge, Seen
from culpa.monitoring.moments import Names
from culpa.monitoring.running import Draft, Movement, Normal, RowNames, Snapshot, plain_label
from culpa.monitoring.signal_watch import WrongSignal, watch_of
from culpa.monitoring.states import from_plain, to_plain
from culpa.monitoring.times import Times
from culpa.monitoring.verdict import ROWS
from culpa.monitoring.when import Clock
from culpa.ranking.recent import FORGOTTEN, Recent
from culpa.scores import ScoredRows
from culpa.scores.grouping import Grouping, Profiles, Rule, Step

_VERSION = 2
_REMEMBERED = ("_names", "_drafts", "_jumped", "_recent", "_level", "n_unconfirmed")
_FEWEST_BEFORE = 10  # normal rows that a baseline takes


@dataclass(frozen=True)
class Event:
    """Something that happened to an incident.

    It opened, it reached more features, it turned out to belong to one that began before ("joined"), or it closed. At the
    end of the rows, it may still be "open". Stretches that never become incidents are "unconfirmed".
    """

    event: Literal["opened", "grew", "joined", "closed", "open", "unconfirmed"]
    incident: Incident
    new: tuple[str, ...] = ()  # features that it reached


@dataclass(frozen=True, eq=False)
class Batch:
    """The next rows of a table, and how they were judged.

    Rows were left out before those in ``cut``, which ends incidents; ``missing`` counts the missing rows before each.
    """

    names: RowNames
    rows: ScoredRows
    judged: Judged
    times: Times | None = None
    cut: Mask | None = None
    missing: Floats | None = None

    @property
    def flagged(self) -> Mask:
        """Which rows are flagged."""
        return self.judged.flagged

    @property
    def flagged_at(self) -> NDArray[np.intp]:
        """Places of the flagged rows in this batch."""
        return np.flatnonzero(self.flagged)


@dataclass(frozen=True)
class _ProfilesByView:
    """The profile of each flagged row, in the view that flagged it; of no use where the rule is not learned."""

    by_view: dict[int, Profiles]
    rule: Rule

    def __call__(self, seen: Seen, some: slice) -> Floats:
        Z, view = seen.rows.standard[some], seen.view[some]
        if not self.rule.is_learned:
            return np.zeros((len(Z), 1))
        result = np.zeros(Z.shape)
        for number in np.unique(view).tolist():
            result[view == number] = self.by_view[number](Z[view == number])
        return result


class IncidentFinder:
    """Takes rows in order and hands out incidents that are over; ``live`` also when they open and grow.

    Incidents come in the order in which they began, or ``live`` as soon as they are over. The first ``n_days`` rows have
    times that are days, so that sentences about them do not mention the time of day.
    """

    n_days: float = 0

    def __init__(
        self,
        fitted: FittedDetector,
        explainer: Explainer,
        clock: Clock,
        rule: Rule,
        *,
        units: Sequence[str],
        baseline: int = 0,
        live: bool = False,
        unconfirmed: bool = False,
        follows: bool = True,
    ) -> None:
        """``unconfirmed`` asks for stretches that are no incidents, too; ``follows`` for the limit that follows."""
        if not isinstance(baseline, (int, np.integer)) or baseline < 0:
            raise ValueError(f"baseline must be a whole number of rows, 0 for none, got {baseline!r}.")
        self.fitted, self.explainer, self.clock = fitted, explainer, clock
        self.rule, self.units = rule, units_of_columns(explainer, units)
        self.baseline, self.live, self.unconfirmed = int(baseline), live, unconfirmed
        self.n_unconfirmed = 0
        self._main = np.array([members[0] for members in explainer.columns.members])
        n_modes = fitted.n_modes or 1
        self._offset = [mode.mean for mode in fitted.model.standard.modes]
        self._normal = [Normal.of(fitted.in_mode(mode), self._main) for mode in range(n_modes)]
        self.judge, self._follows_limit = RowJudge(fitted, follows=follows), follows
        self._profiles = _ProfilesByView(
            {number: Profiles(one.model) for number, one in self.judge.in_views.items()}, rule
        )
        self._grouping = Grouping(rule)
        self._describer: Describer | None = None
        self._names: tuple[str, ...] | None = None
        self._signals = watch_of(fitted, explainer, self.units) if rule.is_learned else None
        self._drafts: dict[int, Draft] = {}  # of stretches that may go on
        self._held: list[Event] = []  # incidents that are over, while one that began before goes on
        self._jumped = 0  # rows that are missing so far
        self._recent = np.zeros((0, explainer.model.standard.n_features))  # unflagged rows before, for a baseline
        # levels in the unflagged rows before; with a baseline or modes, the mean of these is the level
        self._follows = not baseline and n_modes == 1
        start = (
            fitted.recent if fitted.recent is not None and self._follows else Recent.none(len(self.fitted.model.scale))
        )
        self._level = self._start_level = start.of_features(self._main)
        self._levelled = 0  # rows of the batch that the level has taken into account

    def add(self, batch: Batch, why: Blame) -> list[Event]:
        """Take the next rows; ``why`` explains the flagged ones."""
        if not len(batch.rows):
            return []
        events: list[Event] = []
        places = self._places(batch)
        if self._describer is None:
            self._meet(batch.rows.reading.names)
        for start, end in pairwise(_cuts(batch)):
            self._release(batch, start)
            for step, piece in self._pieces(batch, places, start, end):
                events += self._close(step.over) + self._take(batch, why, step, piece)
            self._hold(batch, places, end)
        events += self._close(self._grouping.over(int(places[-1]) + 1)) + self._wrong_signals(batch)
        self._after(batch)
        return self._in_order(events)

    def _meet(self, names: tuple[str, ...] | None) -> None:
        """The first rows know what features are called."""
        known = Names.of(self.explainer, names)
        self._names, self._describer = (
            names,
            Describer(self.fitted, self.judge.in_views, self.explainer, self.clock, self.units, known),
        )

    @property
    def memory(self) -> str:
        """What matters of the rows so far, as JSON; set it to go on from there, with the same detector and rule."""
        if self._describer is None:
            raise ValueError("there is nothing to remember before the first row.")
        held = [(event.event, event.incident) for event in self._held]
        signals = None if self._signals is None else self._signals.memory
        mine = {name: getattr(self, name) for name in _REMEMBERED}
        parts = {"version": _VERSION, "mine": mine, "held": held, "grouping": self._grouping.memory, "signals": signals}
        parts["judge"] = self.judge.memory
        return json.dumps(to_plain(parts), allow_nan=False)

    @memory.setter
    def memory(self, memory: str) -> None:
        parts = from_plain(json.loads(memory))
        if parts["version"] != _VERSION:
            raise ValueError(f"this memory of incidents has version {parts['version']}, and culpa reads {_VERSION}.")
        for name, value in parts["mine"].items():
            setattr(self, name, value)
        self._meet(self._names)
        self._held = [Event(event, incident) for event, incident in parts["held"]]
        self._grouping.memory, self.judge.memory = parts["grouping"], parts["judge"]
        if self._signals is not None and parts["signals"] is not None:
            self._signals.memory = parts["signals"]

    def finish(self, status: Status = "open") -> list[Event]:
        """There are no more rows: the incidents that might go on. The next rows, if any, are those of another table."""
        drafts, self._drafts = list(self._drafts.values()), {}
        self._grouping, self._recent, self._level = Grouping(self.rule), self._recent[:0], self._start_level
        self.judge = RowJudge(self.fitted, follows=self._follows_limit)
        wrong = [] if self._signals is None else self._signals.finish()
        signals = [Event("open", self._signal(one)) for one in wrong]
        return self._in_order([*(event for draft in drafts for event in self._ended(draft, status)), *signals])

    def _places(self, batch: Batch) -> NDArray[np.int64]:
        """Numbers of rows, or of nanoseconds, before each row; what ends incidents adds to them."""
        jump, n = self.rule.reach + 1, len(batch.rows)
        missing = np.zeros(n, dtype=np.int64)
        if batch.missing is not None and self.rule.is_learned:
            missing = np.minimum(batch.missing, jump).astype(np.int64)
        if batch.cut is not None:
            missing[batch.cut] = jump
        missing = self._jumped + np.cumsum(missing)
        self._jumped = int(missing[-1])
        if not self.rule.by_time:
            return np.asarray(batch.names.counts + missing)
        numbers = as_numbers(batch.times)
        assert numbers is not None
        return np.asarray(numbers.astype(np.int64) + missing)

    def _hold(self, batch: Batch, places: NDArray[np.int64], end: int) -> None:
        """An incident goes on up to a place of the batch if the level is another one there, though rows are not flagged."""
        if not batch.judged.shifted[end - 1]:
            return
        self._grouping.hold(int(places[end - 1]))
        if (draft := self._drafts.get(self._grouping.held)) is not None:
            draft.shifted = True
            self._cover(draft, batch, end)
            draft.take_pending()
            draft.reach(batch.names.choose(slice(end - 1, end)))

    def _release(self, batch: Batch, start: int) -> None:
        """That is over if the level is the old one again."""
        if batch.judged.shifted[start]:
            return
        if (draft := self._drafts.get(self._grouping.held)) is not None:
            draft.shifted = False
        self._grouping.release()

    def _pieces(self, batch: Batch, places: NDArray[np.int64], start: int, end: int) -> Iterator[tuple[Step, slice]]:
        """The flagged rows between two places of a batch, in pieces that belong together."""
        first = last = None
        at = batch.flagged_at
        begin, stop = np.searchsorted(at, [start, end]).tolist()
        profiles, excess = self._profiles(batch.judged.seen, slice(begin, stop)), batch.judged.excess
        start = begin
        for k in range(begin, stop):
            step = self._grouping.add(int(places[at[k]]), float(excess[at[k]]), profiles[k - begin])
            if first is None or last is None or step.is_news or step.key != last.key:
                if first is not None and last is not None:
                    yield first._replace(announced=last.announced), slice(start, k)
                first, start = step, k
            last = step
        if first is not None and last is not None:
            yield first._replace(announced=last.announced), slice(start, stop)

    def _start(self, batch: Batch, first: int) -> Draft:
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
        draft = Draft(int(names.positions[first]), label, origin, shift, movement, self._level, mode)
        draft.covered = first
        return draft

    def _take(self, batch: Batch, why: Blame, step: Step, piece: slice) -> list[Event]:
        """Add flagged rows, and the rows between them, to an incident."""
        rows, seen = batch.flagged_at[piece], batch.judged.seen
        scale = seen.scale[piece]
        score, values = seen.rows.score[piece] / scale, why.values[piece] / scale[:, None]
        if step.begins:
            self._drafts[step.key] = self._start(batch, int(rows[0]))
        draft, same = self._drafts[step.key], [self._drafts.pop(key) for key in step.same]
        joined = any(one.opened for one in same)
        for one in same:
            draft.absorb(one)
        self._cover(draft, batch, int(rows[-1]) + 1)
        draft.take_pending()

        def snapshot(k: int) -> Snapshot:
            here, place = int(rows[k]), piece.start + k
            return Snapshot(
                int(batch.names.positions[here]),
                plain_label(batch.names.labels[here]),
                float(score[k]),
                seen.rows.standard[place] - self._offset[draft.mode],
                seen.rows.reading.choose(place),
                values[k].copy(),
                why.std_error[place] / scale[k],
                float(seen.limit[place]),
                float(scale[k]),
                int(seen.view[place]),
                self._n_outside(batch.rows.standard[here], draft.mode),
            )

        draft.add_flagged(batch.names.choose(rows), score, values, snapshot)
        draft.announced = step.announced
        return self._news(draft, joined=joined) if self.live else []

    def _wrong_signals(self, batch: Batch) -> list[Event]:
        """Signals that turned out to be wrong by themselves, or are right again."""
        if self._signals is None:
            return []

        def snapshot(start: int, k: int) -> Snapshot:
            k += start
            row = batch.rows.choose([k])
            why = self.explainer._one_pass.explain_scored(row, "values")
            label = plain_label(batch.names.labels[k])
            scale = 1.0 if self.judge.follower is None else self.fitted.limit
            own = row.standard[0] - self._offset[0], row.reading, why.values[0] / scale, why.std_error[0] / scale
            return Snapshot(
                int(batch.names.positions[k]),
                label,
                float(row.score[0]) / scale,
                *own,
                self.fitted.limit,
                scale,
                n_outside=self._n_outside(row.standard[0], 0),
            )

        anew = np.zeros(len(batch.rows), dtype=bool) if batch.missing is None else batch.missing >= FORGOTTEN
        found: list[WrongSignal] = []
        for start, end in pairwise([0, *(k for k in np.flatnonzero(anew).tolist() if k), len(batch.rows)]):
            piece = slice(start, end)
            rows = batch.names.choose(piece), batch.rows.reading.cells[piece]
            found += self._signals.look(*rows, partial(snapshot, start), begins=bool(anew[start]))
        kept = [one for one in found if self.live or one.is_over]
        return [Event("closed" if one.is_over else "opened", self._signal(one)) for one in kept]

    def _n_outside(self, z: Floats, mode: int) -> int:
        """How many features of a standardised row are outside the range of training rows."""
        return int(self._normal[mode].seen.is_outside((z - self._offset[mode])[self._main]).sum())

    def _signal(self, wrong: WrongSignal) -> Incident:
        assert self._describer is not None
        return self._describer.signal(wrong, daily=wrong.last < self.n_days)

    def _cover(self, draft: Draft, batch: Batch, end: int) -> None:
        """Take the rows before a place in the batch into account, which may or may not belong to the incident."""
        begin, draft.covered = draft.covered, end
        if begin >= end:
            return
        if draft.pending is None:
            draft.pending = Movement.none(len(self._main))
        Z = (batch.rows.standard[begin:end] - self._offset[draft.mode] - draft.shift)[:, self._main]
        names = batch.names.choose(slice(begin, end))
        cells = batch.rows.reading.cells[begin:end]
        if (more := ROWS - int(names.counts[0]) + draft.origin) > 0:
            draft.early.append(Z[:more])
        draft.pending.add(self._normal[draft.mode], draft.recent, Z, draft.origin, names, cells)

    def _after(self, batch: Batch) -> None:
        """The rows of a batch are behind us."""
        n = len(batch.rows)
        for draft in self._drafts.values():
            self._cover(draft, batch, n)
            draft.covered = 0
        if self.baseline:
            self._recent = self._unflagged(batch, n)
        self._follow(batch, n)
        self._levelled = 0

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

    def _news(self, draft: Draft, *, joined: bool) -> list[Event]:
        """What to say while an incident goes on."""
        assert self._describer is not None
        if not draft.announced:
            return []
        new = tuple(name for name in self._describer.reached(draft) if name not in draft.reported)
        event: Literal["opened", "grew", "joined"] = "joined" if joined else "grew" if draft.opened else "opened"
        if event == "grew" and not new:
            return []
        draft.reported, draft.opened = (*draft.reported, *new), True
        return [Event(event, self._incident(draft), new if event == "grew" else ())]

    def _close(self, keys: Sequence[int]) -> list[Event]:
        return [event for key in keys for event in self._ended(self._drafts.pop(key), "over")]

    def _ended(self, draft: Draft, status: Status) -> list[Event]:
        """A draft that no more rows belong to, at least of those so far."""
        if draft.announced:
            return [Event("closed" if status == "over" else "open", self._incident(draft, status))]
        self.n_unconfirmed += 1
        return [Event("unconfirmed", self._incident(draft, status))] if self.unconfirmed else []

    def _in_order(self, events: list[Event]) -> list[Event]:
        if self.live:
            return events
        ordered = sorted([*self._held, *events], key=_place)
        open_ = [draft.first for draft in self._drafts.values()] + (
            [] if self._signals is None else self._signals.began
        )
        began = min(open_, default=np.inf)
        self._held = [event for event in ordered if event.incident.first >= began]
        return ordered[: len(ordered) - len(self._held)]

    def _incident(self, draft: Draft, status: Status = "open") -> Incident:
        assert self._describer is not None
        return self._describer.incident(draft, status, daily=draft.latest < self.n_days)


def _cuts(batch: Batch) -> list[int]:
    """Right after the row where another level begins to be one, or right before it ends, and the ends of the batch."""
    shifted = batch.judged.shifted
    turns = np.flatnonzero(np.diff(shifted.astype(np.int8), prepend=0))
    return sorted({0, *(int(k) + int(shifted[k]) for k in turns), len(shifted)})


def _place(event: Event) -> tuple[int, int, str]:
    """Incidents come in the order in which they began, however rows are cut into batches."""
    return event.incident.first, event.incident.last, event.incident.kind


def units_of_columns(explainer: Explainer, units: Sequence[str]) -> tuple[str, ...]:
    """Units of the explainer's columns from those of the model's: a past value has that of its feature."""
    of_feature = {i: unit for unit, at in zip(units, explainer.model.columns.members, strict=True) for i in at}
    return tuple(of_feature[at[0]] for at in explainer.columns.members)
