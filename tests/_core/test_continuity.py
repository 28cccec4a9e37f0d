"""Which rows follow each other."""

import numpy as np
import pandas as pd
import pytest

from culpa._core.continuity import Continuity, as_numbers, order_of


@pytest.mark.parametrize("seed", range(5))
def test_pieces_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    steps = rng.choice([0.0, 1.0, 1.2, 2.0, 40.0, -3.0, np.nan], p=[0.05, 0.5, 0.3, 0.05, 0.05, 0.025, 0.025], size=400)
    times, places = np.cumsum(np.nan_to_num(steps)) + np.where(np.isnan(steps), np.nan, 0.0), np.arange(400)
    cut = rng.random(400) < 0.02
    for known in (times, None):
        whole = Continuity().follow(places, known, cut)
        continuity, pieces = Continuity(), np.split(places, np.sort(rng.integers(0, 400, size=30)))
        parts = [continuity.follow(rows, None if known is None else known[rows], cut[rows]) for rows in pieces]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_what_is_a_hole():
    minutes = np.array([0.0, 1, 2, 3.4, 4.8, 7, 8, 8, 9, 60, 61, 50, 51, np.nan, 53])
    inf = np.inf
    expected = [0, 0, 0, 0, 0, 1, 0, 0, 0, 50, 0, inf, 0, inf, inf]
    np.testing.assert_array_equal(Continuity().follow(np.arange(15), minutes), expected)
    # rows that come more slowly from now on are no holes for ever
    slower = np.concatenate([np.arange(100), 100 + 10 * np.arange(100)])
    missing = Continuity().follow(np.arange(200), slower)
    assert missing[100:150].any()
    assert not missing[160:].any()


def test_files_and_places():
    continuity = Continuity()
    np.testing.assert_array_equal(continuity.follow(np.array([0, 1, 3])), [0, 0, 1])
    np.testing.assert_array_equal(continuity.follow(np.array([4, 5]), begins=True), [np.inf, 0])
    timed = Continuity()
    timed.follow(np.arange(3), np.arange(3.0))
    np.testing.assert_array_equal(timed.follow(np.arange(3, 5), np.arange(3.0, 5.0), begins=True), [0, 0])
    assert len(timed.follow(np.arange(0))) == 0


def test_labels_of_a_table():
    minutes = pd.date_range("2024-03-05", periods=50, freq="min")
    for index in (minutes, minutes.tz_localize("Europe/Berlin"), minutes - minutes[0], minutes.as_unit("s")):
        assert not order_of(index).any()
        missing = order_of(index.delete([1, 2, 30]))  # also if the first step is the hole
        assert np.flatnonzero(missing).tolist() == [1, 28]
        assert missing[[1, 28]].tolist() == [2, 1]
    assert order_of(pd.Index(["a", "b"])) is None
    assert order_of(None) is None
    assert order_of([].index) is None  # a list's method
    assert as_numbers(pd.DatetimeIndex(["2024-03-05", None]))[0] > 1e18
