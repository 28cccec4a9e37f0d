"""Held-out scores: limits by rank and beyond, blocks that differ, rates, p-values, false discoveries."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from culpa.scores import HeldOutScores, discoveries


def tenths(n):
    return np.arange(n) * 10 // n


def exponential(n, seed=0):
    return np.random.default_rng(seed).exponential(size=n)


def two_kinds(n=1000, seed=0):
    """Scores of blocks of which two are three times as large."""
    block = tenths(n)
    return exponential(n, seed) * np.where(block >= 8, 3.0, 1.0), block


class TestLimit:
    @pytest.mark.parametrize(("n", "confidence"), [(199, 0.95), (199, 0.99), (99, 0.99), (100, 0.99), (1000, 0.7)])
    def test_rank_by_counting(self, n, confidence):
        """The smallest score that at least (n + 1) confidence scores do not exceed, counted one by one."""
        values = exponential(n)
        found = HeldOutScores.of(values, np.arange(n) % 10).limit(confidence)
        enough = [v for v in values if sum(values <= v) >= round((n + 1) * confidence, 9)]
        assert found.value == min(enough)
        assert (found.rate, found.blocks_differ, found.extrapolated) == (1 - confidence, False, False)

    @pytest.mark.parametrize(("confidence", "needed"), [(0.95, 19), (0.99, 99), (0.999, 999)])
    def test_from_how_many_rows_it_is_not_extrapolated(self, confidence, needed):
        for n, extrapolated in ((needed - 1, True), (needed, False)):
            assert HeldOutScores.of(exponential(n), np.arange(n) % 10).limit(confidence).extrapolated == extrapolated

    @pytest.mark.parametrize("confidence", [0.99, 0.999, 0.99999])
    @pytest.mark.parametrize("n", [30, 60, 98, 400, 900])
    def test_extrapolation_is_never_below_the_largest_score(self, n, confidence):
        for seed in range(20):
            rng = np.random.default_rng(seed)
            lone = np.append(np.linspace(1, 2, n - 1), 10.0)  # far beyond the tail of the others
            for values in (rng.exponential(size=n), rng.uniform(size=n), rng.standard_cauchy(n) ** 2, lone):
                scores = HeldOutScores.of(values, np.arange(n) % 10)
                limit = scores.limit(confidence)
                assert not limit.extrapolated or limit.value >= values.max()

    @pytest.mark.parametrize("n", [50, 500])
    def test_extrapolation_grows_with_confidence(self, n):
        scores = HeldOutScores.of(exponential(n), np.arange(n) % 10)
        levels = [scores.limit(1 - rate).value for rate in (1e-3, 5e-4, 1e-4, 1e-5)]
        assert levels == sorted(levels)
        assert levels[0] < levels[-1]

    @pytest.mark.parametrize(
        ("n", "rate", "draw", "tail"),
        [
            (60, 0.01, "exponential", "expon"),
            (60, 0.005, "exponential", "expon"),
            (500, 0.001, "exponential", "expon"),
            (500, 0.0005, "standard_cauchy", None),
        ],
    )
    def test_extrapolated_limits_are_exceeded_about_as_often_as_asked(self, n, rate, draw, tail):
        """The exact probability at the limits, over many draws: between a third of the rate and twice."""
        shares = []
        for seed in range(200):
            values = np.abs(getattr(np.random.default_rng(seed), draw)(size=n))
            limit = HeldOutScores.of(values, np.arange(n) % 10).limit(1 - rate).value
            shares.append(math.exp(-limit) if tail else 2 * stats.cauchy.sf(limit))
        assert 0.3 * rate < np.mean(shares) < 2 * rate

    @pytest.mark.parametrize("confidence", [0.95, 0.99])
    @pytest.mark.parametrize("n", [99, 150, 1000])
    def test_realised_false_alarms(self, n, confidence):
        """A new score exceeds the limit with the probability asked for, over many draws of held-out scores.

        By rank it is floor((n + 1) rate) / (n + 1). Blocks that differ by chance take away a little: one in twenty draws
        or so, and at most half of the rate.
        """
        runs, rate = 3000, 1 - confidence
        new = np.random.default_rng(1).exponential(size=runs)
        limits = [HeldOutScores.of(exponential(n, 10 + seed), tenths(n)).limit(confidence) for seed in range(runs)]
        by_rank = math.floor(round((n + 1) * rate, 9)) / (n + 1)
        differ = np.mean([limit.blocks_differ for limit in limits])
        assert differ < 0.1
        shares = np.exp(-np.array([limit.value for limit in limits]))
        error = shares.std() / math.sqrt(runs)
        assert by_rank * (1 - differ) - 3 * error < shares.mean() < by_rank + 3 * error
        alarms = int((new > [limit.value for limit in limits]).sum())
        low, high = stats.binom.interval(0.999, runs, by_rank)
        assert low * (1 - differ) <= alarms <= high

    def test_not_enough_was_kept(self):
        scores = HeldOutScores.of(np.arange(300_000.0), tenths(300_000))
        assert len(scores.largest) == 37_500
        assert scores.n == 300_000
        assert scores.reaches(0.95)
        assert not scores.reaches(0.5)
        with pytest.raises(ValueError, match=r"only the largest 37,500 of 300,000 scores were kept"):
            scores.limit(0.5)

    def test_missing_scores_do_not_count(self):
        values = exponential(200)
        holes = np.append(values, [np.nan] * 30)
        block = np.append(tenths(200), np.full(30, 10))
        scores = HeldOutScores.of(holes, block)
        assert scores.n == 200
        assert len(scores.n_per_block) == 10  # none is left of the last
        assert scores.limit(0.95) == HeldOutScores.of(values, tenths(200)).limit(0.95)


class TestBlocksThatDiffer:
    def test_they_raise_the_limit(self):
        values, block = two_kinds()
        alike = np.random.default_rng(0).permutation(block)
        raised, plain = HeldOutScores.of(values, block).limit(0.95), HeldOutScores.of(values, alike).limit(0.95)
        assert raised.blocks_differ
        assert not plain.blocks_differ
        assert raised.value > plain.value
        assert 0.025 <= raised.rate < 0.05

    def test_at_most_to_half_the_rate(self):
        values, block = two_kinds()
        scores = HeldOutScores.of(values + 100.0 * (block == 9), block)
        limit = scores.limit(0.95)
        assert limit.rate == pytest.approx(0.025)
        assert limit.value == np.sort(values + 100.0 * (block == 9))[math.ceil(1001 * 0.975) - 1]

    def test_mean_rate_and_two_standard_errors_are_what_was_asked(self):
        """Mild differences, so that the raise is not at its end: the largest twentieth of the rate that does."""
        rng = np.random.default_rng(3)
        block = tenths(2000)
        values = rng.exponential(size=2000) * np.linspace(0.8, 1.3, 10)[block]
        found = HeldOutScores.of(values, block).limit(0.9)
        assert found.blocks_differ
        assert 0.05 < found.rate < 0.1

        def upper(rate):
            level = np.sort(values)[math.ceil(2001 * (1 - rate) - 1e-9) - 1]
            rates = np.array([(values[block == k] > level).mean() for k in range(10)])
            chance = rates.mean() * (1 - rates.mean()) / 200
            return rates.mean() + 2 * math.sqrt(max(rates.var(ddof=1) - chance, 0) / 10)

        assert upper(found.rate) <= 0.1 < upper(found.rate + 0.005)


class TestRate:
    def test_interval_of_clopper_and_pearson(self):
        values = exponential(400)
        rate = HeldOutScores.of(values, np.zeros(400, dtype=int)).rate_above(np.sort(values)[-9])
        assert rate.value == 8 / 400
        exact = stats.binomtest(8, 400).proportion_ci(0.95, method="exact")
        assert (rate.low, rate.high) == pytest.approx((exact.low, exact.high))

    def test_blocks_that_differ_widen_it(self):
        values, block = two_kinds()
        scores = HeldOutScores.of(values, block)
        limit = float(np.sort(values)[-101])
        rate = scores.rate_above(limit)
        shares = np.array([(values[block == k] > limit).mean() for k in range(10)])
        low, high = stats.t.interval(0.95, 9, shares.mean(), stats.sem(shares))
        assert rate == pytest.approx((0.1, max(low, 0), high))

    def test_nothing_and_everything_above(self):
        scores = HeldOutScores.of(np.arange(1.0, 101.0), tenths(100))
        none, all_ = scores.rate_above(1e9), scores.rate_above(0.0)
        assert none == pytest.approx((0, 0, stats.binomtest(0, 100).proportion_ci(0.95).high))
        assert all_ == pytest.approx((1, stats.binomtest(100, 100).proportion_ci(0.95).low, 1))


class TestPValues:
    def test_by_counting(self):
        rng = np.random.default_rng(0)
        held, new = rng.integers(30, size=200).astype(float), rng.integers(-2, 33, size=60).astype(float)  # with ties
        found = HeldOutScores.of(held, tenths(200)).p_values(new)
        assert found.tolist() == [(1 + sum(held >= score)) / 201 for score in new]

    def test_a_row_without_a_score_has_none(self):
        found = HeldOutScores.of(exponential(100), tenths(100)).p_values(np.array([np.nan, 1e9]))
        np.testing.assert_array_equal(found, [np.nan, 1 / 101])

    def test_not_smaller_than_chance(self):
        """P(p <= u) <= u for scores from the same distribution, whatever it is."""
        p = np.concatenate(
            [
                HeldOutScores.of(exponential(150, seed), tenths(150)).p_values(exponential(20, 9000 + seed))
                for seed in range(500)
            ]
        )
        for u in (0.01, 0.05, 0.1, 0.5):
            assert (p <= u).mean() <= u + 3 * math.sqrt(u / 500)

    @pytest.mark.parametrize("n", [60, 500])
    def test_extrapolated_ones_are_the_limits_inverted(self, n):
        scores = HeldOutScores.of(exponential(n), np.arange(n) % 10)
        for rate in (0.5 / (n + 1), 1e-4, 1e-6):
            level = scores.limit(1 - rate).value
            if level > scores.largest[-1]:
                assert scores.p_values(np.array([level]), extrapolate=True)[0] == pytest.approx(rate, rel=1e-6)
        within = np.sort(exponential(40, 1))[:-5]
        np.testing.assert_array_equal(scores.p_values(within, extrapolate=True), scores.p_values(within))

    def test_extrapolated_ones_fall_with_the_score(self):
        scores = HeldOutScores.of(exponential(60), tenths(60))
        p = scores.p_values(np.linspace(0.5, 40, 200), extrapolate=True)
        assert (np.diff(p) <= 1e-12).all()
        assert p[-1] < 1e-4


class TestDiscoveries:
    @pytest.mark.parametrize("rate", [0.01, 0.1, 0.3])
    def test_benjamini_and_hochberg_step_by_step(self, rate):
        """Reject the k smallest p-values for the largest k with p_(k) <= k rate / m."""
        for seed in range(50):
            rng = np.random.default_rng(seed)
            p = np.round(np.append(rng.uniform(size=40), rng.beta(0.1, 5, size=20)), 2)  # with ties
            ordered, k = sorted(p), 0
            for place, value in enumerate(ordered, start=1):
                if value <= place * rate / 60:
                    k = place
            expected = [k > 0 and value <= ordered[k - 1] for value in p]
            assert discoveries(p, rate).tolist() == expected

    def test_scipy_agrees(self):
        p = np.random.default_rng(0).beta(0.3, 2, size=200)
        np.testing.assert_array_equal(discoveries(p, 0.1), stats.false_discovery_control(p) <= 0.1)

    def test_rows_without_a_p_value_are_not_counted(self):
        p = np.array([0.001, np.nan, 0.04, np.nan, 0.9])
        assert discoveries(p, 0.1).tolist() == [True, False, True, False, False]
        assert discoveries(np.array([np.nan, np.nan]), 0.1).tolist() == [False, False]
        assert discoveries(np.empty(0), 0.1).tolist() == []

    def test_the_share_of_false_ones_is_kept(self):
        """Among 100 rows, 20 of them faults: over many batches, few of the rows reported are not faults."""
        false, missed = [], []
        for seed in range(300):
            held = HeldOutScores.of(exponential(2000, seed), tenths(2000))
            new = exponential(100, 5000 + seed) + 12.0 * (np.arange(100) < 20)
            found = discoveries(held.p_values(new), 0.2)
            false.append(found[20:].sum() / max(found.sum(), 1))
            missed.append((~found[:20]).mean())
        assert 0.1 < np.mean(false) <= 0.2
        assert np.mean(missed) < 0.01


def test_one_score_is_not_extrapolated():
    one = HeldOutScores.of(np.array([3.0]), np.array([0]))
    assert one.limit(0.99).value == 3.0
    assert np.isfinite(one.p_values(np.array([5.0]), extrapolate=True)).all()


def test_no_score_has_no_limit():
    nothing = HeldOutScores.of(np.array([np.nan]), np.array([0]))
    assert not nothing.reaches(0.99)
    with pytest.raises(ValueError, match="no training row has a score"):
        nothing.limit(0.99)


def test_later_rows_join_blocks_whose_scores_were_not_kept():
    before = HeldOutScores(np.array([5, 5]), np.empty(0), np.empty(0, dtype=np.int64))
    after = before.then(np.arange(3.0), np.array([0, 1, 2]), np.array([0, 1]))
    assert after.n_per_block.tolist() == [6, 6, 1]
    assert after.largest.size == 0  # rows of before may have scored higher


def test_rows_that_are_partly_forgotten_count_less():
    scores = HeldOutScores.of(np.arange(1.0, 31.0), np.repeat([0, 1], [10, 20]))
    assert scores.n == 30
    assert replace(scores, weights=np.array([0.5, 1.0])).n == 0.5 * 10 + 20
