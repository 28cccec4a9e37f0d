"""What a report says, as plain data: everything that the page shows, and nothing else."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Unpack

import numpy as np

from culpa._core.types import Floats, Positions
from culpa._core.validation import Table
from culpa.explainer import Explainer
from culpa.explanation import Explanation
from culpa.fitted import FittedDetector
from culpa.monitoring import Incident, Incidents, find_incidents
from culpa.monitoring.grouping import units_of_columns
from culpa.monitoring.incidents import shown_names, units_of
from culpa.monitoring.times import Times
from culpa.options import BlameOptions
from culpa.plots.content import ControlChart, Heatmap, RowAxis, Statistic, thin
from culpa.plots.text import TITLES
from culpa.report.details import Detail, History, detail, histories, main_culprits
from culpa.report.downsampling import marks
from culpa.report.model_page import Fact, Limit, ModelPage, fingerprint, limits, model_page
from culpa.report.numbers import Number, number, numbers
from culpa.report.phrases import Labels, count, place, share, verdict
from culpa.report.size_limits import Caps

Label = str | int | float

FORMAT = 1

_SHADES = 200  # incidents that are shaded in the charts; all flagged rows are marked
_HEAT_COLUMNS, _HEAT_ROWS = 60, 25


@dataclass(frozen=True)
class Overview:
    """The first things to know. ``mood`` is "calm", "unsure" or "alarm"."""

    verdict: str
    mood: str
    rows: int
    flagged: int
    empty_rows: int
    incidents: int
    facts: list[Fact]
    notes: list[str]


@dataclass(frozen=True)
class Curve:
    """A statistic over the points of a chart, and the limit above which a point is marked."""

    name: str
    title: str
    own: bool
    limits: list[Limit]
    alarm: float
    value: list[Number]


@dataclass(frozen=True)
class Chart:
    """Points of the control charts: rows of the table, where they lie, and how many flagged rows each marks.

    ``x`` is ``None`` where rows lie at their positions, ``label`` where the label is ``x``. ``word`` stands before a label.
    """

    time: bool
    axis: str
    word: str
    log: bool
    row: list[int]
    x: list[Label] | None
    label: list[Label] | None
    marks: list[int]
    statistics: list[Curve]
    shades: list[tuple[Label, Label]]


@dataclass(frozen=True)
class Blamed:
    """A culprit of an incident: mean Shapley value over its flagged rows with its standard error, and share.

    ``player`` is a position among the report's players.
    """

    player: int
    value: Number
    std_error: Number
    share: Number


@dataclass(frozen=True)
class Story:
    """An incident as the report lists it; ``joint_expected`` has positions and values of features."""

    first: int
    last: int
    peak: int
    start: Label
    end: Label
    peak_label: Label
    n_flagged: int
    score: Number
    n_to_fix: int | None
    joint_expected: list[tuple[int, Number]]
    score_if_fixed: Number
    culprits: list[Blamed]
    sentence: str
    history: History | None


@dataclass(frozen=True)
class Details:
    """Rows that can be looked at closely, and what their waterfalls share.

    ``base_value`` is ``None`` where features are given, so that rows differ in it.
    """

    title: str
    base_value: float | None
    limit: float
    exact: bool
    rows: list[Detail]


@dataclass(frozen=True)
class HeatMap:
    """Share of the score of each incident's worst row (columns) by player (rows)."""

    incidents: list[int]
    players: list[str]
    share: list[list[Number]]
    scale: float


@dataclass(frozen=True)
class Feature:
    """Something that has a reading in every row: a column, or a past value of one that was asked for by name."""

    name: str
    unit: str


@dataclass(frozen=True)
class Content:
    """A report. ``members`` are the features of each player, by position."""

    format: int
    title: str
    created: str
    features: list[Feature]
    players: list[str]
    members: list[list[int]]
    overview: Overview
    chart: Chart
    incidents: list[Story]
    details: Details
    heatmap: HeatMap
    model: ModelPage


