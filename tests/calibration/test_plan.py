"""Folds: what is held out, what is learned from, and how rows become windows."""

import numpy as np
import pytest

from culpa import PCADetector
from culpa._core.choices import FAULT_KINDS, LASTING_FAULT_KINDS
from culpa.calibration.injection import past_of
from culpa.calibration.plan import Plan, thinned, windows_of


def test_folds_hold_out_what_they_spoil(plant):
    folds = list(Plan(kinds=["bias 1 sd"], at_once=[1], n_trials=500).folds(plant.normal, 0))
    assert len(folds) == 5
    for k, (training, held_out, trials) in enumerate(folds):
        np.testing.assert_array_equal(held_out, plant.normal[80 * k : 80 * (k + 1)])
        assert len(training) == 320
        assert not (training[:, None] == held_out).all(axis=2).any()
        healthy = ~trials.culprits
        np.testing.assert_array_equal(trials.rows[healthy], plant.normal[trials.source][healthy])


def test_with_lags_training_shares_no_value_with_held_out_rows():
    X = np.arange(600.0).reshape(200, 3)  # every value once
    lags = 2
    windows = windows_of(X, lags)
    assert windows.shape == (200 - past_of(lags), 3 * (past_of(lags) + 1))
    np.testing.assert_array_equal(windows[0], X[: past_of(lags) + 1][::-1].ravel())  # the judged row first
    for fold in Plan(n_trials=100).folds(windows, lags):
        assert fold.training.shape[1] == fold.held_out.shape[1] == fold.trials.rows.shape[1] == 9
        assert not np.isin(fold.training, fold.held_out).any()
        assert fold.trials.culprits.shape[1] == 3


def test_windows_are_complete():
    X = np.random.default_rng(0).normal(size=(100, 2))
    X[50, 0] = np.nan
    windows = windows_of(X, 1)
    assert len(windows) == 100 - 4 - 5
    assert not np.isnan(windows).any()


def test_thinning():
    assert len(thinned(np.arange(10)[:, None], 4)) == 4
    assert len(thinned(np.arange(10)[:, None], 10)) == 10
    np.testing.assert_array_equal(thinned(np.arange(9)[:, None], 3).ravel(), [0, 3, 6])


def test_all_faults_that_make_sense_are_injected_by_default():
    assert tuple(Plan().faults(0)) == FAULT_KINDS
    assert tuple(Plan().faults(1)) == LASTING_FAULT_KINDS
    assert Plan(kinds=["drift"]).faults(1) == ["drift"]
    with pytest.raises(ValueError, match='the fault "drift" needs a detector with lags'):
        Plan(kinds=["drift"]).faults(0)


def test_a_number_of_components_that_was_given_is_kept():
    assert {s.n_components for s in Plan().settings(12, PCADetector(3))} == {3}
    assert {s.n_components for s in Plan().settings(12, PCADetector())} == {"auto", 11}
    assert len(set(Plan().settings(12, PCADetector(3)))) == len(Plan().settings(12, PCADetector(3)))
