"""What a detector states about its false alarms: held-out rows, later rows, and what all of them are worth."""

import numpy as np
import pytest

from culpa.scores.held_out import HeldOutScores, Rate
from culpa.scores.stated import OverTime, stated_rate, worth_of

HELD_OUT = HeldOutScores.of(np.arange(1.0, 1001.0), np.arange(1000) % 10)
LIMIT = 990.0  # 1% of the scores are higher


def test_a_rate_is_a_number():
    rate = Rate(0.01, 0.004, 0.02)
    assert float(rate) == 0.01
    assert rate < 0.02
    assert rate <= 0.01
    assert rate > 0.005
    assert rate >= Rate(0.01, 0.0, 1.0)
    assert rate < 0.02
    assert (rate < 0.01, rate > 0.01) == (False, False)
    assert sorted([Rate(0.3, 0, 1), rate])[0] is rate
    assert rate == (0.01, 0.004, 0.02)


def test_held_out_rows_alone():
    found = stated_rate(HELD_OUT, LIMIT, 1.0, OverTime())
    assert (found.rate, found.later, found.worth) == (HELD_OUT.rate_above(LIMIT), None, 1000)


def test_scores_that_resemble_each_other_widen_the_interval():
    alone, alike = (stated_rate(HELD_OUT, LIMIT, dependence, OverTime()).rate for dependence in (1.0, 10.0))
    assert alike.value == alone.value
    assert alike.low < alone.low < alone.high < alike.high
    n = worth_of(1000, 10.0)
    assert 50 < n < 100
    exact = HELD_OUT.rate_above(LIMIT, 1000 / n)
    assert alike == exact


def test_columns_that_do_so_leave_nothing_to_promise():
    assert stated_rate(HELD_OUT, LIMIT, 1.0, OverTime(10.0)).rate is not None
    assert stated_rate(HELD_OUT, LIMIT, 1.0, OverTime(40.0)).rate is None


@pytest.mark.parametrize(("flagged", "says"), [([0, 1, 5], False), ([0, 1, 6], True), ([40, 0, 2], True)])
def test_later_rows_count_where_one_stretch_is_beyond_chance(flagged, says):
    """Of 100 rows at 1%, five or more are flagged once in 290 times and six once in 1,900; the bound is once in 600."""
    over_time = OverTime(1.0, np.full(3, 100.0), np.array(flagged, dtype=float))
    found = stated_rate(HELD_OUT, LIMIT, 1.0, over_time)
    assert (found.later is not None) == says


def test_the_worse_rate_with_an_interval_that_contains_both():
    over_time = OverTime(1.0, np.full(4, 500.0), np.array([0.0, 5.0, 100.0, 10.0]))
    found = stated_rate(HELD_OUT, LIMIT, 1.0, over_time)
    assert found.later.value == found.rate.value == 115 / 2000
    assert found.rate.low == 0.0
    assert 0.2 < found.rate.high < 0.26
    few = stated_rate(HELD_OUT, LIMIT, 1.0, OverTime(1.0, np.array([50.0, 5000.0]), np.array([10.0, 0.0])))
    assert few.later.value < few.rate.value == few.held_out.value


def test_thinned_rows_are_less_alike():
    """With every tenth row, stretches of 50 rows say as much as 500 of which ten count as one."""
    n, flagged = np.full(3, 50.0), np.array([0.0, 0.0, 5.0])
    every, tenth = (stated_rate(HELD_OUT, LIMIT, 10.0, OverTime(1.0, n, flagged, step)).later for step in (1, 10))
    assert every is None
    assert tenth is not None


def test_worth():
    assert worth_of(100, 1.0) == worth_of(100, 1.2) == 100  # a correlation of .09 of 100 rows is chance
    r = 9 / 11  # of 10 rows that are worth one
    cautious = r + (1 + 3 * r) / 1000 + 1 / np.sqrt(1000)
    assert worth_of(1000, 10.0) == pytest.approx(1000 * (1 - cautious) / (1 + cautious))


def test_arrays():
    before = OverTime(2.5, np.array([3.0, 4.0]), np.array([1.0, 0.0]), 7)
    after = OverTime.from_arrays(before.to_arrays())
    assert (after.alike, after.spacing, after.n.tolist(), after.flagged.tolist()) == (2.5, 7, [3.0, 4.0], [1.0, 0.0])
