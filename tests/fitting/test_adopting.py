"""PCADetector.from_pca: a PCA that was fitted before, with limits, charts and incidents."""

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.ensemble import IsolationForest
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, PowerTransformer, RobustScaler, StandardScaler

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
    adopted = PCADetector.from_pca(pca, plant(1000, limit == "conformal"), limit=limit, confidence=0.95)
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
        PCADetector.from_pca(make_pipeline(PowerTransformer(), PCA(3)).fit(X), X)
    with pytest.raises(ValueError, match="the PCA keeps all 8 components"):
        PCADetector.from_pca(PCA().fit(X), X, statistic="t2")
    with pytest.raises(ValueError, match="limit='conformal' needs rows that the PCA was not fitted to"):
        PCADetector.from_pca(PCA(3).fit(X), X, limit="conformal")
    with pytest.raises(TypeError, match="from_pca has no parameter 'lags'"):
        PCADetector.from_pca(pca, X, lags=1)
    with pytest.raises(TypeError, match="from_pca has no parameter 'confidenc'; did you mean 'confidence'"):
        PCADetector.from_pca(pca, X, confidenc=0.9)
    with pytest.raises(ValueError, match="normal has no column 'tag 1'"):
        PCADetector.from_pca(pca, X.rename(columns={"tag 1": "tag one"}))
    with pytest.raises(ValueError, match="column 'tag 0' of X is NaN in row 3, but from_pca needs complete rows"):
        PCADetector.from_pca(pca, X.mask(X.index.to_series() == 3))


SCALERS = {
    "nothing": (),
    "passthrough": ("passthrough",),
    "standard": (StandardScaler(),),
    "centred": (StandardScaler(with_std=False),),
    "not centred": (StandardScaler(with_mean=False),),
    "smallest and largest": (MinMaxScaler((-1, 3)),),
    "largest": (MaxAbsScaler(),),
    "quartiles": (RobustScaler(with_centering=False),),
    "several": (RobustScaler(), MinMaxScaler(), StandardScaler()),
}


@pytest.mark.parametrize("kind", sorted(SCALERS))
def test_any_scalers_before_the_pca_give_its_own_scores_and_the_rate_that_is_stated(kind):
    X, new = plant(400, 0), plant(5000, 3)
    pipeline = Pipeline([(str(i), step) for i, step in enumerate(SCALERS[kind])] + [("pca", PCA(3))]).fit(X)
    adopted = PCADetector.from_pca(pipeline, X, confidence=0.95)
    seen = pipeline[:-1].transform(new) if SCALERS[kind] else new
    errors = (np.asarray(seen - pipeline[-1].inverse_transform(pipeline[-1].transform(seen))) ** 2).sum(axis=1)
    np.testing.assert_allclose(-adopted.score_samples(new), errors, rtol=1e-7)
    assert (adopted.predict(new) == -1).mean() == pytest.approx(0.05, abs=0.025)
    assert adopted.false_alarm_rate_.value == pytest.approx(0.05, abs=0.015)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_constant_column_and_short_numbers_do_not_hide_the_training_rows(dtype):
    """Few rows of many columns: a PCA's own training rows have far lower scores than new ones."""
    X, new = (wide(n, seed) for n, seed in ((120, 0), (3000, 1)))
    X, new = X.astype(dtype), new.astype(dtype)
    adopted = PCADetector.from_pca(make_pipeline(StandardScaler(), PCA(20)).fit(X), X, confidence=0.95)
    assert (adopted.predict(new) == -1).mean() < 0.1


def wide(n, seed):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(size=(n, 40)) + 300, np.full(n, 0.1)])


def test_more_rows_do_not_replace_the_pca(pca, tmp_path):
    adopted = PCADetector.from_pca(pca, plant(400, 5))
    adopted.save(tmp_path / "model.culpa")
    for detector in (adopted, culpa.load(tmp_path / "model.culpa")):
        before = detector.score_samples(plant(20, 6))
        with pytest.raises(ValueError, match="a PCA that was fitted before"):
            detector.partial_fit(plant(100, 7))
        np.testing.assert_array_equal(detector.score_samples(plant(20, 6)), before)


class Bent(PCA):
    """A PCA that does not do what its attributes say."""

    def inverse_transform(self, X):
        return super().inverse_transform(X) * 1.01


def test_a_pca_is_asked_for_its_own_errors():
    X = plant(100, 0).to_numpy()
    with pytest.raises(ValueError, match="by a Bent of"):
        PCADetector.from_pca(Bent(3).fit(X), X)
