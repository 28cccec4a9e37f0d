"""Who is blamed, incident by incident."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from culpa._core.types import Positions
from culpa.explanation import Explanation
from culpa.monitoring import Incident
from culpa.plots.content import Heatmap
from culpa.report.numbers import Number, numbers

_COLUMNS, _ROWS = 60, 25


@dataclass(frozen=True)
class HeatMap:
    """Share of the score of each incident's worst row (columns) by player (rows)."""

    incidents: list[int]
    players: list[str]
    share: list[list[Number]]
    scale: float


def worst(incidents: Sequence[Incident], most: int) -> list[Incident]:
    """The incidents with the highest scores, in the order of the table."""
    ranked = sorted(incidents, key=lambda incident: -incident.score)[:most]
    return sorted(ranked, key=lambda incident: incident.first)


def heat_map(why: Explanation, rows: Positions, listed: Sequence[Incident]) -> HeatMap:
    """Shares rather than values, so that one enormous incident does not bleach the others."""
    chosen = worst(listed, _COLUMNS)
    if not chosen:
        return HeatMap([], [], [], 1.0)
    peaks = why[np.searchsorted(rows, [incident.peak for incident in chosen])]
    shares = replace(peaks, values=peaks.values / peaks.score[:, None])
    picture = Heatmap.of(shares, max_features=_ROWS, max_rows=None)
    position = {incident.first: k for k, incident in enumerate(listed)}
    return HeatMap(
        [position[incident.first] for incident in chosen],
        list(picture.names),
        [numbers(line, 4) for line in picture.values.T],
        picture.scale,
    )
