"""An incident in the making becomes one that says what happened: moments, features that it reached, sentences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from culpa.explaining.explainer import Explainer
from culpa.fitted import FittedDetector
from culpa.monitoring.clearing import Around
from culpa.monitoring.digits import decimals_of_columns
from culpa.monitoring.incident import Incident, Moved, Reached, Stage, Status
from culpa.monitoring.kinds import Kinds
from culpa.monitoring.moments import Judge, Names, view_of
from culpa.monitoring.running import MOSTLY, OFF, Draft
from culpa.monitoring.signal_watch import WrongSignal
from culpa.monitoring.story import Storyteller
from culpa.monitoring.verdict import UNKNOWN
from culpa.monitoring.when import Clock

_SMALLEST_SHARE = 0.01  # that a stage mentions
_FEWEST_ROWS = 10  # of an incident that tells who stayed off
_FAR, _BACK = 3.0, 1.25  # standard deviations, on average: far off before, and normal again
_RARELY = 0.2  # share of the rows up to which features that are normal are off


class Describer:
    """Describes incidents of a detector; ``names`` are those of the first rows."""

    def __init__(
        self,
        fitted: FittedDetector,
        in_views: Mapping[int, FittedDetector],
        explainer: Explainer,
        clock: Clock,
        units: Sequence[str],
        names: Names,
    ) -> None:
        """``in_views`` is the detector as each view that judges rows sees them."""
        decimals, n_modes = decimals_of_columns(fitted, explainer.columns), fitted.n_modes or 1
        self._in_mode = [fitted.in_mode(mode) for mode in range(n_modes)]
        means = [mode.mean for mode in fitted.model.standard.modes]
        self._judges = [
            Judge(one, Around(explainer.score, mean), explainer.columns, names, units, decimals)
            for one, mean in zip(self._in_mode, means, strict=True)
        ]
        self._follows = any(one is not fitted for one in in_views.values())
        self._in_view = {
            number: Judge(one, Around(one.statistic, means[0]), explainer.columns, names, units, decimals)
            for number, one in in_views.items()
            if self._follows
        }
        self._fitted, self._main, self._clock = fitted, self._judges[0].main, clock
        self._kinds = None
        if fitted.consistency is not None and len(self._main) == fitted.consistency.own.shape[1]:
            self._kinds = Kinds(fitted.model, self._main, fitted.consistency)
        self._storyteller = Storyteller(
            clock,
            explainer.score.name,
            names.members,
            noun=fitted.settings.noun,
            averaged=explainer.columns.smooth is not None,
        )

    def incident(self, draft: Draft, status: Status, *, daily: bool) -> Incident:
        """What happened so far; ``daily`` says that the times of its rows are days."""
        judge = self._judges[draft.mode]
        assert draft.worst is not None
        onset = self._in_view.get(view_of(draft), judge).onset(draft)
        worst = onset.moment if draft.n == 1 else self._in_view.get(draft.worst.view, judge).worst(draft)
        n = draft.latest - draft.origin + 1
        found = UNKNOWN if self._kinds is None else self._kinds.of(draft, n, over=status == "over")
        stayed, back = self._course(draft, judge)
        incident = Incident(
            first=draft.first,
            last=draft.last,
            peak=draft.worst.row,
            start=draft.start,
            end=draft.end,
            peak_label=draft.worst.label,
            status=status,
            n_flagged=draft.n,
            score=draft.worst.score,
            limit=1.0 if self._follows else self._fitted.limit,
            p_value=worst.p_value,
            kind=found.kind,
            why=found.why,
            unit_change=found.unit_change,
            suspects=tuple(judge.names.of_column(k) for k in (*found.columns, *found.instead)),
            predicted=found.explained,
            extent=onset.extent,
            explained=onset.explained,
            blamed_first=onset.first,
            stayed_off=stayed,
            came_back=back,
            onset=onset.moment,
            worst=worst,
            spread=tuple(self._spread(draft, judge)),
            timeline=tuple(_timeline(draft, judge.names.players)),
            ranking=tuple(self._ranking(draft, judge)),
            mode=None if self._fitted.n_modes is None else draft.mode + 1,
            shifted=draft.shifted,
        )
        self._clock.daily = daily
        return replace(incident, sentence=self._storyteller.story(incident))

    def signal(self, wrong: WrongSignal, *, daily: bool) -> Incident:
        """A signal that is wrong by itself; the moment is the row that showed it."""
        judge, seen, finding = self._judges[0], wrong.seen, wrong.finding
        moment = judge.alone(seen, wrong.column)
        name = "" if wrong.column < 0 else judge.names.of_column(wrong.column)
        incident = Incident(
            first=wrong.first,
            last=wrong.last,
            peak=seen.row,
            start=wrong.start,
            end=wrong.end,
            peak_label=seen.label,
            status="over" if wrong.is_over else "open",
            n_flagged=0,
            score=seen.score,
            limit=1.0 if self._follows else self._fitted.limit,
            p_value=moment.p_value,
            kind=finding.kind,
            why=finding.kind,
            suspects=(name,) if name else (),
            predicted=np.nan,
            extent="features",
            explained=np.nan,
            blamed_first={},
            stayed_off=(),
            came_back=(),
            onset=moment,
            worst=moment,
            spread=(),
            timeline=(),
            ranking=(),
        )
        self._clock.daily = daily
        return replace(incident, sentence=self._storyteller.signal(incident, finding.value, finding.usual))

    def reached(self, draft: Draft) -> list[str]:
        """The features that an incident has spread to so far."""
        return [one.feature for one in self._spread(draft, self._judges[draft.mode])]

    def _course(self, draft: Draft, judge: Judge) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Features that stayed off, and those that came back, farthest first."""
        last, course = draft.latest - draft.origin, draft.movement.course
        if last + 1 < _FEWEST_ROWS:
            return (), ()
        (end, off), (all_, mostly) = (course.mean(first, last) for first in (last - (last + 1) // 10 + 1, 0))
        far = course.farthest(last)
        is_off = (np.minimum(end, all_) >= OFF) & (np.minimum(off, mostly) >= MOSTLY)
        is_back = (far >= _FAR) & (end <= _BACK) & (off <= _RARELY)
        order = np.argsort(-np.nan_to_num(np.maximum(far, end)), kind="stable").tolist()
        stayed, back = ([judge.names.of_column(k) for k in order if which[k]] for which in (is_off, is_back))
        return tuple(stayed), tuple(back)

    def _spread(self, draft: Draft, judge: Judge) -> Iterator[Reached]:
        """Features that left the range of the training rows and were off for a while, in the order of time."""
        movement, last = draft.movement, draft.latest - draft.origin
        far = movement.course.farthest(2 * last)
        for k in np.lexsort((-movement.evidence, movement.off_row)).tolist():
            if movement.off_row[k] >= 0 and far[k] >= OFF:
                yield Reached(judge.names.features[k], int(movement.off_row[k]), movement.off_label[k])

    def _ranking(self, draft: Draft, judge: Judge) -> Iterator[Moved]:
        """All features that were observed, by the evidence that they moved."""
        model = self._in_mode[draft.mode].model
        movement, sd = draft.movement, model.spread[self._main]
        normal = np.asarray(model.usual[self._main], dtype=np.float64)
        for k in np.argsort(-movement.evidence, kind="stable").tolist():
            row = int(movement.row[k])
            yield Moved(
                judge.names.features[k],
                float(movement.evidence[k]),
                row if row >= 0 else draft.first,
                movement.label[k] if row >= 0 else draft.start,
                float("nan") if movement.actual[k] is None else float(movement.actual[k]),
                float(normal[k]),
                float(movement.strongest[k] / sd[k]),
            )


def _timeline(draft: Draft, players: Sequence[str]) -> Iterator[Stage]:
    for key in sorted(draft.stages.parts):
        first, last, start, end, n, score, total, sums = draft.stages.parts[key]
        shares = {
            name: share
            for name, share in zip(players, (sums / total).tolist(), strict=True)
            if abs(share) >= _SMALLEST_SHARE
        }
        yield Stage(first, last, start, end, n, score, shares)
