"""The result object: what it says is true, and it survives slicing, joining and travelling."""

import json

import numpy as np
import pandas as pd
import pytest

from culpa import Explainer, Explanation, PCADetector, scores
from culpa.datasets import load_wine_outliers

NAMES = ["flow", "pressure", "temperature", "power", "speed"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 5)) + 0.2 * rng.normal(size=(80, 5)) + 10
    return pd.DataFrame(X, columns=NAMES)


@pytest.fixture(scope="module")
def detector(table):
    return PCADetector(2).fit(table)


@pytest.fixture(scope="module")
def new(table):
    new = table[:6].copy()
    new.iloc[1, 2] += 5
    new.iloc[3, 4] = np.nan
    new.iloc[3, 1] -= 4
    return new


@pytest.fixture(scope="module")
def why(detector, new):
    return detector.explain(new)


def test_values_add_up(why, detector, new):
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-10)
    np.testing.assert_allclose(why.score, -detector.score_samples(new))
    assert why.exact
    assert (why.std_error == 0).all()
    assert why.n_evaluations == 2**5


def test_top_names_the_culprit(why):
    top = why.top(2)
    first = top[top["rank"] == 1].set_index("row")
    assert first.loc[1, "feature"] == "temperature"
    assert first.loc[3, "feature"] == "pressure"
    line = first.loc[1]
    assert line["actual"] - line["expected"] == pytest.approx(5, abs=1)
    assert line["share"] == pytest.approx(line["value"] / why.score[1])
    assert line["score_if_fixed"] < why.score[1] / 5


def test_score_if_fixed_is_the_score_of_the_fixed_row(why, detector, new):
    for i, name in enumerate(NAMES):
        fixed = new.copy()
        fixed[name] = np.where(new[name].isna(), np.nan, why.expected[:, i])
        expected = -detector.score_samples(fixed)
        seen = ~np.isnan(why.data[:, i])
        np.testing.assert_allclose(why.score_if_fixed[seen, i], expected[seen], rtol=1e-9, atol=1e-12)


def test_missing_features_are_not_players(why, new, detector):
    assert why.values[3, 4] == 0
    assert np.isnan(why.score_if_fixed[3, 4])
    assert "speed" not in why.top(5).query("row == 3")["feature"].tolist()
    assert np.isfinite(why.expected[3, 4])  # but we can say what it should have been
    # the game of the other four features, from the definition: E[e | x_S] under the same model
    import witness

    normal = detector.fitted.deciding_model
    C, A = normal.gaussian.covariance, scores.spe(normal.gaussian).matrix
    x = normal.standardise(new.to_numpy())[3]
    values = {S: witness.conditional_value(C, A, np.nan_to_num(x), S) for S in witness.coalitions(4)}
    np.testing.assert_allclose(why.values[3, :4], witness.shapley(values, 4), rtol=1e-9)
    assert why.score[3] == pytest.approx(values[(0, 1, 2, 3)])


@pytest.mark.parametrize("game", ["conditional", "interventional", "retraining"])
@pytest.mark.parametrize("method", ["exact", "permutation"])
def test_missing_cells_stay_efficient_in_every_game(detector, new, game, method):
    why = detector.explain(new, game=game, method=method, n_orders=16)
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-10)
    assert why.exact == (method == "exact")


@pytest.mark.parametrize("options", [{}, {"scale": False}])
@pytest.mark.parametrize("missing", [False, True])
def test_the_retraining_game_explains_the_score_of_a_shrunk_model(table, new, options, missing):
    """It retrains as the model was trained, so that complete rows are worth what the detector says."""
    table = table.mask(np.random.default_rng(0).random(table.shape) < 0.05) if missing else table
    detector = PCADetector(2, shrinkage=0.5, **options).fit(table * [1, 5, 2, 1, 3])
    complete = new.dropna()
    why = detector.explain(complete, game="retraining")
    np.testing.assert_allclose(why.score, -detector.score_samples(complete), rtol=1e-9)


def test_a_single_row_may_be_picked(detector, new):
    assert detector.explain(new, rows=1).row_labels.tolist() == [1]
    explainer = detector.explainer()
    np.testing.assert_array_equal(explainer.expected(new, rows=1), explainer.expected(new, rows=[1]))


