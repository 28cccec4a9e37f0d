"""Values of functions: they converge to exact ones within their stated errors, inner sampling included."""

import numpy as np
import pytest
import witness
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import OneClassSVM

from culpa import PPCA, Explainer, PCADetector


def rows(n=200, d=6, p=2, seed=0):
    rng = np.random.default_rng(seed)
    return 1.5 * rng.normal(size=(n, p)) @ rng.normal(size=(p, d)) + 0.5 * rng.normal(size=(n, d)) + 5


def faulty(X, n=6):
    new = X[:n].copy()
    new[np.arange(n), np.arange(n) % X.shape[1]] += 4
    return new


def covered(sampled, exact, confidence=0.95):
    low, high = sampled.interval(confidence)
    return (low <= exact) & (exact <= high)


def test_a_linear_autoencoder_converges_to_the_exact_explanation():
    X = rows()
    ppca = PPCA(2).fit(X)
    exact = Explainer(ppca).explain(faulty(X))
    errors, stated = [], []
    for n_orders in (64, 4096):
        why = Explainer(reconstruct=ppca.reconstruct, normal=ppca, n_orders=n_orders).explain(faulty(X))
        errors.append(np.linalg.norm(why.values - exact.values) / np.linalg.norm(exact.values))
        stated.append(np.linalg.norm(why.std_error) / np.linalg.norm(exact.values))
        witness.assert_sampled_agrees(why, exact)
    assert errors[1] < 0.02
    assert stated[1] < stated[0] / 5  # 8 is expected
    assert not why.exact
    assert (why.method, why.n_replicates) == ("simulated", 2048)


def test_intervals_cover_over_models_and_seeds():
    """95% intervals cover 90 to 98% of the exact values, on average over models, rows and seeds."""
    hits = []
    for seed in range(12):
        X = rows(d=5, seed=seed)
        ppca = PPCA(2).fit(X)
        new = faulty(X)
        for score in ("spe", "mahalanobis"):
            exact = Explainer(ppca, score).explain(new)
            quadratic = Explainer(ppca, score).score

            def function(R, quadratic=quadratic, ppca=ppca):
                return quadratic(R - ppca.mean_)

            why = Explainer(score=function, normal=ppca, n_orders=100, seed=seed).explain(new)
            hits.append(covered(why, exact.values).mean())
    assert 0.90 <= np.mean(hits) <= 0.98


@pytest.mark.parametrize(
    ("options", "holes"),
    [
        ({"groups": {"pair": [0, 3]}}, False),
        ({"groups": {"pair": [0, 3]}}, True),
        ({"given": ["x1", "x4"]}, False),
        ({"given": ["x1", "x4"]}, True),
        # with holes, functions draw missing cells independently of the others, and quadratic scores need not
        ({"game": "interventional"}, False),
        ({"groups": {"pair": [0, 3]}, "given": ["x1"], "game": "interventional"}, False),
    ],
    ids=str,
)
def test_rules_of_players(options, holes):
    X = rows()
    ppca = PPCA(2).fit(X)
    new = faulty(X)
    if holes:
        new[0, 2] = new[1, [0, 3]] = new[2, 1] = np.nan
        new[3, 1:] = np.nan
    exact = Explainer(ppca, **options).explain(new)
    why = Explainer(reconstruct=ppca.reconstruct, normal=ppca, n_orders=1024, **options).explain(new)
    assert (np.abs(why.values - exact.values) <= 5 * why.std_error + 1e-9).all()
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)
    np.testing.assert_allclose(why.base_value, exact.base_value, rtol=0.35)
    np.testing.assert_allclose(why.score, exact.score, rtol=0.35)
    assert why.player_names == exact.player_names
    assert (np.isnan(why.score_if_fixed) == np.isnan(exact.score_if_fixed)).all()


def test_same_seed_same_numbers_whatever_the_other_rows():
    X = rows()
    forest = IsolationForest(n_estimators=20, random_state=0).fit(X)
    all_rows = Explainer(forest, normal=X, n_orders=32).explain(X[:70])
    again = Explainer(forest, normal=X, n_orders=32).explain(X[5:7])
    np.testing.assert_array_equal(all_rows.values[5:7], again.values)
    other = Explainer(forest, normal=X, n_orders=32, seed=1).explain(X[5:7])
    assert np.abs(other.values - again.values).max() > 0
    assert np.abs(other.values - again.values).max() < 6 * again.std_error.max()


DETECTORS = [
    IsolationForest(n_estimators=20, random_state=0),
    LocalOutlierFactor(novelty=True),
    OneClassSVM(),
    make_pipeline(StandardScaler(), IsolationForest(n_estimators=20, random_state=0)),
]


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: type(detector).__name__)
def test_detectors_of_scikit_learn(detector):
    X = rows()
    detector.fit(X)
    new = faulty(X)
    explainer = Explainer(detector, normal=X, n_orders=32)
    why = explainer.explain(new)
    np.testing.assert_allclose(why.score, -detector.score_samples(new), rtol=1e-12)
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)
    assert why.score_name.endswith("-score_samples")
    assert explainer.chosen == "simulated: 32 orders of 6 players, 384 evaluations of the score per row"
    assert why.n_evaluations == 384
    with pytest.raises(TypeError, match=r"also pass normal=\.\.\."):
        Explainer(detector)


def test_pyod():
    X = rows()
    knn = pytest.importorskip("pyod.models.knn").KNN().fit(X)
    why = Explainer(knn, normal=X, n_orders=32).explain(faulty(X))
    np.testing.assert_allclose(why.score, knn.decision_function(faulty(X)))
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)
    assert why.score_name == "KNN decision_function"


