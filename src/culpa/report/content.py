"""What a report says, as plain data: everything that the page shows, and nothing else."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Unpack

import numpy as np

from culpa._core.parameters import BlameOptions
from culpa._core.validation import Table
from culpa._core.warning import EmptyRowsWarning, without_warnings
from culpa._core.words import count, in_percent, ordinal, share
from culpa.fitted import FittedDetector
from culpa.fitting.diagnostics import rate_in_words
from culpa.monitoring import Incident, Incidents, find_incidents
from culpa.monitoring.digits import decimals_of_columns
from culpa.monitoring.finder import units_of_columns
from culpa.monitoring.incidents import Search, shown_names, units_of
from culpa.monitoring.moments import Names
from culpa.plots.content import ControlChart
from culpa.plots.text import TITLES
from culpa.report.chart import charts
from culpa.report.incidents import heat_map, histories, incident_dicts, windows, worst
from culpa.report.model_page import fact, fingerprint, model_page
from culpa.report.phrases import Labels
from culpa.report.rows import DetailedRows, details, first_to_explain, rows_to_explain
from culpa.report.seen import SeenRows
from culpa.report.size_limits import Caps
from culpa.report.trends import trends
from culpa.report.verdict import verdict
from culpa.scores.following import FOLLOWING

FORMAT = 3


def content(
    fitted: FittedDetector,
    table: Table,
    search: Search,
    *,
    title: str = "Whose fault is it?",
    source: str = "",
    **options: Unpack[BlameOptions],
) -> dict[str, Any]:
    """Everything a report on the rows of a table says; the arguments are those of `PCADetector.report`.

    ``features`` are things that have a reading in every row: columns, or past values that were asked for by name;
    ``decimals`` are those of their readings wherever the page shows them, negative for large numbers. ``members`` are the
    features of each player, by position, and ``noun`` is what a column is called.
    """
    explainer = fitted.explainer(**options)
    with without_warnings(EmptyRowsWarning):  # the report itself tells how many rows are empty
        found = find_incidents(fitted, table, search, **options)
        chart = ControlChart.of_table(fitted, table, search.times, incidents=found)
        caps = Caps.of(len(table.array), len(found))
        listed = worst(found, caps.incidents)
        bars = caps.bars(len(explainer.players), len(first_to_explain(listed)))
        severity = chart.own_statistic.values
        if fitted.views is not None:  # which explain the rows that they flag, and no others
            severity = np.where(chart.flagged, severity, np.nan)
        detailed = rows_to_explain(listed, severity, chart.flagged, caps.detailed(bars))
        reading = explainer.columns.read(table)
        names = Names.of(explainer, reading.names)
        shown = windows(names, reading, listed, caps.history)
        missing = None if table.order is None else table.order.missing
        seen = SeenRows.of(fitted, reading, missing, np.unique(np.concatenate([detailed.rows, *shown.values()])))
        why = seen.explained(detailed.rows, **options)
    labels = Labels(chart.axis)
    all_units = units_of(fitted, search.units, shown_names(fitted, table))
    settings = {
        "data": _described(fitted, table, source),
        "fingerprint of the data": fingerprint(table.array),
        "blame": f"{why.game} game, {explainer.chosen}",
        "culprits": "ranked by Shapley values" if why.ranking == "shapley" else f"ranked by {why.ranking}",
        "incidents": _grouped(search),
    } | {name: repr(value) for name, value in options.items()}
    charted = charts(fitted, chart, listed, None if search.times is None else search.time_name, caps)
    around = histories(seen, explainer.columns, names, chart.axis, listed, shown)
    told = incident_dicts(why, listed, around, labels, caps.courses)
    kept = trends(explainer, reading, why.feature_names, listed, labels, caps.trends)
    notes = _left_out(chart, found, listed, told, detailed, kept, caps)
    columns = zip(
        why.feature_names,
        units_of_columns(explainer, all_units),
        decimals_of_columns(fitted, explainer.columns),
        strict=True,
    )
    return {
        "format": FORMAT,
        "title": title,
        "created": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "noun": fitted.settings.noun,
        "features": [{"name": name, "unit": unit, "decimals": decimals} for name, unit, decimals in columns],
        "players": list(why.player_names),
        "members": [list(members) for members in why.players],
        "overview": _overview(fitted, table, chart, found, source, charted["word"]) | {"notes": notes},
        "chart": charted,
        "incidents": told,
        "details": details(fitted, explainer, why, detailed, labels, bars, chart.own_statistic.alarm),
        "trends": kept,
        "heatmap": heat_map(why, detailed.rows, listed),
        "model": model_page(fitted, chart.statistics, all_units, settings),
    }


def _grouped(search: Search) -> str:
    names = ("gap", "min_length", "false_incidents")
    given = [f"{name}={value!r}" for name in names if (value := getattr(search, name)) is not None]
    return ", ".join([*(given or ["grouped as learned"]), f"baseline={search.baseline!r}"])


def _described(fitted: FittedDetector, table: Table, source: str) -> str:
    n, d = table.array.shape
    return f"{source + ': ' if source else ''}{count(n, 'row')} of {count(d, fitted.settings.noun)}"


def _overview(
    fitted: FittedDetector, table: Table, chart: ControlChart, found: Incidents, source: str, word: str
) -> dict[str, Any]:
    """The first things to know. The mood is "calm", "unsure" or "alarm"; ``word`` stands before a row's label."""
    n, labels = len(table.array), Labels(chart.axis)
    scored = ~np.isnan(chart.own_statistic.values)
    first = max(found, key=lambda incident: incident.score).sentence if len(found) else None
    text, mood = verdict(
        chart.flagged, scored, len(found), fitted.coverage, first, lambda row: f"{word}{labels.text(row)}"
    )
    return {
        "verdict": text,
        "mood": mood,
        "rows": n,
        "flagged": found.n_flagged,
        "empty_rows": n - int(scored.sum()),
        "incidents": len(found),
        "facts": _facts(fitted, table, chart, found, source),
    }


