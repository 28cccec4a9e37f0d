"""The control charts of a report."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from culpa.fitted import FittedDetector
from culpa.monitoring import Incident
from culpa.plots.content import ControlChart, thin
from culpa.plots.text import TITLES
from culpa.report.downsampling import marks
from culpa.report.heat import worst
from culpa.report.model_page import Limit, limits
from culpa.report.numbers import Number, numbers
from culpa.report.phrases import Label, Labels, place
from culpa.report.size_limits import Caps

_SHADES = 200  # incidents that are shaded; all flagged rows are marked


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


def charts(
    fitted: FittedDetector, chart: ControlChart, listed: Sequence[Incident], time_name: str | None, caps: Caps
) -> Chart:
    """The detector's own statistic first."""
    marked = marks(chart.flagged, chart.own_statistic.values, caps.marks)
    keep = np.zeros(len(chart.flagged), dtype=bool)
    keep[marked.rows] = True
    kept = [thin(statistic.values, keep, caps.points) for statistic in chart.statistics]
    rows = np.unique(np.concatenate(kept))
    counts = np.zeros(len(rows), dtype=np.intp)
    counts[np.searchsorted(rows, marked.rows)] = marked.counts
    labels = Labels(chart.axis)
    spans = [chart.axis.span(one.first, one.last) for one in worst(listed, _SHADES)]
    everything = limits(fitted, chart.statistics)
    return Chart(
        time=chart.axis.in_time,
        axis=(time_name or "row") if chart.axis.labelled else "position in the table",
        word="" if chart.axis.in_time else f"{time_name or 'row'} ",
        log=chart.needs_log,
        row=labels.rows(rows),
        x=labels.places(rows),
        label=labels.texts(rows),
        marks=counts.tolist(),
        statistics=[
            Curve(
                statistic.name,
                TITLES[statistic.name],
                statistic.name == chart.own,
                [limit for limit in everything if limit.name == statistic.name],
                float(statistic.alarm),
                numbers(statistic.values[rows], 6),
            )
            for statistic in sorted(chart.statistics, key=lambda one: one.name != chart.own)
        ],
        shades=[(place(start), place(end)) for start, end in spans],
    )
