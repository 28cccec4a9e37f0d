"""CUSUM of a detector's statistic."""

import numpy as np
import pandas as pd
import pytest

from culpa import PCADetector
from culpa.monitoring.cusum import REFERENCE, average_run_length, cusum, decision_interval, normal_scores
from culpa.plots.content import ControlChart
from culpa.scores import HeldOutScores


def rows_of(n, seed=0, shift=0.0):
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(7)
    X = rng.normal(size=(n, 2)) @ fixed.normal(size=(2, 6)) + rng.normal(size=(n, 6))
    X[:, 2] += shift
    return X


@pytest.fixture(scope="module")
def detector():
    return PCADetector().fit(rows_of(1000))


def test_interval_has_the_run_length_asked_for():
    for length in (50.0, 500.0, 5000.0):
        assert average_run_length(decision_interval(length)) == pytest.approx(length)
    rng, interval = np.random.default_rng(0), decision_interval(200)
    lengths = []
    for _ in range(400):
        level, t = 0.0, 0
        while level <= interval:
            level, t = max(0.0, level + rng.normal() - REFERENCE), t + 1
        lengths.append(t)
    assert np.mean(lengths) == pytest.approx(200, rel=0.15)


def test_scores_become_normal():
    rng = np.random.default_rng(0)
    held_out = HeldOutScores.of(rng.chisquare(3, 4000), np.arange(4000) % 10)
    z = normal_scores(held_out, rng.chisquare(3, 4000))
    assert z.mean() == pytest.approx(0, abs=0.06)
    assert z.std() == pytest.approx(1, abs=0.05)
    # of a large table only the largest scores are kept
    cut = HeldOutScores(held_out.n_per_block, held_out.largest[-800:], held_out.block[-800:])
    z = normal_scores(cut, rng.chisquare(3, 4000))
    assert z.mean() == pytest.approx(0, abs=0.06)
    assert np.isnan(normal_scores(held_out, np.array([np.nan]))).all()


def test_each_place_among_held_out_scores_is_the_middle_of_an_equal_share():
    """A new normal row is as likely to come above 0, 1, ... or all 9 of 9 held-out rows: ten shares of a tenth each."""
    held_out = HeldOutScores.of(np.arange(1.0, 10.0), np.arange(9) % 3)
    z = normal_scores(held_out, np.arange(0.5, 10.0))
    tenths = [-1.6449, -1.0364, -0.6745, -0.3853, -0.1257, 0.1257, 0.3853, 0.6745, 1.0364, 1.6449]  # from a table
    np.testing.assert_allclose(z, tenths, atol=1e-4)


def test_a_missing_score_adds_nothing(detector):
    score = detector.fitted.score(rows_of(20, seed=1, shift=2.0))
    with_hole = np.insert(score, 5, np.nan)
    ours, theirs = cusum(detector.fitted, with_hole).values, cusum(detector.fitted, score).values
    np.testing.assert_array_equal(np.delete(ours, 5), theirs)
    assert ours[5] == ours[4]


def test_control_chart_shows_it(detector):
    X = np.vstack([rows_of(100, seed=1), rows_of(100, seed=2, shift=1.5)])
    chart = ControlChart.of(detector, X, cusum=True)
    assert ControlChart.of(detector, X).cusum is None
    assert chart.cusum.run_length == pytest.approx(100)  # as of the limit, at 99%
    assert (chart.cusum.values[:100] > chart.cusum.interval).mean() < 0.2
    assert chart.cusum.values[-1] > chart.cusum.interval
    assert ControlChart.of(detector, X, cusum=1000).cusum.interval > chart.cusum.interval
    axes = detector.plot.control_chart(X, cusum=True)
    assert len(axes) == len(chart.statistics) + 1
    assert axes[-1].get_title(loc="left") == "CUSUM" or axes[-1].get_title() == "CUSUM"


def test_refuses_what_has_no_held_out_scores(detector):
    X = rows_of(100)
    with pytest.raises(ValueError, match="held-out scores"):
        ControlChart.of(PCADetector(2, limit="formula").fit(X), X, cusum=True)
    with pytest.raises(ValueError, match="smoothed rows"):
        ControlChart.of(PCADetector(smooth=0.2).fit(X), X, cusum=True)
    with pytest.raises(ValueError, match="cusum must be"):
        ControlChart.of(detector, X, cusum=2)


def test_sums_start_anew_after_a_hole():
    rng = np.random.default_rng(0)
    detector = PCADetector(1).fit(rng.normal(size=(400, 3)))
    new = pd.DataFrame(2 * rng.normal(size=(40, 3)), index=[*range(20), *range(100, 120)])
    whole = ControlChart.of(detector, new, cusum=True).cusum.values
    later = ControlChart.of(detector, new[20:], cusum=True).cusum.values
    np.testing.assert_allclose(whole[20:], later)
    assert whole[19] > 1
    times = pd.date_range("2024-01-01", periods=20, freq="min")
    timed = ControlChart.of(detector, new.to_numpy(), time=times.append(times + pd.Timedelta("3h")), cusum=True)
    np.testing.assert_allclose(timed.cusum.values, whole)
