"""An update from a table in batches: all of it, or nothing."""

from types import SimpleNamespace

import numpy as np
import pytest

from culpa import PCADetector, jobs
from culpa.io.tables import Batch, TableError


def source(*parts):
    def batches(features, carried):
        start = 0
        for X in parts:
            yield Batch(np.arange(start, start + len(X)), X, {})
            start += len(X)

    return SimpleNamespace(name="rows", live=False, batches=batches)


def test_a_table_that_fails_in_its_second_batch_is_not_learned():
    rng = np.random.default_rng(0)
    X, more = rng.normal(size=(200, 4)), rng.normal(size=(100, 4))
    bad = more.copy()
    bad[7, 1] = np.nan
    detector = PCADetector().fit(X)
    limit, core = detector.limit_, detector.fitted
    with pytest.raises(TableError, match="cells are missing"):
        jobs.update(detector, source(more, bad))
    assert detector.fitted is core
    assert (detector.limit_, detector.model_.n_samples_) == (limit, 200)
    done = jobs.update(detector, source(more, more))
    assert (done.rows, detector.model_.n_samples_) == (200, 400)
