"""Fit one detector to all rows of a Spark DataFrame, and set its limit.

Spark sums up rows where they are. Only sums of d x d numbers and a sample of the rows come back.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from culpa.detecting.detector import PCADetector
from culpa.jobs.partitioned import HashedPlaces, OrderedPlaces, Pass, Places, Run, calibrate_partitions, fit_partitions
from culpa.spark import frames
from culpa.spark.frames import DataFrame

_ACCURACY = 100_000  # of the ranks that cut rows into blocks: tables up to about that size are cut exactly


def fit(
    df: DataFrame,
    columns: Sequence[str] | None = None,
    *,
    order: str | None = None,
    complete_only: bool = False,
    **detector_options: Any,
) -> PCADetector:
    """Fit a `PCADetector` to columns of a DataFrame.

    Limits come from blocks of rows, each scored by the model of the others. The DataFrame is read twice, and ``order``
    alone twice more, so cache it if it is expensive to compute.

    Parameters
    ----------
    df
        Normal rows.
    columns
        The features; by default all columns of numbers.
    order
        A column of times or numbers: the blocks are then consecutive, and the detector is that of `PCADetector.fit` on
        the sorted rows, to rounding, as long as Spark finds the ends of the blocks exactly (up to about 100,000 rows).
        Name it if rows resemble the rows before them. Without it, the row's own numbers decide which block it is in, by
        a hash.
    complete_only
        Leave out rows with missing cells, which are an error otherwise.
    detector_options
        Parameters of `PCADetector`. Those that need all rows in one process are refused: ``model``, ``modes``, ``robust``,
        ``trim``, ``contamination``, ``limit="conformal"``, ``lags`` and ``smooth``.

    Returns
    -------
    PCADetector
        A fitted one.

    Examples
    --------
    >>> culpa.spark.fit(df, columns, order="time").limit_ > 0  # doctest: +SKIP
    True
    """
    frames.require_pyspark()
    names = frames.feature_names(df, columns, order)
    others = [] if order is None or order in names else [_position(df, order)]
    rows = df.select(*map(_number, names), *others)
    places = _places(rows, names, order, complete_only=complete_only)
    return fit_partitions(PCADetector(**detector_options), names, _run(rows), places, complete_only=complete_only)


def calibrate(df: DataFrame, detector: PCADetector) -> PCADetector:
    """A copy of a detector with a conformal limit from normal rows that it was not fitted to.

    Its limit is that of `PCADetector.calibrate_limit`. Of more than 200,000 rows, it uses about so many.

    Parameters
    ----------
    df
        Normal rows.
    detector
        A fitted detector.

    Returns
    -------
    PCADetector
        The copy.

    Examples
    --------
    >>> culpa.spark.calibrate(df, detector).limit_kind_  # doctest: +SKIP
    'conformal'
    """
    frames.require_pyspark()
    fitted = detector.fitted
    if fitted.columns.lags or fitted.columns.smooth is not None:
        raise ValueError("detectors with lags or smooth need rows in the order of time: use calibrate_limit.")
    frames.check_features(df, fitted.columns.inputs)
    rows = df.select(*map(_number, fitted.columns.inputs))
    return calibrate_partitions(detector, _run(rows), rows.count())


def _number(name: str) -> Any:
    return frames.column(name).cast("double").alias(name)


def _position(df: DataFrame, name: str) -> Any:
    """A column that orders rows as double; times become seconds, and those without a zone seconds of their own clock."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import DateType, TimestampNTZType

    kind = df.schema[frames.key_names(df, name)[0]].dataType
    cells = frames.column(name)
    if isinstance(kind, DateType):
        cells = F.unix_date(cells)
    elif isinstance(kind, TimestampNTZType):
        cells = F.timestamp_diff("MICROSECOND", F.expr("TIMESTAMP_NTZ'1970-01-01'"), cells) / 1e6
    return cells.cast("double").alias(name)


def _places(rows: DataFrame, names: Sequence[str], order: str | None, *, complete_only: bool) -> Places:
    from pyspark.sql import functions as F

    if order is None:
        return HashedPlaces()
    position = {name: f"c{k}" for k, name in enumerate(rows.columns)}  # names with dots would have to be quoted
    rows = rows.toDF(*position.values())
    rows = (rows.dropna(subset=[position[name] for name in names]) if complete_only else rows).select(position[order])
    n = rows.count()

    def at_ranks(ranks: Sequence[int]) -> list[float]:
        if not ranks:  # of a table with a single row
            return []
        shares = [(rank + 0.5) / n for rank in ranks]
        found = rows.agg(F.percentile_approx(F.col(position[order]), shares, _ACCURACY)).first()
        return list(found[0] or [])  # nothing where all cells are missing, which the rows themselves will tell

    return OrderedPlaces.of(order, n, at_ranks) if n else OrderedPlaces(order, ())


def _run(rows: DataFrame) -> Run:
    """Runs a pass: a part of each partition, merged by a few processes, and returned as one table."""

    def run(task: Pass) -> pa.Table:
        schema = frames.struct_of([], task.schema)
        parts = frames.map_arrow(rows, task.part, schema)
        merged = parts.repartition(task.key).mapInArrow(task.merge, schema)
        table = frames.with_reason(merged.toArrow)
        return pa.table({field.name: table.column(field.name).cast(field.type) for field in task.schema})

    return run
