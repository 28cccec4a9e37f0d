"""The first things to know about the rows, and what the report leaves out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from culpa._core.validation import Table
from culpa._core.words import count, in_percent, ordinal, share
from culpa.fitted import FittedDetector
from culpa.monitoring import Incident, Incidents
from culpa.plots.content import ControlChart
from culpa.plots.text import TITLES
from culpa.report.detailed_rows import DetailedRows
from culpa.report.model_page import Fact
from culpa.report.phrases import Labels
from culpa.report.size_limits import Caps
from culpa.report.stories import Story
from culpa.report.trends import Trends
from culpa.report.verdict import verdict


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


def overview(
    fitted: FittedDetector,
    table: Table,
    chart: ControlChart,
    found: Incidents,
    source: str,
    word: str,
    notes: list[str],
) -> Overview:
    """``word`` stands before a row's label, ``notes`` say what was left out."""
    n, labels = len(table.array), Labels(chart.axis)
    scored = ~np.isnan(chart.own_statistic.values)
    worst = max(found, key=lambda incident: incident.score).sentence if len(found) else None
    text, mood = verdict(
        chart.flagged, scored, len(found), fitted.coverage, worst, lambda row: f"{word}{labels.text(row)}"
    )
    empty = n - int(scored.sum())
    return Overview(
        text, mood, n, found.n_flagged, empty, len(found), _facts(fitted, table, chart, found, source), notes
    )


def _facts(fitted: FittedDetector, table: Table, chart: ControlChart, found: Incidents, source: str) -> list[Fact]:
    n, d = table.array.shape
    labels, model = Labels(chart.axis), fitted.ppca
    span = " to ".join(dict.fromkeys(str(labels.text(at)) for at in (0, n - 1))) if chart.axis.in_time else source
    missing = int(np.isnan(table.array).sum())
    modes = "" if fitted.n_modes is None else f"{count(fitted.n_modes, 'mode')}, up to "
    some_scored = not np.isnan(chart.own_statistic.values).all()
    return [
        Fact("Rows", f"{n:,}", span),
        Fact(
            "Flagged",
            f"{found.n_flagged:,}",
            f"{share(found.n_flagged / n)} of the rows" if some_scored else "no row has a score",
        ),
        Fact("Incidents", f"{len(found):,}", "flagged rows that follow each other"),
        Fact("Limit", f"{fitted.limit:.5g}", f"of {TITLES[fitted.statistic.name]}, at {share(fitted.coverage)}"),
        *_false_alarms(fitted),
        Fact(
            f"{fitted.noun}s".capitalize(),
            f"{d:,}",
            f"{count(missing, 'cell')} missing" if missing else "no cell missing",
        ),
        Fact(
            "Model",
            f"{modes}{count(fitted.n_components, 'component')}",
            f"{share(fitted.explained_variance)} of the variance, from {model.n_samples_:,.0f} normal rows",
        ),
    ]


def _false_alarms(fitted: FittedDetector) -> list[Fact]:
    rate = fitted.false_alarm_rate
    if rate is None:
        return []
    value, low, high = in_percent(rate)
    return [Fact("False alarms", f"{value}%", f"of held-out normal rows, 95% interval {low} to {high}%")]


def left_out(
    chart: ControlChart,
    found: Incidents,
    listed: Sequence[Incident],
    told: Sequence[Story],
    detailed: DetailedRows,
    trends: Trends,
    caps: Caps,
) -> list[str]:
    """What the report leaves out, and why."""
    n, empty = len(chart.flagged), int(np.isnan(chart.own_statistic.values).sum())
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
    if len(detailed.rows) < n - empty:
        notes.append(_detailed(detailed))
    dropped = sum(story.course is None and story.first != story.last for story in told)
    if dropped:
        notes.append(f"How they went on is not kept for {count(dropped, 'incident')} with lower scores.")
    if trends.n_left_out:
        notes.append(f"Trends are not kept for {count(trends.n_left_out, 'feature')} that moved least.")
    return notes


def _detailed(detailed: DetailedRows) -> str:
    kept = f"Details are kept for {count(len(detailed.rows), 'row')}:"
    if detailed.spacing == 1:
        return f"{kept} every flagged row of the listed incidents, and the worst other rows."
    ends = "the onset and the worst row of every listed incident"
    if detailed.spacing is None:
        return f"{kept} {ends}, and the worst other rows."
    return f"{kept} {ends}, every {ordinal(detailed.spacing)} flagged row of it, and the worst other rows."
