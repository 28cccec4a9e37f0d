"""Dirty training data: rows that look abnormal under the model that was fitted to them, and suspicious cells."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from culpa import scores
from culpa._core.threads import one_blas_thread
from culpa._core.types import Floats, Mask
from culpa._core.validation import Table, frame_like
from culpa.models import FittedModel
from culpa.models.cells import flag_cells
from culpa.scores.limits import Limits
from culpa.scores.quadratic import scores_of

if TYPE_CHECKING:
    from culpa.fitting.learning import Learned

_ROWS_PER_CHUNK = 1 << 16
_MOST_REFITS = 20
GROSS = 3.0  # times its limit from which a training row is taken for a fault


def spe_and_t2(model: FittedModel, X: Floats, confidence: float) -> tuple[Floats, Floats, Floats]:
    """Both statistics of training rows, and the larger of the two in units of its limit.

    Both are needed: an abnormal row that pulled a component towards itself is reconstructed well, but far out.
    """
    if model.n_modes > 1:
        return _spe_and_t2_in_modes(model, X, confidence)
    parts = []
    by_name = {"spe": scores.spe(model.gaussian), "t2": scores.t2(model.gaussian)}
    with one_blas_thread(len(X)):
        for start in range(0, len(X), _ROWS_PER_CHUNK):
            rows = model.standardise(X[start : start + _ROWS_PER_CHUNK])
            parts.append(scores_of(by_name, rows).values())
    spe, t2 = (np.concatenate(column) for column in zip(*parts, strict=True))
    limits = [Limits(model)(score, confidence, training=True) or 1.0 for score in by_name.values()]
    return spe, t2, np.maximum(spe / limits[0], t2 / limits[1])


def _spe_and_t2_in_modes(model: FittedModel, X: Floats, confidence: float) -> tuple[Floats, Floats, Floats]:
    """The same where each row is judged by its most probable mode."""
    result = np.full((3, len(X)), np.nan)
    for mode, here in model.standard.by_mode(model.standardise(X)):
        result[:, here] = spe_and_t2(model.in_mode(mode), X[here], confidence)
    return result[0], result[1], result[2]


def fit_without_worst(
    learn: Callable[[Floats], "Learned"], X: Floats, trim: float, confidence: float
) -> "tuple[Learned, Mask]":
    """Fit to all rows, then again and again to the share 1 - trim that looked least abnormal, until these stay the same.

    Returns the last fit and which rows it used.
    """
    kept = np.ones(len(X), dtype=bool)
    found = learn(X)
    n_worst = int(trim * len(X))
    for _ in range(_MOST_REFITS if n_worst else 0):
        excess = spe_and_t2(found.model, X, confidence)[2]
        again = np.ones(len(X), dtype=bool)
        # rows without any number come first: they are not learned from anyway
        again[np.argsort(np.nan_to_num(excess, nan=-np.inf), kind="stable")[-n_worst:]] = False
        if (again == kept).all():
            break
        kept = again
        found = learn(X[kept])
    return found, kept


def in_limit(model: FittedModel, X: Floats, kept: Mask, confidence: float) -> Mask:
    """Training rows whose scores tell how far normal ones go: those kept, and those trimmed that are no gross faults.

    Trimming takes away the largest of the normal rows, too. Without them, a quantile would be that of a distribution that
    lost its tail; with all of them, it would be that of the faults.
    """
    return kept if kept.all() else kept | (spe_and_t2(model, X, confidence)[2] <= GROSS)


def abnormal_rows(model: FittedModel, X: Floats, kept: Mask, labels: NDArray[Any], confidence: float) -> Any:
    """Table of the training rows above the limit of SPE or T2, and of those that were trimmed; the worst first.

    Positions are those in ``X``; `at_places` makes them those in the user's table.
    """
    spe, t2, excess = spe_and_t2(model, X, confidence)
    at = np.flatnonzero((excess > 1) | ~kept)
    at = at[np.argsort(-excess[at], kind="stable")]
    columns = {"row": labels[at], "position": at, "spe": spe[at], "t2": t2[at]}
    return frame_like(None, columns | {"times_limit": excess[at], "trimmed": ~kept[at]})


def at_places(abnormal: Any, places: NDArray[np.intp]) -> Any:
    """The same table, if there is one, for rows that have these positions in the user's table."""
    if abnormal is None:
        return None
    columns = {name: np.asarray(abnormal[name]) for name in ("row", "position", "spe", "t2", "times_limit", "trimmed")}
    return frame_like(None, columns | {"position": places[columns["position"]]})


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
