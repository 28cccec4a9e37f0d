"""Trends: lowest and highest value of every stretch, and a band that is normal for the rows it belongs to."""

import numpy as np
import pandas as pd
import pytest
from report_cases import NAMES, PLANT, content_of

from culpa import PCADetector


def frame(rows):
    return pd.DataFrame(rows, columns=NAMES)


def one_or_all(values, n):
    return np.broadcast_to(np.array(values, dtype=float), n)


def test_a_short_table_keeps_every_value():
    detector = PCADetector(3).fit(frame(PLANT.normal))
    new = PLANT.new.copy()
    new[7, 2] = np.nan
    trends = content_of(detector.report(frame(new))).trends
    assert (trends.step, trends.n_left_out, trends.row) == (1, 0, list(range(400)))
    for trend in trends.features:
        assert trend.high == []
        np.testing.assert_allclose(np.array(trend.low, dtype=float), new[:, trend.feature], rtol=1e-5)
    assert trends.features[2].low[7] is None


def test_stretches_keep_the_lowest_and_the_highest_value():
    detector = PCADetector(3).fit(frame(PLANT.normal))
    new = np.tile(PLANT.normal[:80], (40, 1))
    new[1234, 5] += 50
    trends = content_of(detector.report(frame(new))).trends
    assert trends.step > 1
    for trend in trends.features:
        for k, first in enumerate(trends.row):
            part = new[first : first + trends.step, trend.feature]
            assert trend.low[k] == pytest.approx(part.min(), rel=1e-5)
            assert trend.high[k] == pytest.approx(part.max(), rel=1e-5)
    assert trends.features[5].high[1234 // trends.step] == pytest.approx(new[1234, 5], rel=1e-5)


def test_the_band_is_that_of_training_rows():
    detector = PCADetector(3).fit(frame(PLANT.normal))
    for trend in content_of(detector.report(frame(PLANT.new))).trends.features:
        assert trend.mean == pytest.approx([PLANT.normal[:, trend.feature].mean()], rel=1e-6)
        assert trend.sd == pytest.approx([PLANT.normal[:, trend.feature].std(ddof=1)], rel=0.05)  # the model's


def test_the_band_follows_the_context():
    rng = np.random.default_rng(0)
    load = rng.normal(size=(900, 1))
    rows = np.hstack([load, 10 + 3 * load + 0.1 * rng.normal(size=(900, 3))])
    columns = ["load", "a", "b", "c"]
    detector = PCADetector(1, given=["load"]).fit(pd.DataFrame(rows[:600], columns=columns))
    content = content_of(detector.report(pd.DataFrame(rows[600:], columns=columns)))
    assert [feature.name for feature in content.features] == columns[1:]
    for trend in content.trends.features:
        np.testing.assert_allclose(trend.mean, 10 + 3 * load[600:, 0], atol=0.1)
        assert len(trend.sd) == 1
        deviation = (np.array(trend.low) - trend.mean) / trend.sd
        assert deviation.std() == pytest.approx(1, rel=0.2)


def test_the_band_of_averaged_rows_is_that_of_averages():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 4)) * [1, 2, 3, 4] + 5
    detector = PCADetector(2, smooth=0.2).fit(pd.DataFrame(rows[:2000]))
    for trend in content_of(detector.report(pd.DataFrame(rows[2000:2900]))).trends.features:
        sd = one_or_all(trend.sd, 900)
        assert sd[0] == pytest.approx(0.2 * (trend.feature + 1), rel=0.1)  # a single row, weighted by 0.2
        assert sd[-1] == pytest.approx((trend.feature + 1) * np.sqrt(0.2 / 1.8), rel=0.1)
        assert (np.array(trend.low) - 5).std() == pytest.approx(sd[-1], rel=0.25)


def test_features_that_moved_least_are_left_out_and_the_page_says_so():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(3, 400))
    rows = rng.normal(size=(500, 3)) @ W + 0.3 * rng.normal(size=(500, 400))
    detector = PCADetector(3, limit="formula").fit(rows[:300])
    new = rows[300:].copy()
    new[50:60, [7, 350]] += 12
    content = content_of(detector.report(new, n_orders=48))
    trends = content.trends
    assert trends.n_left_out == 400 - len(trends.features) > 0
    assert {7, 350} <= {trend.feature for trend in trends.features}
    said = f"Trends are not kept for {trends.n_left_out} features that moved least."
    assert said in content.overview.notes