def _facts(
    fitted: FittedDetector, table: Table, chart: ControlChart, found: Incidents, source: str
) -> list[dict[str, str]]:
    n, d = table.array.shape
    labels, model = Labels(chart.axis), fitted.ppca
    span = " to ".join(dict.fromkeys(str(labels.text(at)) for at in (0, n - 1))) if chart.axis.in_time else source
    missing = int(np.isnan(table.array).sum())
    modes = "" if fitted.n_modes is None else f"{count(fitted.n_modes, 'mode')}, up to "
    some_scored = not np.isnan(chart.own_statistic.values).all()
    return [
        fact("Rows", f"{n:,}", span),
        fact(
            "Flagged",
            f"{found.n_flagged:,}",
            f"{share(found.n_flagged / n)} of the rows" if some_scored else "no row has a score",
        ),
        fact("Incidents", f"{len(found):,}", found.expected or "flagged rows that follow each other"),
        _limit(fitted, found),
        *_false_alarms(fitted, found),
        fact(
            f"{fitted.settings.noun}s".capitalize(),
            f"{d:,}",
            f"{count(missing, 'cell')} missing" if missing else "no cell missing",
        ),
        fact(
            "Model",
            f"{modes}{count(fitted.n_components, 'component')}",
            f"{share(float(model.explained_variance_ratio_.sum()))} of the variance, "
            f"from {model.n_samples_:,.0f} normal rows",
        ),
    ]


def _limit(fitted: FittedDetector, found: Incidents) -> dict[str, str]:
    if fitted.views is None or found.course is None:
        return fact("Limit", f"{fitted.limit:.5g}", f"of {TITLES[fitted.statistic.name]}, at {share(fitted.coverage)}")
    low, high = (float(value) for value in np.quantile(found.course.limit, [0, 1]))
    told = f"follows, so that {share(1 - fitted.coverage)} of normal rows are flagged: times that of the training rows"
    return fact("Limit", f"{low:.2f} to {high:.2f}", told)


def _false_alarms(fitted: FittedDetector, found: Incidents) -> list[dict[str, str]]:
    stated = fitted.stated
    if stated is None:
        return []
    if stated.rate is None:
        return [fact("False alarms", "not known", rate_in_words(fitted))]
    value, low, high = in_percent(stated.rate)
    later = stated.later is not None and stated.later.value > stated.held_out.value
    rows = "later" if later else "held-out"
    why = "" if stated.later is None else ", because rows drift" if later else ", but rows drift"
    follows = fitted.views is not None and found.course is not None
    limit = f" above the fixed limit of {TITLES[fitted.statistic.name]}" if follows else ""
    return [fact("False alarms", f"{value}%", f"of {rows} normal rows{limit}{why}, 95% interval {low} to {high}%")]


def _left_out(
    chart: ControlChart,
    found: Incidents,
    listed: Sequence[Incident],
    told: Sequence[dict[str, Any]],
    detailed: DetailedRows,
    trends: dict[str, Any],
    caps: Caps,
) -> list[str]:
    """What the report leaves out, and why."""
    n, empty = len(chart.flagged), int(np.isnan(chart.own_statistic.values).sum())
    notes = []
    if empty:
        notes.append(f"{count(empty, 'row')} without any observed feature: no score, not flagged.")
    loose = found.n_flagged - sum(incident.n_flagged for incident in found)
    if loose:
        why = "with too little evidence for" if found.expected else "in stretches too short for"
        notes.append(f"{count(loose, 'flagged row')} {why} an incident.")
    if len(listed) < len(found):
        notes.append(f"The {len(listed):,} worst of {len(found):,} incidents are listed.")
    if n > caps.points:
        marked = "each flagged row is marked"
        if found.n_flagged > caps.marks:
            marked = "flagged rows close to each other share a mark, at the worst of them"
        notes.append(f"Charts show the highest and lowest of {n:,} rows in every stretch; {marked}.")
    if len(detailed.rows) < n - empty:
        notes.append(_detailed(detailed, "flagged rows" if chart.own == FOLLOWING else "rows"))
    dropped = sum(not one["timeline"] and one["first"] != one["last"] for one in told)
    if dropped:
        notes.append(f"How they went on is not kept for {count(dropped, 'incident')} with lower scores.")
    if trends["n_left_out"]:
        notes.append(f"Trends are not kept for {count(trends['n_left_out'], 'feature')} that moved least.")
    return notes


def _detailed(detailed: DetailedRows, others: str) -> str:
    kept = f"Details are kept for {count(len(detailed.rows), 'row')}:"
    if not len(detailed.rows):
        return f"{kept} only {others} have them."
    if detailed.spacing == 1:
        return f"{kept} every flagged row of the listed incidents, and the worst other {others}."
    ends = "the onset and the worst row of every listed incident"
    if detailed.spacing is None:
        return f"{kept} {ends}, and the worst other {others}."
    return f"{kept} {ends}, every {ordinal(detailed.spacing)} flagged row of it, and the worst other {others}."
