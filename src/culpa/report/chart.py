"""The control charts of a report."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats, Positions
from culpa.fitted import FittedDetector
from culpa.monitoring import Incident
from culpa.plots.content import ControlChart, thin
from culpa.plots.text import TITLES
from culpa.report.incidents import worst
from culpa.report.model_page import limits
from culpa.report.phrases import Labels, numbers, place
from culpa.report.size_limits import Caps

_SHADES = 200  # incidents that are shaded; all flagged rows are marked


def charts(
    fitted: FittedDetector, chart: ControlChart, listed: Sequence[Incident], time_name: str | None, caps: Caps
) -> dict[str, Any]:
    """Points of the control charts: rows of the table, where they lie, and how many flagged rows each marks.

    The detector's own statistic comes first; ``alarm`` is the limit above which a point is marked. ``x`` is ``None`` where
    rows lie at their positions, ``label`` where the label is ``x``. ``word`` stands before a label.
    """
    marked, n_marked = marks(chart.flagged, chart.own_statistic.values, caps.marks)
    keep = np.zeros(len(chart.flagged), dtype=bool)
    keep[marked] = True
    kept = [thin(statistic.values, keep, caps.points) for statistic in chart.statistics]
    rows = np.unique(np.concatenate(kept))
    counts = np.zeros(len(rows), dtype=np.intp)
    counts[np.searchsorted(rows, marked)] = n_marked
    labels = Labels(chart.axis)
    spans = [chart.axis.span(one.first, one.last) for one in worst(listed, _SHADES)]
    everything = limits(fitted, chart.statistics)
    return {
        "time": chart.axis.in_time,
        "axis": (time_name or "row") if chart.axis.labelled else "position in the table",
        "word": "" if chart.axis.in_time else f"{time_name or 'row'} ",
        "log": chart.needs_log,
        "row": labels.rows(rows),
        "x": labels.places(rows),
        "label": labels.texts(rows),
        "marks": counts.tolist(),
        "statistics": [
            {
                "name": statistic.name,
                "title": TITLES[statistic.name],
                "own": statistic.name == chart.own,
                "limits": [limit for limit in everything if limit["name"] == statistic.name],
                "alarm": float(statistic.alarm),
                "value": numbers(statistic.values[rows], 6),
            }
            for statistic in sorted(chart.statistics, key=lambda one: one.name != chart.own)
        ],
        "shades": [(place(start), place(end)) for start, end in spans],
    }


def marks(flagged: NDArray[np.bool_], severity: Floats, most: int) -> tuple[Positions, Positions]:
    """Rows that carry a mark, in order, and how many flagged rows each mark stands for.

    Every flagged row has one; with more than ``most`` of them, neighbours share one, drawn at the worst.

    Neighbours are rows in the same stretch, of which there are ``most`` over the whole table.

    >>> severity = np.array([9.0, 1.0, 8.0, 9.5, 1.0, 7.0])
    >>> marks(severity > 5, severity, most=3)
    (array([0, 3, 5]), array([1, 2, 1]))
    """
    rows = np.flatnonzero(flagged)
    if len(rows) <= most:
        return rows, np.ones(len(rows), dtype=np.intp)
    stretch = rows // -(-len(flagged) // most)
    worst_first = np.lexsort((-severity[rows], stretch))
    _, first, counts = np.unique(stretch[worst_first], return_index=True, return_counts=True)
    return rows[worst_first][first], counts
