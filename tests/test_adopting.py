"""PCADetector.from_pca: a PCA that was fitted before, with limits, charts and incidents."""

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.ensemble import IsolationForest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import culpa
from culpa import Explainer, PCADetector

NAMES = [f"tag {i}" for i in range(8)]


def plant(n, seed, d=8, p=3):
    rng = np.random.default_rng(seed)
    W = np.random.default_rng(42).normal(size=(p, d))
    X = (rng.normal(size=(n, p)) @ W + 0.4 * rng.normal(size=(n, d))) * np.arange(1, d + 1) + 100
    return pd.DataFrame(X, columns=NAMES)


@pytest.fixture(scope="module")
def pca():
    return PCA(3).fit(plant(1000, 0))


def test_rows_that_the_pca_knows_give_the_detector_that_was_fitted(pca):
    """The same model as that of a detector without scaling, and limits from held-out rows."""
    adopted = PCADetector.from_pca(pca, plant(1000, 0))
    fitted = PCADetector(3, scale=False).fit(plant(1000, 0))
    new = plant(50, 1)
    np.testing.assert_allclose(adopted.score_samples(new), fitted.score_samples(new), rtol=1e-8)
    assert adopted.limit_kind_ == "held-out"
    assert adopted.limit_ == pytest.approx(fitted.limit_, rel=1e-8)
    np.testing.assert_allclose(adopted.statistics(new)["t2_limit"], fitted.statistics(new)["t2_limit"], rtol=1e-8)


def test_the_model_is_that_of_the_pca(pca):
    adopted = PCADetector.from_pca(pca, plant(400, 5))
    new = plant(50, 1)
    errors = ((new - pca.inverse_transform(pca.transform(new))) ** 2).sum(axis=1)
    np.testing.assert_allclose(-adopted.score_samples(new), errors)
    np.testing.assert_allclose(adopted.explain(new[:5]).values, Explainer(pca).explain(new[:5]).values)
    np.testing.assert_allclose(adopted.reconstruct(new), pca.inverse_transform(pca.transform(new)))


def test_rows_that_are_new_to_the_pca_are_scored_by_it(pca):
    """Their quantile is the limit: with 999 rows at 99%, the tenth largest score."""
    normal = plant(999, 9)
    adopted = PCADetector.from_pca(pca, normal)
    scores = np.sort(((normal - pca.inverse_transform(pca.transform(normal))) ** 2).sum(axis=1))
    assert adopted.limit_kind_ == "held-out"
    assert adopted.limit_ == pytest.approx(scores[-10])
    alarms = (adopted.predict(plant(20_000, 6)) == -1).mean()
    assert alarms == pytest.approx(0.01, abs=0.008)


def test_a_scaler_before_the_pca():
    X = plant(600, 0)
    adopted = PCADetector.from_pca(make_pipeline(StandardScaler(), PCA(3)).fit(X), X)
    fitted = PCADetector(3).fit(X)
    new = plant(50, 1)
    # the scaler divides by n, the detector by n - 1
    np.testing.assert_allclose(adopted.score_samples(new), fitted.score_samples(new) * 600 / 599, rtol=1e-6)
    assert adopted.limit_ == pytest.approx(fitted.limit_ * 600 / 599, rel=0.01)


def test_everything_works_on_it(pca, tmp_path):
    normal, new = plant(1000, 0), plant(60, 1)
    new.iloc[20:30, 2] += 40
    adopted = PCADetector.from_pca(pca, normal, confidence=0.999, noun="tag", statistic="mahalanobis")
    (incident,) = adopted.incidents(new, gap=3, min_length=5)
    assert (incident.first, incident.last, incident.culprits[0].feature) == (20, 29, "tag 2")
    assert "1 incident" in repr(adopted.report(new, gap=3, min_length=5).summary) or adopted.report(new).to_html()
    assert not adopted.drift(plant(300, 7)).drifted
    adopted.save(tmp_path / "model.culpa")
    again = culpa.load(tmp_path / "model.culpa")
    np.testing.assert_array_equal(again.score_samples(new), adopted.score_samples(new))
    assert again.limit_ == adopted.limit_


def test_incremental_pca():
    X = plant(600, 0)
    adopted = PCADetector.from_pca(IncrementalPCA(3).fit(X), X)
    assert (adopted.predict(plant(5000, 3)) == -1).mean() < 0.03


@pytest.mark.parametrize("limit", ["formula", "empirical", "conformal", 25.0])
def test_other_limits(pca, limit):
    adopted = PCADetector.from_pca(pca, plant(1000, 0), limit=limit, confidence=0.95)
    assert adopted.limit_kind_ == {"formula": "jackson-mudholkar", 25.0: "given"}.get(limit, limit)
    assert limit == 25.0 or 0.02 < (adopted.predict(plant(5000, 3)) == -1).mean() < 0.08


def test_contamination(pca):
    X = plant(1000, 0)
    adopted = PCADetector.from_pca(pca, X, contamination=0.1)
    assert (adopted.predict(X) == -1).sum() == 100


def test_what_is_refused(pca):
    X = plant(100, 0)
    with pytest.raises(TypeError, match=r"but got an IsolationForest of sklearn\. For other steps"):
        PCADetector.from_pca(IsolationForest(n_estimators=2).fit(X), X)
    with pytest.raises(TypeError, match="but got a Pipeline of sklearn"):
        PCADetector.from_pca(make_pipeline(MinMaxScaler(), PCA(3)).fit(X), X)
    with pytest.raises(TypeError, match="from_pca has no parameter 'lags'"):
        PCADetector.from_pca(pca, X, lags=1)
    with pytest.raises(TypeError, match="from_pca has no parameter 'confidenc'; did you mean 'confidence'"):
        PCADetector.from_pca(pca, X, confidenc=0.9)
    with pytest.raises(ValueError, match="normal has no column 'tag 1'"):
        PCADetector.from_pca(pca, X.rename(columns={"tag 1": "tag one"}))
    with pytest.raises(ValueError, match="column 'tag 0' of X is NaN in row 3, but from_pca needs complete rows"):
        PCADetector.from_pca(pca, X.mask(X.index.to_series() == 3))