def content(
    fitted: FittedDetector,
    table: Table,
    *,
    times: Times | None = None,
    time_name: str = "time",
    title: str = "Whose fault is it?",
    source: str = "",
    gap: Any = 0,
    min_length: int = 1,
    units: Mapping[str, str] | None = None,
    **options: Unpack[BlameOptions],
) -> Content:
    """Everything a report on the rows of a table says; the arguments are those of `PCADetector.report`."""
    with warnings.catch_warnings():  # the report itself tells how many rows are empty
        warnings.filterwarnings("ignore", "[0-9]+ row.s. have no observed feature", UserWarning)
        found = find_incidents(
            fitted, table, times=times, time_name=time_name, gap=gap, min_length=min_length, units=units, **options
        )
        chart = ControlChart.of_table(fitted, table, times, incidents=found)
        caps = Caps.of(len(table.array))
        listed = _worst(found, caps.incidents)
        score = next(one for one in chart.statistics if one.name == fitted.statistic.name).values
        explainer = fitted.explainer(**options)
        bars = caps.bars(len(explainer.players), len(listed))
        rows = _rows_to_explain(listed, score, caps.detailed(bars))
        why = explainer.explain(table, rows)
    all_units = units_of(fitted, units, shown_names(fitted, table))
    settings = {
        "data": _described(fitted, table, source),
        "fingerprint of the data": fingerprint(table.array),
        "blame": f"{why.game} game, {explainer.chosen}",
        "culprits": "ranked by Shapley values" if why.ranking == "shapley" else f"ranked by {why.ranking}",
        "incidents": f"gap={gap!r}, min_length={min_length!r}",
    } | {name: repr(value) for name, value in options.items()}
    return Content(
        format=FORMAT,
        title=title,
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        features=[
            Feature(name, unit)
            for name, unit in zip(why.feature_names, units_of_columns(explainer, all_units), strict=True)
        ],
        players=list(why.player_names),
        members=[list(members) for members in why.players],
        overview=_overview(fitted, table, chart, found, listed, why, source, caps),
        chart=_chart(fitted, chart, listed, score, None if times is None else time_name, caps),
        incidents=_stories(explainer, why, table, chart.axis, listed, caps),
        details=_details(fitted, explainer, why, rows, Labels(chart.axis), bars),
        heatmap=_heat_map(why, rows, listed),
        model=model_page(fitted, chart.statistics, all_units, settings),
    )


def _described(fitted: FittedDetector, table: Table, source: str) -> str:
    n, d = table.array.shape
    return f"{source + ': ' if source else ''}{count(n, 'row')} of {count(d, fitted.noun)}"


def _details(
    fitted: FittedDetector, explainer: Explainer, why: Explanation, rows: Positions, labels: Labels, bars: int
) -> Details:
    scale = fitted.model.scale[[members[0] for members in explainer.columns.members]]
    return Details(
        f"{TITLES[why.score_name]}: how much each {fitted.noun if why.groups is None else 'group'} adds",
        why.base_value if isinstance(why.base_value, float) else None,
        fitted.limit,
        why.exact,
        [detail(why, k, row, labels, scale, bars) for k, row in enumerate(rows.tolist())],
    )


def _worst(incidents: Sequence[Incident], most: int) -> list[Incident]:
    """The incidents with the highest scores, in the order of the table."""
    ranked = sorted(incidents, key=lambda incident: -incident.score)[:most]
    return sorted(ranked, key=lambda incident: incident.first)


def _rows_to_explain(listed: Sequence[Incident], score: Floats, most: int) -> Positions:
    """The worst row of every incident, then the worst rows of the table, as long as there is room."""
    peaks = [incident.peak for incident in listed]
    rank = np.where(np.isnan(score), -np.inf, score)
    rank[peaks] = np.inf
    first = np.argsort(-rank, kind="stable")[: max(most, len(peaks))]
    return np.sort(first[rank[first] > -np.inf])


def _chart(
    fitted: FittedDetector,
    chart: ControlChart,
    listed: Sequence[Incident],
    score: Floats,
    time_name: str | None,
    caps: Caps,
) -> Chart:
    flagged = np.asarray(score > fitted.limit)
    marked = marks(flagged, score, caps.marks)
    keep = np.zeros(len(score), dtype=bool)
    keep[marked.rows] = True
    kept = [thin(statistic.values, keep, caps.points) for statistic in chart.statistics]
    rows = np.unique(np.concatenate(kept))
    counts = np.zeros(len(rows), dtype=np.intp)
    counts[np.searchsorted(rows, marked.rows)] = marked.counts
    labels = Labels(chart.axis)
    axis = (time_name or "row") if chart.axis.labelled else "position in the table"
    spans = [chart.axis.span(one.first, one.last) for one in _worst(listed, _SHADES)]
    everything = limits(fitted, chart.statistics)
    ordered = sorted(chart.statistics, key=lambda statistic: statistic.name != fitted.statistic.name)
    return Chart(
        time=chart.axis.in_time,
        axis=axis,
        word="" if chart.axis.in_time else f"{time_name or 'row'} ",
        log=_needs_log(ordered),
        row=rows.tolist(),
        x=labels.places(rows),
        label=labels.texts(rows),
        marks=counts.tolist(),
        statistics=[
            Curve(
                statistic.name,
                TITLES[statistic.name],
                statistic.name == fitted.statistic.name,
                [limit for limit in everything if limit.name == statistic.name],
                float(statistic.alarm),
                numbers(statistic.values[rows], 6),
            )
            for statistic in ordered
        ],
        shades=[(place(start), place(end)) for start, end in spans],
    )


def _needs_log(statistics: Sequence[Statistic]) -> bool:
    """Whether the highest point would press everything else to the floor of a linear chart."""
    own = statistics[0]
    return bool(own.alarm > 0 and np.nanmax(own.values, initial=0.0) > 50 * own.alarm and np.nanmin(own.values) > 0)


