"""Limits against published numbers and independent computations; what conformal limits promise."""

import itertools
import math

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import culpa
from culpa import PCADetector, scores
from culpa.detecting.pieces import fit_moments
from culpa.models import Moments, as_fitted_model
from culpa.scores import limits
from culpa.scores.held_out import HeldOutScores, conformal, empirical
from culpa.scores.limits import Limits, control_limit

CONFIDENCES = (0.95, 0.99)


def imhof(weights, x):
    """P(sum of weighted chi-squares > x) by numerical inversion of the characteristic function (Imhof, 1961)."""
    weights = np.asarray(weights, dtype=float)

    def integrand(u):
        angle = 0.5 * np.arctan(weights * u).sum() - 0.5 * x * u
        return np.sin(angle) / (u * np.prod((1 + (weights * u) ** 2) ** 0.25))

    # beyond this point the integrand's envelope is below 1e-9
    end = 1e-9 ** (-1 / (1 + len(weights) / 2)) / np.exp(np.log(weights).mean())
    steps = np.linspace(0, min(end, 2e4 / x), 500)
    parts = [integrate.quad(integrand, a, b, limit=200)[0] for a, b in itertools.pairwise(steps)]
    return 0.5 + sum(parts) / math.pi


def sample(n, seed, tails=None, d=8, p=3):
    """Rows of d sensors that follow p hidden states; ``tails`` makes them heavy-tailed."""
    rng = np.random.default_rng(seed)
    W = np.random.default_rng(42).normal(size=(p, d))
    X = rng.normal(size=(n, p)) @ W + 0.4 * rng.normal(size=(n, d))
    return X if tails is None else X / np.sqrt(rng.chisquare(tails, size=(n, 1)) / tails)


class TestPublished:
    def test_imhof_finds_his_own_table(self):
        """Imhof (1961), Table 1: Q1 = 0.6, 0.3 and 0.1 times chi-squares."""
        for x, probability in ((0.1, 0.9458), (0.7, 0.5064), (2.0, 0.1240)):
            assert imhof([0.6, 0.3, 0.1], x) == pytest.approx(probability, abs=5e-5)

    def test_jacksons_ballistic_missiles(self):
        """Jackson (1991), A User's Guide to Principal Components: four characteristics, two components, Q = 140.45.

        He rounds h0 to .291 on the way, which moves the third digit after the point.
        """
        covariance = np.array(
            [
                [102.74, 88.67, 67.04, 54.06],
                [88.67, 142.74, 86.56, 80.03],
                [67.04, 86.56, 84.57, 69.42],
                [54.06, 80.03, 69.42, 99.06],
            ]
        )
        roots = np.linalg.eigvalsh(covariance)[::-1]
        np.testing.assert_allclose(roots, [335.34, 48.03, 29.33, 16.41], atol=0.006)
        assert limits.jackson_mudholkar(roots[2:], 0.95) == pytest.approx(140.45, rel=5e-4)

    def test_chi_square_tables(self):
        """Any table of chi-square: Box's limit of equal weights."""
        for h, confidence, value in ((1, 0.95, 3.841), (5, 0.95, 11.070), (10, 0.99, 23.209), (30, 0.99, 50.892)):
            assert limits.box(np.ones(h), confidence) == pytest.approx(value, abs=6e-4)

    def test_f_tables(self):
        """Any table of F: F(.95; 2, 10) = 4.10, F(.99; 3, 20) = 4.94, F(.95; 5, 40) = 2.45."""
        for p, rest, confidence, value in ((2, 10, 0.95, 4.10), (3, 20, 0.99, 4.94), (5, 40, 0.95, 2.45)):
            n = p + rest
            expected = p * (n - 1) * (n + 1) / (n * rest) * value
            assert limits.f_limit(p, n, confidence) == pytest.approx(expected, rel=2e-3)


