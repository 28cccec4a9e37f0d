"""Faults with a past: what they do to the readings, and to whom."""

import numpy as np
import pytest

from culpa._core.choices import LASTING_FAULT_KINDS
from culpa.calibration.injection import inject, past_of

LAGS, D = 2, 4
SIZES = [1.0, 2.0, 0.5, 1.0]
TRAINING = np.random.default_rng(1).normal(size=(5000, D)) * SIZES + 10


@pytest.fixture(scope="module")
def windows():
    return np.random.default_rng(0).normal(size=(60, past_of(LAGS) + 1, D)) * SIZES + 10


def faults(windows, kind, **options):
    """For every faulty column: its readings now and before, and what they were."""
    trials = inject(windows, TRAINING, LAGS, kinds=[kind], n_trials=600, **options)
    spoiled = trials.rows.reshape(len(trials), LAGS + 1, D)
    original = windows[trials.source]
    row, column = trials.culprits.nonzero()
    return spoiled[row, :, column], original[row, :, column], column, trials


@pytest.mark.parametrize("kind", LASTING_FAULT_KINDS)
def test_only_culprits_change_and_the_fault_lasts_until_now(windows, kind):
    spoiled, original, _, trials = faults(windows, kind)
    assert trials.rows.shape[1] == D * (LAGS + 1)
    assert set(trials.culprits.sum(axis=1)) <= {1, 2, 3}
    healthy = trials.rows.reshape(len(trials), LAGS + 1, D) == windows[trials.source][:, : LAGS + 1]
    assert healthy.all(axis=1)[~trials.culprits].all()
    changed = spoiled != original[:, : LAGS + 1]
    lasted = changed.sum(axis=1)
    assert set(lasted) == {1, 2, 3}  # some began long before, some in the judged row
    np.testing.assert_array_equal(changed, np.arange(LAGS + 1) < lasted[:, None])  # without a break, up to now


def test_a_bias_lasts(windows):
    spoiled, original, column, _ = faults(windows, "bias 3 sd")
    spread = TRAINING.std(axis=0, ddof=1)[column]
    change = (spoiled - original[:, : LAGS + 1]) / spread[:, None]
    assert np.isclose(np.abs(change[change != 0]), 3).all()
    assert (change.min(axis=1) * change.max(axis=1) >= 0).all()  # in one direction
    assert 0.3 < (change[:, 0] > 0).mean() < 0.7


def test_a_drift_moves_away_evenly(windows):
    spoiled, original, column, _ = faults(windows, "drift")
    change = np.abs(spoiled - original[:, : LAGS + 1]) / TRAINING.std(axis=0, ddof=1)[column][:, None]
    np.testing.assert_allclose(change[:, 0], 3)
    long = change[(change > 0).all(axis=1)]
    np.testing.assert_allclose(long[:, 0] - long[:, 1], long[:, 1] - long[:, 2])
    assert (long[:, 0] > long[:, 1]).all()
    assert len(np.unique(long[:, 1].round(6))) > 2  # of different durations


def test_a_stuck_sensor_repeats_its_last_reading(windows):
    spoiled, original, _, _ = faults(windows, "stuck")
    lasted = (spoiled != original[:, : LAGS + 1]).sum(axis=1)
    for readings, before, n in zip(spoiled, original, lasted, strict=True):
        assert len(set(readings[:n])) == 1
        assert readings[0] in before[n:]
        if n <= LAGS:
            assert readings[0] == before[n]


def test_lost_correlation_takes_a_stretch_of_another_time(windows):
    spoiled, *_ = faults(windows, "lost correlation")
    stretches = {tuple(window[: LAGS + 1, j]) for window in windows for j in range(D)}
    whole = [tuple(readings) for readings in spoiled]
    assert sum(stretch in stretches for stretch in whole) > len(whole) / 3


def test_the_same_seed_gives_the_same_faults(windows):
    first, again, other = (faults(windows, "drift", seed=seed)[3] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.rows, again.rows)
    assert not np.array_equal(first.rows, other.rows)
    with pytest.raises(ValueError, match="did you mean 'drift'"):
        faults(windows, "drifft")
    assert past_of(0) == 0
