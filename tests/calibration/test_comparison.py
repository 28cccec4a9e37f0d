"""Calibration of detectors with given columns: faults go elsewhere, and given columns are never blamed."""

import numpy as np
import pandas as pd
import pytest
from command_line import run, write

import culpa
from culpa import PCADetector
from culpa.calibration import Setting, components_by_detection
from culpa.calibration.choice import choose
from culpa.calibration.injection import inject
from culpa.calibration.plan import Plan, windows_of


def plant(n=300, seed=0):
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(1)
    load = rng.normal(50, 5, n)
    sensors = load[:, None] @ fixed.normal(size=(1, 6)) + rng.normal(size=(n, 2)) @ fixed.normal(size=(2, 6))
    frame = pd.DataFrame(sensors + 0.3 * rng.normal(size=(n, 6)), columns=[f"s{i}" for i in range(6)])
    frame.insert(2, "load", load)
    return frame


FEW = [Setting("auto", 1.0, 0.0, "mahalanobis"), Setting("auto", 1.0, 0.0, "spe", ranking="rbc")]


@pytest.mark.parametrize("lags", [0, 1])
def test_given_columns_have_no_faults(lags):
    X, at = plant().to_numpy(), [2]
    for fold in Plan(n_trials=300).folds(windows_of(X, lags), lags, at):
        assert fold.trials.culprits.shape[1] == 6
        assert fold.trials.culprits.any(axis=1).all()
        changed = fold.trials.rows[:, :7] != windows_of(X, lags)[fold.trials.source, :7]
        assert not changed[:, 2].any()
        if not lags:
            np.testing.assert_array_equal(np.delete(changed, 2, axis=1), fold.trials.culprits)


def test_without_spared_features_nothing_changes():
    X = plant().to_numpy()
    first, second = inject(X, X, n_trials=60), inject(X, X, n_trials=60, spared=[])
    np.testing.assert_array_equal(first.rows, second.rows)
    with pytest.raises(ValueError, match="at_once between 1 and 1"):
        inject(X, X, at_once=[2], spared=[0, 1, 2, 3, 4])


def test_context_helps_to_find_culprits():
    """What the load explains hides small faults, unless the load is given."""
    X = plant()
    plan = Plan(FEW, kinds=["bias 1 sd"], at_once=[1], n_trials=300)
    given = choose(X.to_numpy(), PCADetector(given=[2]), plan)
    without = choose(X.drop(columns="load").to_numpy(), PCADetector(), plan)
    assert given.entries[0].hits1.value > without.entries[0].hits1.low
    assert given.entries[0].hits1.value > 0.5


@pytest.mark.parametrize("lags", [0, 1])
def test_the_result_is_a_detector_with_given_columns(lags):
    detector = culpa.calibrate(plant(), PCADetector(given=["load"], lags=lags), chosen=FEW, n_trials=100)
    assert detector.given == ["load"]
    assert detector.limit_kind_ == "held-out"
    assert "load" not in detector.explain(plant(20, 1), rows=[5, 6]).feature_names
    by_position = culpa.calibrate(plant().to_numpy(), PCADetector(given=[2], lags=lags), chosen=FEW, n_trials=100)
    assert by_position.calibration_.best == detector.calibration_.best
    assert by_position.limit_ == pytest.approx(detector.limit_)


def test_all_settings_and_numbers_of_components():
    found = choose(plant(150).to_numpy(), PCADetector(given=[2]), Plan(n_trials=40))
    assert len(found.entries) > 20
    numbers = components_by_detection(plant(150), PCADetector(given=["load"]), n_trials=40)
    assert [entry.n_components for entry in numbers.entries] == [1, 2, 3, 4, 5]


def test_smoothed_rows_are_refused():
    with pytest.raises(
        ValueError, match=r"does not work with smooth\. Calibrate without smooth, and set smooth on the result"
    ):
        culpa.calibrate(plant(), PCADetector(smooth=0.2))
    with pytest.raises(ValueError, match="does not work with smooth"):
        components_by_detection(plant(), PCADetector(smooth=0.2))


def test_command_line(tmp_path):
    table = write(plant(), tmp_path / "normal.csv")
    run("calibrate", table, "-o", tmp_path / "m.culpa", "--given", "load", "--trials", 40)
    assert list(culpa.load(tmp_path / "m.culpa").given) == ["load"]
    refused = run("calibrate", table, "--given", "load", "--at-once", 6, code=2).stderr
    assert "at most 5 of the 6 columns can be faulty at once" in refused
    assert "--smooth" not in run("calibrate", "--help").stdout