def test_columns_before_an_encoder_are_blamed():
    import pandas as pd
    from sklearn.compose import make_column_transformer

    table = pd.DataFrame(rows(d=3), columns=list("abc"))
    table["grade"] = np.where(table["a"] > 5, "fine", "coarse")
    encoder = make_column_transformer((OneHotEncoder(), ["grade"]), (StandardScaler(), list("abc")))
    pipeline = make_pipeline(encoder, IsolationForest(n_estimators=20, random_state=0)).fit(table)
    new = table[:4].copy()
    new.loc[0, "b"] += 20
    why = Explainer(pipeline, normal=table, n_orders=64).explain(new)
    assert set(why.feature_names) == {"a", "b", "c", "grade"}
    np.testing.assert_allclose(why.score, -pipeline.score_samples(new))
    assert why[0].top(1)["feature"].tolist() == ["b"]
    with pytest.raises(ValueError, match="pass the normal rows themselves"):
        Explainer(pipeline, normal=PPCA(2).fit(rows(d=5)))


def test_budget():
    X = rows()
    counted = []

    def score(R):
        counted.append(len(R))
        return R.sum(axis=1)

    explainer = Explainer(score=score, normal=X, max_evaluations=3000)
    assert explainer.chosen == "simulated: 250 orders of 6 players, 3,000 evaluations of the score per row"
    explainer.explain(X[:3])
    counted.clear()
    explainer.explain(X[:3])  # the base value is known by now
    assert sum(counted) <= 3 * (3000 + 6 + 3)  # and the row as it is, and with each feature fixed
    with pytest.raises(ValueError, match="max_evaluations=100 is too few for 6 players: at least 192 are needed"):
        Explainer(score=score, normal=X, max_evaluations=100)


def test_a_score_of_one_feature_blames_no_other_independently():
    """In the interventional game a feature that the score does not look at gets nothing; the conditional game differs."""
    X = rows()
    why = Explainer(score=lambda R: R[:, 0] ** 2, normal=X, game="interventional").explain(faulty(X))
    assert np.abs(why.values[:, 1:]).max() < 1e-9
    why = Explainer(score=lambda R: R[:, 0] ** 2, normal=X).explain(faulty(X))
    assert np.abs(why.values[:, 1:]).max() > 1


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda X: Explainer(), TypeError, "nothing to explain: pass a model"),
        (lambda X: Explainer(PPCA(2).fit(X), reconstruct=abs, normal=X), TypeError, "got model and reconstruct"),
        (lambda X: Explainer(score=len), TypeError, r"score=\.\.\. also needs normal=\.\.\."),
        (lambda X: Explainer(PPCA(2).fit(X), normal=X), ValueError, "PPCA is a model of normal rows itself"),
        (lambda X: Explainer(PCADetector(2).fit(X), normal=X), ValueError, "PCADetector is a model of normal rows"),
        (lambda X: Explainer(StandardScaler().fit(X), normal=X), TypeError, "has neither score_samples nor"),
        (lambda X: Explainer(score=len, normal=X, method="exact"), ValueError, "method='exact' is not available"),
        (lambda X: Explainer(score=len, normal=X, upstream=[(0, 1)]), ValueError, "upstream is not available"),
        (lambda X: Explainer(score=len, normal=X, game="retraining"), ValueError, "game='retraining' retrains a PCA"),
        (lambda X: Explainer(score=len, normal=X, features=[0]), ValueError, "features=... selects reconstruction"),
        (lambda X: Explainer(score=len, normal=X, ranking="rbc"), ValueError, "ranking='rbc' is a part of"),
        (lambda X: Explainer(score=len, normal=X).compile(), ValueError, "cannot be compiled"),
        (lambda X: Explainer(score=len, normal=PCADetector(2, lags=1).fit(X)), ValueError, "pass the normal rows"),
        (lambda X: Explainer(OneClassSVM().fit(X), "spe", normal=X), ValueError, "has a score of its own"),
        (lambda X: Explainer(OneClassSVM().fit(X), normal=X[:, :3]), ValueError, "normal has 3 features"),
        (lambda X: Explainer(OneClassSVM(), normal=X), ValueError, "not fitted"),
    ],
)
def test_errors(build, error, message):
    with pytest.raises(error, match=message):
        build(rows())


def test_rankings_about_normal_rows_work():
    X = rows()
    new = faulty(X)
    forest = IsolationForest(n_estimators=20, random_state=0).fit(X)
    ppca = PPCA(2).fit(X)
    for ranking in ("fault-odds", "z-score", "leave-one-out"):
        why = Explainer(forest, normal=ppca, n_orders=16, ranking=ranking).explain(new)
        np.testing.assert_allclose(why.suspicion, Explainer(ppca, ranking=ranking).explain(new).suspicion, rtol=1e-6)


def test_densities():
    """A mixture's log-density, with the sign of an anomaly score."""
    X = rows()
    mixture = GaussianMixture(2, random_state=0).fit(X)
    why = Explainer(score=lambda R: -mixture.score_samples(R), normal=X, n_orders=32).explain(faulty(X))
    np.testing.assert_allclose(why.score, -mixture.score_samples(faulty(X)))


def test_two_sets_of_normal_rows():
    """A model and the rows that it was fitted to tell about the same: the automatic fit serves."""
    X = rows(400)
    detector = PCADetector().fit(X)
    f = IsolationForest(n_estimators=20, random_state=0).fit(X)
    a, b = (Explainer(f, normal=normal, n_orders=200).explain(faulty(X)) for normal in (X, detector))
    np.testing.assert_allclose(a.values, b.values, atol=0.02)
    np.testing.assert_allclose(a.expected, b.expected, rtol=0.02)
    assert a.score_if_fixed.shape == a.values.shape
