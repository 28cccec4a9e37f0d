"""Incidents: flagged rows that follow each other, as one story with a beginning, an end, and culprits."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Generic, Self, Unpack, overload

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from culpa._core import markup
from culpa._core.choices import one_of
from culpa._core.continuity import RowOrder, usual_step
from culpa._core.json_values import to_json_value
from culpa._core.kinds import top_of
from culpa._core.native import emptied, to_frame
from culpa._core.parameters import BlameOptions
from culpa._core.types import DataFrame, FrameT, Mask, TableT
from culpa._core.validation import Table, frame_like
from culpa._core.warning import warn
from culpa._core.words import count
from culpa.explaining.explainer import Explainer
from culpa.explaining.explanation import Explanation
from culpa.fitted import FittedDetector
from culpa.monitoring.finder import Batch, Event, IncidentFinder
from culpa.monitoring.incident import Incident
from culpa.monitoring.judged import Blamer, Course, about_movement, known
from culpa.monitoring.rules import chosen_rule, expected_false
from culpa.monitoring.running import RowNames
from culpa.monitoring.times import (
    GapCheck,
    Times,
    check_order,
    only_days,
    over_several_days,
    read_gap,
    read_times,
    refuse_times,
    saying_utc,
)
from culpa.monitoring.when import Clock
from culpa.ranking.recent import SETTLED
from culpa.scores import ScoredRows
from culpa.scores.grouping import Rule
from culpa.shapley.leading import Doubts, warn_about_doubts

_SHOWN = 5  # features of the ranking that a table lists
_INCIDENTS_SHOWN = 20  # in a notebook
_ROWS_PER_CHUNK = 1 << 14  # rows judged at a time, so that memory does not grow with their number


class Incidents(Sequence[Incident], Generic[TableT]):
    """The incidents of a table, in order; ``print`` shows their sentences.

    Attributes
    ----------
    n_rows, n_flagged : int
        Rows of the table, and the flagged ones among them, whether or not they made it into an incident.
    course : Course or None
        All rows beside the limit: ``flagged``, ``score``, ``limit`` and ``shifted``.
    unconfirmed : tuple of Incident
        Stretches of flagged rows with too little evidence for an incident.
    expected : str
        How many false incidents to expect; empty if you said what makes an incident.

    Examples
    --------
    >>> from culpa import PCADetector
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> detector = PCADetector().fit(plant.normal)
    >>> incidents = detector.incidents(plant.new)
    >>> incidents.n_rows, incidents[0].start, len(incidents[:2])
    (400, 50, 2)
    """

    def __init__(
        self,
        items: Sequence[Incident],
        *,
        n_rows: int,
        n_flagged: int,
        unconfirmed: Sequence[Incident] = (),
        expected: str = "",
        native: Any = None,
        course: Course | None = None,
    ) -> None:
        self.course = course
        self._items, self.unconfirmed, self.expected = tuple(items), tuple(unconfirmed), expected
        self.n_rows, self.n_flagged, self._native = n_rows, n_flagged, emptied(native)

    @overload
    def __getitem__(self, key: int) -> Incident: ...
    @overload
    def __getitem__(self, key: slice) -> "Incidents": ...
    def __getitem__(self, key: int | slice) -> "Incident | Incidents":
        """One incident by its position, or the incidents of a slice."""
        if isinstance(key, slice):
            some, n_rows, n_flagged = self._items[key], self.n_rows, self.n_flagged
            return Incidents(some, n_rows=n_rows, n_flagged=n_flagged, native=self._native, course=self.course)
        return self._items[key]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Incident]:
        return iter(self._items)

    def __repr__(self) -> str:
        return f"<Incidents: {len(self)} in {count(self.n_rows, 'row')}, {self.n_flagged:,} of them flagged>"

    def __str__(self) -> str:
        told = [incident.sentence for incident in self] or ["No incidents."]
        return "\n".join([*told, *([self.note] if self.note else [])])

    @property
    def note(self) -> str:
        """How many stretches are unconfirmed, and how many false incidents to expect."""
        n = len(self.unconfirmed)
        stretches = "1 stretch" if n == 1 else f"{n:,} stretches"
        apart = f"{stretches} of flagged rows with too little evidence: see unconfirmed." if n else ""
        return " ".join(filter(None, (apart, self.expected)))

    def _repr_html_(self) -> str:
        longest = max((incident.last - incident.first + 1 for incident in self), default=1)
        rows = [
            (
                number,
                incident.start,
                incident.end,
                incident.n_flagged,
                markup.bar((incident.last - incident.first + 1) / longest, markup.LOWERS),
                ", ".join(culprit.feature for culprit in incident.culprits),
                incident.sentence,
            )
            for number, incident in enumerate(self._items[:_INCIDENTS_SHOWN])
        ]
        headers = ("", "start", "end", "flagged", "length", "culprits", "what happened")
        rest = len(self) - len(rows)
        return markup.block(
            f"{count(len(self), 'incident')} in {count(self.n_rows, 'row')}, {self.n_flagged:,} of them flagged",
            markup.table(headers, rows) if rows else "",
            markup.note(f"{count(rest, 'more incident')}. to_frame() lists all of them." if rest else ""),
            markup.note(self.note),
        )

    @overload
    def to_frame(self: "Incidents[FrameT]") -> FrameT: ...  # type: ignore[overload-overlap]

    @overload
    def to_frame(self) -> DataFrame: ...

    def to_frame(self) -> Any:
        """One line per incident with its worst culprit, in the kind of table that was given."""
        return frame_like(self._native, as_columns(self._items))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, times as ISO 8601 texts, what is no finite number as None."""
        apart = {
            "incidents": [to_json_value(asdict(incident)) for incident in self],
            "unconfirmed": [to_json_value(asdict(incident)) for incident in self.unconfirmed],
        }
        return {"n_rows": self.n_rows, "n_flagged": self.n_flagged, "expected": self.expected, **apart}

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False)


