"""From rows to limits: held-out scores by definition, in batches as at once, with missing cells, trimming and lags."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import culpa
from culpa import PCADetector
from culpa.columns import History
from culpa.datasets import load_wine_outliers
from culpa.detecting.pieces import fit_moments
from culpa.models.blocks import BlockGatherer, BlockMoments
from culpa.scores import discoveries


def plant(n, seed, d=8, p=3):
    rng = np.random.default_rng(seed)
    W = np.random.default_rng(42).normal(size=(p, d))
    return (rng.normal(size=(n, p)) @ W + 0.4 * rng.normal(size=(n, d))) * np.arange(1, d + 1) + 100


def distances(X, others, p):
    """Squared Mahalanobis distances of rows under PPCA of others, by explicit matrices."""
    mean, std = others.mean(axis=0), others.std(axis=0, ddof=1)
    values, vectors = np.linalg.eigh(np.cov(((others - mean) / std).T))
    noise = values[:-p].mean()
    covariance = noise * np.eye(len(values)) + (vectors[:, -p:] * (values[-p:] - noise)) @ vectors[:, -p:].T
    z = (X - mean) / std
    return np.einsum("ij,ij->i", z, np.linalg.solve(covariance, z.T).T)


def held_out(X, p):
    """The distances of every tenth under the model of the others."""
    cuts = [len(X) * k // 10 for k in range(11)]
    pairs = itertools.pairwise(cuts)
    return np.concatenate([distances(X[a:b], np.delete(X, np.arange(a, b), axis=0), p) for a, b in pairs])


def lagging(n, seed, d=5):
    """Rows each of which resembles the one before."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2))
    for at in range(1, n):
        z[at] = 0.8 * z[at - 1] + 0.6 * z[at]
    return z @ np.random.default_rng(7).normal(size=(2, d)) + 0.3 * rng.normal(size=(n, d))


class TestDefault:
    def test_limit_by_definition(self):
        X, new = plant(203, 0), plant(50, 1)
        detector = PCADetector().fit(X)
        p = detector.model_.n_components_
        scores = held_out(X, p)
        assert (detector.limit_kind_, detector.fitted.statistic.name) == ("held-out", "mahalanobis")
        assert detector.limit_ == pytest.approx(np.sort(scores)[math.ceil(204 * 0.99) - 1], rel=1e-9)
        assert detector.false_alarm_rate_.value == (scores > detector.limit_ * (1 + 1e-9)).mean()
        np.testing.assert_allclose(-detector.score_samples(new), distances(new, X, p), rtol=1e-9)

    def test_limit_of_wine_by_definition(self):
        wine = load_wine_outliers()
        train = wine.X[wine.y == 0][:109]
        detector = PCADetector().fit(train)
        scores = held_out(train, detector.model_.n_components_)
        assert detector.limit_ == pytest.approx(scores.max(), rel=1e-9)  # the 109th of 109

    def test_what_auto_means(self):
        X = plant(200, 0)
        few = PCADetector().fit(X[:29])
        assert (few.limit_kind_, few.false_alarm_rate_) == ("box", None)
        assert PCADetector().fit(X[:30]).limit_kind_ == "held-out"
        assert PCADetector(3).fit(X).fitted.statistic.name == "spe"
        assert PCADetector(0.9).fit(X).fitted.statistic.name == "spe"
        assert PCADetector(game="retraining").fit(X).fitted.statistic.name == "spe"
        by_error = PCADetector(statistic="spe").fit(X)
        assert by_error.model_.n_components_ == PCADetector(0.95).fit(X).model_.n_components_
        assert by_error.fitted.components is None

    def test_realised_false_alarms_are_within_what_was_asked(self):
        """Over many draws of training and new rows, for rows that no formula fits, and few rows for their width."""

        def rows(n, d, seed):
            rng = np.random.default_rng(seed)
            W = np.random.default_rng(d).normal(size=(3, d))
            return rng.standard_t(4, size=(n, 3)) @ W + 0.4 * rng.standard_t(4, size=(n, d))

        for n, d, confidence in ((60, 10, 0.95), (150, 10, 0.99), (60, 80, 0.95)):
            rates, formula = [], []
            for seed in range(20):
                X, new = rows(n, d, seed), rows(400, d, 10_000 + seed)
                rates.append((PCADetector(confidence=confidence).fit(X).predict(new) == -1).mean())
                by_formula = PCADetector(confidence=confidence, limit="formula").fit(X)
                formula.append((by_formula.predict(new) == -1).mean())
            asked, error = 1 - confidence, np.std(rates) / math.sqrt(len(rates))
            assert 0.5 * asked - 2 * error < np.mean(rates) < 1.3 * asked + 2 * error
            assert np.mean(formula) > 2 * asked


