"""The Gaussian with latent variables."""

import numpy as np
import pytest

from culpa import Explainer, LatentGaussian


@pytest.mark.parametrize("noise", [0.1, 1e-6, np.full(6, 0.1)])
def test_loadings_that_depend_on_each_other_are_fewer_latent_variables(noise):
    """T2 divides by the variances of latent variables, and that of one which is but rounding is almost nothing."""
    rng = np.random.default_rng(0)
    two, X = rng.normal(size=(6, 2)), rng.normal(size=(5, 6))
    four = np.column_stack([two, two @ rng.normal(size=(2, 2))])
    axes, size, _ = np.linalg.svd(four)
    few, many = (LatentGaussian(np.zeros(6), loadings, noise) for loadings in (axes[:, :2] * size[:2], four))
    assert many.n_components == 2
    np.testing.assert_allclose(many.covariance, few.covariance)
    for score in ("spe", "t2", "mahalanobis"):
        expected, found = (Explainer(model, score=score).explain(X) for model in (few, many))
        np.testing.assert_allclose(found.score, expected.score, rtol=1e-9)
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-6, atol=1e-6)