class TestIndependent:
    @pytest.mark.parametrize("confidence", CONFIDENCES)
    @pytest.mark.parametrize(
        ("spectrum", "jackson_mudholkar", "box"),
        [
            (np.ones(9), 0.02, 1e-6),
            (0.9 ** np.arange(9), 0.05, 0.08),
            (np.array([29.33, 16.41]), 0.1, 0.06),
            (np.array([0.5, 0.3, 0.1, 0.05]), 0.2, 0.2),
        ],
    )
    def test_exact_distribution(self, spectrum, jackson_mudholkar, box, confidence):
        """The exact probability of a false alarm at the limits, relative to the one asked for."""
        for formula, tolerance in (("jackson_mudholkar", jackson_mudholkar), ("box", box)):
            limit = getattr(limits, formula)(spectrum, confidence)
            assert imhof(spectrum, limit) / (1 - confidence) == pytest.approx(1, abs=tolerance)

    @pytest.mark.parametrize("confidence", CONFIDENCES)
    def test_f_and_beta_by_another_route(self, confidence):
        """Quantiles of both from mpmath's incomplete beta function."""

        def cdf_of_f(x, a, b):
            return mpmath.betainc(a / 2, b / 2, 0, a * x / (a * x + b), regularized=True)

        p, n = 3, 25
        limit = limits.f_limit(p, n, confidence) * n * (n - p) / (p * (n**2 - 1))
        assert float(cdf_of_f(limit, p, n - p)) == pytest.approx(confidence, abs=1e-9)
        share = limits.beta_limit(p, n, confidence) * n / (n - 1) ** 2
        inside = mpmath.betainc(p / 2, (n - p - 1) / 2, 0, share, regularized=True)
        assert float(inside) == pytest.approx(confidence, abs=1e-9)

    @pytest.mark.parametrize("confidence", CONFIDENCES)
    def test_t2_of_new_and_of_training_rows(self, confidence):
        """T2 of few Gaussian rows straight from the definition: new rows follow F, training rows Beta."""
        rng = np.random.default_rng(0)
        n, p, runs = 15, 3, 20_000
        X = rng.normal(size=(runs, n, p))
        centre = X.mean(axis=1, keepdims=True)
        S = np.einsum("rni,rnj->rij", X - centre, X - centre) / (n - 1)
        new = rng.normal(size=(runs, p)) - centre[:, 0]
        old = X[:, 0] - centre[:, 0]
        of_new, of_old = (np.einsum("ri,ri->r", x, np.linalg.solve(S, x[..., None])[..., 0]) for x in (new, old))
        three_errors = 3 * math.sqrt(confidence * (1 - confidence) / runs)
        assert (of_new > limits.f_limit(p, n, confidence)).mean() == pytest.approx(1 - confidence, abs=three_errors)
        assert (of_old > limits.beta_limit(p, n, confidence)).mean() == pytest.approx(1 - confidence, abs=three_errors)
        # the wrong one for the wrong rows is far off
        assert (of_new > limits.beta_limit(p, n, confidence)).mean() > 2 * (1 - confidence)

    @pytest.mark.parametrize("confidence", CONFIDENCES)
    def test_combined_index_after_yue_and_qin(self, confidence):
        """g chi2_h with g = tr((S Phi)^2) / tr(S Phi) and h = tr(S Phi)^2 / tr((S Phi)^2), by explicit matrices."""
        detector = PCADetector(3, statistic="combined", limit="formula", confidence=confidence).fit(sample(400, 0))
        table = detector.control_limits([confidence]).set_index("statistic")["limit"]
        P, S = detector.model_.components_.T, detector.model_.covariance_
        phi = (np.eye(8) - P @ P.T) / table["spe"]
        phi += P / detector.model_.explained_variance_ @ P.T / table["t2"]
        one, two = np.trace(S @ phi), np.trace(S @ phi @ S @ phi)
        assert detector.limit_ == pytest.approx(two / one * stats.chi2.ppf(confidence, one**2 / two), rel=1e-9)

    @pytest.mark.parametrize(
        "options",
        [
            {"n_components": 2, "shrinkage": 0.5},
            {"n_components": 2, "shrinkage": 0.3, "scale": False},
            {"n_components": 4, "shrinkage": 0.1},
            {"n_components": 4, "noise": 10.0},
        ],
    )
    @pytest.mark.parametrize("n", [50, 300])
    def test_t2_of_models_whose_variances_are_not_the_samples(self, options, n):
        """F alone gives 3.3%, 1.7%, .5% and .2% false alarms instead of 1%."""
        new, detector = sample(20_000, 10**6, d=5, p=2), PCADetector(statistic="t2", limit="formula", **options)
        alarms = [(detector.fit(sample(n, seed, d=5, p=2)).predict(new) == -1).mean() for seed in range(20)]
        assert 0.008 < np.mean(alarms) < 0.014

    @pytest.mark.parametrize("scale", [1e60, 1e-60])
    def test_units_do_not_matter(self, scale):
        """Powers of eigenvalues neither overflow nor vanish."""
        spectrum = np.array([3.0, 1.0, 0.5, 0.1])
        for formula in (limits.jackson_mudholkar, limits.box):
            assert formula(scale**2 * spectrum, 0.99) == pytest.approx(scale**2 * formula(spectrum, 0.99), rel=1e-12)
        by_formula = PCADetector(3, scale=False, limit="formula")
        plain, scaled = (clone(by_formula).fit(factor * sample(100, 0)) for factor in (1.0, scale))
        assert scaled.limit_ == pytest.approx(scale**2 * plain.limit_, rel=1e-9)