class TestPasses:
    """Rows read in batches, once for the moments and once for the scores."""

    @staticmethod
    def in_batches(detector, X, size, lags=0):
        history = History(lags, X.shape[1])
        joined = [history.join(X[at : at + size]) for at in range(0, len(X), size)]
        rows = np.concatenate(joined)[lags:]
        gatherer = BlockGatherer(rows.shape[1])
        batches = [rows[at : at + size] for at in range(0, len(rows), size)]
        for batch in batches:
            gatherer.add(batch)
        return fit_moments(detector, gatherer.finish(), None, batches)

    @pytest.mark.parametrize(
        "options", [{}, {"scale": False}, {"n_components": 2}, {"statistic": "combined"}, {"confidence": 0.999}]
    )
    @pytest.mark.parametrize(("n", "size"), [(97, 10), (900, 64), (5000, 700)])
    def test_equal_to_all_rows_at_once(self, n, size, options):
        X = plant(n, 3)
        whole = PCADetector(**options).fit(X)
        batches = self.in_batches(PCADetector(**options), X, size)
        assert batches.limit_kind_ == "held-out"
        assert batches.limit_ == pytest.approx(whole.limit_, rel=1e-9)
        assert batches.model_.n_components_ == whole.model_.n_components_
        assert batches.false_alarm_rate_ == pytest.approx(whole.false_alarm_rate_)
        np.testing.assert_allclose(batches.control_limits()["limit"], whole.control_limits()["limit"], rtol=1e-9)

    @pytest.mark.parametrize(("n", "size"), [(300, 17), (5000, 1000)])
    @pytest.mark.parametrize("lags", [1, 3])
    def test_with_lags(self, n, size, lags):
        X = lagging(n, 0)
        whole = PCADetector(lags=lags).fit(X)
        batches = self.in_batches(PCADetector(lags=lags), X, size, lags)
        assert batches.limit_kind_ == "held-out"
        assert batches.limit_ == pytest.approx(whole.limit_, rel=1e-9)
        assert batches.model_.n_components_ == whole.model_.n_components_

    def test_the_same_number_of_components_where_several_are_nearly_as_likely(self):
        """Few rows with noise of several sizes: scaling by all rows instead of the others would often choose another."""
        for seed in range(40):
            rng = np.random.default_rng(seed)
            n, d = int(rng.integers(30, 120)), int(rng.integers(3, 15))
            X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + rng.normal(size=(n, d)) * rng.uniform(
                0.2, 2, size=d
            )
            batches = self.in_batches(PCADetector(), X, 7)
            whole = PCADetector().fit(X)
            assert batches.model_.n_components_ == whole.model_.n_components_
            assert batches.limit_ == pytest.approx(whole.limit_, rel=1e-9)

    def test_rows_read_once_have_a_limit_by_formula(self):
        X = plant(300, 0)
        once = fit_moments(PCADetector(), BlockMoments.of(X))
        assert once.limit_kind_ == "box"
        assert once.limit_ == pytest.approx(PCADetector(limit="formula").fit(X).limit_, rel=1e-9)
        assert once.model_.n_components_ == PCADetector().fit(X).model_.n_components_


