"""Models that somebody else fitted: what is explained is their own score, whatever steps come before, and after refits."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.covariance import EllipticEnvelope, EmpiricalCovariance, LedoitWolf
from sklearn.decomposition import PCA, FactorAnalysis, IncrementalPCA, SparsePCA, TruncatedSVD
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, QuantileTransformer, RobustScaler, StandardScaler
from sklearn.svm import OneClassSVM

from culpa import Explainer, PCADetector


def rows(n, seed, d=5):
    rng = np.random.default_rng(seed)
    W = np.random.default_rng(7).normal(size=(2, d))
    return (rng.normal(size=(n, 2)) @ W + 0.5 * rng.normal(size=(n, d))) * 10.0 ** np.arange(-1, d - 1) + 20


STEPS = [
    "passthrough",
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(copy=False),
    RobustScaler(with_scaling=False),
    RobustScaler(quantile_range=(5, 95)),
    MinMaxScaler((-2, 5)),
    MinMaxScaler(clip=True),
    MaxAbsScaler(),
    QuantileTransformer(n_quantiles=50, output_distribution="normal"),
]


class Stretched(StandardScaler):
    """A scaler that does not do what its attributes say."""

    def transform(self, X, copy=None):
        return 2 * super().transform(X, copy=copy)


def last_steps(seed):
    yield PCA(2), lambda model, Z: ((Z - model.inverse_transform(model.transform(Z))) ** 2).sum(axis=1)
    yield PCA(2, whiten=True), lambda model, Z: ((Z - model.inverse_transform(model.transform(Z))) ** 2).sum(axis=1)
    yield PCA(), lambda model, Z: (model.transform(Z) ** 2 / model.explained_variance_).sum(axis=1)
    yield IncrementalPCA(2), lambda model, Z: ((Z - model.inverse_transform(model.transform(Z))) ** 2).sum(axis=1)
    yield EllipticEnvelope(random_state=seed), lambda model, Z: -model.score_samples(Z)
    yield EmpiricalCovariance(), lambda model, Z: model.mahalanobis(Z)
    yield LedoitWolf(), lambda model, Z: model.mahalanobis(Z)
    yield GaussianMixture(2, random_state=seed), lambda model, Z: -model.score_samples(Z)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda explainer: pickle.loads(pickle.dumps(explainer))])
def test_copies_explain_alike(copied):
    """Also after the original was fitted again: a copy has a copy of the estimator."""
    X, new = rows(100, 0), rows(5, 1)
    for last, _ in last_steps(0):
        for estimator in (last, Pipeline([("scaler", StandardScaler()), ("last", last)])):
            explainer = Explainer(estimator.fit(X), score="mahalanobis")
            values, twin = explainer.explain(new).values, copied(explainer)
            estimator.fit(rows(100, 2))
            assert np.array_equal(twin.explain(new).values, values)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_explained_is_the_estimators_own_score(seed):
    """Random scalers before every estimator; new rows go beyond the training rows, where scalers clip."""
    rng = np.random.default_rng(seed)
    X, new = rows(300, seed), rows(12, 100 + seed) * rng.choice([1.0, 1.0, 3.0], size=(12, 1))
    for last, own in last_steps(seed):
        which = rng.choice(len(STEPS), size=rng.integers(0, 3))
        pipeline = Pipeline([(f"step {i}", STEPS[i]) for i in dict.fromkeys(which.tolist())] + [("last", last)])
        frame = pd.DataFrame if rng.random() < 0.3 else np.asarray
        pipeline.fit(frame(X.copy()))
        score = "t2" if isinstance(last, PCA) and last.n_components is None else None
        explainer = Explainer(pipeline, score=score)
        seen = frame(new.copy())
        for _, step in pipeline.steps[:-1]:
            seen = seen if step == "passthrough" else step.transform(seen)
        given = new.copy()
        why = explainer.explain(frame(given))
        np.testing.assert_array_equal(given, new)
        wanted = own(pipeline[-1], np.asarray(seen))
        np.testing.assert_allclose(why.score, wanted, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, wanted, rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(why.data, new)


@pytest.mark.parametrize("last", [PCA(2), EllipticEnvelope(), GaussianMixture(2), FactorAnalysis(2), PCADetector(2)])
@pytest.mark.parametrize("steps", [[], [StandardScaler()], [QuantileTransformer(n_quantiles=50)]], ids=len)
def test_a_model_that_is_fitted_again_is_refused(last, steps):
    if not steps and isinstance(last, PCADetector):
        return  # which an explainer keeps as it was
    model = Pipeline([(f"step {i}", step) for i, step in enumerate(steps)] + [("last", last)]).fit(rows(200, 0))
    explainer = Explainer(model)
    explainer.explain(rows(3, 1))
    model.fit(rows(200, 2) + 1)
    with pytest.raises(ValueError, match="fitted again"):
        explainer.explain(rows(3, 1))
    Explainer(model).explain(rows(3, 1))


@pytest.mark.parametrize(
    "last", [IsolationForest(n_estimators=5, random_state=0), OneClassSVM(), LocalOutlierFactor(novelty=True)]
)
@pytest.mark.parametrize("steps", [[], [StandardScaler()]], ids=len)
def test_a_detector_that_is_fitted_again_is_refused(last, steps):
    """Its score would be that of the new one, and the base value that of the old one."""
    X = rows(200, 0)[:, :3]
    model = Pipeline([(f"step {i}", step) for i, step in enumerate(steps)] + [("last", last)]).fit(X)
    explainer = Explainer(model, normal=X, n_orders=8)
    explainer.explain(X[:2])
    explainer.explain(X[:2])
    model.fit(3 * X)
    with pytest.raises(ValueError, match="fitted again"):
        explainer.explain(X[:2])
    Explainer(model, normal=X, n_orders=8).explain(X[:2])


def test_a_scaler_that_does_something_else_is_followed():
    model = Pipeline([("scaler", Stretched()), ("pca", PCA(2))]).fit(rows(100, 0))
    seen = model[:-1].transform(rows(4, 1))
    errors = ((seen - model[-1].inverse_transform(model[-1].transform(seen))) ** 2).sum(axis=1)
    np.testing.assert_allclose(Explainer(model).explain(rows(4, 1)).score, errors)


@pytest.mark.parametrize("encoder", [SparsePCA(2, random_state=0, max_iter=20), TruncatedSVD(2)])
def test_linear_encoders_are_asked_too(encoder):
    X = rows(100, 0)[:, :3]
    explainer = Explainer(encoder.fit(X), normal=X)
    explainer.explain(X[:3])
    encoder.components_ = encoder.components_ * 1.1
    with pytest.raises(ValueError, match="fitted again"):
        explainer.explain(X[:3])


def test_combined_uses_the_confidence_of_the_detector():
    X = rows(300, 0)
    detector = PCADetector(2, statistic="combined", confidence=0.9).fit(X)
    by_name = Explainer(detector, score="combined").explain(X[:5]).score
    np.testing.assert_allclose(by_name, -detector.score_samples(X[:5]))
