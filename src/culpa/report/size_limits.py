"""How much a report keeps, so that its file stays below 6 MB for 10,000 rows and below 12 MB for any number.

plotly's script takes 4.8 MB of that. What is left out is counted, and the report says so.
"""

from typing import NamedTuple

import numpy as np


class Caps(NamedTuple):
    """How much of everything a page may hold."""

    points: int  # that draw the line of a statistic
    marks: int  # of flagged rows; beyond, neighbours share one
    incidents: int  # listed, the worst ones; each keeps the details of its onset and of its worst row
    cells: int  # bars of waterfalls, over all rows with details
    history: int  # cells of histories of culprits, over all incidents
    courses: int  # cells that tell how incidents went on, over all incidents
    trends: int  # values of the trends of all features

    @classmethod
    def of(cls, n_rows: int, n_incidents: int = 0) -> "Caps":
        """What a table of so many rows gets; the more incidents are listed, the less there is of the rest."""
        caps = _SMALL if n_rows <= 10_000 else _LARGE
        left = 1 - _CROWDED * min(n_incidents / caps.incidents, 1.0)
        return caps._replace(
            history=int(left * caps.history), courses=int(left * caps.courses), trends=int(left * caps.trends)
        )

    def bars(self, n_players: int, n_rows: int) -> int:
        """Players that a waterfall shows on their own; fewer where very many rows must have one."""
        shown = min(n_players, MOST_BARS)
        return int(np.clip(self.cells // max(n_rows, 1), min(FEWEST_BARS, shown), shown))

    def detailed(self, bars: int) -> int:
        """Rows that may have details."""
        return self.cells // bars


MOST_BARS, FEWEST_BARS = 20, 3
_CROWDED = 0.9  # of histories, courses and trends that the largest number of incidents costs

_SMALL = Caps(points=1200, marks=2000, incidents=250, cells=2600, history=7000, courses=12_000, trends=20_000)
_LARGE = Caps(points=2000, marks=20_000, incidents=2000, cells=14_000, history=30_000, courses=60_000, trends=40_000)
