"""Answers have the same columns in every batch, whatever its rows."""

import numpy as np
import pytest

from culpa import PCADetector
from culpa.io.tables import open_sink
from culpa.jobs.answers import explain
from culpa.jobs.record_batches import RecordBatches

pa = pytest.importorskip("pyarrow")

NAMES = ["a", "b", "c", "d"]


@pytest.mark.parametrize("options", [{"top": 2}, {"shortest": 0.9}])
def test_batches_without_flagged_rows_have_standard_errors_too_where_values_are_sampled(tmp_path, options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 4)) + 0.1 * rng.normal(size=(300, 4))
    fitted = PCADetector().fit(pa.table(dict(zip(NAMES, X.T, strict=True)))).fitted
    new = np.tile(X.mean(axis=0), (6, 1))
    new[3, 0] += 9
    new[5, 1:] = [np.nan, np.nan, 90]  # too few cells to sample
    batches = [pa.record_batch(list(part.T), names=NAMES) for part in (new[:2], new[2:5], new[5:])]
    for kind in ("csv", "parquet"):
        with open_sink(tmp_path / kind, kind) as sink:
            sampled = {"method": "permutation", "n_orders": 20}
            explain(fitted, RecordBatches(batches), sink, options=sampled, **options)
    header, *lines = (tmp_path / "csv").read_text().splitlines()
    assert '"std_error"' in header
    assert len({line.split(",")[0] for line in lines}) == 2
    assert {line.count(",") for line in lines} == {header.count(",")}
