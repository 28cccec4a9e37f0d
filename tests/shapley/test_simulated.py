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
    assert (why.method, why.n_replicates) == ("simulated", 2047)


@pytest.mark.parametrize("missing", [[], [1]])
def test_intervals_cover_with_the_fewest_orders(missing):
    """Slopes of the regression are estimates too, which with eight pairs of orders matters."""
    hits = []
    for seed in range(40):
        X = rows(d=5, seed=seed)
        ppca = PPCA(2).fit(X)
        new = faulty(X)
        new[:, missing] = np.nan
        exact = Explainer(ppca).explain(new)
        why = Explainer(reconstruct=ppca.reconstruct, normal=ppca, n_orders=16, seed=seed).explain(new)
        hits.append(covered(why, exact.values)[exact.observed])
    assert 0.89 <= np.mean(np.concatenate(hits)) <= 0.98


def test_rows_with_fewer_orders_have_no_narrower_intervals_beside_others():
    X = rows()
    new = faulty(X)
    new[0, :2] = np.nan
    explainer = Explainer(score=lambda R: (R**2).sum(axis=1), normal=X, max_evaluations=500)
    alone, together = (explainer.explain(some).interval() for some in (new[:1], new))
    assert explainer.explain(new[1:]).n_replicates > explainer.explain(new).n_replicates
    np.testing.assert_allclose(together[1][0], alone[1][0])


def test_a_row_of_given_features_alone_takes_evaluations_too():
    X, calls = rows(), []

    def score(R):
        calls.append(len(R))
        return (R**2).sum(axis=1)

    explainer = Explainer(score=score, normal=X, given=[0])
    new = np.full((1, 6), np.nan)
    new[0, 0] = 6.0
    explainer.explain(new)
    calls.clear()
    assert explainer.explain(new).n_evaluations == sum(calls) > 0


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
    assert explainer.chosen == "simulated: 32 orders of 6 players, 392 evaluations of the score per row"
    assert why.n_evaluations == 392  # 384, the row itself twice, and with each feature fixed
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
    assert explainer.chosen == "simulated: 248 orders of 6 players, 2,984 evaluations of the score per row"
    explainer.explain(X[:3])
    counted.clear()
    explainer.explain(X[:3])  # the base value is known by now
    assert sum(counted) == 3 * 2984
    with pytest.raises(ValueError, match="max_evaluations=100 is too few for 6 players: at least 200 are needed"):
        Explainer(score=score, normal=X, max_evaluations=100)


@pytest.mark.parametrize("seed", range(12))
def test_budgets_are_kept_and_what_is_reported_was_done(seed):
    """Random options, missing cells and parts: the calls of the function are counted."""
    rng = np.random.default_rng(seed)
    X, counted = rows(d=5), [0]

    def score(R):
        counted[0] += len(R)
        return (R**2).sum(axis=1)

    budget = int(rng.choice([400, 1000, 3000]))
    options = {
        "given": [None, ["x1"], ["x1", "x3"]][rng.integers(3)],
        "groups": [None, {"g": ["x0", "x4"]}][rng.integers(2)],
        "game": ["conditional", "interventional"][rng.integers(2)],
        "n_orders": [None, 24][rng.integers(2)],
    }
    explainer = Explainer(score=score, normal=X, max_evaluations=budget, **options)
    for missing in ([], [2], [1], [0, 2], [1, 3]):
        new = X[:2].copy()
        new[:, missing] = np.nan
        for parts in (None, "values", ["values", "score"]):
            explainer.explain(new, parts=parts)
            counted[0] = 0  # the base value is known by now
            why = explainer.explain(new, parts=parts)
            assert counted[0] == 2 * why.n_evaluations
            assert why.n_evaluations <= budget
            if parts != "values":
                np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)


def test_too_small_a_budget_for_missing_cells():
    X = rows()
    explainer = Explainer(score=lambda R: R.sum(axis=1), normal=X, max_evaluations=202)
    explainer.explain(X[:1])
    with pytest.raises(ValueError, match="202 is too few for 5 players and a row with missing cells: at least 248 are"):
        explainer.explain(np.where(np.arange(6) == 2, np.nan, X[:1]))


def test_functions_that_work_in_place_get_rows_of_their_own():
    X = rows()
    mean = X.mean(axis=0)

    def in_place(R):
        R -= mean
        R **= 2
        return R.sum(axis=1)

    def reconstruct(R):
        R -= mean
        return R

    how = {"normal": X, "n_orders": 32}
    given = faulty(X)
    why, expected = (
        Explainer(score=f, **how).explain(given) for f in (in_place, lambda R: ((R - mean) ** 2).sum(axis=1))
    )
    np.testing.assert_array_equal(given, faulty(X))
    np.testing.assert_allclose(why.values, expected.values)
    np.testing.assert_allclose(why.score, ((given - mean) ** 2).sum(axis=1))
    errors = Explainer(reconstruct=reconstruct, **how).explain(given).score
    np.testing.assert_allclose(errors, np.full(len(given), (mean**2).sum()))


def test_functions_that_change_are_refused():
    X, rng = rows(), np.random.default_rng(0)
    explainer = Explainer(
        score=lambda R: (R**2).sum(axis=1) * rng.uniform(0.9, 1.1, size=len(R)), normal=X, n_orders=16
    )
    with pytest.raises(ValueError, match="different numbers for the same rows"):
        explainer.explain(X[:3])


@pytest.mark.parametrize("game", ["conditional", "interventional"])
def test_what_is_fixed_belongs_to_the_score(game):
    """Fixing a feature that is as expected already changes nothing, also where cells are missing."""
    X = rows()
    new = X[:1].copy()
    new[:, 2] = np.nan
    explainer = Explainer(score=lambda R: (R**2).sum(axis=1), normal=X, game=game, n_orders=16)
    new[:, 0] = explainer.explain(new).expected[:, 0]
    why = explainer.explain(new)
    np.testing.assert_allclose(why.score_if_fixed[:, 0], why.score)
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)


@pytest.mark.parametrize("value", [0.0, 7.0, 1e5])
@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e4])
def test_a_column_that_never_varied_is_not_drawn_as_if_it_did(value, unit):
    X = np.column_stack([rows(), np.full(200, value * unit)])

    def score(R):
        return R[:, 0] ** 2 + 40 * (R[:, -1] / unit - value) ** 2

    new = X[:2].copy()
    new[1, -1] += unit
    why = Explainer(score=score, normal=X, n_orders=32).explain(new)
    assert why.base_value == pytest.approx(score(X).mean(), rel=0.05)
    np.testing.assert_allclose(why.values[:, -1], [0, 40], atol=1e-3)
    np.testing.assert_allclose(why.expected[:, -1], value * unit)


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


@pytest.mark.parametrize("asked", [1, 8, 16, 17, 33])
def test_orders_are_rounded_up_to_pairs_that_have_a_standard_error(asked):
    """What is said of them is what is done."""
    calls = []
    rows = np.random.default_rng(0).normal(size=(60, 5))

    def score(X):
        calls.append(len(X))
        return (X**2).sum(axis=1)

    explainer = Explainer(score=score, normal=rows, n_orders=asked)
    n_orders = max(16, asked + asked % 2)
    assert explainer.chosen.startswith(f"simulated: {n_orders} orders of 5 players")
    assert explainer.explain(rows[:1]).n_evaluations >= 2 * n_orders * 4
