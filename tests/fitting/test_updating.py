"""Updates keep a limit that means what it says: held-out scores by definition, and realised rates of false alarms."""

import math
import warnings

import numpy as np
import pytest

import culpa
from culpa import PCADetector
from culpa._core.warning import FitWarning
from culpa.datasets import DataFileError
from culpa.detecting.pieces import fit_moments
from culpa.models import Moments
from culpa.models.blocks import BlockMoments
from culpa.scores import HeldOutScores
from studies.recorded import load_tennessee_eastman


def plant(n, seed, d=8, p=3, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) @ np.random.default_rng(42).normal(size=(p, d)) + 0.4 * rng.normal(size=(n, d))
    X[:, 0] += shift
    return X


def precision(others, p):
    """Mean, standard deviation and inverse covariance under PPCA, by explicit matrices."""
    mean, std = others.mean(axis=0), others.std(axis=0, ddof=1)
    values, vectors = np.linalg.eigh(np.cov(((others - mean) / std).T))
    noise = values[:-p].mean()
    covariance = noise * np.eye(len(values)) + (vectors[:, -p:] * (values[-p:] - noise)) @ vectors[:, -p:].T
    return mean, std, np.linalg.inv(covariance)


def distances(X, others, p):
    mean, std, inverse = precision(others, p)
    z = (X - mean) / std
    return np.einsum("ij,jk,ik->i", z, inverse, z)


def spread(everything, others, p):
    """Standard deviation of the distance of Gaussian rows with the covariance of all rows."""
    _, std, inverse = precision(others, p)
    product = inverse @ np.cov((everything / std).T)
    return math.sqrt(2 * np.trace(product @ product))


def rate(detector, rows):
    return float((detector.predict(rows) == -1).mean())


class TestByDefinition:
    def test_scores_of_an_update(self):
        """New rows by the model of all other blocks; scores of earlier rows moved to the mean that they have now."""
        X, Y, p = plant(300, 0), plant(60, 1), 3
        detector = PCADetector(p, statistic="mahalanobis", confidence=0.9).fit(X)
        detector.partial_fit(Y)
        both, expected = np.concatenate([X, Y]), []
        for at in range(0, 360, 30):
            block, others = both[at : at + 30], np.delete(both, np.arange(at, at + 30), axis=0)
            now = distances(block, others, p)
            if at < 300:
                before = np.delete(X, np.arange(at, at + 30), axis=0)
                old = distances(block, before, p)
                now = now.mean() + (old - old.mean()) * spread(both, others, p) / spread(both, before, p)
            expected.append(np.maximum(now, 0))
        held_out = detector.fitted.limits.held_out(detector.fitted.statistic)
        np.testing.assert_allclose(held_out.largest, np.sort(np.concatenate(expected)), rtol=1e-8)
        assert held_out.n_per_block.tolist() == [30] * 12
        assert detector.limit_kind_ == "held-out"
        assert detector.false_alarm_rate_.value == pytest.approx(0.1, abs=0.02)

    def test_rows_that_come_by_partial_fit_alone_have_the_limit_of_fit(self):
        X = plant(500, 0)
        pieces = PCADetector()
        for a, b in ((0, 20), (20, 21), (21, 300), (300, 500)):
            pieces.partial_fit(X[a:b])
        whole = PCADetector().fit(X)
        assert pieces.limit_ == pytest.approx(whole.limit_, rel=1e-9)
        assert pieces.false_alarm_rate_ == pytest.approx(whole.false_alarm_rate_)

    def test_more_rows_than_are_held(self):
        X, new = plant(6000, 0), plant(20_000, 1)
        pieces = PCADetector()
        for at in range(0, 6000, 1500):
            pieces.partial_fit(X[at : at + 1500])
        held_out = pieces.fitted.limits.held_out(pieces.fitted.statistic)
        assert held_out.n == 6000
        assert pieces.limit_ == pytest.approx(PCADetector().fit(X).limit_, rel=0.02)
        assert 0.007 < rate(pieces, new) < 0.013

    def test_a_model_without_blocks_scores_new_rows_before_it_learns_them(self):
        X, Y = plant(300, 0), plant(250, 1)
        detector = fit_moments(PCADetector(3, statistic="mahalanobis"), BlockMoments.of(X, 1))
        before = detector.fitted
        detector.partial_fit(Y)
        held_out = detector.fitted.limits.held_out(detector.fitted.statistic)
        np.testing.assert_allclose(held_out.largest, np.sort(before.score(Y)), rtol=1e-12)


