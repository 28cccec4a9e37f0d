"""Models of normal rows, where only the rows are given."""

import numpy as np
import pandas as pd
import pytest

from culpa import PPCA, LatentGaussian, PCADetector
from culpa.models.normal_argument import in_user_units, model_of


def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(300, 2)) @ rng.normal(size=(2, 6)) * [1, 10, 100, 1, 1, 1] + rng.normal(size=(300, 6)) + 50


def test_rows_are_described_as_a_detector_describes_them():
    X = pd.DataFrame(rows(), columns=list("abcdef"))
    ours, detector = model_of(X), PCADetector().fit(X).fitted.model
    assert ours.feature_names == tuple("abcdef")
    np.testing.assert_allclose(ours.centre, detector.centre)
    np.testing.assert_allclose(ours.gaussian.covariance, detector.gaussian.covariance)
    holed = X.copy()
    holed.iloc[3, 2] = np.nan
    np.testing.assert_allclose(model_of(holed).centre, ours.centre, rtol=1e-2)


def test_in_user_units():
    X = rows()
    scaled = model_of(X)
    raw = in_user_units(scaled)
    covariance = scaled.gaussian.covariance * np.outer(scaled.scale, scaled.scale)
    np.testing.assert_allclose(raw.gaussian.covariance, covariance)
    np.testing.assert_allclose(raw.gaussian.mean, scaled.centre)
    np.testing.assert_array_equal(raw.to_user_units(raw.standardise(X)), X)
    one = scaled.to_user_units(scaled.gaussian.expected(scaled.standardise(X[:5])))
    np.testing.assert_allclose(raw.gaussian.expected(X[:5]), one)


def test_models_are_taken_as_they_are():
    X = rows()
    ppca = PPCA(2).fit(X)
    np.testing.assert_allclose(model_of(ppca).gaussian.covariance, ppca.get_covariance())
    gaussian = LatentGaussian(np.zeros(3), np.ones((3, 1)), 0.5)
    assert model_of(gaussian).standard is gaussian
    with pytest.raises(ValueError, match="pass the normal rows themselves"):
        model_of(PCADetector(lags=2).fit(X))
    with pytest.raises(ValueError, match="normal"):
        model_of([["a", "b"], ["c", "d"]])
