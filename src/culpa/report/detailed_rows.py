"""Which rows can be looked at closely?"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from culpa._core.types import Floats, Mask, Positions
from culpa.monitoring import Incident


class DetailedRows(NamedTuple):
    """Positions of rows with details; every ``spacing``-th flagged row of the listed incidents has some, if any do."""

    rows: Positions
    spacing: int | None


def first_to_explain(listed: Sequence[Incident]) -> Positions:
    """The rows that have details whatever it takes: the onset and the worst row of every incident."""
    rows = [row for incident in listed for row in (incident.onset.row, incident.peak)]
    return np.unique(np.array(rows, dtype=np.intp))


def rows_to_explain(listed: Sequence[Incident], score: Floats, flagged: Mask, most: int) -> DetailedRows:
    """Onsets and worst rows, flagged rows between at an even spacing, then the worst other rows, while there is room."""
    chosen = first_to_explain(listed)
    spacing = None
    if listed and len(chosen) < most:
        inside = [incident.first + np.flatnonzero(flagged[incident.first : incident.last + 1]) for incident in listed]
        spacing, chosen = _evenly(inside, chosen, most)
    rank = np.where(np.isnan(score), -np.inf, score)
    rank[chosen] = np.inf
    first = np.argsort(-rank, kind="stable")[: max(most, len(chosen))]
    return DetailedRows(np.sort(first[rank[first] > -np.inf]), spacing)


def _evenly(inside: Sequence[Positions], chosen: Positions, most: int) -> tuple[int | None, Positions]:
    """A spacing for which there is room, while the next smaller one has none.

    ``None`` where there is no room even for the first row of every incident.
    """
    low, high = 1, max(map(len, inside))
    if len(_with_spacing(inside, chosen, high)) > most:
        return None, chosen
    while low < high:
        middle = (low + high) // 2
        if len(_with_spacing(inside, chosen, middle)) <= most:
            high = middle
        else:
            low = middle + 1
    return low, _with_spacing(inside, chosen, low)


def _with_spacing(inside: Sequence[Positions], chosen: Positions, spacing: int) -> Positions:
    return np.union1d(chosen, np.concatenate([rows[::spacing] for rows in inside])).astype(np.intp)
