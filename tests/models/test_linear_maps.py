"""Linear encoders and decoders: the map is what the model itself makes of rows."""

import numpy as np
import pytest
from sklearn.decomposition import PCA, MiniBatchSparsePCA, SparsePCA, TruncatedSVD

from culpa.models.linear_maps import LinearMap, linear_map


def rows(mean=5.0):
    rng = np.random.default_rng(0)
    return rng.normal(size=(80, 2)) @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(80, 6)) + mean


@pytest.mark.parametrize(
    "model",
    [
        SparsePCA(3, alpha=0.5, random_state=0),
        SparsePCA(2, ridge_alpha=3.0, random_state=0),
        MiniBatchSparsePCA(3, random_state=0),
        TruncatedSVD(2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_residuals_are_those_of_the_model(model):
    X = rows()
    model.fit(X)
    found = linear_map(model)
    own = X - model.inverse_transform(model.transform(X))
    np.testing.assert_allclose([found.residual_of(x) for x in X], own, atol=1e-12)


def test_given_by_hand():
    M, c = 0.5 * np.eye(3), np.array([1.0, 2.0, 3.0])
    x = np.array([2.0, 2.0, 2.0])
    np.testing.assert_allclose(LinearMap.given((M, c)).residual_of(x), x - (M @ x + c))
    np.testing.assert_allclose(LinearMap.given(M).residual_of(x), 0.0)
    for wrong in (np.zeros((2, 3)), (M, np.zeros(2)), np.zeros(3), (M, c, c), np.full((2, 2), np.nan)):
        with pytest.raises(ValueError, match="reconstruct_matrix must be"):
            LinearMap.given(wrong)


def test_other_models():
    assert linear_map(PCA(2).fit(rows())) is None
    with pytest.raises(ValueError, match="not fitted"):
        linear_map(SparsePCA(2))
