"""What pictures show: sums, order, signs, the bar of the others, missing cells, axes."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import explanation
from sklearn.decomposition import PCA, FactorAnalysis

from culpa import Explainer, PCADetector
from culpa._core.comparing import ROUNDING
from culpa._core.continuity import RowOrder
from culpa._core.validation import Table
from culpa.datasets import make_plant
from culpa.plots.content import (
    Bars,
    Components,
    ControlChart,
    Distance,
    Heatmap,
    Loadings,
    RowAxis,
    Scatter,
    Waterfall,
    thin,
)
from culpa.plots.content.blame import LEFT_OVER
from culpa.plots.text import number, row_label, shorten, shorten_all


@pytest.fixture(scope="module")
def plant():
    return make_plant()


@pytest.fixture(scope="module")
def detector(plant):
    return PCADetector(3).fit(pd.DataFrame(plant.normal, columns=list(plant.feature_names)))


@pytest.fixture(scope="module")
def new(plant):
    times = pd.date_range("2024-03-01", periods=len(plant.new), freq="10min")
    return pd.DataFrame(plant.new.copy(), columns=list(plant.feature_names), index=times)


@pytest.fixture(scope="module")
def why(detector, new):
    return detector.explain(new.iloc[50:80])


# waterfall


@pytest.mark.parametrize("max_features", [1, 3, 11, 12, None])
def test_waterfall_leads_from_base_to_score(why, max_features):
    for row in range(len(why)):
        shown = Waterfall.of(why, row, max_features=max_features)
        assert shown.base_value + shown.values.sum() == pytest.approx(why.score[row], rel=1e-12)
        ends = shown.starts + shown.values
        assert shown.starts[0] == shown.base_value
        np.testing.assert_allclose(shown.starts[1:], ends[:-1])
        assert ends[-1] == pytest.approx(shown.score, rel=1e-12)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40),
    st.one_of(st.none(), st.integers(1, 45)),
    st.floats(-10, 10),
)
def test_waterfall_of_any_values(values, max_features, base):
    shown = Waterfall.of(explanation(values, base=base), max_features=max_features)
    sizes = np.abs(values)
    own = len(shown.names) - (shown.n_other > 0)
    assert own + shown.n_other == len(values)
    assert shown.n_other != 1
    assert LEFT_OVER not in shown.names
    assert shown.base_value + shown.values.sum() == pytest.approx(shown.score, rel=1e-9, abs=1e-9 * sizes.sum())
    rounding = len(values) * ROUNDING * sizes.max()  # values that differ by less keep their order
    np.testing.assert_allclose(np.abs(shown.values[:own]), np.sort(sizes)[::-1][:own], rtol=0, atol=rounding)
    for name, value in zip(shown.names[:own], shown.values, strict=False):
        assert value == values[int(name[1:])]  # signs are kept


def test_waterfall_other_bar_is_the_sum_of_the_smallest():
    shown = Waterfall.of(explanation([5.0, -0.5, 0.25, -4.0, 1.0]), max_features=2)
    assert shown.names == ("f0", "f3", "3 others")
    assert shown.values.tolist() == [5.0, -4.0, 0.75]
    assert shown.actual[:2].tolist() == [1.0, 1.0]
    assert shown.expected[:2].tolist() == [1.5, 1.5]
    assert np.isnan([shown.actual[2], shown.expected[2]]).all()


def test_waterfall_of_groups():
    groups = (("pump", (0, 2)), ("f1", (1,)))
    shown = Waterfall.of(explanation([1.0, 2.0], data=[[1.0, 2.0, 3.0]], groups=groups))
    assert shown.names == ("f1", "pump")
    assert shown.actual[0] == 2.0
    assert np.isnan(shown.actual[1])


def test_waterfall_leaves_out_missing_features():
    shown = Waterfall.of(explanation([3.0, 0.0, 1.0], data=[[1.0, np.nan, 1.0]]))
    assert shown.names == ("f0", "f2")
    assert shown.missing == ("f1",)
    assert shown.base_value + shown.values.sum() == shown.score


def test_waterfall_of_a_row_with_missing_cells_adds_up(detector, new):
    rows = new.iloc[60:61].copy()
    rows.iloc[0, [0, 5]] = np.nan
    shown = Waterfall.of(detector.explain(rows))
    assert shown.missing == (new.columns[0], new.columns[5])
    assert shown.base_value + shown.values.sum() == pytest.approx(shown.score)


def test_waterfall_of_a_row_without_anything():
    shown = Waterfall.of(explanation([[np.nan, np.nan]], data=[[np.nan, np.nan]]))
    assert shown.names == ()
    assert np.isnan(shown.score)
    assert shown.missing == ("f0", "f1")


def test_waterfall_shows_what_sampling_left_over():
    why = explanation([3.0, 1.0, 0.5], std_error=0.1, score=np.array([5.0]), method="algorithm1")
    shown = Waterfall.of(why, max_features=1)
    assert shown.names == ("f0", "2 others", LEFT_OVER)
    assert shown.values.tolist() == pytest.approx([3.0, 1.5, -0.5])
    assert shown.base_value + shown.values.sum() == pytest.approx(5.0)


def test_waterfall_errors_are_95_percent_intervals_and_bounds():
    errors = np.array([[0.3, 0.1, 0.1, 0.1, 0.4]])
    why = explanation([[9.0, 1.0, 1.0, 1.0, 1.0]], std_error=errors)
    shown = Waterfall.of(why, max_features=1)
    t = 2.5705818366147395  # 97.5% point of Student's t with 5 degrees of freedom, from tables
    # values add up exactly, so the sum of the others is as uncertain as the one that is shown
    np.testing.assert_allclose(shown.errors, [0.3 * t, 0.3 * t])
    np.testing.assert_allclose(Waterfall.of(why, max_features=3).errors[-1], 0.5 * t)


def test_bound_of_the_other_bar_holds(detector, new):
    """Against the spread of independent runs."""
    rows = new.iloc[60:61]
    runs = [
        Explainer(detector, method="permutation", n_orders=64, seed=seed, exact_operations=0).explain(rows)
        for seed in range(12)
    ]
    shown = [Waterfall.of(run, max_features=3) for run in runs]
    assert all(one.n_other for one in shown)
    others = np.array([one.values[-1] for one in shown])
    bound = np.mean([one.errors[-1] for one in shown])
    assert 0 < others.std() < bound


def test_waterfall_of_166_features_with_long_names():
    names = tuple(f"{'very ' * 40}long {i}" for i in range(166))
    shown = Waterfall.of(explanation(np.random.default_rng(0).standard_normal(166), feature_names=names))
    assert len(shown.names) == 13
    assert shown.names[-1] == "154 others"
    assert all(name in names for name in shown.names[:-1])  # content keeps whole names
    assert shown.base_value + shown.values.sum() == pytest.approx(shown.score)


# bars


def test_bars_of_one_row_are_the_waterfalls(why):
    bars, fall = Bars.of(why, 3, max_features=4), Waterfall.of(why, 3, max_features=4)
    assert bars.names == fall.names
    np.testing.assert_array_equal(bars.values, fall.values)
    assert bars.whiskers is None
    assert (bars.n_rows, bars.label) == (1, why.row_labels[3])


def test_bars_of_many_rows_are_means(why):
    bars = Bars.of(why, max_features=5)
    mean = pd.Series(why.values.mean(axis=0), index=why.feature_names)
    for name, value in zip(bars.names[:-1], bars.values, strict=False):
        assert value == pytest.approx(mean[name])
    assert bars.values.sum() + why.base_value == pytest.approx(why.score.mean())
    assert bars.names[0] == "flow_reflux"  # the fault of these rows
    assert bars.whiskers == "middle 80% of the rows"
    column = why.values[:, why.feature_names.index("flow_reflux")]
    assert bars.low[0] == pytest.approx(np.percentile(column, 10))
    assert bars.high[0] == pytest.approx(np.percentile(column, 90))


def test_bars_of_sampled_values_have_intervals():
    bars = Bars.of(explanation([[2.0, -1.0]], std_error=[[0.1, 0.1]]))
    assert bars.whiskers == "95% interval"
    np.testing.assert_allclose(bars.high - bars.values, 0.25705818366147395)
    np.testing.assert_allclose(bars.values - bars.low, 0.25705818366147395)


def test_bars_pass_over_empty_rows():
    why = explanation([[2.0, 1.0], [np.nan, np.nan]], data=[[1.0, 1.0], [np.nan, np.nan]])
    assert Bars.of(why).values.tolist() == [2.0, 1.0]
    assert Bars.of(why).n_rows == 1
    assert Bars.of(why[1]).names == ()


def test_nothing_to_show():
    empty = explanation(np.empty((0, 2)))
    for content in (Bars, Heatmap):
        with pytest.raises(ValueError, match="no rows"):
            content.of(empty)
    with pytest.raises(IndexError, match="row 0 is out of range: the explanation has 0 rows"):
        Waterfall.of(empty)
    with pytest.raises(ValueError, match="max_features must be at least 1"):
        Waterfall.of(explanation([1.0, 2.0]), max_features=0)


# heat map


def test_heatmap_adds_up_and_is_ordered(why):
    shown = Heatmap.of(why, max_features=4)
    np.testing.assert_allclose(shown.values.sum(axis=1) + why.base_value, why.score)
    sizes = np.abs(shown.values[:, :-1]).mean(axis=0)
    assert (np.diff(sizes) <= 0).all()
    assert shown.names[-1] == "8 others"
    assert shown.values.shape == (30, 5)


def test_heatmap_missing_cells():
    data = [[1.0, np.nan, 1.0, np.nan], [1.0, 1.0, np.nan, np.nan], [np.nan] * 4]
    why = explanation([[5.0, 0.0, 1.0, 0.0], [4.0, 2.0, 0.0, 0.0], [np.nan] * 4], data=data)
    shown = Heatmap.of(why, max_features=2)
    assert shown.names == ("f0", "f1", "2 others")
    np.testing.assert_array_equal(shown.values, [[5.0, np.nan, 1.0], [4.0, 2.0, np.nan], [np.nan] * 3])
    assert shown.scale > 0


def test_heatmap_of_many_rows_keeps_every_peak():
    values = np.full((10_001, 2), 0.1)
    values[[1234, 10_000]] = 7.0
    shown = Heatmap.of(explanation(values))
    assert len(shown.values) <= 500
    assert {1234, 10_000} <= set(shown.positions.tolist())
    np.testing.assert_array_equal(shown.values, values[shown.positions])
    assert (np.diff(shown.positions) > 0).all()


def test_heatmap_scale_survives_zeros():
    assert Heatmap.of(explanation([[0.0, 0.0]])).scale == 1.0
    values = np.zeros((100, 3))
    values[0, 0] = 4.0
    assert Heatmap.of(explanation(values)).scale == 4.0


# scatter


def test_scatter_shows_the_culprit_and_where_it_should_be(why, plant):
    shown = Scatter.of(why, 10, normal=plant.normal)
    row = why.feature_names.index("flow_reflux")
    assert shown.feature == "flow_reflux"
    assert (shown.y, shown.expected) == (why.data[10, row], why.expected[10, row])
    correlation = np.abs(np.corrcoef(plant.normal, rowvar=False)[row])
    correlation[row] = 0
    assert shown.against == why.feature_names[correlation.argmax()]
    assert shown.cloud.shape == (1000, 2)
    np.testing.assert_array_equal(shown.cloud[:, 1], plant.normal[:, row])


def test_scatter_choices(why, plant):
    shown = Scatter.of(why, 2, feature="flow_steam", against=0)
    assert (shown.feature, shown.against) == ("flow_steam", "flow_feed")
    assert len(shown.cloud) == len(why) - 1
    shuffled = pd.DataFrame(plant.normal, columns=list(plant.feature_names)).iloc[:, ::-1]
    np.testing.assert_array_equal(Scatter.of(why, normal=shuffled).cloud, Scatter.of(why, normal=plant.normal).cloud)
    with pytest.raises(ValueError, match="did you mean 'flow_steam'"):
        Scatter.of(why, feature="flow_stream")
    with pytest.raises(ValueError, match="same columns"):
        Scatter.of(why, normal=plant.normal[:, :3])


def test_scatter_of_one_row_and_missing_cells():
    why = explanation([3.0, 1.0, 0.0], data=[[7.0, np.nan, np.nan]])
    shown = Scatter.of(why)
    assert shown.feature == "f0"
    assert len(shown.cloud) == 0
    assert not Scatter.of(why, against="f1").x_observed
    assert np.isnan(Scatter.of(why, feature="f1").y)


def test_scatter_of_a_group_picks_the_member_that_is_off(detector, new):
    groups = {"flows": ["flow_feed", "flow_product", "flow_reflux", "flow_steam"]}
    assert Scatter.of(detector.explain(new.iloc[50:80], groups=groups), 3).feature == "flow_reflux"


# control chart and distance


def test_control_chart_equals_the_detectors_statistics(detector, new):
    chart = ControlChart.of(detector, new)
    told = detector.statistics(new)
    for statistic in chart.statistics:
        np.testing.assert_array_equal(statistic.values, told[statistic.name])
        np.testing.assert_array_equal(statistic.flagged, told[f"{statistic.name}_flag"])
        assert statistic.limits[0.99] == told[f"{statistic.name}_limit"].iloc[0] == statistic.alarm
        assert statistic.limits[0.95] < statistic.limits[0.99]
    flagged = np.zeros(len(new), dtype=bool)
    for span in chart.incidents:
        flagged[span.first : span.last + 1] = True
    np.testing.assert_array_equal(flagged, detector.predict(new) == -1)
    found = detector.incidents(new, gap=0)
    assert [(span.first, span.last) for span in chart.incidents] == [(one.first, one.last) for one in found]
    merged = ControlChart.of(detector, new, incidents=detector.incidents(new, gap=5))
    assert 0 < len(merged.incidents) < len(chart.incidents)
    assert chart.axis.in_time


def test_control_chart_keeps_to_the_detectors_own_limit(plant):
    detector = PCADetector(3, statistic="combined", confidence=0.999, limit="empirical").fit(plant.normal)
    chart = ControlChart.of(detector, plant.new)
    assert [statistic.name for statistic in chart.statistics] == ["spe", "t2", "combined"]
    own = chart.statistics[-1]
    assert own.alarm == detector.limit_
    assert set(own.limits) == {0.95, 0.99, 0.999}
    np.testing.assert_array_equal(own.flagged, detector.predict(plant.new) == -1)


def test_control_chart_leaves_out_an_spe_of_rounding():
    """Five independent columns and their sum: all components but one, and nothing is left over."""
    X = np.random.default_rng(0).normal(size=(400, 5))
    X = np.column_stack([X, X.sum(axis=1) + 1e-6 * np.random.default_rng(1).normal(size=400)])
    detector = PCADetector(5, statistic="mahalanobis").fit(X)
    assert [one.name for one in ControlChart.of(detector, X).statistics] == ["t2", "mahalanobis"]
    own = PCADetector(5, statistic="spe").fit(X)
    assert [one.name for one in ControlChart.of(own, X).statistics] == ["spe", "t2"]


def test_control_chart_takes_incidents_and_times(detector, plant, new):
    incidents = [SimpleNamespace(first=3, last=3), SimpleNamespace(first=10, last=20)]
    table = pl.DataFrame(dict(zip(plant.feature_names, plant.new.T, strict=True)))
    chart = ControlChart.of(detector, table, time=new.index, incidents=incidents)
    assert [(span.first, span.last) for span in chart.incidents] == [(3, 3), (10, 20)]
    assert chart.incidents[0].end - chart.incidents[0].start == np.timedelta64(10, "m")
    with pytest.raises(ValueError, match="time has 2 values, but X has 400 rows"):
        ControlChart.of(detector, table, time=[1, 2])


def test_control_chart_refuses_what_is_no_detector(plant):
    with pytest.raises(TypeError, match="fitted PCADetector, not PCA"):
        ControlChart.of(PCA(3).fit(plant.normal), plant.new)


def test_empty_rows_are_gaps(detector, new):
    rows = new.iloc[:5].copy()
    rows.iloc[2] = np.nan
    with pytest.warns(UserWarning, match="no observed"):
        chart = ControlChart.of(detector, rows)
    assert np.isnan(chart.statistics[0].values[2])
    assert not chart.statistics[0].flagged[2]


def test_distance_names_the_worst(detector, new):
    shown = Distance.of(detector, new)
    told = detector.statistics(new)
    np.testing.assert_array_equal(shown.flagged, told.spe_flag | told.t2_flag)
    beyond = np.maximum(told.spe / told.spe_limit, told.t2 / told.t2_limit)
    assert shown.worst(3).tolist() == beyond.to_numpy().argsort()[::-1][:3].tolist()


# loadings


def test_loadings_are_scikit_learns_components(plant):
    pca = PCA(4).fit(plant.normal)
    shown = Loadings.of(pca)
    for axis, component in zip(shown.values.T, pca.components_, strict=True):
        np.testing.assert_allclose(axis, component * np.sign(component[np.abs(component).argmax()]), atol=1e-9)
    np.testing.assert_allclose(shown.explained, pca.explained_variance_ratio_)
    assert shown.n_other == 0


def test_loadings_of_a_detector_and_of_factor_analysis(detector, plant):
    shown = Loadings.of(detector, n_components=2, max_features=5)
    assert shown.values.shape == (5, 2)
    assert shown.n_other == 7
    np.testing.assert_allclose(shown.explained, detector.model_.explained_variance_ratio_[:2])
    assert Loadings.of(FactorAnalysis(2).fit(plant.normal)).values.shape == (12, 2)


# where rows lie


def test_rows_lie_at_their_labels_if_these_increase():
    assert RowAxis.of([3, 5, 9]).x.tolist() == [3, 5, 9]
    for labels in ([3, 3, 4], [5, 4], [1.0, np.nan], ["b", "a"], [True, False]):
        axis = RowAxis.of(np.array(labels))
        assert axis.x.tolist() == list(range(len(labels)))
        assert not axis.labelled
    assert not RowAxis.of(np.array(["2024-01-01", "NaT"], dtype="datetime64[ns]")).in_time


def test_whole_numbers_with_holes_are_names_of_a_tables_rows():
    for labels, named in (([3, 5, 9], True), ([3, 5, 7], False), ([0, 1, 2], False), ([0.5, 1.5, 9.0], False)):
        axis = RowAxis.of_table(np.array(labels))
        assert axis.x.tolist() == (list(range(3)) if named else labels)
        assert axis.labelled == (not named)
        assert axis.labels.tolist() == labels


def test_the_chart_is_logarithmic_where_a_row_is_fifty_times_above_the_limit(plant):
    detector = PCADetector(3, statistic="spe", limit="formula").fit(plant.normal)
    chart = ControlChart.of(detector, plant.normal[:50])
    own = chart.own_statistic
    for factor, log in ((49.0, False), (51.0, True)):
        values = np.full(50, own.alarm)
        values[7] = factor * own.alarm
        assert replace(chart, statistics=(replace(own, values=values),)).needs_log == log
    with_zero = replace(own, values=np.array([0.0, 100 * own.alarm]))
    assert not replace(chart, statistics=(with_zero,)).needs_log


def test_times_with_a_zone_are_read_off_the_wall():
    index = pd.date_range("2024-03-01 12:00", periods=3, freq="h", tz="Asia/Tokyo")
    axis = RowAxis.of(index.to_numpy())
    assert axis.in_time
    assert row_label(axis.labels[0]) == row_label(index[0]) == "2024-03-01 12:00"


def test_rows_own_the_axis_half_way_to_their_neighbours():
    axis = RowAxis.of([0, 2, 3, 5, 105])
    assert [axis.span(row, row) for row in range(5)] == [(-1, 1), (1, 2.5), (2.5, 4), (4, 6), (104, 106)]
    assert axis.span(1, 2) == (1, 4)
    assert axis.span() == (-1, 106)
    assert RowAxis.of([7]).span() == (6.5, 7.5)
    first, last = RowAxis.of(np.array(["2024-03-01"], dtype="datetime64[ns]")).span()
    assert last - first == np.timedelta64(1, "D")


def test_time_may_be_a_column_or_values(detector, plant, new):
    table = pl.DataFrame(dict(zip(plant.feature_names, plant.new.T, strict=True)))
    expected = ControlChart.of(detector, new).axis.x
    with_column = table.with_columns(pl.Series("when", new.index))
    for chart in (
        ControlChart.of(detector, with_column, time="when"),
        ControlChart.of(detector, table, time=new.index),
        ControlChart.of(detector, table, time=[str(time) for time in new.index]),
        ControlChart.of(detector, table, time=list(new.index.to_pydatetime())),
    ):
        np.testing.assert_array_equal(chart.axis.x, expected)
    zoned = new.tz_localize("Asia/Tokyo")
    np.testing.assert_array_equal(ControlChart.of(detector, zoned).axis.x, expected)


def test_durations_and_repeated_times_are_labels(detector, new):
    chart = ControlChart.of(detector, new[:3], time=pd.to_timedelta([0, 90, 90], unit="min"))
    assert [row_label(label) for label in chart.axis.labels] == ["00:00:00", "01:30:00", "01:30:00"]
    assert chart.axis.x.tolist() == [0, 1, 2]


@given(st.integers(1, 3000), st.integers(2, 200), st.integers(0, 2**32))
def test_thinning_loses_no_extreme_no_gap_and_nothing_to_keep(n, max_points, seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(n)
    values[rng.random(n) < 0.1] = np.nan
    keep = rng.random(n) < 0.05
    chosen = thin(values, keep, max_points)
    assert (np.diff(chosen) > 0).all()
    assert set(np.flatnonzero(keep)) <= set(chosen)
    if not np.isnan(values).all():
        assert {np.nanargmax(values), np.nanargmin(values)} <= set(chosen)
    assert np.isnan(values).any() == np.isnan(values[chosen]).any()
    assert len(chosen) <= 1.5 * max_points + 3 + keep.sum()


# number of components


def test_components_are_the_held_out_likelihood():
    """The same rows, folds and models with scikit-learn."""
    X = make_plant(203, 1, faults=()).normal
    blocks = np.split(np.arange(203), [203 * k // 10 for k in range(1, 10)])
    held_out = []
    for p in range(1, X.shape[1]):
        judged = []
        for block in blocks:
            others = np.delete(X, block, axis=0)
            mean, scale = others.mean(axis=0), others.std(axis=0, ddof=1)
            judged.append(PCA(p).fit((others - mean) / scale).score_samples((X[block] - mean) / scale))
        held_out.append(np.concatenate(judged).mean())
    detector = PCADetector(limit="formula").fit(X)
    content = Components.of(detector)
    np.testing.assert_allclose(content.log_likelihood, held_out - np.max(held_out), atol=1e-9)
    assert content.best == np.argmax(held_out) + 1 == detector.model_.n_components_


def test_components_that_were_not_chosen_by_likelihood(detector):
    for one in (detector, PCADetector(statistic="spe").fit(make_plant(100, 1, faults=()).normal)):
        assert Components.of_fitted(one.fitted) is None
        with pytest.raises(ValueError, match="fit with n_components='auto'"):
            Components.of(one)
    with pytest.raises(TypeError, match="needs a fitted PCADetector, not PCA"):
        Components.of(PCA())


# texts


def test_texts():
    assert number(0.0) == "0"
    assert number(1_000_000.0) == "1e+06"
    assert len(shorten("x" * 200)) == 28
    assert shorten("two\nlines\x00 and\ttab") == "two lines and tab"
    assert len(set(shorten_all([f"{'x' * 100}{i}{'y' * 100}" for i in range(9)]))) == 9
    assert row_label("$a_b$") == "$a_b$"


def test_a_chart_without_a_limit_says_why():
    """Of many rows, the largest scores are kept only, and no limit is known where half of the rows are above it."""
    rows = np.random.default_rng(0).normal(size=(140_000, 3))
    rows[:, 2] += rows[:, 0]
    detector = PCADetector(1, contamination=0.3, confidence=0.5).fit(rows)
    with pytest.raises(ValueError, match=r"only the largest .* scores were kept. Choose a higher confidence."):
        ControlChart.of(detector, rows[:10])


@pytest.mark.parametrize("names", [[f"s{k}" for k in range(60)], [*range(20), *range(50, 90)]])
def test_rows_without_times_lie_at_their_positions_in_the_files(plant, detector, names):
    places = np.array([*range(20), *range(50, 90)])
    order = RowOrder(np.zeros(60), places=places)
    table = Table(plant.new[:60], plant.feature_names, pd.DataFrame(index=names), order)
    chart = ControlChart.of_table(detector.fitted, table, None)
    assert chart.axis.x.tolist() == places.tolist()