class TestWeights:
    def test_limits_and_p_values_of_weighted_scores(self):
        """Against sums over rows, one by one."""
        rng, forget = np.random.default_rng(0), 0.004
        old, new = rng.exponential(size=300), rng.exponential(size=200)
        scores = HeldOutScores.of(old, np.arange(300) // 30)
        place, moved = 10 + np.arange(200) // 30, np.arange(10)
        found = scores.then(new, place, moved, forget)
        weight = np.concatenate([np.full(300, (1 - forget) ** 200), (1 - forget) ** np.arange(199.0, -1, -1)])
        block = np.concatenate([np.arange(300) // 30, place])
        for k in range(17):  # rows of a block count alike
            weight[block == k] = weight[block == k].mean()
        values = np.concatenate([old, new])
        assert found.n == pytest.approx(weight.sum())
        for level in (0.5, 2.0, 4.0):
            p = (1 + weight[values >= level].sum()) / (1 + weight.sum())
            assert found.p_values(np.array([level]))[0] == pytest.approx(p)
            assert found.rate_above(level).value == pytest.approx(weight[values > level].sum() / weight.sum())
        for confidence in (0.9, 0.95, 0.98):
            limit = found.limit(confidence)
            above = [1 + weight[values > each].sum() for each in values]
            allowed = [
                value
                for value, each in zip(values, above, strict=True)
                if each <= limit.rate * (1 + weight.sum()) + 1e-9
            ]
            assert limit.value == min(allowed)

    def test_old_rows_are_dropped_at_last(self):
        scores = HeldOutScores.of(np.arange(300.0) + 1000, np.arange(300) // 30)
        found = scores.then(np.arange(800.0), np.full(800, 10), np.arange(10), 0.01)
        assert found.largest.max() < 800
        assert found.n_per_block[:10].sum() == 0
        assert 700 < found.limit(0.9).value < 800
        assert found.rate_above(2000.0).value == 0

    def test_what_was_not_kept_stays_unknown(self):
        scores = HeldOutScores.of(np.random.default_rng(0).random(40_000), np.arange(40_000) // 4000)
        lowest = scores.largest[0]
        found = scores.then(np.zeros(10), np.full(10, 10), np.arange(10))
        assert found.largest[0] >= lowest
        assert found.n == 40_010
        moved = scores.restated(np.zeros(10), np.arange(10.0) / 100, np.ones(10))
        assert moved.largest[0] >= lowest + 0.09

    def test_a_file_keeps_them(self, tmp_path):
        detector = PCADetector().fit(plant(200, 0)).partial_fit(plant(100, 1), forget=0.01)
        detector.save(tmp_path / "m.culpa")
        again = culpa.load(tmp_path / "m.culpa")
        assert again.false_alarm_rate_ == detector.false_alarm_rate_
        assert again.partial_fit(plant(50, 2)).limit_ == pytest.approx(detector.partial_fit(plant(50, 2)).limit_)


class TestRealisedRates:
    @pytest.mark.parametrize("confidence", [0.95, 0.99])
    def test_tennessee_eastman(self, confidence):
        """Fit on the first half of the normal run, learn from the second, count in another run."""
        try:
            runs = load_tennessee_eastman()
        except DataFileError as error:
            pytest.skip(str(error))
        normal, later = runs.normal, runs.normal_later
        asked = 1 - confidence
        at_once = PCADetector(confidence=confidence).fit(normal[:250]).partial_fit(normal[250:])
        assert 0.3 * asked <= rate(at_once, later) <= 2 * asked
        in_pieces = PCADetector(confidence=confidence).fit(normal[:250])
        for at in range(250, 500, 50):
            in_pieces.partial_fit(normal[at : at + 50])
        assert 0.3 * asked <= rate(in_pieces, later) <= 2 * asked
        fading = PCADetector(confidence=confidence).fit(normal[:250]).partial_fit(normal[250:], forget=0.002)
        assert 0.3 * asked <= rate(fading, later) <= 2 * asked
        by_formula = PCADetector(confidence=confidence, limit="formula").fit(normal)
        assert rate(by_formula, later) > 2 * asked

    @pytest.mark.parametrize(("n", "d"), [(60, 10), (60, 60), (300, 10)])
    @pytest.mark.parametrize("forget", [0.0, 0.005])
    def test_simulated_rows(self, n, d, forget):
        rates = []
        for seed in range(12):
            detector = PCADetector(confidence=0.95).fit(plant(n, seed, d))
            for part in range(2):
                detector.partial_fit(plant(n // 2, 100 + 2 * seed + part, d), forget=forget)
            rates.append(rate(detector, plant(1000, 1000 + seed, d)))
        assert 0.3 * 0.05 <= np.mean(rates) <= 2 * 0.05

    def test_a_process_that_changed_for_good(self):
        """What it no longer does must not raise the limit, while the model forgets it."""
        detector = PCADetector().fit(plant(1000, 0)).partial_fit(plant(1500, 1, shift=3.0), forget=0.001)
        assert 0.003 <= rate(detector, plant(10_000, 2, shift=3.0)) <= 0.02

    def test_a_process_that_became_quieter(self):
        """Rows of before, which are far from the new model, do not keep the limit up: it is that of quiet rows."""

        def rows(n, seed, noise):
            rng = np.random.default_rng(seed)
            loadings = np.random.default_rng(42).normal(size=(3, 8))
            return rng.normal(size=(n, 3)) @ loadings + noise * rng.normal(size=(n, 8))

        settings = {"n_components": 3, "statistic": "mahalanobis", "confidence": 0.95}
        for seed in range(3):
            quiet = rows(600, 100 + seed, 0.3)
            detector = PCADetector(**settings).fit(rows(300, seed, 1.2)).partial_fit(quiet, forget=0.005)
            assert detector.limit_ < 1.1 * PCADetector(**settings).fit(quiet).limit_
            assert 0.01 < rate(detector, rows(5000, 200 + seed, 0.3)) < 0.06

    def test_lags(self):
        rates = []
        for seed in range(4):
            detector = PCADetector(confidence=0.95, lags=1).fit(plant(300, seed)).partial_fit(plant(300, 50 + seed))
            assert detector.limit_kind_ == "held-out"
            rates.append(rate(detector, plant(1500, 100 + seed)))
        assert 0.015 <= np.mean(rates) <= 0.1

    def test_one_odd_row_among_few_is_not_the_limit_of_a_model_of_many(self):
        detector, limits, odd = fit_moments(PCADetector(2), Moments.of(plant(1000, 0))), [], None
        for seed, n in enumerate((60, 60, 100)):
            X = plant(n, 1 + seed)
            X[20, 2] += 10000 * (seed == 0)
            odd = X[20] if seed == 0 else odd
            limits.append(detector.partial_fit(X).limit_)
        assert detector.limit_kind_ == "held-out"
        assert max(limits) < 0.2 * -detector.score_samples(odd[None])[0]

    def test_calls_change_the_limit_little_where_much_is_remembered(self):
        """As docs/keeping-up.md says."""
        X, limits = plant(1600, 7), []
        for size in (10, 50, 200, 800):
            detector = PCADetector(3, statistic="mahalanobis").fit(plant(400, 6))
            for at in range(0, 1600, size):
                detector.partial_fit(X[at : at + size], forget=0.001)
            limits.append(detector.limit_)
        assert max(limits) < 1.05 * min(limits)


class TestWarnings:
    def test_too_few_rows_so_far(self):
        detector = PCADetector()
        with pytest.warns(FitWarning, match="20 rows are too few to check it") as caught:
            detector.partial_fit(plant(20, 0))
        assert caught[0].filename == __file__
        assert detector.limit_kind_ == "box"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert detector.partial_fit(plant(20, 1)).limit_kind_ == "held-out"

    def test_rows_that_vary_within_one_block_only(self):
        X = np.ones((200, 4))
        X[100:105] += np.random.default_rng(0).normal(size=(5, 4))
        with pytest.warns(FitWarning, match="the rows vary only within one stretch"):
            detector = PCADetector(1).fit(X)
        assert detector.limit_kind_ == "jackson-mudholkar"
        assert detector.partial_fit(np.ones((50, 4))).limit_kind_ == "jackson-mudholkar"


class TestRowsInOrderOfTime:
    def test_a_level_that_was_learned_is_no_incident(self):
        detector = PCADetector().fit(plant(1500, 0))
        assert detector.fitted.views.level is not None
        detector.partial_fit(plant(1500, 1, shift=6.0))
        new = plant(300, 2, shift=6.0)
        assert not any(one.start < 10 for one in detector.incidents(new))
        new[150:180, 3] += 8
        assert any(abs(one.start - 150) <= 1 for one in detector.incidents(new))

    def test_a_level_that_holds_goes_on_to_serve(self):
        detector = PCADetector().fit(plant(1500, 0))
        average, weight = detector.fitted.views.average, 1 - 0.5 ** (1 / detector.fitted.views.lengths.half_life)
        for seed in range(1, 5):
            rows = plant(40, seed)
            detector.partial_fit(rows)
            for row in rows:  # few: the average goes on
                average = average + weight * (row - average)
        assert detector.fitted.views.level is not None
        np.testing.assert_allclose(detector.fitted.views.average, average, rtol=1e-9)
