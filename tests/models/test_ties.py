"""Columns that imply each other: partial correlations against explicit inverses, and the groups they suggest."""

import warnings

import numpy as np
import pandas as pd
import pytest

from culpa import FitWarning, PCADetector
from culpa.datasets import DataFileError
from culpa.models.ties import partial_correlations, suggested_groups, ties_of
from studies.recorded import load_tennessee_eastman


@pytest.mark.parametrize("scale", [1.0, 1e-6], ids=["alike", "of very different sizes"])
def test_partial_correlations_equal_the_definition(scale):
    root = np.random.default_rng(1).normal(size=(6, 9)) * np.geomspace(1, scale, 6)[:, None]
    covariance = root @ root.T
    expected = np.eye(6)
    for i in range(6):
        for j in set(range(6)) - {i}:  # the correlation of what is left of two columns when all others are known
            others = [k for k in range(6) if k not in (i, j)]
            left = root[[i, j]] - root[[i, j]] @ np.linalg.pinv(root[others]) @ root[others]
            expected[i, j] = left[0] @ left[1] / np.sqrt((left[0] @ left[0]) * (left[1] @ left[1]))
    np.testing.assert_allclose(partial_correlations(covariance), expected, atol=1e-9)


def test_singular_covariances():
    """A copy, a constant and a sum, each with nothing to do with the others."""
    covariance = np.zeros((7, 7))
    covariance[:2, :2] = 1.0
    root = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    covariance[3:6, 3:6] = root @ root.T
    covariance[6, 6] = 1.0
    found = np.abs(partial_correlations(covariance))
    assert found[0, 1] == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(found[3:6, 3:6], 1.0, atol=1e-6)
    found[:2, :2] = found[3:6, 3:6] = 0.0
    np.testing.assert_allclose(found - np.diag(np.diag(found)), 0.0, atol=1e-3)
    assert not np.isnan(partial_correlations(np.zeros((3, 3)))).any()


def table(*pairs, n=400, d=6, noise=0.05):
    """Independent columns, of which the second of each pair all but repeats the first."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d))
    for a, b in pairs:
        X[:, b] = X[:, a] + noise * rng.normal(size=n)
    return pd.DataFrame(X, columns=list("abcdefgh")[:d])


def known(pairs, d=5):
    """A covariance with these partial correlations, and none else."""
    precision = np.eye(d)
    for (a, b), value in pairs.items():
        precision[a, b] = precision[b, a] = -value
    return np.linalg.inv(precision)


def features(detector):
    return [group.features for group in detector.suggested_groups()]


def test_pairs_and_their_strengths():
    detector = PCADetector().fit(table((0, 3), (1, 4)))
    found = detector.suggested_groups()
    assert sorted(group.features for group in found) == [("a", "d"), ("b", "e")]
    precision = np.linalg.inv(table((0, 3), (1, 4)).corr().to_numpy())
    for group in found:
        i, j = ("abcdef".index(name) for name in group.features)
        expected = abs(precision[i, j]) / np.sqrt(precision[i, i] * precision[j, j])
        assert group.strength == pytest.approx(expected, abs=1e-9)
    assert found[0].strength >= found[1].strength


def test_a_group_of_everything_is_not_suggested():
    X = table(d=3)
    X["c"] = X["a"] + X["b"]
    assert suggested_groups(ties_of(X.cov().to_numpy()), "abc") == []


def test_few_rows_are_judged_by_the_model():
    """Of hardly more rows than columns, the covariance has large partial correlations by chance."""
    X = np.random.default_rng(0).normal(size=(24, 20))
    assert suggested_groups(ties_of(np.cov(X.T)), [f"x{i}" for i in range(20)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        assert PCADetector().fit(X).suggested_groups() == []


def test_columns_in_no_relation_are_not_suggested():
    assert PCADetector().fit(table()).suggested_groups() == []


def test_ties_that_share_a_column_are_joined_by_their_weakest():
    (group,) = suggested_groups(ties_of(known({(0, 1): -0.9, (2, 3): 0.84})), "abcde")
    assert group == (("a", "b"), pytest.approx(0.9))
    X = table(d=8, noise=0.0)
    X["c"], X["f"] = X["a"] + X["b"], X["d"] + 0.2 * X["e"]  # d and e are tied to f, and e less
    strong, weak = PCADetector().fit(X).suggested_groups()
    assert (strong.features, weak.features) == (("a", "b", "c"), ("d", "e", "f"))


def test_known_groups_are_not_suggested_again_and_grow_as_a_whole():
    pair = ties_of(known({(0, 1): 0.9}))
    assert suggested_groups(pair, "abcde", [[0, 1, 2]]) == []
    (group,) = suggested_groups(pair, "abcde", [[1, 2, 4]])
    assert group == (("a", "b", "c", "e"), pytest.approx(0.9))
    (group,) = suggested_groups(pair, "abcde", [[0, 3], [1, 2]])
    assert group == (("a", "b", "c", "d"), pytest.approx(0.9))
    detector = PCADetector(groups={"pair": ["a", "d"]}).fit(table((0, 3), (1, 4)))
    assert features(detector) == [("b", "e")]


@pytest.mark.filterwarnings("ignore::culpa.FitWarning")
@pytest.mark.parametrize("options", [{}, {"statistic": "spe"}, {"scale": False}, {"n_components": 5}, {"lags": 1}])
def test_exactly_collinear_columns(options):
    X = table(noise=0.0)
    X["d"] = 1000 * X["a"]
    found = PCADetector(**options).fit(X).suggested_groups()
    assert [group.features for group in found] == [("a", "d")]
    assert found[0].strength == pytest.approx(1.0, abs=1e-3)


@pytest.mark.filterwarnings("ignore::culpa.FitWarning")
def test_sums_and_constants():
    X = table()
    X["c"] = X["a"] + X["b"]
    X["f"] = 1.0
    (group,) = PCADetector().fit(X).suggested_groups()
    assert group.features == ("a", "b", "c")


def test_present_values_count_where_there_are_lags():
    detector = PCADetector(lags=2).fit(table((0, 3)))
    assert features(detector) == [("a", "d")]


@pytest.mark.filterwarnings("ignore::culpa.FitWarning")
def test_given_columns_explain_ties_away():
    X = table(noise=0.0)
    X["d"] = X["a"] + X["b"]
    assert features(PCADetector().fit(X)) == [("a", "b", "d")]
    assert features(PCADetector(given=["a"]).fit(X)) == [("b", "d")]


def test_tennessee_eastman():
    """Each of these flows is set by a valve, of which nothing else says anything."""
    try:
        data = load_tennessee_eastman()
    except DataFileError as error:
        pytest.skip(str(error))
    detector = PCADetector().fit(pd.DataFrame(data.normal, columns=list(data.feature_names)))
    assert sorted(features(detector)) == [
        ("XMEAS01", "XMV03"),
        ("XMEAS10", "XMV06"),
        ("XMEAS12", "XMV07"),
        ("XMEAS15", "XMV08"),
        ("XMEAS17", "XMV11"),
    ]
