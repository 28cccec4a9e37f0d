"""What a report says, as plain data: everything that the page shows, and nothing else."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Unpack

from culpa._core.validation import Table
from culpa._core.warning import EmptyRowsWarning, without_warnings
from culpa._core.words import count
from culpa.explaining.options import BlameOptions
from culpa.fitted import FittedDetector
from culpa.monitoring import find_incidents
from culpa.monitoring.digits import decimals_of_columns
from culpa.monitoring.finder import units_of_columns
from culpa.monitoring.incidents import Search, shown_names, units_of
from culpa.plots.content import ControlChart
from culpa.report.chart import Chart, charts
from culpa.report.courses import courses
from culpa.report.detailed_rows import first_to_explain, rows_to_explain
from culpa.report.details import Details, details
from culpa.report.heat import HeatMap, heat_map, worst
from culpa.report.histories import histories
from culpa.report.model_page import ModelPage, fingerprint, model_page
from culpa.report.overview import Overview, left_out, overview
from culpa.report.phrases import Labels
from culpa.report.size_limits import Caps
from culpa.report.stories import Story, stories
from culpa.report.trends import Trends, trends

FORMAT = 2


@dataclass(frozen=True)
class Feature:
    """Something that has a reading in every row: a column, or a past value of one that was asked for by name.

    ``decimals`` are those of its readings wherever the page shows them; negative for large numbers.
    """

    name: str
    unit: str
    decimals: int


@dataclass(frozen=True)
class Content:
    """A report. ``members`` are the features of each player, by position; ``noun`` is what a column is called."""

    format: int
    title: str
    created: str
    noun: str
    features: list[Feature]
    players: list[str]
    members: list[list[int]]
    overview: Overview
    chart: Chart
    incidents: list[Story]
    details: Details
    trends: Trends
    heatmap: HeatMap
    model: ModelPage


def content(
    fitted: FittedDetector,
    table: Table,
    search: Search,
    *,
    title: str = "Whose fault is it?",
    source: str = "",
    **options: Unpack[BlameOptions],
) -> Content:
    """Everything a report on the rows of a table says; the arguments are those of `PCADetector.report`."""
    explainer = fitted.explainer(**options)
    with without_warnings(EmptyRowsWarning):  # the report itself tells how many rows are empty
        found = find_incidents(fitted, table, search, **options)
        chart = ControlChart.of_table(fitted, table, search.times, incidents=found)
        caps = Caps.of(len(table.array), len(found))
        listed = worst(found, caps.incidents)
        bars = caps.bars(len(explainer.players), len(first_to_explain(listed)))
        detailed = rows_to_explain(listed, chart.own_statistic.values, chart.flagged, caps.detailed(bars))
        why = explainer.explain(table, detailed.rows)
    labels = Labels(chart.axis)
    all_units = units_of(fitted, search.units, shown_names(fitted, table))
    settings = {
        "data": _described(fitted, table, source),
        "fingerprint of the data": fingerprint(table.array),
        "blame": f"{why.game} game, {explainer.chosen}",
        "culprits": "ranked by Shapley values" if why.ranking == "shapley" else f"ranked by {why.ranking}",
        "incidents": f"gap={search.gap!r}, min_length={search.min_length!r}, baseline={search.baseline!r}",
    } | {name: repr(value) for name, value in options.items()}
    charted = charts(fitted, chart, listed, None if search.times is None else search.time_name, caps)
    reading = explainer.columns.read(table)
    told = stories(
        why,
        listed,
        courses(why, listed, labels, caps.courses),
        histories(explainer, why, reading, chart.axis, listed, caps.history),
        labels,
    )
    kept = trends(explainer, reading, why.feature_names, listed, labels, caps.trends)
    notes = left_out(chart, found, listed, told, detailed, kept, caps)
    return Content(
        format=FORMAT,
        title=title,
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        noun=fitted.noun,
        features=[
            Feature(*one)
            for one in zip(
                why.feature_names,
                units_of_columns(explainer, all_units),
                decimals_of_columns(fitted, explainer.columns),
                strict=True,
            )
        ],
        players=list(why.player_names),
        members=[list(members) for members in why.players],
        overview=overview(fitted, table, chart, found, source, charted.word, notes),
        chart=charted,
        incidents=told,
        details=details(fitted, explainer, why, detailed, labels, bars),
        trends=kept,
        heatmap=heat_map(why, detailed.rows, listed),
        model=model_page(fitted, chart.statistics, all_units, settings),
    )


def _described(fitted: FittedDetector, table: Table, source: str) -> str:
    n, d = table.array.shape
    return f"{source + ': ' if source else ''}{count(n, 'row')} of {count(d, fitted.noun)}"
