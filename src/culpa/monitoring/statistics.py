"""Tables of statistics and control limits: SPE, T2 and the detector's own statistic."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from culpa._core.comparing import exceeds
from culpa._core.kinds import FRACTION
from culpa._core.types import DataFrame
from culpa._core.validation import Table, frame_like
from culpa.fitted import FittedDetector, operating_modes
from culpa.scores import discoveries


def statistics_table(fitted: FittedDetector, table: Table, fdr: float | None = None) -> DataFrame:
    """One line per row: statistics with limits and flags, p-value and anomaly; with ``fdr``, also discovery.

    A limit that held-out rows are too few for is missing, and nothing exceeds it.
    """
    columns: dict[str, Any] = {"row": table.row_labels()}
    values = fitted.statistics(table)
    limits = {line.statistic: line.limit for line in fitted.control_limits() if line.confidence == fitted.confidence}
    for name, cells in values.items():
        columns |= {
            name: cells,
            f"{name}_limit": np.full(len(cells), limits.get(name, np.nan)),
            f"{name}_flag": exceeds(cells, limits.get(name, np.nan)),
        }
    if fitted.n_modes is not None:
        columns["mode"] = operating_modes(fitted, fitted.read(table))
    own = values[fitted.statistic.name]
    p_value = fitted.p_values(own)
    columns["p_value"] = np.full(len(own), np.nan) if p_value is None else p_value
    columns["anomaly"] = fitted.is_flagged(own)
    if fdr is not None:
        FRACTION.check(fdr, "fdr")
        if p_value is None:
            raise ValueError(
                "fdr=... needs p-values, but a formula limit does not provide them. Fit with limit='auto'."
            )
        columns["discovery"] = discoveries(p_value, fdr)
    return frame_like(table.native, columns, table.row_labels())


def limits_table(fitted: FittedDetector, confidences: float | Sequence[float], *, training: bool) -> DataFrame:
    """One line per statistic and confidence: statistic, confidence, kind of limit, limit."""
    asked = np.atleast_1d(np.asarray(confidences, dtype=np.float64)).tolist()
    for level in asked:
        FRACTION.check(level, "confidences")
    lines = fitted.control_limits(asked, training=training)
    columns = zip(("statistic", "confidence", "kind", "limit"), zip(*lines, strict=True), strict=True)
    return frame_like(None, dict(columns))