@dataclass(frozen=True)
class Search:
    """How incidents are found; the fields are arguments of `PCADetector.incidents`."""

    times: Times | None = None
    time_name: str = "time"
    gap: Any = None
    min_length: int | None = None
    false_incidents: Any = None
    units: Mapping[str, str] | None = None
    baseline: int = 0
    stretches: Sequence[tuple[int, int]] | None = None

    @classmethod
    def taken_from(cls, options: dict[str, Any], times: Times | None, time_name: str) -> Self:
        """What options say about the search; they lose it."""
        names = ("gap", "min_length", "false_incidents", "units", "baseline")
        return cls(times, time_name, **{name: options.pop(name) for name in names if name in options})


def find_incidents(fitted: FittedDetector, table: Table, search: Search, **options: Unpack[BlameOptions]) -> Incidents:
    """What `PCADetector.incidents` does; see there."""
    times, stretches = _checked_times(search, len(table.array)), search.stretches
    if wrong := {"score", "statistic", "features"} & options.keys():
        raise TypeError(f"incidents always explain the detector's own score, so you cannot pass {wrong.pop()!r}.")
    explainer = fitted.explainer(**options)
    asked = search.gap, search.min_length, search.false_incidents
    rule = chosen_rule(fitted, *asked, times) if stretches is None else Rule.everything()
    check = GapCheck(read_gap(search.gap) if rule.by_time else 0)
    if text := check.add(times) or check.finish():
        warn(text, UserWarning)
    finder = IncidentFinder(
        fitted,
        explainer,
        Clock(None if times is None else search.time_name, dated=times is not None and over_several_days(times)),
        rule,
        units=units_of(fitted, search.units, shown_names(fitted, table)),
        baseline=search.baseline,
        unconfirmed=True,
        follows=stretches is None,
    )
    finder.n_days = np.inf if times is not None and only_days(times) else 0
    reading = explainer.columns.read(table)
    score = fitted.score(reading)
    labels = table.row_labels() if times is None else times
    order = table.order or RowOrder(np.zeros(len(score)))
    found: list[Event] = []
    doubts, course, moved = Doubts(), list[Course](), 1.0
    blamer = Blamer(finder.judge, lambda one: partial(_explained, one, doubts), **options)
    whole: list[tuple[Mask | None, NDArray[np.intp]]] = [(None, np.arange(len(score)))]
    for members, at_all in whole if stretches is None else _known(search, len(score)):
        for start in range(0, len(at_all), _ROWS_PER_CHUNK):
            at = at_all[start : start + _ROWS_PER_CHUNK]
            together = int(at[-1] - at[0]) + 1 == len(at)
            part = reading.choose(slice(int(at[0]), int(at[-1]) + 1) if together else at)
            rows = ScoredRows(part, fitted.model.standardise(part.features), score[at], fitted.statistic)
            missing = order.missing[at]
            judged = finder.judge.judge(rows, missing) if members is None else known(rows, members[at], fitted)
            course.append(judged.course)
            batch = Batch(
                RowNames(at, labels[at], at),
                rows,
                judged,
                None if times is None else times[at],
                None if order.cut is None or stretches is not None else order.cut[at],
                order.missing[at],
            )
            found += finder.add(batch, blamer.blame(judged.seen))
        moved = finder.judge.moved
        found += finder.finish("open" if members is None or members[-1] else "over")
    warn_about_doubts(doubts, top_of(explainer.tolerance))
    whole_course = Course.of(course) if stretches is None else None
    n_flagged = int((fitted.is_flagged(score) if whole_course is None else whole_course.flagged).sum())
    return Incidents(
        [event.incident for event in found if event.event != "unconfirmed"],
        n_rows=len(score),
        n_flagged=n_flagged,
        unconfirmed=[event.incident for event in found if event.event == "unconfirmed"],
        expected=" ".join(filter(None, (expected_false(fitted, rule, usual_step(times)), about_movement(moved)))),
        native=table.native,
        course=whole_course,
    )


