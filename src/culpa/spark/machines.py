"""Machines of a fleet: the incidents of each, one small model for each, and scores by these models."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from culpa.detecting.detector import PCADetector
from culpa.io.model_file import detector_to_bytes, kept_detector
from culpa.jobs import machines as jobs
from culpa.jobs.batches import joined
from culpa.spark import frames
from culpa.spark.frames import DataFrame

_MODEL = "__culpa_model"


def incidents(
    df: DataFrame,
    detector: PCADetector,
    *,
    time: str,
    by: str | Sequence[str] | None = None,
    gap: Any = None,
    min_length: int | None = None,
    false_incidents: str | None = None,
    baseline: int = 0,
) -> DataFrame:
    """Incidents of each machine: what `PCADetector.incidents` says of its rows in the order of time.

    Detectors with lags and smoothing are welcome here.

    Parameters
    ----------
    df
        Rows of all machines.
    detector
        A fitted detector.
    time
        The column of times.
    by
        Names of the columns that tell machines apart. Without it, all rows are of one machine and go through one process.
    gap, min_length, false_incidents, baseline
        As for `PCADetector.incidents`.

    Returns
    -------
    DataFrame
        One line per incident, with the columns of ``culpa incidents`` after the columns ``by``.

    Examples
    --------
    >>> culpa.spark.incidents(df, detector, time="time", by="machine").columns[0]  # doctest: +SKIP
    'machine'
    """
    frames.require_pyspark()
    keys, features = frames.key_names(df, by), detector.fitted.columns.inputs
    frames.check_features(df, features)
    columns = jobs.incident_columns(keys, pa.null(), modes=detector.fitted.n_modes is not None)
    struct = _with_times(df, keys, columns, df.schema[frames.key_names(df, time)[0]].dataType)
    rows = _together(df.select(*map(frames.column, dict.fromkeys((*keys, time, *features)))), keys, [time])
    grouping = {"gap": gap, "min_length": min_length, "false_incidents": false_incidents, "baseline": baseline}
    task = partial(_incidents, detector_to_bytes(detector.fitted), by=keys, time=time, **grouping)
    return frames.map_arrow(rows, task, struct)


def fit_many(
    df: DataFrame,
    by: str | Sequence[str],
    columns: Sequence[str] | None = None,
    *,
    time: str | None = None,
    **detector_options: Any,
) -> DataFrame:
    """One detector per machine: that of `PCADetector.fit` on its rows, which a process holds in memory for one machine.

    Parameters
    ----------
    df
        Normal rows of all machines.
    by
        Names of the columns that tell machines apart.
    columns
        The features; by default all columns of numbers.
    time
        The column that orders the rows.
    detector_options
        Parameters of `PCADetector`.

    Returns
    -------
    DataFrame
        The columns ``by``, the model file (``model``), the number of rows, the limit, and an error where a machine has no
        model, for example because it has too few rows. `score_many` scores by these models, and
        `culpa.io.model_file.detector_from_bytes` reads one of them.

    Examples
    --------
    >>> culpa.spark.fit_many(df, by="machine", columns=columns).columns  # doctest: +SKIP
    ['machine', 'model', 'rows', 'limit', 'error']
    """
    frames.require_pyspark()
    keys = frames.key_names(df, by)
    names = frames.feature_names(df, columns, *keys, time)
    PCADetector(**detector_options)  # refuses unknown options before anything runs
    struct = frames.struct_of([df.schema[key] for key in keys], pa.schema(jobs.FIT_COLUMNS))
    ordered = [] if time is None else [time]
    rows = _together(df.select(*map(frames.column, dict.fromkeys((*keys, *ordered, *names)))), keys, ordered)
    return frames.map_arrow(
        rows, partial(jobs.machine_fits, by=keys, names=names, options=detector_options, time=time), struct
    )


def score_many(df: DataFrame, models: DataFrame, by: str | Sequence[str]) -> DataFrame:
    """Score, limit, flag and p-value of each row by the model of its machine.

    Parameters
    ----------
    df
        Rows of all machines.
    models
        What `fit_many` returned, or a DataFrame with at least the columns ``by`` and ``model``. Write it to a table
        first, or every action fits again.
    by
        Names of the columns that tell machines apart.

    Returns
    -------
    DataFrame
        All columns of ``df`` and the new ones. Rows of machines without a model have null scores.

    Examples
    --------
    >>> culpa.spark.score_many(df, models, by="machine").columns[-4:]  # doctest: +SKIP
    ['score', 'limit', 'anomaly', 'p_value']
    """
    from pyspark.sql import functions as F

    frames.require_pyspark()
    keys = frames.key_names(df, by)
    added = list(pa.schema(joined(dict.fromkeys(df.columns, pa.null()), jobs.SCORE_COLUMNS)))[len(df.columns) :]
    known = models.where(F.col("model").isNotNull()).select(*map(frames.column, keys), F.col("model").alias(_MODEL))
    rows = df.withColumn(_MODEL, F.lit(None).cast("binary")).unionByName(known, allowMissingColumns=True)
    rows = _together(rows, keys, [F.col(_MODEL).isNull()])  # the model comes first
    return frames.map_arrow(
        rows, partial(jobs.machine_scores, by=keys, model=_MODEL), frames.struct_of(df.schema, added)
    )


def _together(rows: DataFrame, keys: Sequence[str], order: Sequence[Any]) -> DataFrame:
    """Rows of each machine in one partition, and in order."""
    machines = [frames.column(key) for key in keys]
    moved = rows.repartition(*machines) if keys else rows.repartition(1)
    order = [frames.column(each) if isinstance(each, str) else each for each in order]
    return moved.sortWithinPartitions(*machines, *order) if machines or order else moved


def _with_times(df: DataFrame, keys: Sequence[str], columns: dict[str, pa.DataType], moment: Any) -> Any:
    """Spark's schema of incidents, whose times, of type null in ``columns``, have the type of the column of times."""
    from pyspark.sql.types import StructField

    fields = [
        StructField(name, moment) if kind == pa.null() else next(iter(frames.struct_of([], [pa.field(name, kind)])))
        for name, kind in columns.items()
    ]
    return frames.struct_of([*(df.schema[key] for key in keys), *fields], [])


def _incidents(model: bytes, batches: Iterable[Any], **options: Any) -> Iterator[Any]:
    """Runs in a Python process of Spark, for each partition."""
    return jobs.machine_incidents(kept_detector(model), batches, **options)