def test_a_row_without_any_cell_does_not_stop_the_run(detector, new):
    empty = new.copy()
    empty.iloc[2] = np.nan
    with pytest.warns(UserWarning, match="1 row has no observed feature, so it gets no score: 2"):
        why = detector.explain(empty)
    assert np.isnan(why.values[2]).all()
    assert np.isfinite(np.delete(why.values, 2, axis=0)).all()
    assert 2 not in why.top(1)["row"].tolist()
    with pytest.warns(UserWarning, match="no observed feature"):
        assert detector.predict(empty)[2] == 1


def test_slicing(why):
    one = why[1]
    assert len(one) == 1
    assert one.top(1)["row"].tolist() == [1]
    np.testing.assert_array_equal(why[-1].values, why.values[-1:])
    np.testing.assert_array_equal(why[1:3].expected, why.expected[1:3])
    mask = why.score > np.median(why.score)
    np.testing.assert_array_equal(why[mask].row_labels, why.row_labels[mask])
    np.testing.assert_array_equal(why[[4, 0]].score, why.score[[4, 0]])
    assert len(list(why)) == len(why) == 6
    with pytest.raises(IndexError, match="row 6 is out of range: the explanation has 6 rows"):
        why[6]


def test_concatenate(why, detector, new):
    joined = Explanation.concatenate([why[:2], why[2:]])
    np.testing.assert_array_equal(joined.values, why.values)
    np.testing.assert_array_equal(joined.row_labels, why.row_labels)
    with pytest.raises(ValueError, match="different score_name: 'spe' and 't2'"):
        Explanation.concatenate([why, detector.explain(new, score="t2")])
    with pytest.raises(ValueError, match="at least one"):
        Explanation.concatenate([])


def test_concatenate_exact_and_sampled(why, detector, new):
    sampled = detector.explain(new, method="permutation", n_orders=12)
    for parts in ([why, sampled], [sampled, why]):
        joined = Explanation.concatenate(parts)
        assert (joined.exact, joined.method) == (False, "permutation")
        assert "exact" not in repr(joined)
        assert "std_error" in joined.top(1)


def test_concatenate_base_values_of_rows(why, detector, new):
    positive = why.nonnegative()
    for parts in ([positive, why], [why, positive], [positive, positive]):
        joined = Explanation.concatenate(parts)
        np.testing.assert_allclose(joined.base_value, np.concatenate([np.broadcast_to(p.base_value, 6) for p in parts]))
    name = why.feature_names[0]
    scored = detector.explain(new, parts="score", given=[name])
    np.testing.assert_array_equal(Explanation.concatenate([scored, scored]).score, np.tile(scored.score, 2))
    with pytest.raises(ValueError, match="different parts"):
        Explanation.concatenate([detector.explain(new, parts="score"), why])


@pytest.mark.parametrize("groups", [None, {"hydraulics": ["flow", "pressure"]}])
@pytest.mark.parametrize("rows", [6, 0])
def test_round_trip(detector, new, groups, rows):
    why = detector.explain(new, groups=groups)[:rows]
    for content in (why.to_dict(), json.loads(why.to_json())):
        back = Explanation.from_dict(content)
        for name in ("values", "std_error", "score", "data", "expected", "score_if_fixed", "row_labels"):
            np.testing.assert_array_equal(getattr(back, name), getattr(why, name))
            assert getattr(back, name).shape == getattr(why, name).shape
        for name in ("base_value", "feature_names", "groups", "exact", "n_evaluations", "score_name", "game", "method"):
            assert getattr(back, name) == getattr(why, name)


def test_groups(detector, new):
    groups = {"hydraulics": ["flow", "pressure"], "drive": ["power", "speed"]}
    why = detector.explain(new, groups=groups)
    assert why.player_names == ("hydraulics", "temperature", "drive")
    assert why.values.shape == (6, 3)
    assert why.expected.shape == (6, 5)
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-10)
    top = why.top(1).set_index("row")
    assert top.loc[1, "feature"] == "temperature"
    assert top.loc[3, "feature"] == "hydraulics"
    furthest = "pressure"  # 4 lower than it was
    assert top.loc[3, "member"] == furthest
    assert top.loc[1, "member"] == ""
    assert top.loc[3, "actual"] == new.loc[3, furthest]
    assert top.loc[3, "expected"] == why.expected[3, NAMES.index(furthest)]
    fixed = new.copy()
    fixed[["flow", "pressure"]] = why.expected[:, :2]
    np.testing.assert_allclose(why.score_if_fixed[:, 0], -detector.score_samples(fixed), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("lags", "scale"), [(0, True), (1, True), (0, False), (1, False)])