def _checked_times(search: Search, n_rows: int) -> Times | None:
    """As many times as rows, in order."""
    if search.times is not None:
        if len(search.times) != n_rows:
            refuse_times(len(search.times), n_rows)
        check_order(search.times, search.time_name)
    return search.times


def _known(search: Search, n_rows: int) -> Iterator[tuple[Mask, NDArray[np.intp]]]:
    """The rows of each stretch, given by its first and last positions, and these behind the normal rows before it."""
    stretches, normal = list(search.stretches or ()), np.ones(n_rows, dtype=bool)
    for first, last in stretches:
        if not 0 <= first <= last < n_rows:
            raise ValueError(
                f"stretches contains ({first}, {last}). Pass the positions of the first and last rows, "
                f"from 0 to {n_rows - 1}."
            )
        normal[first : last + 1] = False
    for first, last in stretches:
        members = np.zeros(n_rows, dtype=bool)
        members[first : last + 1] = True
        before = np.flatnonzero(normal[:first])[-max(search.baseline, SETTLED) :]
        yield members, np.append(before, np.arange(first, last + 1))


def _explained(explainer: Explainer, doubts: Doubts, rows: ScoredRows) -> Explanation:
    explainer._one_pass.count_rows(rows.standard)
    if explainer._one_pass.compiling_is_due:
        explainer._one_pass.engine.compile()
    return explainer._one_pass.explain_scored(rows, "values", doubts)


def as_columns(incidents: Sequence[Incident]) -> dict[str, list[Any]]:
    """One entry per incident in each column; the culprit is the first of the onset."""
    fields = ("start", "end", "peak_label", "status", "first", "last", "n_flagged", "score", "limit", "p_value", "kind")
    columns = {name.removesuffix("_label"): [getattr(incident, name) for incident in incidents] for name in fields}
    first = [incident.culprits[0] if incident.culprits else None for incident in incidents]
    columns["culprit"] = ["" if culprit is None else culprit.feature for culprit in first]
    for name in ("probability", "share", "actual", "expected", "expected_sd", "deviation"):
        columns[name] = [np.nan if culprit is None else getattr(culprit, name) for culprit in first]
    if any(incident.mode is not None for incident in incidents):
        columns["mode"] = [incident.mode for incident in incidents]
    columns["unit"] = ["" if culprit is None else culprit.unit for culprit in first]
    columns["against"] = ["" if culprit is None else culprit.against for culprit in first]
    columns["instead"] = ["" if culprit is None else ", ".join(culprit.instead) for culprit in first]
    columns["culprits"] = [", ".join(culprit.feature for culprit in incident.culprits) for incident in incidents]
    columns["moved_most"] = [", ".join(one.feature for one in incident.ranking[:_SHOWN]) for incident in incidents]
    columns["to_fix"] = [", ".join(incident.onset.to_fix) for incident in incidents]
    columns["score_if_fixed"] = [incident.onset.score_if_fixed for incident in incidents]
    columns["sentence"] = [incident.sentence for incident in incidents]
    return columns


def split_time(X: Any, time: Any) -> tuple[Any, Times | None, str]:
    """The features, the rows' times, and what these are called."""
    if isinstance(time, str):
        frame = to_frame(X)
        if not isinstance(frame, nw.DataFrame):
            raise ValueError(
                f"time={time!r} names a column, but X has no column names. Pass an array of times instead."
            )
        one_of(time, frame.columns, "time column")
        return frame.drop(time).to_native(), _read(frame.get_column(time).to_native(), time), time
    if time is not None:
        name = str(getattr(time, "name", None) or "time")
        return X, _read(time, name), name
    index: Any = getattr(X, "index", None)
    if type(index).__name__ in ("DatetimeIndex", "TimedeltaIndex", "PeriodIndex"):
        name = str(index.name or "time")
        return X, read_times(index, name), name
    return X, None, "time"


def _read(cells: Any, name: str) -> Times:
    return saying_utc(read_times(cells, name), cells)


def shown_names(fitted: FittedDetector, table: Table) -> list[str] | None:
    """What a table calls the columns that are judged, if it has names."""
    return None if table.names is None else [table.names[i] for i in fitted.columns.positions]


def units_of(
    fitted: FittedDetector, units: Mapping[str, str] | None = None, names: Sequence[str] | None = None
) -> list[str]:
    """The unit of every column, as given or else as the detector knows it; ``names`` are those of new rows."""
    names = fitted.columns.known_names or names or fitted.columns.names
    for name in units or {}:
        one_of(name, names, "feature in units:")
    known = {**fitted.units, **(units or {})}
    return [known.get(name, "") for name in names]
