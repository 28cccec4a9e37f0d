"""What an explainer is given, and what becomes of that: positions of columns, memory of the caller's, budgets."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.covariance import EmpiricalCovariance
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer, StandardScaler

from culpa import PPCA, Explainer, PCADetector


def rows(n, seed=0, d=6):
    rng = np.random.default_rng(seed)
    W = np.random.default_rng(3).normal(size=(2, d))
    return rng.normal(size=(n, 2)) @ W + 0.5 * rng.normal(size=(n, d)) + np.arange(d)


NAMES = list("abcdef")


def answers(why):
    """Everything that an explanation says."""
    changes, pairs = why.counterfactual(limit=2.0), why.interactions()
    return {
        **{
            name: getattr(why, name) for name in ("values", "score", "data", "expected", "score_if_fixed", "row_labels")
        },
        "top": why.top(2).drop(columns="feature").to_numpy(),
        "frame": why.to_frame().to_numpy(),
        "shortest": why.shortest().to_frame().drop(columns=["feature", "player"], errors="ignore").to_numpy(),
        "changed": changes.changed,
        "score_if_changed": changes.score_if_changed,
        "pairs": pairs.values,
        "one": why[1].counterfactual(limit=2.0).changed,
        "joined": type(why).concatenate([why[:2], why[2:]]).counterfactual(limit=2.0).changed,
    }


MODELS = {
    "detector": lambda X: PCADetector(2).fit(X),
    "lags": lambda X: PCADetector(2, lags=1).fit(X),
    "given": lambda X: PCADetector(2, given=[0]).fit(X),
    "smooth": lambda X: PCADetector(2, smooth=0.5).fit(X),
    "PPCA": lambda X: Explainer(PPCA(2).fit(X)),
    "PCA": lambda X: Explainer(PCA(2).fit(X)),
    "covariance": lambda X: Explainer(EmpiricalCovariance().fit(X)),
    "pipeline": lambda X: Explainer(make_pipeline(StandardScaler(), PCA(2)).fit(X)),
    "bent": lambda X: Explainer(make_pipeline(PowerTransformer(), PCA(2)).fit(X)),
}
TABLES = {
    "array": np.asarray,
    "Fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=0)[::2],
    "read-only": lambda X: np.frombuffer(bytearray(X.tobytes())).reshape(X.shape),
    "frame": lambda X: pd.DataFrame(X),
}


@pytest.mark.parametrize("kind", sorted(MODELS))
@pytest.mark.parametrize("table", sorted(TABLES))
def test_an_explanation_keeps_its_rows(kind, table):
    """The caller's table is another one later, and every answer stays."""
    explainer = MODELS[kind](rows(200))
    given = TABLES[table](rows(5, 1))
    why = explainer.explain(given)
    before = {name: np.array(value, copy=True) for name, value in answers(why).items()}
    if isinstance(given, pd.DataFrame):
        given.iloc[:, :] = 1e3
        given.index = range(5, 10)
    else:
        given[:] = 1e3
    for name, value in answers(why).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def named_and_numbered(options, names):
    """Options by position, and the same by name."""
    if isinstance(options, dict):
        return {key: [names[i] for i in members] for key, members in options.items()}
    return [[names[i] for i in part] if isinstance(part, (list, tuple)) else names[part] for part in options]


POSITIONS = [
    {"groups": {"g": [2, 4]}},
    {"groups": {"g": [2, 4]}, "given": [3]},
    {"given": [5, 2]},
    {"upstream": [[2, 4, 5]]},
    {"upstream": [[4, 2]], "given": [3]},
    {"features": [2, 4], "score": "spe"},
    {"features": [4], "score": "spe", "given": [2]},
]


@pytest.mark.parametrize("options", POSITIONS, ids=str)
@pytest.mark.parametrize("kind", ["plain", "given", "lags and given", "dropped"])
def test_positions_are_those_of_the_table(kind, options):
    """Whatever the model or the explainer is given, a number means the same column as its name."""
    X = pd.DataFrame(rows(200), columns=NAMES)
    model = {
        "plain": lambda: PPCA(2).fit(X),
        "given": lambda: PCADetector(2, given=["b"]).fit(X),
        "lags and given": lambda: PCADetector(2, given=["a"], lags=1).fit(X),
        "dropped": lambda: make_pipeline(VarianceThreshold(), PCADetector(2)).fit(X.assign(a=1.0)),
    }[kind]()
    by_name = {key: value if key == "score" else named_and_numbered(value, NAMES) for key, value in options.items()}
    new = pd.DataFrame(rows(4, 1), columns=NAMES)
    why, expected = (Explainer(model, **some).explain(new, rows=[1, 2, 3]) for some in (options, by_name))
    assert why.player_names == expected.player_names
    np.testing.assert_array_equal(why.values, expected.values)
    if isinstance(model, PCADetector):
        mine, theirs = (model.explain(new, rows=[1, 2, 3], **some) for some in (options, by_name))
        np.testing.assert_array_equal(mine.values, theirs.values)


@pytest.mark.parametrize("given", [[], ["a"], ["b", "c"]], ids=str)
def test_fix_by_position(given):
    X = pd.DataFrame(rows(200), columns=NAMES)
    detector = PCADetector(2, given=given or None).fit(X)
    new = pd.DataFrame(rows(4, 1), columns=NAMES)
    pd.testing.assert_frame_equal(detector.fix(new, [3, 5]).to_frame(), detector.fix(new, ["d", "f"]).to_frame())
    assert set(detector.fix(new, [3, 5]).to_frame()["feature"]) == {"d", "f"}
    if given:
        with pytest.raises(ValueError, match=rf"position {NAMES.index(given[0])}, which is '{given[0]}': it is given"):
            detector.fix(new, [NAMES.index(given[0])])


def test_a_feature_that_is_named_twice_counts_once():
    model, X = PPCA(2).fit(rows(100)), rows(3, 1)
    for score in ("spe", "mse"):
        once, twice = (Explainer(model, score, features=some).explain(X) for some in ([1, 2], [2, 1, 2, "x1"]))
        np.testing.assert_array_equal(once.values, twice.values)
        squares = ((X - model.reconstruct(X))[:, 1:3] ** 2).sum(axis=1)
        np.testing.assert_allclose(twice.score, squares if score == "spe" else squares / 2)


def test_a_feature_that_is_named_twice_counts_once_in_a_function():
    X = rows(50)
    how = {"reconstruct": lambda R: R * 0.9, "normal": X, "score": "mse", "n_orders": 16}
    once, twice = (Explainer(**how, features=some).explain(X[:2]) for some in ([1, 2], [1, 2, 2]))
    np.testing.assert_allclose(once.score, twice.score)


def test_an_explainer_that_has_computed_values_can_be_pickled():
    X = np.random.default_rng(0).normal(size=(60, 5))
    for options in ({}, {"method": "permutation", "n_orders": 20}, {"game": "minimal"}):
        explainer = Explainer(PPCA(2).fit(X), "spe", **options)
        values = explainer.explain(X[:3]).values
        explainer.compile()
        np.testing.assert_allclose(pickle.loads(pickle.dumps(explainer)).explain(X[:3]).values, values, atol=1e-10)
