"""Scores and explanations of the rows of a Spark DataFrame, which may be a stream."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from culpa.detecting.detector import PCADetector
from culpa.fitted import FittedDetector
from culpa.io.model_file import detector_to_bytes, kept_detector
from culpa.jobs.record_batches import RecordBatchExplainer, RecordBatchScorer
from culpa.spark import frames
from culpa.spark.frames import DataFrame

_MANY = 100_000  # rows that are worth Spark, so that compiling for them pays


def score(df: DataFrame, detector: PCADetector) -> DataFrame:
    """Score, limit, flag and p-value of each row.

    Parameters
    ----------
    df
        Rows; a streaming DataFrame, too.
    detector
        A fitted detector.

    Returns
    -------
    DataFrame
        All columns of ``df``, then ``score``, ``limit``, ``anomaly`` and ``p_value``, which is null if the limit is a
        formula. A detector with operating modes adds the mode. A new column whose name is taken gets an underscore at
        its end.

    Examples
    --------
    >>> culpa.spark.score(df, detector).columns[-4:]  # doctest: +SKIP
    ['score', 'limit', 'anomaly', 'p_value']
    """
    return _answered(df, detector.fitted, RecordBatchScorer)


def explain(df: DataFrame, detector: PCADetector, top: int | None = None, *, flagged_only: bool = False) -> DataFrame:
    """Whose fault it is: the Shapley value of each feature or group, for every row or for flagged rows.

    The explainer is compiled here, if it can be, and not by each process.

    Parameters
    ----------
    df
        Rows; a streaming DataFrame, too.
    detector
        A fitted detector.
    top
        Write a line for each of that many worst culprits of a row, instead of a column of values for each feature.
    flagged_only
        Explain flagged rows only.

    Returns
    -------
    DataFrame
        The columns of ``df`` that are not features, then score, limit, flag, and Shapley values or culprits.

    Examples
    --------
    >>> culpa.spark.explain(df, detector, top=1).columns[-7:-4]  # doctest: +SKIP
    ['feature', 'share', 'rank']
    """
    fitted = detector.fitted
    explainer = fitted.explainer()
    explainer._one_pass.count_rows(np.broadcast_to(0.0, (_MANY, explainer.model.standard.n_features)))
    if explainer._one_pass.compiling_is_due:
        explainer.compile()
    return _answered(df, fitted, RecordBatchExplainer, top=top, flagged_only=flagged_only)


def _answered(df: DataFrame, fitted: FittedDetector, answers: Any, **options: Any) -> DataFrame:
    frames.require_pyspark()
    frames.check_features(df, fitted.columns.inputs)
    declared = answers(fitted, frames.stand_in_schema(df, fitted.columns.inputs), **options)
    kept = [df.schema[name] for name in declared.kept]
    task = partial(_answer, detector_to_bytes(fitted), answers, options)
    return frames.map_arrow(df, task, frames.struct_of(kept, declared.added))


def _answer(model: bytes, answers: Any, options: dict[str, Any], batches: Iterable[Any]) -> Iterator[Any]:
    """Runs in a Python process of Spark, for each partition, whose batches all have the schema of the first."""
    answer: Any = None
    for batch in batches:
        answer = answer or answers(kept_detector(model), batch.schema, **options)
        yield answer(batch)