class TestConformal:
    @pytest.mark.parametrize(("n", "confidence"), [(19, 0.95), (99, 0.99), (100, 0.99), (9, 0.9), (1000, 0.7)])
    def test_rank_by_counting(self, n, confidence):
        """The smallest score that at least (n + 1) confidence scores do not exceed, counted one by one."""
        values = np.random.default_rng(n).exponential(size=n)
        limit = conformal(HeldOutScores.of(values), confidence)
        enough = [v for v in values if sum(values <= v) >= round((n + 1) * confidence, 9)]
        assert limit == min(enough)

    @pytest.mark.parametrize(("confidence", "needed"), [(0.95, 19), (0.99, 99), (0.999, 999), (0.9, 9)])
    def test_how_many_rows_it_takes(self, confidence, needed):
        conformal(HeldOutScores.of(np.arange(needed, dtype=float)), confidence)
        with pytest.raises(ValueError, match=rf"needs at least {needed} held-out rows, got {needed - 1}\."):
            conformal(HeldOutScores.of(np.arange(needed - 1, dtype=float)), confidence)

    def test_false_alarms_stay_within_the_bound_over_400_simulations(self):
        """Heavy-tailed rows that no formula fits; every simulation draws training, held-out and new rows."""
        alarms, by_formula = [], []
        for seed in range(400):
            X = sample(400, seed, tails=4)
            detector = PCADetector(3, limit="conformal", holdout=0.25).fit(X[:400])
            new = sample(300, 10_000 + seed, tails=4)
            values = -detector.score_samples(new)
            alarms.append((values > detector.limit_).mean())
            by_formula.append(
                (
                    values
                    > Limits(detector.fitted.deciding_model)(scores.spe(detector.fitted.deciding_model.gaussian), 0.99)
                ).mean()
            )
        error = np.std(alarms) / math.sqrt(len(alarms))
        assert np.mean(alarms) <= 0.01 + 2 * error
        assert np.mean(alarms) == pytest.approx(1 / 101, abs=3 * error)  # what theory says for 100 held-out rows
        assert np.mean(by_formula) > 0.03

    def test_the_last_rows_are_held_out(self):
        X = sample(500, 0)
        detector = PCADetector(3, limit="conformal").fit(X)
        same = PCADetector(3).fit(X[:400])
        np.testing.assert_allclose(detector.score_samples(X), same.score_samples(X))
        assert detector.limit_ == np.sort(-same.score_samples(X[400:]))[99 - 1 + 1]  # the 100th of 100
        assert detector.limit_kind_ == "conformal"
        assert same.calibrate_limit(X[400:]).limit_ == detector.limit_
        assert same.limit_kind_ == "conformal"
        assert (same.predict(X[400:]) == 1).all()

    def test_too_few_rows_say_how_many_are_needed(self):
        with pytest.raises(ValueError, match="needs at least 99 held-out rows, got 98"):
            PCADetector(limit="conformal").fit(sample(490, 0))
        with pytest.raises(ValueError, match="needs at least 99 held-out rows, got 50"):
            PCADetector().fit(sample(490, 0)).calibrate_limit(sample(50, 1))

    def test_rows_without_numbers_do_not_count(self):
        held = sample(120, 1)
        held[:30] = np.nan
        with pytest.raises(ValueError, match="got 90"):
            PCADetector(3).fit(sample(300, 0)).calibrate_limit(held)

    def test_too_few_rows_to_learn_from(self):
        with pytest.raises(ValueError, match=r"holdout=0.5 leaves 1 of 3 rows to learn from\. Pass more rows"):
            PCADetector(limit="conformal", holdout=0.5).fit(sample(3, 0))

    @pytest.mark.parametrize("learn", ["fit", "fit_moments"])
    def test_a_failed_fit_changes_nothing(self, learn, monkeypatch):
        """Neither a new detector nor one that was fitted before is left with half of what it needs."""

        def fit(detector, X):
            return detector.fit(X) if learn == "fit" else fit_moments(detector, Moments.of(X))

        fresh, known = PCADetector(3), fit(PCADetector(3), sample(300, 0))
        new = sample(20, 1)
        before = known.score_samples(new)
        with monkeypatch.context() as patch:
            patch.setattr(Limits, "__call__", lambda *_, **__: 1 / 0)
            for detector in (fresh, known):
                with pytest.raises(ZeroDivisionError):
                    fit(detector, 2 * sample(300, 7, d=9))
        np.testing.assert_array_equal(known.score_samples(new), before)
        with pytest.raises(NotFittedError):
            fresh.predict(new)

    def test_a_failed_calibration_changes_nothing(self):
        detector = PCADetector(3, limit="formula").fit(sample(300, 0))
        before = detector.limit_
        with pytest.raises(ValueError, match="held-out"):
            detector.calibrate_limit(sample(10, 1))
        assert (detector.limit_, detector.limit_kind_) == (before, "jackson-mudholkar")


