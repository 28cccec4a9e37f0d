"""Gaussians of other packages: explained exactly for the score that they compute themselves."""

import numpy as np
import pytest
import witness
from sklearn.covariance import (
    OAS,
    EllipticEnvelope,
    EmpiricalCovariance,
    GraphicalLasso,
    GraphicalLassoCV,
    LedoitWolf,
    MinCovDet,
    ShrunkCovariance,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from culpa import Explainer

ESTIMATORS = [
    EmpiricalCovariance(),
    EmpiricalCovariance(assume_centered=True),
    EmpiricalCovariance(store_precision=False),
    ShrunkCovariance(shrinkage=0.2),
    LedoitWolf(),
    OAS(),
    MinCovDet(random_state=0),
    EllipticEnvelope(random_state=0),
    GraphicalLasso(0.05, tol=1e-2),
    GraphicalLassoCV(alphas=[0.05, 0.2], tol=1e-2),
]


def rows(n=150, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.7 * rng.normal(size=(n, d))


def brute_force(precision, location, X):
    C = np.linalg.inv(precision)
    return [
        witness.shapley(
            witness.all_values(lambda x, S: witness.conditional_value(C, precision, x, S), x - location), len(x)
        )
        for x in X
    ]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_exact_for_the_own_score(estimator):
    X = rows()
    model = estimator.fit(X)
    new = X[:3] + 2 * np.random.default_rng(1).normal(size=(3, 6))
    why = Explainer(model).explain(new)
    assert why.exact
    np.testing.assert_allclose(why.score, model.mahalanobis(new), rtol=1e-9)
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, model.mahalanobis(new), rtol=1e-9)
    assert why.base_value == pytest.approx(6)
    expected = brute_force(model.get_precision(), model.location_, new)
    np.testing.assert_allclose(why.values, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_relation_to_what_the_envelope_returns():
    X = rows()
    model = EllipticEnvelope(random_state=0).fit(X)
    why = Explainer(model).explain(X[:5])
    np.testing.assert_allclose(why.score, -model.score_samples(X[:5]), rtol=1e-9)
    np.testing.assert_allclose(why.score, -model.offset_ - model.decision_function(X[:5]), rtol=1e-9)


def test_units_do_not_matter():
    """Features of very different sizes cost no digits, as long as scikit-learn itself keeps them."""
    X, units = rows(), np.array([1e3, 1e-3, 1.0, 1e3, 1e-3, 1.0])
    values = Explainer(EmpiricalCovariance().fit(X)).explain(X[:3]).values
    raw = Explainer(EmpiricalCovariance().fit(X * units)).explain(X[:3] * units)
    np.testing.assert_allclose(raw.values, values, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match=r"it has 2 directions and 6 features.*scale columns"):
        Explainer(EmpiricalCovariance().fit(X * units**3))
    scaled = make_pipeline(StandardScaler(), EmpiricalCovariance()).fit(X * units**3)
    np.testing.assert_allclose(Explainer(scaled).explain(X[:3] * units**3).values, values, rtol=1e-9, atol=1e-9)


def test_in_a_pipeline_with_names_groups_and_missing_cells():
    import pandas as pd

    X = pd.DataFrame(rows(), columns=list("abcdef"))
    model = make_pipeline(StandardScaler(), EllipticEnvelope(random_state=0)).fit(X)
    why = Explainer(model, groups={"pair": ["a", "b"]}).explain(X[:4])
    np.testing.assert_allclose(why.score, -model.score_samples(X[:4]), rtol=1e-9)
    assert why.player_names == ("pair", "c", "d", "e", "f")
    holed = X[:4].copy()
    holed.iloc[0, 2] = np.nan
    why = Explainer(model).explain(holed)
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-9)
    assert why.values[0, 2] == 0


@pytest.mark.parametrize("kind", [EmpiricalCovariance, LedoitWolf])
def test_fewer_rows_than_features(kind):
    X = rows(5, 8)
    if kind is LedoitWolf:  # never singular
        why = Explainer(kind().fit(X)).explain(X[:2])
        np.testing.assert_allclose(why.score, kind().fit(X).mahalanobis(X[:2]), rtol=1e-9)
        return
    with pytest.raises(ValueError, match="is singular: it has 4 directions and 8 features"):
        Explainer(kind().fit(X))
    constant = rows()
    constant[:, 2] = 1.0
    with pytest.raises(ValueError, match="is singular"):
        Explainer(kind().fit(constant))


def test_not_fitted():
    with pytest.raises(ValueError, match="not fitted"):
        Explainer(EllipticEnvelope())


def test_pyod_mcd():
    mcd = pytest.importorskip("pyod.models.mcd").MCD(random_state=0)
    X = rows()
    model = mcd.fit(X)
    why = Explainer(model).explain(X[:5])
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, model.decision_function(X[:5]), rtol=1e-9)


def test_pyod_pca_says_why_it_is_not_exact():
    pca = pytest.importorskip("pyod.models.pca").PCA()
    X = rows()
    model = pca.fit(X)
    with pytest.raises(TypeError, match="not their squares, so its score has no exact explanation"):
        Explainer(model)
    why = Explainer(model, normal=X, n_orders=16).explain(X[:2])
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, model.decision_function(X[:2]), rtol=1e-9)
