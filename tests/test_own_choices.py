"""`Explainer(model)` explains what the model decides by: its own statistic, game, ranking and groups."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.covariance import EllipticEnvelope
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from culpa import PPCA, Explainer, PCADetector


def rows(n=120, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + 0.5 * rng.normal(size=(n, d)) + 10


CHOICES = [
    {"statistic": "t2"},
    {"statistic": "combined", "confidence": 0.9},
    {"statistic": "mse", "game": "retraining"},
    {"game": "interventional", "ranking": "fault-odds"},
    {"groups": {"first": ["x0", "x1"], "last": [5]}},
    {"lags": 1, "groups": {"first": ["x0", "x1"]}},
    {"given": ["x3"], "groups": {"first": ["x0", "x1"]}},
]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_explainer_of_a_detector_agrees_with_the_detector(choices):
    X = rows()
    detector = PCADetector(3, **choices).fit(X)
    own, direct = Explainer(detector).explain(X[:8]), detector.explain(X[:8])
    np.testing.assert_allclose(own.score, detector.fitted.score(X[:8]) if "game" not in choices else direct.score)
    np.testing.assert_allclose(own.values, direct.values, atol=1e-12)
    assert (own.score_name, own.game, own.ranking) == (direct.score_name, direct.game, direct.ranking)
    assert own.groups == direct.groups


def test_of_a_pipeline_too():
    X = rows()
    groups = {"first": ["x0", "x1"]}
    detector = PCADetector(3, statistic="t2", ranking="rbc", groups=groups)
    pipeline = make_pipeline(StandardScaler(), detector).fit(X)
    why = Explainer(pipeline).explain(X[:8])
    direct = pipeline[-1].explain(pipeline[:-1].transform(X[:8]))
    np.testing.assert_allclose(why.values, direct.values, atol=1e-12)
    assert (why.score_name, why.ranking, why.groups) == ("t2", "rbc", direct.groups)


def test_groups_of_a_detector_behind_an_encoder():
    """A group of encoded columns is a group of the columns that they were made from."""
    table = pd.DataFrame(rows(d=4), columns=list("abcd"))
    table["grade"] = np.where(np.arange(len(table)) % 3 == 0, "fine", "coarse")
    encoder = ColumnTransformer([("grade", OneHotEncoder(), ["grade"])], remainder="passthrough")
    pipeline = make_pipeline(encoder, PCADetector(3, statistic="t2", groups={"grade and a": [0, 1, 2]})).fit(table)
    explainer = Explainer(pipeline)
    assert explainer.score.name == "t2"
    assert explainer.player_names == ("grade and a", "b", "c", "d")
    assert sorted(explainer.players[0]) == [0, 1, 2]
    parted = make_pipeline(encoder, PCADetector(3, groups={"odd": [0, 2]})).fit(table)  # half of what grade became
    assert sorted(Explainer(parted).player_names) == ["b", "c", "d", "grade__grade_fine", "odd"]


def test_what_is_said_overrides_the_own_choice():
    X = rows()
    detector = PCADetector(3, statistic="t2", game="interventional", ranking="rbc", groups={"a": [0, 1]}).fit(X)
    explainer = Explainer(detector, "spe", "conditional", ranking="shapley", groups=None)
    assert (explainer.score.name, explainer.game_name, explainer.ranking) == ("spe", "conditional", "shapley")
    assert explainer.groups is None
    assert Explainer(detector, given=["x0"]).groups == (("a", (0,)), *((f"x{i + 1}", (i,)) for i in range(1, 5)))


def test_a_detector_keeps_its_own_choices_where_nothing_is_said():
    X = rows()
    detector = PCADetector(3, statistic="t2", game="interventional", ranking="rbc", groups={"a": [0, 1]}).fit(X)
    nothing = {"score": None, "game": None, "ranking": None, "groups": "own"}
    assert detector.explainer(**nothing) is detector.explainer()


def test_other_models_have_the_usual_choice():
    X = rows()
    for model in (PPCA(2).fit(X), PCA(2).fit(X)):
        explainer = Explainer(model)
        assert (explainer.score.name, explainer.game_name, explainer.ranking) == ("spe", "conditional", "shapley")
    assert Explainer(EllipticEnvelope(random_state=0).fit(X)).score.name == "mahalanobis"


@pytest.mark.parametrize("kind", [PCA, IncrementalPCA])
def test_pca_with_all_components(kind):
    """T2 is the Mahalanobis distance then, and nothing is left for a reconstruction error."""
    X = rows() * [1.0, 1e3, 1e-3, 1.0, 1.0, 1.0]
    pca = kind().fit(X)
    own = (pca.transform(X[:8]) ** 2 / pca.explained_variance_).sum(axis=1)
    for score in ("t2", "mahalanobis"):
        why = Explainer(pca, score).explain(X[:8])
        np.testing.assert_allclose(why.score, own, rtol=1e-7)
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, own, rtol=1e-7)
        assert why.score_name == score
    for score in (None, "spe", "mse", "combined"):
        with pytest.raises(ValueError, match="keeps all 6 components, so it reconstructs every row perfectly"):
            Explainer(pca, score)
    with pytest.raises(ValueError, match="there is no variance along some of them"):
        Explainer(PCA().fit(X[:, [0, 0, 1]]), "t2")


def test_pca_with_all_components_keeps_digits():
    """Against a model with one component less and tiny noise: the same Gaussian, told in another way."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    pca = PCA().fit(rng.normal(size=(50, 4)) * [1.0, 0.1, 1e-2, 1e-4] @ axes.T)
    x = rng.normal(size=(3, 4)) * [1.0, 0.1, 1e-2, 1e-4] @ axes.T
    own = (pca.transform(x) ** 2 / pca.explained_variance_).sum(axis=1)
    why = Explainer(pca, "t2").explain(x)
    np.testing.assert_allclose(why.score, own, rtol=1e-9)
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, own, rtol=1e-9)
