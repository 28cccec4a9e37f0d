"""Fit, score and explain a Dask DataFrame, partition by partition.

The functions in `culpa.jobs` work on Arrow record batches, so that an engine such as Dask, Ray Data or Beam only has to
call them. Nothing but sums and a sample of the rows leaves the partitions during the fit.
"""

from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa

from culpa import PCADetector
from culpa.datasets import make_plant
from culpa.io.model_file import detector_to_bytes, kept_detector
from culpa.jobs import HashedPlaces, RecordBatchExplainer, RecordBatchScorer, fit_partitions
from culpa.jobs.partitioned import Pass


def fit(rows: dd.DataFrame, **options: Any) -> PCADetector:
    """Fit a detector to all columns of a Dask DataFrame."""

    def run(task: Pass) -> pa.Table:
        def part(frame: pd.DataFrame) -> list[pa.RecordBatch]:
            return list(task.part([pa.RecordBatch.from_pandas(frame, preserve_index=False)]))

        parts = dask.compute(*(dask.delayed(part)(partition) for partition in rows.to_delayed()))
        return pa.Table.from_batches([batch for part in parts for batch in part], task.schema)

    return fit_partitions(PCADetector(**options), tuple(rows.columns), run, HashedPlaces())


def score(rows: dd.DataFrame, detector: PCADetector) -> dd.DataFrame:
    """All columns of a Dask DataFrame, and score, limit, flag and p-value of each row."""
    return _answer(rows, detector, RecordBatchScorer)


def explain(rows: dd.DataFrame, detector: PCADetector) -> dd.DataFrame:
    """Score, limit and flag of each row, and a Shapley value for each feature."""
    return _answer(rows, detector, RecordBatchExplainer)


def _answer(rows: dd.DataFrame, detector: PCADetector, answers: type) -> dd.DataFrame:
    model = detector_to_bytes(detector.fitted)  # the content of a model file, which each process reads once

    def answer(frame: pd.DataFrame) -> pd.DataFrame:
        batch = pa.RecordBatch.from_pandas(frame, preserve_index=False)
        answer = answers(kept_detector(model), batch.schema)
        return answer(batch).to_pandas().set_axis(frame.index)

    return rows.map_partitions(answer, meta=answer(rows._meta))  # an empty table with the columns of the answer


if __name__ == "__main__":
    dask.config.set(scheduler="synchronous")  # leave this line out on a cluster
    plant = make_plant()
    names = [f"sensor {i}" for i in range(plant.normal.shape[1])]
    normal = dd.from_pandas(pd.DataFrame(plant.normal, columns=names), npartitions=4)
    new = pd.DataFrame(plant.normal[:100], columns=names)
    new.loc[42, "sensor 3"] += 15

    detector = fit(normal)
    table = dd.from_pandas(new, npartitions=3)
    scored, why = score(table, detector).compute(), explain(table, detector).compute()
    print(scored.loc[scored["anomaly"], ["score", "limit", "p_value"]])
    print(why.loc[42, names].astype(float).idxmax())  # sensor 3

    same = detector.explain(new)
    assert np.allclose(scored["score"], same.score, rtol=1e-12)
    assert np.allclose(why[names], same.values, rtol=1e-10, atol=1e-10)
