"""Dirty training data, cell by cell: suspicious cells become missing, and are listed."""

from dataclasses import replace
from typing import Any

import numpy as np

from culpa._core.threads import one_blas_thread
from culpa._core.validation import Table, frame_like
from culpa.models.cells import flag_cells


def without_suspicious_cells(table: Table) -> tuple[Table, Any]:
    """The table with its suspicious cells missing, and a table of these cells, the worst first."""
    with one_blas_thread(len(table.array)):
        flags = flag_cells(table.array)
    rows, columns = np.nonzero(flags.mask)
    worst = np.argsort(-np.abs(flags.residual[rows, columns]), kind="stable")
    rows, columns = rows[worst], columns[worst]
    listed = {
        "row": table.row_labels()[rows],
        "position": rows,
        "feature": np.array(table.feature_names(), dtype=object)[columns],
        "value": table.array[rows, columns],
        "expected": flags.expected[rows, columns],
        "residual": flags.residual[rows, columns],
    }
    return replace(table, array=np.where(flags.mask, np.nan, table.array)), frame_like(None, listed)
