"""An update from a table in batches: all of it, or nothing."""

from types import SimpleNamespace

import numpy as np
import pytest

from culpa import PCADetector
from culpa.io.tables import Batch, TableError
from culpa.jobs.updating import update


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
        update(detector, source(more, bad))
    assert detector.fitted is core
    assert (detector.limit_, detector.model_.n_samples_) == (limit, 200)
    done = update(detector, source(more, more))
    assert (done.rows, detector.model_.n_samples_) == (200, 400)


@pytest.mark.parametrize("forget", [0.0, 0.01])
def test_the_limit_does_not_depend_on_the_portions_in_which_rows_arrive(forget):
    rng = np.random.default_rng(1)
    X, more = rng.standard_t(4, size=(5000, 4)), rng.standard_t(4, size=(300, 4))
    limits = []
    for size in (300, 7, 1):
        detector = PCADetector().fit(X)
        update(detector, source(*np.split(more, range(size, 300, size))), forget=forget)
        limits.append(detector.limit_)
    assert limits[0] == limits[1] == limits[2]


def test_many_rows_are_learned_in_portions_of_the_same_size(monkeypatch):
    rng = np.random.default_rng(2)
    X, more = rng.normal(size=(5000, 4)), rng.normal(size=(250, 4))
    monkeypatch.setattr("culpa.jobs.updating._MOST_ROWS", 100)
    whole, pieces = PCADetector().fit(X), PCADetector().fit(X)
    for detector, size in ((whole, 250), (pieces, 30)):
        update(detector, source(*np.split(more, range(size, 250, size))))
        assert detector.model_.n_samples_ == 5250
    assert whole.limit_ == pieces.limit_
