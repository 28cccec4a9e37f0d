"""Marks of flagged rows, few enough to draw, without losing any."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats

Positions = NDArray[np.intp]


class Marks(NamedTuple):
    """Rows that carry a mark, in order, and how many flagged rows each mark stands for."""

    rows: Positions
    counts: Positions


def marks(flagged: NDArray[np.bool_], severity: Floats, most: int) -> Marks:
    """A mark for every flagged row; with more than ``most`` of them, neighbours share one, drawn at the worst.

    Neighbours are rows in the same stretch, of which there are ``most`` over the whole table.

    >>> severity = np.array([9.0, 1.0, 8.0, 9.5, 1.0, 7.0])
    >>> marks(severity > 5, severity, most=3)
    Marks(rows=array([0, 3, 5]), counts=array([1, 2, 1]))
    """
    rows = np.flatnonzero(flagged)
    if len(rows) <= most:
        return Marks(rows, np.ones(len(rows), dtype=np.intp))
    stretch = rows // -(-len(flagged) // most)
    worst_first = np.lexsort((-severity[rows], stretch))
    _, first, counts = np.unique(stretch[worst_first], return_index=True, return_counts=True)
    return Marks(rows[worst_first][first], counts)
