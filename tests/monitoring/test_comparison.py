"""Two periods compared: the difference of mean explanations, its intervals, and changed correlations."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from culpa import PCADetector
from culpa.monitoring.comparison import Comparison, FeatureChange
from culpa.monitoring.intervals import Interval
from culpa.monitoring.periods import Period

LOADINGS = np.random.default_rng(5).normal(size=(3, 8))


def rows(n, seed, loadings=LOADINGS, remember=0.0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))
    for t in range(1, n):
        z[t] = remember * z[t - 1] + np.sqrt(1 - remember**2) * z[t]
    return z @ loadings + 0.4 * rng.normal(size=(n, 8))


def later(n, seed=1):
    X = rows(n, seed)
    X[:, 2] += 1.5
    X[:, 5] = np.random.default_rng(9).normal(size=n)
    return X


def changes(comparison, names):
    by_name = {each.feature: each.change.value for each in comparison.features}
    return np.array([by_name[name] for name in names])


def mean_values(detector, X, **options):
    return np.nanmean(detector.explain(X, **options).values, axis=0)


SETTINGS = {
    "spe": {"n_components": 3, "statistic": "spe"},
    "mahalanobis": {"n_components": 3, "statistic": "mahalanobis"},
    "combined": {"n_components": 3, "statistic": "combined"},
    "retraining": {"n_components": 3, "statistic": "spe", "game": "retraining"},
    "interventional": {"n_components": 3, "statistic": "t2", "game": "interventional"},
    "minimal": {"n_components": 3, "statistic": "mahalanobis", "game": "minimal"},
    "lags": {"n_components": 4, "statistic": "spe", "lags": 1},
    "given": {"n_components": 3, "statistic": "spe", "given": [3, 4]},
    "smooth": {"n_components": 3, "statistic": "mahalanobis", "smooth": 0.3},
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("compiled", [False, True], ids=["rows", "moments"])
def test_equals_the_difference_of_mean_explanations(name, compiled, monkeypatch):
    detector = PCADetector(**SETTINGS[name]).fit(rows(500, 0))
    if compiled and name != "interventional":  # which has a closed form for each row
        detector.explainer().compile()
    before, after = rows(333, 2), later(77)
    before[4, 1] = after[[3, 9], [0, 7]] = np.nan
    comparison = detector.compare(before, after)
    expected = mean_values(detector, after) - mean_values(detector, before)
    names = detector.fitted.columns.names
    np.testing.assert_allclose(changes(comparison, names), expected, atol=1e-10)
    base = [
        np.mean(detector.explain(X).base_value) for X in (before, after)
    ]  # which differs from row to row if minimal
    total = sum(each.change.value for each in comparison.features) + base[1] - base[0]
    assert total == pytest.approx(comparison.score.value, abs=1e-10)
    why = [detector.explain(X).score.mean() for X in (before, after)]
    assert (comparison.score_before, comparison.score_after) == pytest.approx(why, abs=1e-10)
    assert (comparison.n_before, comparison.n_after) == (333, 77)


def test_moments_are_enough():
    """With a compiled explainer, complete rows are never explained one by one."""
    detector = PCADetector(3, statistic="spe").fit(rows(500, 0))
    explainer = detector.explainer().compile()
    expected = mean_values(detector, later(200)) - mean_values(detector, rows(300, 2))
    vars(explainer._one_pass)["explain_scored"] = None
    comparison = detector.compare(rows(300, 2), later(200))
    np.testing.assert_allclose(changes(comparison, detector.fitted.columns.names), expected, atol=1e-10)


def test_sampled_values():
    detector = PCADetector(3, statistic="spe").fit(rows(500, 0))
    options = {"method": "permutation", "n_orders": 96}
    plain = detector.compare(rows(200, 2), later(150))
    walked = detector.compare(rows(200, 2), later(150), **options)
    expected = mean_values(detector, later(150), **options) - mean_values(detector, rows(200, 2), **options)
    names = detector.fitted.columns.names
    np.testing.assert_allclose(changes(walked, names), expected, atol=1e-10)
    detector.explainer(**options).compile()
    compiled = detector.compare(rows(200, 2), later(150), **options)
    np.testing.assert_allclose(changes(compiled, names), expected, atol=1e-10)
    width = {each.feature: each.change.high - each.change.low for each in plain.features}
    for each in compiled.features:  # sampling adds its own uncertainty
        assert each.change.high - each.change.low > width[each.feature] * 0.99


def test_groups():
    detector = PCADetector(3, statistic="spe").fit(rows(500, 0))
    groups = {"left": [0, 1, 2, 3], "right": [4, 5, 6, 7]}
    comparison = detector.compare(rows(200, 2), later(150), groups=groups)
    expected = mean_values(detector, later(150), groups=groups) - mean_values(detector, rows(200, 2), groups=groups)
    np.testing.assert_allclose(changes(comparison, ["left", "right"]), expected, atol=1e-10)
    assert np.isnan(comparison.features[0].mean_before)


def test_batches_do_not_matter():
    detector = PCADetector(3, statistic="spe").fit(rows(500, 0))
    explainer = detector.explainer().compile()
    X, means = rows(777, 3), []
    for size in (1, 50, 777):
        period = Period(explainer)
        for start in range(0, len(X), size):
            period.add(detector.fitted.read(X[start : start + size]))
        n, values = period.means()
        assert 10 <= len(n) <= 20
        assert n[:-1].min() == n.max()  # all but the last are equally long
        means.append(values)
    np.testing.assert_allclose(means[0], means[1], atol=1e-12)
    np.testing.assert_allclose(means[0], means[2], atol=1e-12)


@pytest.mark.parametrize("remember", [0.0, 0.8])
def test_intervals_cover(remember):
    """95% intervals of a change that is 0, also where rows depend on each other."""
    detector = PCADetector(3, statistic="mahalanobis").fit(rows(2000, 0))
    detector.explainer().compile()
    runs, inside, score_inside = 100, 0, 0
    for seed in range(runs):
        comparison = detector.compare(
            rows(400, 2 * seed + 10, remember=remember), rows(300, 2 * seed + 11, remember=remember)
        )
        inside += sum(not each.change.excludes_zero for each in comparison.features) / len(comparison.features)
        score_inside += not comparison.score.excludes_zero
    assert 0.90 < inside / runs < 0.99
    assert score_inside / runs > 0.85


def test_finds_what_changed():
    detector = PCADetector(3, statistic="mahalanobis").fit(pd.DataFrame(rows(800, 0)).add_prefix("s"))
    before, after = (pd.DataFrame(X).add_prefix("s") for X in (rows(400, 2), later(400)))
    comparison = detector.compare(before, after)
    assert {each.feature for each in comparison.features[:2]} == {"s2", "s5"}
    assert comparison.score.excludes_zero
    assert all("s5" in (pair.first, pair.second) for pair in comparison.correlations[:5])
    top = comparison.correlations[0]
    assert top.before == pytest.approx(before.corr().loc[top.first, top.second], abs=1e-12)
    assert top.after == pytest.approx(after.corr().loc[top.first, top.second], abs=1e-12)
    assert comparison.features[0].mean_after == pytest.approx(after[comparison.features[0].feature].mean())
    for text in ("s2 accounts for", "s5", "The correlation of"):
        assert text in comparison.sentence
    assert "400 and 400 rows" in repr(comparison)
    frame = comparison.to_frame()
    assert list(frame["feature"]) == [each.feature for each in comparison.features]
    assert frame["share"].sum() == pytest.approx(1)
    assert len(comparison.correlations_to_frame()) == 28
    content = json.loads(comparison.to_json())
    assert content["features"][0]["change"]["value"] == comparison.features[0].change.value
    assert content["score_after"] == comparison.score_after


def test_correlations_of_equal_periods_are_rarely_called_changed():
    detector = PCADetector(3, statistic="spe").fit(rows(800, 0))
    detector.explainer().compile()
    called = sum(
        detector.compare(rows(300, seed, remember=0.5), rows(300, seed + 1, remember=0.5)).correlations[0].p_value
        < 0.05
        for seed in range(100, 180, 2)
    )
    assert called <= 5  # of 40, at 5%


def test_little_to_compare():
    detector = PCADetector(3, statistic="spe").fit(rows(500, 0))
    comparison = detector.compare(rows(1, 1), rows(2, 2))
    assert np.isnan(comparison.score.low)
    assert comparison.correlations == ()
    assert "Each period needs at least 2 rows" in comparison.sentence
    assert "nan" not in comparison.sentence
    json.loads(comparison.to_json())
    same = detector.compare(rows(50, 1), rows(50, 1))
    assert same.score.value == 0
    constant = rows(60, 1)
    constant[:, 3] = 2.0
    assert all("x3" not in (pair.first, pair.second) for pair in detector.compare(constant, rows(60, 2)).correlations)
    with pytest.raises(ValueError, match="no row of 'after' has a score"):
        detector.compare(rows(5, 1), np.full((3, 8), np.nan))
    with pytest.raises(TypeError, match="has no parameter 'gmae'"):
        detector.compare(rows(5, 1), rows(5, 1), gmae="x")


def with_outliers(places, n=400):
    X = rows(n, 1)
    X[:, 2] += 1.5
    X[places, 4] = -9999.0
    return X


def test_says_why_a_large_change_is_not_clear():
    detector = PCADetector(3, statistic="mahalanobis").fit(rows(2000, 0))
    before, clean, dirty = rows(400, 2), with_outliers([]), with_outliers([130, 131])
    comparison = detector.compare(before, dirty)
    assert not comparison.score.excludes_zero
    found = comparison.decisive
    (first, last), *others = found.spans
    assert others == []
    assert first <= 130 < 131 <= last < first + 40
    kept = np.r_[clean[:first], clean[last + 1 :]]
    expected = detector.compare(before, kept)
    assert found.period == "second"
    assert found.mean_without == pytest.approx(expected.score_after, rel=1e-6)
    assert found.change_without.value == pytest.approx(expected.score.value, rel=1e-6)
    assert found.change_without.excludes_zero
    told = f"it depends on few rows. Without those in rows {first} to {last} of the second period, the mean score of "
    assert told in comparison.sentence
    assert comparison.sentence.split(" No correlation")[0].endswith("which is clear.")
    assert json.loads(comparison.to_json())["decisive"]["spans"] == [[first, last]]
    assert detector.compare(dirty, before).decisive.period == "first"
    times = pd.DataFrame(dirty, index=pd.date_range("2024-05-01", periods=400, freq="min"))
    assert "Without those on 2024-05-01 from 0" in detector.compare(before, times).sentence


def test_few_rows_rarely_decide_if_there_are_no_faults():
    detector = PCADetector(3, statistic="mahalanobis").fit(rows(2000, 0))
    detector.explainer().compile()
    found = [detector.compare(rows(300, seed), rows(300, seed + 1)).decisive for seed in range(100, 180, 2)]
    assert sum(each is not None for each in found) <= 1


def test_names_features_whose_parts_are_clear():
    def change(feature, value, margin):
        return FeatureChange(feature, Interval(value, value - margin, value + margin), value / 100, 0, value, 0, 0)

    parts = (change("a", 62.0, 95.0), change("b", 30.0, 50.0), change("c", 17.0, 15.0), change("d", -9.0, 2.0))
    clear = Comparison(Interval(100.0, 50.0, 150.0), 12.0, 112.0, parts, (), 400, 400, "mahalanobis")
    assert clear.sentence.split(": ")[1] == (
        "c accounts for +17 (2 to 32), the largest part is that of a, +62 (-33 to 157), which is not clear. No "
        "correlation changed clearly."
    )
    none = replace(clear, features=parts[:2])
    assert ": no feature accounts for a clear part of it, the largest part is that of a, " in none.sentence
    certain = replace(clear, features=parts[2:])
    assert certain.sentence.split(": ")[1].startswith("c accounts for +17 (2 to 32). No")


@pytest.mark.parametrize("outlier", [0.0, 1e6])
def test_a_period_compared_with_itself_depends_on_nothing(outlier):
    """Outlying rows that are in both periods cancel, and rounding decides nothing."""
    detector, same = PCADetector().fit(rows(300, 0)), rows(300, 1)
    same[40, 2] += outlier
    comparison = detector.compare(same, same)
    assert comparison.decisive is None
    assert "no clear change" in comparison.sentence


def test_all_clear_pairs_are_counted():
    rng = np.random.default_rng(0)
    before = rng.normal(size=(400, 40))
    after = rng.normal(size=(400, 40)) @ np.linalg.cholesky(0.9 + 0.1 * np.eye(40)).T
    found = PCADetector(2).fit(before).compare(before, after)
    assert (len(found.correlations), found.n_clear) == (100, 780)
    assert "(779 more pairs changed clearly)" in found.sentence


def test_stretches_that_repeat_each_other_do_not_make_a_correlation_certain():
    """Their jackknife variance is 0; that of independent rows, 1 / (n - 3), is the least."""
    detector = PCADetector(3, statistic="spe").fit(rows(500, 0))
    before, after = (np.tile(rows(4, seed), (20, 1)) for seed in (1, 3))  # stretches of four rows
    freedom, n_pairs = 2 * 19, 28  # two equal variances
    margin = stats.t.isf(0.025 / n_pairs, freedom) * np.sqrt(2 / (80 - 3))
    for pair in detector.compare(before, after).correlations:
        assert pair.change.high - pair.change.value == pytest.approx(margin, rel=1e-9)
        assert pair.change.value - pair.change.low == pytest.approx(margin, rel=1e-9)


@pytest.mark.parametrize("options", [{}, {"lags": 1}, {"given": ["x7"]}, {"groups": {"g": ["x0", "x1"]}}], ids=str)
@pytest.mark.parametrize("remember", [0.0, 0.9])
def test_a_recalibrated_feature_is_named_alone(options, remember):
    """Its neighbours, which no longer agree with it, have parts in the change of the score, but did not change."""
    frame = lambda n, seed: pd.DataFrame(rows(n, seed, remember=remember), columns=[f"x{j}" for j in range(8)])  # noqa: E731
    detector = PCADetector(**options).fit(frame(600, 0))
    before, after = frame(500, 1), frame(500, 2)
    assert detector.compare(before, after).own == ()
    after["x2"] += 1.5
    after["x5"] -= 2.5
    comparison = detector.compare(before, after)
    found = {one.feature: one.change for one in comparison.own}
    assert list(found) == ["x5", "x2"]
    assert found["x2"].low < 1.5 < found["x2"].high
    assert found["x5"].value == pytest.approx(-2.5, abs=0.2)
    assert re.match(
        r"Compared with the other features, x5 reads 2\.\d+ lower \(2\.\d+ to 2\.\d+\) and x2 reads 1\.\d+ higher "
        r"\(1\.\d+ to 1\.\d+\) than before\. The mean score went from ",
        comparison.sentence,
    )
    assert json.loads(comparison.to_json())["own"][0]["feature"] == "x5"
    back = after.copy()
    for name, change in found.items():
        back[name] -= change.value
    again = detector.compare(before, back).score
    close = 0.2 if detector.fitted.columns.lags else 1e-6  # whose first rows have no past
    assert comparison.left == pytest.approx(tuple(again), abs=close)
    assert f"Without this, it would have changed by {comparison.left}. " in comparison.sentence
    assert "accounts for" not in comparison.sentence
    moved = after + 2 * np.random.default_rng(3).normal(size=8)
    assert detector.compare(before, moved).own == ()


def test_own_changes_are_in_units_of_the_readings():
    """As in other units of the same rows, and in one period of incomplete rows there are none."""
    before, after = rows(400, 1), rows(400, 2)
    after[:, 3] += 1.0
    one = PCADetector().fit(rows(500, 0)).compare(before, after).own
    other = PCADetector().fit(1000 * rows(500, 0) + 5).compare(1000 * before + 5, 1000 * after + 5).own
    assert [each.feature for each in one] == ["x3"]
    assert np.array(other[0].change) == pytest.approx(1000 * np.array(one[0].change), rel=1e-6)
    before[:, 0] = np.nan
    assert PCADetector().fit(rows(500, 0)).compare(before, after).own == ()