def test_a_group_shows_its_member_that_is_furthest_off_in_standard_deviations(table, lags, scale):
    wide = table.assign(power=1000 * table["power"])  # far off in units, not in standard deviations
    detector = PCADetector(2, lags=lags, scale=scale).fit(wide)
    new = wide[:20].copy()
    new.loc[9, "flow"] += 6 * wide["flow"].std()
    why = detector.explain(new, groups={"all": NAMES})
    off = np.abs(why.data - why.expected) / wide[NAMES].std().to_numpy()
    np.testing.assert_array_equal(why.furthest[:, 0], off.argmax(axis=1))
    assert why.top(1)["member"][9] == "flow"
    back = Explanation.from_dict(json.loads(why.to_json()))
    np.testing.assert_array_equal(back[3:].furthest, why.furthest[3:])


def test_names_that_collide_with_ours():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)), columns=["row", "score", "c"])
    frame = PCADetector(1).fit(X).explain(X).to_frame()
    assert list(frame.columns) == ["row_", "score_", "row", "score", "c"]


def test_repr(why):
    assert repr(why) == "<Explanation of spe: 6 rows x 5 players, exact>"


def test_printing_names_culprits(why, detector, new):
    lines = str(why).splitlines()
    assert len(lines) == 2 + 6
    for row, name in ((1, "temperature"), (3, "pressure")):
        label, score, culprit, value = lines[2 + row].split()[:4]
        assert (label, culprit) == (str(row), name)
        found = why.score[row], why.values[row, NAMES.index(name)]
        np.testing.assert_allclose([float(score), float(value.rstrip(","))], found, rtol=1e-3)
    listed = [part.split() for part in lines[3].split("  ")[-1].split(", ")]
    assert all(float(value) > 0 for _, value in listed)
    assert len(str(detector.explain(new.iloc[[1] * 30])).splitlines()) == 2 + 10 + 1
    assert "score_if_fixed" in str(detector.explain(new, parts="score_if_fixed"))


def test_users_of_shap_find_what_they_know(why, detector, new):
    np.testing.assert_allclose(detector.explainer()(new).values, why.values, rtol=1e-9, atol=1e-12)
    assert why.shape == why.values.shape
    np.testing.assert_array_equal(why.base_values, np.full(6, why.base_value))
    for key in (
        (slice(None), "power"),
        (1, "power"),
        ([1, 3], ["power", 0]),
        (why.score > 1, -1),
        (slice(2), [True] * 5),
    ):
        rows, players = key
        if isinstance(players, list):
            players = [NAMES.index(one) if isinstance(one, str) else one for one in players]
        elif isinstance(players, str):
            players = NAMES.index(players)
        np.testing.assert_array_equal(why[key], why.values[rows][..., players])
    with pytest.raises(ValueError, match="did you mean 'power'"):
        _ = why[:, "pover"]


def test_sampled_explanations_carry_errors(detector, new):
    exact = detector.explain(new)
    sampled = detector.explain(new, method="permutation", n_orders=64)
    assert not sampled.exact
    assert sampled.n_replicates == 6
    assert "std_error" in sampled.top(1).columns
    seen = ~np.isnan(new.to_numpy())
    assert (np.abs(sampled.values - exact.values)[seen] <= 8 * sampled.std_error[seen] + 1e-12).all()
    again = detector.explain(new, method="permutation", n_orders=64)
    np.testing.assert_allclose(sampled.values, again.values, rtol=1e-10, atol=1e-12)
    other = detector.explain(new, method="permutation", n_orders=64, seed=1)
    assert not np.allclose(sampled.values, other.values, rtol=1e-4)


def test_many_features_are_sampled_and_few_are_not():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 40)) + 0.3 * rng.normal(size=(300, 40))
    detector = PCADetector(3).fit(X)
    why = detector.explain(X[:2])
    assert not why.exact
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-10)
    assert detector.explain(X[:2], game="interventional").exact  # closed form


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # shap's own, on import
def test_to_shap_says_what_to_install(why):
    try:
        import shap
    except ImportError:
        with pytest.raises(ImportError, match="pip install shap"):
            why.to_shap()
    else:
        ours = why.to_shap()
        assert isinstance(ours, shap.Explanation)
        np.testing.assert_allclose(ours.values.sum(axis=1) + ours.base_values, why.score)


def test_paper_scale():
    """score="mse" is the paper's v2: SPE values divided by the number of features."""
    wine = load_wine_outliers()
    detector = PCADetector().fit(wine.X[wine.y == 0])
    spe, mse = (Explainer(detector, score=name).explain(wine.X[:3]) for name in ("spe", "mse"))
    np.testing.assert_allclose(mse.values * 13, spe.values, rtol=1e-10)


