"""Rows that each miss other cells are scored together; the numbers are those of one row at a time."""

import numpy as np
import pytest

from culpa import LatentGaussian, scores


@pytest.mark.parametrize("noise", [0.3, 1e-8])
@pytest.mark.parametrize("build", [scores.spe, scores.t2, scores.mahalanobis])
def test_many_patterns_of_missing_cells(build, noise):
    rng = np.random.default_rng(0)
    model = LatentGaussian(np.zeros(12), rng.normal(size=(12, 3)), noise)
    X = model.sample(200, 1)
    X[rng.random(X.shape) < 0.3] = np.nan
    X[17] = np.nan
    score = build(model)
    one_by_one = np.concatenate([score(row[None]) for row in X])
    np.testing.assert_allclose(score(X), one_by_one, rtol=1e-7)
    np.testing.assert_allclose(model.impute(X), np.concatenate([model.impute(row[None]) for row in X]), atol=1e-9)
    assert np.isnan(score(X)[17])
