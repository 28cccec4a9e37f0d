"""The number of components that detects most faults at a fixed rate of false alarms."""

import numpy as np
import polars as pl
import pytest

from culpa import PCADetector
from culpa.calibration import components_by_detection


@pytest.fixture(scope="module")
def low_rank():
    rng = np.random.default_rng(0)
    return rng.normal(size=(400, 3)) @ rng.normal(size=(3, 10)) + 0.2 * rng.normal(size=(400, 10))


def test_too_few_components_detect_less(low_rank):
    found = components_by_detection(low_rank, PCADetector(statistic="spe"), n_trials=400)
    detection = {entry.n_components: entry.detection for entry in found.entries}
    assert found.best == 3
    assert list(detection) == list(range(1, 10))
    assert detection[2].high < detection[3].low
    assert detection[9].high < detection[3].low
    assert found.best in found.tied
    assert 2 not in found.tied
    rates = {entry.false_alarms.value for entry in found.entries}
    assert len(rates) == 1
    assert rates.pop() == pytest.approx(0.01, abs=0.003)


def test_the_result_as_a_table_and_as_a_detector(low_rank):
    frame = pl.DataFrame(low_rank)
    found = components_by_detection(frame, PCADetector(confidence=0.95), numbers=[2, 5, 2], n_trials=100)
    table = found.to_frame()
    assert isinstance(table, pl.DataFrame)
    assert table["n_components"].to_list() == [2, 5]
    assert table["best"].sum() == 1
    assert found.statistic == "mahalanobis"
    detector = found.applied_to(PCADetector(noun="sensor"))
    assert (detector.n_components, detector.statistic, detector.noun) == (found.best, "mahalanobis", "sensor")
    assert components_by_detection(frame, PCADetector(confidence=0.95), numbers=[2, 5], n_trials=100) == found


def test_lags_and_trim(low_rank):
    found = components_by_detection(low_rank[:200], PCADetector(lags=1, trim=0.02), numbers=[3, 6, 19], n_trials=66)
    assert [entry.n_components for entry in found.entries] == [3, 6, 19]


@pytest.mark.parametrize("numbers", [[], [0], [10]])
def test_numbers_that_cannot_be(low_rank, numbers):
    with pytest.raises(ValueError, match="between 1 and 9"):
        components_by_detection(low_rank, numbers=numbers)
