"""Groups of a detector's columns: who is blamed by default, how to open groups, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from witness import by_hand

from culpa import Explainer, PCADetector
from culpa.columns.groups import named_groups, plain_groups, without_given

NAMES = list("abcdef")
GROUPS = {"feed": ["a", "d"], "drive": ["f"]}
PLAYERS = ("feed", "b", "c", "e", "drive")
FEATURES = [[0, 3], [1], [2], [4], [5]]


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ np.random.default_rng(7).normal(size=(2, 6)) + 0.4 * rng.normal(size=(n, 6))
    return pd.DataFrame(X, columns=NAMES)


def new_rows(n=12):
    new = rows(n, seed=1)
    new.loc[5:, "d"] += 6
    return new


@pytest.mark.parametrize("statistic", ["spe", "mahalanobis"])
def test_the_detectors_groups_are_the_players(statistic):
    detector = PCADetector(2, statistic=statistic, groups=GROUPS).fit(rows())
    why = detector.explain(new_rows())
    assert why.player_names == PLAYERS
    expected = by_hand(detector.fitted.model, new_rows().to_numpy(), FEATURES, statistic)
    np.testing.assert_allclose(why.values, expected, rtol=1e-9, atol=1e-9)


def test_groups_are_opened():
    grouped, plain = (PCADetector(groups=groups).fit(rows()) for groups in (GROUPS, None))
    for opened in (grouped.explain(new_rows(), groups=None), grouped.fitted.without_groups().explain(new_rows())):
        assert opened.player_names == tuple(NAMES)
        np.testing.assert_array_equal(opened.values, plain.explain(new_rows()).values)
    other = grouped.explain(new_rows(), groups={"others": ["b", "c"]})
    assert other.player_names == ("a", "others", "d", "e", "f")
    assert str(grouped.incidents(new_rows(), groups=None)) == str(plain.incidents(new_rows()))
    assert grouped.report(new_rows(), groups=None).to_dict()["players"] == NAMES


def test_incidents_and_reports_blame_groups():
    detector = PCADetector(groups=GROUPS).fit(rows())
    (incident,) = detector.incidents(new_rows())
    assert incident.culprits[0].feature == "feed"
    assert detector.report(new_rows()).to_dict()["players"] == list(PLAYERS)


def test_comparisons_blame_groups_and_tell_means_of_single_columns():
    detector = PCADetector(groups=GROUPS).fit(rows())
    found = {each.feature: each for each in detector.compare(rows(), new_rows()).features}
    assert set(found) == set(PLAYERS)
    assert np.isnan(found["feed"].mean_after)
    assert found["drive"].mean_after == pytest.approx(new_rows()["f"].mean())
    assert found["b"].mean_before == pytest.approx(rows()["b"].mean())


def test_fixing_knows_groups_and_single_features():
    grouped, plain = (PCADetector(groups=groups).fit(rows()) for groups in (GROUPS, None))
    fix = grouped.fix(new_rows(), ["feed", "b"])
    np.testing.assert_array_equal(fix.features[0], ["a", "d", "b"])
    np.testing.assert_array_equal(fix.expected, plain.fix(new_rows(), ["a", "d", "b"]).expected)
    np.testing.assert_array_equal(grouped.fix(new_rows(), 2).features, plain.fix(new_rows(), 2).features)
    np.testing.assert_array_equal(grouped.fix(new_rows(), "feed").features[0], ["a", "d"])


def test_columns_by_position_and_other_kinds_of_lists():
    for members in ([0, 3], (0, 3), np.array([0, 3]), ["a", 3], pd.Index(["a", "d"])):
        detector = PCADetector(groups={"feed": members, "drive": "f"}).fit(rows())
        assert detector.fitted.groups == GROUPS
        assert detector.fitted is detector.fitted  # nothing has changed since the fit
    nameless = PCADetector(groups={"feed": [0, 3]}).fit(rows().to_numpy())
    assert nameless.fitted.groups == {"feed": ["x0", "x3"]}
    assert nameless.explain(new_rows().to_numpy()).player_names == ("feed", "x1", "x2", "x4", "x5")


def test_positions_count_given_columns():
    detector = PCADetector(given=["b"], groups={"feed": [0, 3]}).fit(rows())
    assert detector.fitted.groups == {"feed": ["a", "d"]}
    assert detector.explain(new_rows()).player_names == ("feed", "c", "e", "f")


def test_groups_with_lags():
    detector = PCADetector(lags=1, groups=GROUPS).fit(rows())
    why = detector.explain(new_rows())
    assert why.player_names == PLAYERS
    reference = Explainer(detector.fitted.model, score="mahalanobis", groups=GROUPS)
    np.testing.assert_array_equal(why.values, reference.explain(new_rows()).values)


def test_features_that_an_explanation_is_given_leave_their_groups():
    detector = PCADetector(groups=GROUPS).fit(rows())
    for given in (["a", "f"], [0, 5]):
        why = detector.explain(new_rows(), given=given)
        assert why.player_names == ("b", "c", "feed", "e")
        assert why.players[2] == (2,)
    with pytest.raises(ValueError, match="given contains position 9"):
        detector.explain(new_rows(), given=[9])
    with pytest.raises(ValueError, match="given must be a list"):
        detector.explain(new_rows(), given=3.5)


def test_groups_take_effect_at_once_and_can_be_copied():
    detector = PCADetector().fit(rows()).set_params(groups=GROUPS)
    assert detector.explain(new_rows()).player_names == PLAYERS
    assert clone(detector).groups == GROUPS
    detector.set_params(groups={"feed": ["z"]})
    with pytest.raises(ValueError, match="unknown feature in group 'feed': 'z'"):
        detector.explain(new_rows())
    detector.set_params(groups=[["a", "b"]])
    with pytest.raises(ValueError, match="groups must be a dict"):
        detector.explain(new_rows())


def test_learning_piece_by_piece_keeps_groups():
    detector = PCADetector(groups=GROUPS)
    detector.partial_fit(rows()).partial_fit(rows(seed=2))
    assert detector.explain(new_rows()).player_names == PLAYERS


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"groups": {"feed": ["aa"]}}, "unknown feature in group 'feed': 'aa'.*did you mean 'a'"),
        ({"groups": {"feed": ["a", "b"], "drive": ["b", "c"]}}, "'b' is in the groups 'feed' and 'drive'"),
        ({"groups": {"feed": ["a", "a"]}}, "'a' is in the group 'feed' twice"),
        ({"groups": {"feed": [6]}}, "contains position 6, but features have positions 0 to 5"),
        ({"groups": {"feed": []}}, "group 'feed' is empty"),
        ({"groups": {"c": ["a", "b"]}}, "group 'c' has the name of a feature that is not in the group"),
        ({"groups": {"feed": ["a", "b"]}, "given": ["b"]}, "column 'b' is given and in the group 'feed'"),
        ({"groups": {"feed": [0, 1]}, "given": [1]}, "column 'b' is given and in the group 'feed'"),
        ({"groups": ["a", "b"]}, "groups must be a dict of group name to list of features, or None"),
    ],
)
def test_what_fit_refuses(parameters, message):
    with pytest.raises(ValueError, match=message):
        PCADetector(**parameters).fit(rows())


def test_parts():
    assert named_groups({"feed": [2, "a"]}, "abc", "abc") == {"feed": ["c", "a"]}
    assert named_groups(None, "abc", "abc") == {}
    assert without_given({"feed": ["a", "b"], "drive": ["c"]}, ["b", "c"]) == {"feed": ["a"]}
    assert plain_groups({"feed": np.array([1, 2]), "drive": "a"}) == {"feed": [1, 2], "drive": ["a"]}
    assert plain_groups(None) is None
