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


@pytest.mark.parametrize("noise", [0.3, 1e-8])
@pytest.mark.parametrize("blocks", [[[i] for i in range(9)], [[4], [0], [7]], [[0, 1], [2], [3, 4, 5]]])
@pytest.mark.parametrize("build", [scores.spe, scores.t2])
def test_fixes_of_many_patterns_are_scores_of_fixed_rows(build, blocks, noise):
    rng = np.random.default_rng(0)
    model = LatentGaussian(np.zeros(9), rng.normal(size=(9, 3)), noise)
    X = model.sample(40, 1)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[3] = np.nan
    X[3, 4] = 1.0
    score = build(model)
    singles = all(len(block) == 1 for block in blocks)
    expected = model.expected(X, None if singles else blocks)
    found = score.if_fixed(X, score(X), expected, blocks)
    for k, block in enumerate(blocks):
        fixed = X.copy()
        fixed[:, block] = np.where(np.isnan(X[:, block]), np.nan, expected[:, block])
        there = ~np.isnan(X[:, block]).all(axis=1)
        assert np.isnan(found[~there, k]).all()
        np.testing.assert_allclose(found[there, k], score(fixed)[there], rtol=1e-6, atol=1e-7 * np.nanmax(score(X)))
        for row in np.flatnonzero(there)[:5]:
            others = X[[row]]
            others[:, block] = np.nan
            np.testing.assert_allclose(
                expected[row, block][~np.isnan(X[row, block])],
                model.impute(others)[0, block][~np.isnan(X[row, block])],
                atol=1e-7,
            )