class TestOneBlock:
    @pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99, 0.999])
    @pytest.mark.parametrize("n", [1, 7, 1000, 50_000, 300_000])
    def test_empirical_quantile(self, n, confidence):
        values = np.random.default_rng(0).exponential(size=n)
        assert empirical(HeldOutScores.of(values), confidence) == pytest.approx(
            np.quantile(values, confidence), rel=1e-12
        )

    def test_only_the_largest_are_kept(self):
        tail = HeldOutScores.of(np.arange(300_000.0))
        assert len(tail.largest) == 37_500
        with pytest.raises(ValueError, match="Choose a higher confidence"):
            empirical(tail, 0.5)

    def test_nothing_to_go_by(self):
        with pytest.raises(ValueError, match="no training row has a score"):
            empirical(HeldOutScores.of(np.full(3, np.nan)), 0.9)


class TestTable:
    def test_both_levels_of_spe_and_t2(self):
        detector = PCADetector(3, limit="formula").fit(sample(300, 0))
        table = detector.control_limits()
        assert list(table.columns) == ["statistic", "confidence", "kind", "limit"]
        assert table["statistic"].tolist() == ["spe", "spe", "t2", "t2"]
        assert table["confidence"].tolist() == [0.95, 0.99, 0.95, 0.99]
        assert table["kind"].tolist() == ["jackson-mudholkar"] * 2 + ["f"] * 2
        assert table["limit"][1] == detector.limit_
        assert table["limit"][3] == pytest.approx(limits.f_limit(3, 300, 0.99), rel=1e-12)
        training = detector.control_limits(training=True)
        assert training["kind"].tolist() == ["jackson-mudholkar"] * 2 + ["beta"] * 2
        assert training["limit"][3] == pytest.approx(limits.beta_limit(3, 300, 0.99), rel=1e-12)

    @pytest.mark.parametrize("kind", ["auto", "formula", "jackson-mudholkar", "box", "empirical", "conformal"])
    @pytest.mark.parametrize("statistic", ["spe", "mse", "t2", "mahalanobis", "combined"])
    def test_the_detectors_own_limit_is_among_them(self, statistic, kind):
        detector = PCADetector(3, statistic=statistic, limit=kind, confidence=0.9).fit(sample(300, 0))
        table = detector.control_limits()
        own = table[(table["statistic"] == statistic) & (table["confidence"] == 0.9)]
        assert own["limit"].tolist() == [detector.limit_]
        assert own["kind"].tolist() == [detector.limit_kind_]
        shown = detector.statistics(sample(5, 1))
        for name in ("spe", "t2"):
            line = table[(table["statistic"] == name) & (table["confidence"] == 0.9)]
            assert line["limit"].tolist() == [shown[f"{name}_limit"][0]]

    def test_one_confidence_needs_no_list(self):
        detector = PCADetector(3).fit(sample(300, 0))
        pd.testing.assert_frame_equal(detector.control_limits(0.999), detector.control_limits([0.999]))
        assert sorted(set(detector.control_limits(0.999)["confidence"])) == [0.99, 0.999]

    def test_what_rows_are_too_few_for_is_left_out(self):
        detector = PCADetector(3, limit="conformal", confidence=0.9).fit(sample(300, 0))  # 60 held out
        assert detector.control_limits()["confidence"].tolist() == [0.9, 0.95, 0.9, 0.95]

    def test_mistakes(self):
        detector = PCADetector(3).fit(sample(300, 0))
        with pytest.raises(ValueError, match="confidences must be a number above 0 and below 1"):
            detector.control_limits([95])
        with pytest.raises(ValueError, match="limit='f' is for statistic='t2'"):
            PCADetector(limit="f").fit(sample(100, 0))
        with pytest.raises(ValueError, match="limit='beta' is for score='t2'"):
            control_limit(scores.spe(detector.fitted.deciding_model.gaussian), as_fitted_model(detector), 0.99, "beta")

    @pytest.mark.parametrize("kind", ["auto", "empirical", "conformal", "box"])
    def test_model_files_keep_them(self, tmp_path, kind):
        detector = PCADetector(3, limit=kind, statistic="combined").fit(sample(600, 0))
        detector.save(tmp_path / "m")
        again = culpa.load(tmp_path / "m")
        pd.testing.assert_frame_equal(again.control_limits(), detector.control_limits())
        assert again.limit_kind_ == detector.limit_kind_
        calibrated = PCADetector(3).fit(sample(600, 0)).calibrate_limit(sample(200, 1))
        calibrated.save(tmp_path / "m")
        again = culpa.load(tmp_path / "m")
        assert (again.limit_, again.limit_kind_, again.limit) == (calibrated.limit_, "conformal", "auto")


@pytest.mark.parametrize("statistic", ["t2", "spe"])
@pytest.mark.parametrize("training", [False, True])
def test_formulas_know_what_given_columns_cost(statistic, training):
    """Six given columns and 50 rows: their effect takes six degrees of freedom, and is itself uncertain."""
    effect, mixing = (np.random.default_rng(seed).normal(size=(n, 6)) for seed, n in ((1, 6), (2, 2)))

    def rows(seed, n):
        rng = np.random.default_rng(seed)
        given = rng.normal(size=(n, 6))
        return np.hstack([given, given @ effect + rng.normal(size=(n, 2)) @ mixing + 0.5 * rng.normal(size=(n, 6))])

    rates = []
    for seed in range(40):
        X, options = rows(seed, 50), {"statistic": statistic, "limit": "formula", "confidence": 0.95}
        detector = PCADetector(2, given=list(range(6)), **options).fit(X)
        limits = detector.control_limits([], training=training).set_index("statistic")["limit"]
        rates.append(
            (detector.statistics(X if training else rows(1000 + seed, 500))[statistic] > limits[statistic]).mean()
        )
    assert (0.0 if (statistic, training) == ("spe", True) else 0.03) <= np.mean(rates) < 0.09