class TestOtherRows:
    def test_rows_next_to_another_block_do_not_count_with_lags(self):
        """They share past values with rows that the model has seen; by definition, on the lag matrix."""
        X, lags = lagging(400, 1), 2
        detector = PCADetector(4, lags=lags, statistic="mahalanobis").fit(X)
        past = np.column_stack([X[2:], X[1:-1], X[:-2]])
        scores, cuts = held_out(past, 4), [len(past) * k // 10 for k in range(11)]
        inner = np.ones(len(past), dtype=bool)
        for cut in cuts[1:-1]:
            inner[cut - lags : cut + lags] = False
        counted = np.sort(scores[inner])
        assert detector.limit_ == pytest.approx(counted[math.ceil((len(counted) + 1) * 0.99) - 1], rel=1e-9)
        assert detector.fitted.limits.held_out(detector.fitted.statistic).n == 398 - 9 * 2 * lags

    @pytest.mark.parametrize("share", [0.01, 0.1])
    def test_missing_cells(self, share):
        """At the same share of missing cells in new rows."""
        rates = []
        for seed in range(12):
            X, new = plant(300, seed), plant(1000, 1000 + seed)
            for table, key in ((X, 1), (new, 2)):
                table[np.random.default_rng([seed, key]).random(table.shape) < share] = np.nan
            detector = PCADetector(confidence=0.95).fit(X)
            assert detector.limit_kind_ == "held-out"
            rates.append((detector.predict(new) == -1).mean())
        assert 0.03 < np.mean(rates) < 0.07

    def test_missing_cells_by_refitting_from_scratch(self):
        """The few steps of EM that forget a block come close to the fit of the others alone."""
        X = plant(300, 5)
        X[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
        detector = PCADetector(3, statistic="mahalanobis").fit(X)
        scores = []
        for k in range(10):
            rows = np.arange(30 * k, 30 * k + 30)
            others = PCADetector(3, statistic="mahalanobis", limit="formula").fit(np.delete(X, rows, axis=0))
            scores.append(-others.score_samples(X[rows]))
        expected = np.sort(np.concatenate(scores))[math.ceil(301 * 0.99) - 1]
        assert detector.limit_ == pytest.approx(expected, rel=0.01)

    def test_rows_without_any_number(self):
        X = plant(200, 0)
        holes = np.vstack([X[:100], np.full((20, 8), np.nan), X[100:]])
        detector = PCADetector(3).fit(holes)
        assert detector.limit_kind_ == "held-out"
        assert detector.fitted.limits.held_out(detector.fitted.statistic).n == 200

    @pytest.mark.parametrize("dirty", [0.0, 0.05])
    def test_trimming(self, dirty):
        """The rows that were trimmed do not count if they are gross faults; if they are not, they do."""
        rates = []
        for seed in range(12):
            X, new = plant(300, seed), plant(1000, 1000 + seed)
            at = np.random.default_rng(seed).choice(300, int(dirty * 300), replace=False)
            X[at, 0] += 12 * X[:, 0].std()
            detector = PCADetector(confidence=0.95, trim=0.05).fit(X)
            assert detector.limit_kind_ == "held-out"
            rates.append((detector.predict(new) == -1).mean())
        assert 0.03 < np.mean(rates) < 0.07

    def test_lags(self):
        rates = []
        for seed in range(12):
            detector = PCADetector(confidence=0.95, lags=2).fit(lagging(400, seed))
            assert detector.limit_kind_ == "held-out"
            rates.append((detector.predict(lagging(1000, 1000 + seed)) == -1).mean())
        assert 0.03 < np.mean(rates) < 0.07

    def test_all_at_once(self):
        X = lagging(400, 0)
        X[np.random.default_rng(0).random(X.shape) < 0.02] = np.nan
        detector = PCADetector(confidence=0.95, lags=1, trim=0.03).fit(X)
        assert detector.limit_kind_ == "held-out"
        assert 0.02 < (detector.predict(lagging(3000, 1)) == -1).mean() < 0.09


class TestStatistics:
    def test_p_values_by_counting(self):
        X, new = plant(203, 0), plant(30, 1)
        new[:5, 2] += 200
        detector = PCADetector().fit(X)
        p = detector.model_.n_components_
        known, found = held_out(X, p), detector.statistics(new)
        expected = [(1 + (known >= score).sum()) / 204 for score in distances(new, X, p)]
        np.testing.assert_allclose(found["p_value"], expected, rtol=1e-12)
        assert list(found.columns[-5:]) == [
            "mahalanobis",
            "mahalanobis_limit",
            "mahalanobis_flag",
            "p_value",
            "anomaly",
        ]
        np.testing.assert_array_equal(found["mahalanobis_flag"], found["anomaly"])

    def test_a_formula_has_none(self):
        detector = PCADetector(limit="formula").fit(plant(203, 0))
        assert detector.statistics(plant(5, 1))["p_value"].isna().all()
        with pytest.raises(ValueError, match=r"fdr=... needs p-values, but a formula limit does not provide them"):
            detector.statistics(plant(5, 1), fdr=0.1)

    @pytest.mark.parametrize("fdr", [0.05, 0.3])
    def test_discoveries(self, fdr):
        new = plant(100, 1)
        new[:20, 2] += 200
        detector = PCADetector().fit(plant(2000, 0))
        found = detector.statistics(new, fdr=fdr)
        np.testing.assert_array_equal(found["discovery"], discoveries(found["p_value"].to_numpy(), fdr))
        assert found["discovery"][:20].all()
        assert found["discovery"][20:].sum() <= 0.5 * fdr * 100
        assert "discovery" not in detector.statistics(new)

    @pytest.mark.parametrize("fdr", [0, 1, 5, "much"])
    def test_mistakes(self, fdr):
        detector = PCADetector().fit(plant(100, 0))
        with pytest.raises(ValueError, match="fdr must be a number above 0 and below 1"):
            detector.statistics(plant(5, 1), fdr=fdr)

    def test_model_files_keep_them(self, tmp_path):
        detector, new = PCADetector().fit(plant(203, 0)), plant(40, 1)
        detector.save(tmp_path / "m")
        again = culpa.load(tmp_path / "m")
        pd.testing.assert_frame_equal(again.statistics(new, fdr=0.2), detector.statistics(new, fdr=0.2))
        assert again.false_alarm_rate_ == detector.false_alarm_rate_
        assert again.limit_ == detector.limit_
        np.testing.assert_array_equal(again.fitted.components.log_likelihood, detector.fitted.components.log_likelihood)
        assert again.fitted.components.n_components == detector.model_.n_components_