def test_ranking_by_a_criterion_reorders_top_and_leaves_the_values(detector, new, why):
    ranked = detector.explain(new, ranking="leave-one-out")
    np.testing.assert_array_equal(ranked.values, why.values)
    wanted = detector.contributions(new, "leave-one-out").to_numpy()
    np.testing.assert_allclose(ranked.suspicion, wanted)
    top = ranked.top(5)
    for row in range(6):
        seen = np.flatnonzero(~np.isnan(wanted[row]))
        order = [NAMES[i] for i in seen[np.argsort(-wanted[row, seen])]]
        assert top[top["row"] == row]["feature"].tolist() == order
    assert (top.groupby("row")["suspicion"].diff().dropna() <= 0).all()
    assert "suspicion" not in why.top(1)


def test_suspicion_travels_with_its_rows(detector, new):
    ranked = detector.explain(new, ranking="fault-odds")
    np.testing.assert_array_equal(ranked[2].suspicion, ranked.suspicion[2:3])
    joined = Explanation.concatenate([ranked[:2], ranked[2:]])
    np.testing.assert_array_equal(joined.suspicion, ranked.suspicion)
    again = Explanation.from_dict(json.loads(ranked.to_json()))
    assert again.ranking == "fault-odds"
    np.testing.assert_array_equal(again.suspicion, ranked.suspicion)
    with pytest.raises(ValueError, match="different ranking"):
        Explanation.concatenate([ranked, detector.explain(new)])


def test_a_group_is_as_suspect_as_its_worst_member(detector, new):
    ranked = detector.explain(new, ranking="z-score", groups={"drive": ["power", "speed"]})
    alone = detector.contributions(new, "z-score").to_numpy()
    assert ranked.player_names[-1] == "drive"
    np.testing.assert_allclose(ranked.suspicion[:, -1], np.nanmax(alone[:, 3:], axis=1))


def test_rows_without_cells_are_suspect_of_nothing(detector, new):
    empty = new.copy()
    empty.iloc[0] = np.nan
    with pytest.warns(UserWarning, match="1 row"):
        ranked = detector.explain(empty, ranking="rbc")
    assert np.isnan(ranked.suspicion[0]).all()
    assert 0 not in ranked.top(1)["row"].tolist()


def test_a_detector_brings_its_game_and_ranking(table, new):
    detector = PCADetector(2, game="interventional", ranking="rbc").fit(table)
    why = detector.explain(new)
    assert (why.game, why.ranking) == ("interventional", "rbc")
    assert detector.explain(new, ranking="shapley", game="conditional").suspicion is None
    with pytest.raises(ValueError, match="did you mean 'leave-one-out'"):
        PCADetector(ranking="leave-one").fit(table)
    with pytest.raises(ValueError, match="use statistic='spe' or 'mse'"):
        PCADetector(statistic="t2", game="retraining").fit(table)


def test_labels_of_several_levels_survive_json():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 3)), index=pd.MultiIndex.from_product([["m", "n"], range(30)]))
    X.columns = list("abc")
    why = PCADetector(2).fit(X).explain(X[28:32])
    back = Explanation.from_dict(json.loads(why.to_json()))
    assert back.row_labels.tolist() == why.row_labels.tolist() == [("m", 28), ("m", 29), ("n", 0), ("n", 1)]
    assert back.top(1)["row"].tolist() == why.top(1)["row"].tolist()


def test_scores_alone_can_be_joined():
    X = np.random.default_rng(0).normal(size=(60, 4))
    detector = PCADetector(2).fit(X)
    parts = [detector.explain(rows, parts="score", given=[0]) for rows in (X[:3], X[3:9])]
    joined = Explanation.concatenate(parts)
    np.testing.assert_allclose(joined.score, detector.explain(X[:9], given=[0]).score)
    with pytest.raises(ValueError, match="different parts"):
        Explanation.concatenate([parts[0], detector.explain(X[3:9], given=[0])])


def test_a_printed_table_of_culprits_shows_what_people_act_on():
    wine = load_wine_outliers()
    rows = pd.DataFrame(wine.X, columns=list(wine.feature_names))
    table = PCADetector(confidence=0.95).fit(rows[wine.y == 0]).explain(rows[wine.y == 1]).top(3)
    with pd.option_context("display.width", 80, "display.max_columns", 0, "display.max_rows", 60):
        head = str(table).splitlines()[0].split()
    assert head == ["row", "feature", "share", "...", "actual", "expected", "score_if_fixed"]
