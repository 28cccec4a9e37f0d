"""The standard deviation that texts state beside an expected value."""

import numpy as np
import pytest

from culpa import PCADetector, load
from culpa.fitting.errors import usual_errors
from culpa.scores import named_score


def few_rows(n, seed, d=30, p=6):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) @ np.random.default_rng(9).normal(size=(p, d)) + rng.normal(size=(n, d))


def within_two_sd(detector, new, factor):
    """Share of readings, by column, that lie within two standard deviations of what the others imply."""
    model = detector.fitted.model
    score = named_score("mahalanobis", model)
    errors = score.response(model.standardise(new)) / score.diagonal
    return (np.abs(errors) <= 2 * factor / np.sqrt(score.diagonal)).mean(axis=0)


@pytest.mark.filterwarnings("ignore::culpa.FitWarning")
def test_95_percent_of_new_readings_are_within_two_sd():
    """The model's own standard deviation is too small where few rows taught it."""
    detector = PCADetector(25).fit(few_rows(150, 0))
    new = few_rows(4000, 1)
    own, stated = (within_two_sd(detector, new, factor) for factor in (1.0, detector.fitted.usual_errors))
    assert own.mean() < 0.93
    assert 0.94 < stated.mean() < 0.965


def test_columns_that_hardly_ever_move():
    """Nine in ten readings are at rest, within .01: two standard deviations of the model reach far beyond."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    X[:, 2] = np.where(rng.random(2000) < 0.03, X[:, 2], 0.01 * X[:, 2])
    factor = PCADetector().fit(X).fitted.usual_errors
    assert factor[:2] == pytest.approx(1.0, abs=0.1)
    assert 0.05 <= factor[2] < 0.2


def test_by_definition():
    X = few_rows(200, 0, d=4, p=2)
    detector = PCADetector(2).fit(X)
    model = detector.fitted.model
    Z, errors = model.standardise(X), []
    for k in range(5):
        here = np.zeros(200, dtype=bool)
        here[40 * k : 40 * k + 40] = True
        values, axes = np.linalg.eigh(np.cov(Z[~here].T))
        covariance = axes[:, 2:] * (values[2:] - values[:2].mean()) @ axes[:, 2:].T + values[:2].mean() * np.eye(4)
        for z in Z[here] - Z[~here].mean(axis=0):
            implied = [
                covariance[j, others] @ np.linalg.solve(covariance[np.ix_(others, others)], z[others])
                for j, others in ((j, np.delete(np.arange(4), j)) for j in range(4))
            ]
            errors.append(np.abs(z - implied))
    own = 1 / np.sqrt(np.diag(np.linalg.inv(model.gaussian.covariance)))
    np.testing.assert_allclose(detector.fitted.usual_errors, np.quantile(errors, 0.95, axis=0) / 2 / own, rtol=1e-9)


@pytest.mark.parametrize("parameters", [{"noise": 10.0}, {"shrinkage": 0.7}, {"trim": 0.1}])
def test_they_are_those_of_the_model_as_it_is(parameters):
    """With its own noise and shrinkage, and without faults that it left out."""
    X = few_rows(3000, 0, d=6, p=2)
    if "trim" in parameters:
        X[1200:1400, 3] += 40
    detector = PCADetector(2, **parameters).fit(X)
    shares = within_two_sd(detector, few_rows(8000, 1, d=6, p=2), detector.fitted.usual_errors)
    assert shares == pytest.approx(0.95, abs=0.012)


def test_weights_that_differ_have_the_models_own():
    X, weights = few_rows(1000, 0, d=5, p=2), np.ones(1000)
    X[300:400, 3] += 50
    weights[300:400] = 1e-9
    fitted = PCADetector().fit(X, sample_weight=weights).fitted
    assert fitted.usual_errors is None
    assert fitted.views is None  # which would take the fault for normal
    fitted = PCADetector().fit(X[:300], sample_weight=np.ones(300)).fitted
    assert fitted.usual_errors is not None
    assert fitted.views is not None


@pytest.mark.filterwarnings("ignore::culpa.FitWarning")
def test_an_update_with_more_rows_knows_better():
    detector = PCADetector(25).fit(few_rows(150, 0))
    few = detector.fitted.usual_errors
    assert detector.partial_fit(few_rows(120, 1)).fitted.usual_errors is few
    detector.partial_fit(few_rows(4000, 2))
    shares = within_two_sd(detector, few_rows(4000, 3), detector.fitted.usual_errors)
    assert shares.mean() == pytest.approx(0.95, abs=0.006)


def test_missing_cells_do_not_count():
    X = few_rows(1000, 0, d=5, p=2)
    whole = PCADetector(2).fit(X).fitted.usual_errors
    X[::3, 1] = np.nan
    assert PCADetector(2).fit(X).fitted.usual_errors == pytest.approx(whole, rel=0.1)


def test_few_rows_and_modes_have_the_models_own():
    model = PCADetector(2, limit="formula").fit(few_rows(99, 0, d=5, p=2)).fitted.model
    assert usual_errors(model, np.zeros((99, 5))) is None
    assert PCADetector(2, modes=2).fit(few_rows(500, 0, d=5, p=2)).fitted.usual_errors is None


def test_incidents_state_it(tmp_path):
    X = few_rows(300, 0, d=6, p=2)
    detector = PCADetector(2).fit(X)
    new = few_rows(40, 1, d=6, p=2)
    new[20:, 3] += 15
    detector.save(tmp_path / "model.culpa")
    for one in (detector, load(tmp_path / "model.culpa")):
        [culprit] = one.incidents(new)[0].culprits
        model = detector.fitted.model
        own = model.scale[3] / np.sqrt(np.linalg.inv(model.gaussian.covariance)[3, 3])
        assert culprit.feature == "x3"
        assert culprit.expected_sd == pytest.approx(own * detector.fitted.usual_errors[3])
        assert culprit.deviation == pytest.approx((culprit.actual - culprit.expected) / culprit.expected_sd)