def _stories(
    explainer: Explainer, why: Explanation, table: Table, axis: RowAxis, listed: Sequence[Incident], caps: Caps
) -> list[Story]:
    labels = Labels(axis)
    past = histories(explainer, why, table, axis, listed, caps.history)
    player = {name: k for k, name in enumerate(why.player_names)}
    feature = {name: k for k, name in enumerate(why.feature_names)}
    return [
        Story(
            incident.first,
            incident.last,
            incident.peak,
            labels.text(incident.first),
            labels.text(incident.last),
            labels.text(incident.peak),
            incident.n_flagged,
            number(incident.score),
            incident.n_to_fix,
            [(feature[name], number(value)) for name, value in incident.joint_expected.items()],
            number(incident.score_if_fixed),
            [
                Blamed(player[one.feature], number(one.value), number(one.std_error, 7), number(one.share, 7))
                for one in main_culprits(incident)
            ],
            incident.sentence,
            history,
        )
        for incident, history in zip(listed, past, strict=True)
    ]


def _heat_map(why: Explanation, rows: Positions, listed: Sequence[Incident]) -> HeatMap:
    """Shares rather than values, so that one enormous incident does not bleach the others."""
    chosen = _worst(listed, _HEAT_COLUMNS)
    if not chosen:
        return HeatMap([], [], [], 1.0)
    peaks = why[np.searchsorted(rows, [incident.peak for incident in chosen])]
    shares = replace(peaks, values=peaks.values / peaks.score[:, None])
    picture = Heatmap.of(shares, max_features=_HEAT_ROWS, max_rows=None)
    position = {incident.first: k for k, incident in enumerate(listed)}
    return HeatMap(
        [position[incident.first] for incident in chosen],
        list(picture.names),
        [numbers(line, 4) for line in picture.values.T],
        picture.scale,
    )


def _overview(
    fitted: FittedDetector,
    table: Table,
    chart: ControlChart,
    found: Incidents,
    listed: Sequence[Incident],
    why: Explanation,
    source: str,
    caps: Caps,
) -> Overview:
    n, d = table.array.shape
    worst = max(listed, key=lambda incident: incident.score).sentence if listed else None
    empty = int(np.isnan(table.array).all(axis=1).sum())
    text, mood = verdict(n, n - empty, found.n_flagged, len(found), fitted.confidence, worst)
    labels = Labels(chart.axis)
    missing = int(np.isnan(table.array).sum())
    span = " to ".join(dict.fromkeys(str(labels.text(at)) for at in (0, n - 1))) if chart.axis.in_time else source
    model = fitted.ppca
    facts = [
        Fact("Rows", f"{n:,}", span),
        Fact(
            "Flagged",
            f"{found.n_flagged:,}",
            f"{share(found.n_flagged / n)} of the rows" if n > empty else "no row has a score",
        ),
        Fact("Incidents", f"{len(found):,}", "flagged rows that follow each other"),
        Fact("Limit", f"{fitted.limit:.5g}", f"of {TITLES[fitted.statistic.name]}, at {share(fitted.confidence)}"),
        *_false_alarms(fitted),
        Fact(
            f"{fitted.noun}s".capitalize(),
            f"{d:,}",
            f"{count(missing, 'cell')} missing" if missing else "no cell missing",
        ),
        Fact(
            "Model",
            count(model.n_components_, "component"),
            f"{share(model.explained_variance_ratio_.sum())} of the variance, from {model.n_samples_:,.0f} normal rows",
        ),
    ]
    notes = _notes(n, empty, found, listed, why, caps)
    return Overview(text, mood, n, found.n_flagged, empty, len(found), facts, notes)


def _false_alarms(fitted: FittedDetector) -> list[Fact]:
    rate = fitted.false_alarm_rate
    if rate is None:
        return []
    value, low, high = (f"{100 * part:.2g}" for part in rate)
    return [Fact("False alarms", f"{value}%", f"of held-out normal rows, 95% interval {low} to {high}%")]


def _notes(n: int, empty: int, found: Incidents, listed: Sequence[Incident], why: Explanation, caps: Caps) -> list[str]:
    """What the report leaves out, and why."""
    notes = []
    if empty:
        notes.append(f"{count(empty, 'row')} without any observed feature: no score, not flagged.")
    loose = found.n_flagged - sum(incident.n_flagged for incident in found)
    if loose:
        notes.append(f"{count(loose, 'flagged row')} in stretches too short to be an incident.")
    if len(listed) < len(found):
        notes.append(f"The {len(listed):,} worst of {len(found):,} incidents are listed.")
    if n > caps.points:
        marked = "each flagged row is marked"
        if found.n_flagged > caps.marks:
            marked = "flagged rows close to each other share a mark, at the worst of them"
        notes.append(f"Charts show the highest and lowest of {n:,} rows in every stretch; {marked}.")
    if len(why) < n - empty:
        notes.append(
            f"Details are kept for the worst row of every listed incident and the worst rows besides: {len(why):,} rows."
        )
    return notes
