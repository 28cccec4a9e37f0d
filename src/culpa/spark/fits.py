"""Fit one detector to all rows of a Spark DataFrame, and set its limit.

Spark sums up rows where they are. Only sums of d x d numbers and scores come back.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from culpa.detector import PCADetector
from culpa.io.model_bytes import detector_to_bytes
from culpa.jobs.partitioned import Pass, Run, calibrate_partitions, fit_partitions
from culpa.jobs.places import HashedPlaces, OrderedPlaces, Places
from culpa.spark.frames import DataFrame, check_features, feature_names, require_pyspark, struct_of

_ACCURACY = 100_000  # of the ranks that cut rows into blocks: tables up to about that size are cut exactly


def fit(
    df: DataFrame,
    columns: Sequence[str] | None = None,
    *,
    order: str | None = None,
    complete_only: bool = False,
    **detector_options: Any,
) -> PCADetector:
    """Fit a `PCADetector` to columns of a DataFrame, by default to all columns of numbers.

    Limits come from blocks of rows, each scored by the model of the others. ``order`` names a column of times or numbers:
    the blocks are then consecutive, and the detector is that of `PCADetector.fit` on the sorted rows, to rounding, as
    long as Spark finds the ends of the blocks exactly (up to about 100,000 rows). Name it if rows resemble the rows before
    them. Without ``order``, the row's own numbers decide which block it is in, by a hash.

    Rows with missing cells are an error, unless ``complete_only`` leaves them out. Options that need all rows in one
    process are refused: ``model``, ``modes``, ``robust``, ``trim``, ``contamination``, ``limit="conformal"``, ``lags`` and
    ``smooth``. The DataFrame is read twice, and ``order`` alone twice more, so cache it if it is expensive to compute.
    """
    require_pyspark()
    names = feature_names(df, columns, order)
    rows = df.select(*(_number(df, name) for name in names), *([] if order is None else [_number(df, order)]))
    places = _places(rows, names, order, complete_only=complete_only)
    return fit_partitions(PCADetector(**detector_options), names, _run(rows), places, complete_only=complete_only)


def calibrate(df: DataFrame, detector: PCADetector) -> PCADetector:
    """A copy of a detector with a conformal limit from normal rows that it was not fitted to.

    Its limit is that of `PCADetector.calibrate_limit`. Of more than four million rows, so many are chosen by their numbers.
    """
    require_pyspark()
    fitted = detector.fitted
    if fitted.columns.lags or fitted.columns.smooth is not None:
        raise ValueError("detectors with lags or smooth need rows in the order of time: use calibrate_limit.")
    check_features(df, fitted.columns.inputs)
    rows = df.select(*(_number(df, name) for name in fitted.columns.inputs))
    model = detector_to_bytes(fitted)
    return PCADetector.from_fitted(calibrate_partitions(fitted, model, _run(rows), rows.count()))


def _number(df: DataFrame, name: str) -> Any:
    """A column as double; times become seconds."""
    from pyspark.sql import functions as F

    return F.col(f"`{name}`").cast("double").alias(name)


def _places(rows: DataFrame, names: Sequence[str], order: str | None, *, complete_only: bool) -> Places:
    from pyspark.sql import functions as F

    if order is None:
        return HashedPlaces()
    rows = (rows.dropna(subset=list(names)) if complete_only else rows).select(order)
    n = rows.count()

    def at_ranks(ranks: Sequence[int]) -> list[float]:
        shares = [(rank + 0.5) / n for rank in ranks]
        found = rows.agg(F.percentile_approx(F.col(f"`{order}`"), shares, _ACCURACY)).first()
        return list(found[0] or [])

    return OrderedPlaces.of(order, n, at_ranks) if n else OrderedPlaces(order, (), ())


def _run(rows: DataFrame) -> Run:
    """Runs a pass: a part of each partition, merged by a few processes, and returned as one table."""

    def run(task: Pass) -> pa.Table:
        schema = struct_of([], task.schema)
        parts = rows.mapInArrow(task.part, schema)
        merged = parts.repartition(task.key).mapInArrow(task.merge, schema)
        with_reason = _reason_shown(merged.toArrow)
        return pa.table({field.name: with_reason.column(field.name).cast(field.type) for field in task.schema})

    return run


def _reason_shown(action: Any) -> Any:
    """Run a job; if culpa refused rows in a process, raise its sentence and not the traces of two languages."""
    from pyspark.errors import PythonException

    try:
        return action()
    except PythonException as error:
        lines = [line for line in str(error).splitlines() if line.startswith(("ValueError: ", "culpa.", "TypeError: "))]
        if not lines:
            raise
        raise ValueError(lines[-1].partition(": ")[2]) from None
