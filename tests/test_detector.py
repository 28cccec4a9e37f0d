"""PCADetector: scaling, limits, flags and statistics."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.ensemble import IsolationForest

import culpa
from culpa import PPCA, PCADetector, scores
from culpa._core.words import share
from culpa.datasets import load_wine_outliers
from culpa.models import as_fitted_model
from culpa.scores import control_limit, limits, named_score


def plant(n, seed, d=8, p=3):
    rng = np.random.default_rng(seed)
    W = np.random.default_rng(42).normal(size=(p, d))
    return (rng.normal(size=(n, p)) @ W + 0.4 * rng.normal(size=(n, d))) * np.arange(1, d + 1) + 100


@pytest.mark.parametrize("statistic", ["spe", "mse", "t2", "mahalanobis", "combined"])
@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_false_alarms_are_as_rare_as_promised_by_formula(statistic, confidence):
    detector = PCADetector(3, statistic=statistic, confidence=confidence, limit="formula").fit(plant(2000, 0))
    alarms = (detector.predict(plant(20_000, 1)) == -1).mean()
    # the moment-matched chi-square of the last two is an approximation: fair at 95%, a little low at 99%
    loose = statistic in ("mahalanobis", "combined") and confidence == 0.99
    assert alarms == pytest.approx(1 - confidence, rel=0.6 if loose else 0.25)


@pytest.mark.parametrize("statistic", ["spe", "mse", "t2", "mahalanobis", "combined"])
@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_false_alarms_are_as_rare_as_promised_by_default(statistic, confidence):
    detector = PCADetector(statistic=statistic, confidence=confidence).fit(plant(2000, 0))
    alarms = (detector.predict(plant(20_000, 1)) == -1).mean()
    assert detector.limit_kind_ == "held-out"
    error = np.sqrt(confidence * (1 - confidence) * (1 / 2000 + 1 / 20_000))  # of the quantile and of this count
    assert alarms == pytest.approx(1 - confidence, abs=3 * error)


def test_empirical_limit():
    X = plant(500, 0)
    detector = PCADetector(3, limit="empirical", confidence=0.9).fit(X)
    assert (detector.predict(X) == -1).mean() == pytest.approx(0.1, abs=0.01)


def test_scaling_is_undone():
    X = plant(200, 0)
    detector = PCADetector(3).fit(X)
    z = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    model = PPCA(3).fit(z)
    np.testing.assert_allclose(detector.residuals(X), model.residuals(z) * X.std(axis=0, ddof=1), atol=1e-10)
    np.testing.assert_allclose(detector.reconstruct(X) + detector.residuals(X), X)
    np.testing.assert_allclose(-detector.score_samples(X), (model.residuals(z) ** 2).sum(axis=1))
    raw = PCADetector(3, scale=False).fit(X)
    np.testing.assert_allclose(-raw.score_samples(X), (PPCA(3).fit(X).residuals(X) ** 2).sum(axis=1))


def test_conventions_of_scikit_learn():
    X = plant(200, 0)
    detector = PCADetector(3).fit(X)
    np.testing.assert_allclose(detector.decision_function(X), detector.score_samples(X) - detector.offset_)
    np.testing.assert_array_equal(detector.predict(X) == -1, -detector.score_samples(X) > detector.limit_)
    assert detector.limit_ == -detector.offset_


def test_statistics_table():
    train, new = plant(300, 0), pd.DataFrame(plant(5, 1)).rename(columns="s{}".format)
    detector = PCADetector(3).fit(pd.DataFrame(train).rename(columns="s{}".format))
    new.iloc[2, 4] += 50
    table = detector.statistics(new)
    charts = ["spe", "spe_limit", "spe_flag", "t2", "t2_limit", "t2_flag"]
    assert list(table.columns) == ["row", *charts, "p_value", "anomaly"]
    z = (new.to_numpy() - detector.mean_) / detector.scale_
    t = detector.model_.transform(pd.DataFrame(z, columns=new.columns))
    np.testing.assert_allclose(table["t2"], (t**2 / detector.model_.explained_variance_).sum(axis=1))
    np.testing.assert_allclose(table["spe"], -detector.score_samples(new))
    assert table["anomaly"].tolist() == [False, False, True, False, False]


def test_missing_cells_in_training_and_use():
    X = plant(400, 0)
    holes = X.copy()
    holes[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    detector = PCADetector(3).fit(holes)
    complete = PCADetector(3).fit(X)
    np.testing.assert_allclose(detector.model_.gaussian_.covariance, complete.model_.gaussian_.covariance, atol=0.15)
    bad = plant(5, 1)
    bad[:, 4] += 60
    bad[[0, 1], [0, 7]] = np.nan
    assert (detector.predict(bad) == -1).all()
    assert set(detector.explain(bad).top(1)["feature"]) == {"x4"}


def test_score_of_a_row_with_missing_cells_is_its_mean_over_what_they_could_be():
    detector = PCADetector(3).fit(plant(400, 0))
    gaussian = detector.fitted.deciding_model.gaussian
    score = scores.spe(gaussian)
    x = np.random.default_rng(0).normal(size=(1, 8))
    mean, covariance = gaussian.conditional(x, [0, 2, 3, 5, 6])
    draws = np.random.default_rng(1).multivariate_normal(mean[0], covariance, size=200_000)
    holes = x.copy()
    holes[0, [1, 4, 7]] = np.nan
    assert score(holes)[0] == pytest.approx(score(draws).mean(), rel=0.01)


class TestLimits:
    def test_jackson_mudholkar_by_hand(self):
        """The published formula, step by step, on a fixed spectrum."""
        spectrum = np.array([0.5, 0.3, 0.1, 0.05])
        t1, t2, t3 = spectrum.sum(), (spectrum**2).sum(), (spectrum**3).sum()
        h0 = 1 - 2 * t1 * t3 / (3 * t2**2)
        c = stats.norm.ppf(0.99)
        expected = t1 * (1 + c * np.sqrt(2 * t2 * h0**2) / t1 + t2 * h0 * (h0 - 1) / t1**2) ** (1 / h0)
        assert limits.jackson_mudholkar(spectrum, 0.99) == pytest.approx(expected, rel=1e-12)
        assert h0 > 0

    def test_fallback_when_h0_is_not_positive(self):
        spectrum = np.array([1.0] + [0.04] * 60)
        t1, t2, t3 = spectrum.sum(), (spectrum**2).sum(), (spectrum**3).sum()
        assert 1 - 2 * t1 * t3 / (3 * t2**2) <= 0
        assert limits.jackson_mudholkar(spectrum, 0.99) == limits.box(spectrum, 0.99)
        draws = np.random.default_rng(0).chisquare(1, size=(100_000, 61)) @ spectrum
        assert limits.box(spectrum, 0.99) == pytest.approx(np.quantile(draws, 0.99), rel=0.2)

    def test_box_is_exact_for_equal_eigenvalues(self):
        assert limits.box(np.full(7, 0.3), 0.95) == pytest.approx(0.3 * stats.chi2.ppf(0.95, 7))

    def test_f_limit(self):
        expected = 3 * (50**2 - 1) / (50 * 47) * stats.f.ppf(0.99, 3, 47)
        assert limits.f_limit(3, 50, 0.99) == pytest.approx(expected)
        assert limits.f_limit(3, 10**7, 0.99) == pytest.approx(limits.f_limit(3, None, 0.99), rel=1e-4)

    def test_mahalanobis_limit_is_chi_square(self):
        normal = as_fitted_model(PPCA(3).fit(plant(500, 0)).gaussian_)
        limit = control_limit(named_score("mahalanobis", normal), normal, 0.99)
        assert limit == pytest.approx(stats.chi2.ppf(0.99, 8), rel=1e-9)

    def test_perfect_reconstruction_has_limit_zero(self):
        assert limits.jackson_mudholkar(np.zeros(3), 0.99) == limits.box(np.zeros(3), 0.99) == 0.0

    def test_empirical_needs_training_scores(self):
        normal = as_fitted_model(PPCA(3).fit(plant(100, 0)))
        with pytest.raises(ValueError, match="unknown limit 'empirical'"):
            control_limit(named_score("spe", normal), normal, 0.99, "empirical")


def test_wine_is_the_published_data():
    wine = load_wine_outliers()
    detector = PCADetector(0.95).fit(wine.X[10:119])  # m_good - m_bad rows
    assert detector.model_.n_components_ == 10


class TestLimitsThatAreSetByHand:
    def test_a_number(self, tmp_path):
        X, new = plant(500, 0), plant(300, 1)
        detector = PCADetector(3, limit=2.5).fit(X)
        assert (detector.limit_, detector.offset_, detector.limit_kind_) == (2.5, -2.5, "given")
        np.testing.assert_array_equal(detector.predict(new) == -1, -detector.score_samples(new) > 2.5)
        assert detector.false_alarm_rate_.value == pytest.approx(
            (detector.predict(plant(20_000, 2)) == -1).mean(), rel=0.5
        )
        assert detector.fitted.coverage == 1 - detector.false_alarm_rate_.value
        assert f"above the {share(detector.fitted.coverage)} limit" in repr(detector.report(new))
        lines = detector.control_limits((0.9, 0.99))
        own = lines[(lines["statistic"] == "spe") & (lines["confidence"] == 0.99)]
        assert own[["kind", "limit"]].to_numpy().tolist() == [["given", 2.5]]
        assert set(lines["kind"]) == {"given", "held-out"}
        assert detector.statistics(new)["spe_limit"].eq(2.5).all()
        detector.save(tmp_path / "model.culpa")
        again = culpa.load(tmp_path / "model.culpa")
        assert (again.limit_, again.limit_kind_) == (2.5, "given")
        again.partial_fit(plant(100, 3))
        assert (again.limit_, again.limit_kind_) == (2.5, "given")
        assert again.calibrate_limit(plant(500, 4)).limit_kind_ == "conformal"

    def test_a_name_that_is_nearly_right(self):
        with pytest.raises(ValueError, match=r"got 'emprical'; did you mean 'empirical'\?"):
            PCADetector(limit="emprical").fit(plant(50, 0))

    @pytest.mark.parametrize("limit", [0, -1.0, np.nan, np.inf, True])
    def test_numbers_that_are_no_limits(self, limit):
        with pytest.raises(ValueError, match="limit must be a number above 0 or one of"):
            PCADetector(limit=limit).fit(plant(50, 0))

    @pytest.mark.parametrize("part", [0.01, 0.05, 0.3, 0.5])
    def test_contamination_flags_as_many_rows_as_scikit_learn_does(self, part):
        X = plant(400, 0)
        detector = PCADetector(3, contamination=part).fit(X)
        forest = IsolationForest(contamination=part, n_estimators=20, random_state=0).fit(X)
        assert (detector.predict(X) == -1).sum() == (forest.predict(X) == -1).sum()
        assert detector.offset_ == pytest.approx(np.percentile(detector.score_samples(X), 100 * part))
        assert detector.limit_kind_ == "contamination"

    def test_contamination_with_lags_smoothing_and_missing_cells(self):
        X = plant(400, 0)
        X[5, 2] = np.nan
        lagged = PCADetector(3, contamination=0.1, lags=1).fit(X)
        assert (lagged.predict(X)[1:] == -1).mean() == pytest.approx(0.1, abs=0.005)
        smoothed = PCADetector(3, contamination=0.1, smooth=0.3).fit(X)
        assert (smoothed.predict(X) == -1).mean() == pytest.approx(0.1, abs=0.01)

    def test_one_of_them(self):
        with pytest.raises(ValueError, match=r"limit=3.0 and contamination=0.1 both set the limit"):
            PCADetector(limit=3.0, contamination=0.1).fit(plant(50, 0))
        assert not hasattr(PCADetector(contamination=0.1), "partial_fit")


@pytest.mark.parametrize("kind", [np.array, pd.Index, pd.Series, tuple])
def test_given_columns_in_any_kind_of_list(kind):
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 5)), columns=list("abcde"))
    detector, plain = (PCADetector(2, given=given).fit(rows) for given in (kind(["a", "b"]), ["a", "b"]))
    assert detector.limit_ == plain.limit_
    assert detector.partial_fit(rows).limit_ == plain.partial_fit(rows).limit_


class TestAveragesAreThoseOfPredict:
    """Limits come from the averages that rows will be judged by: restarted at holes, and with the same cells missing."""

    @staticmethod
    def rows(*, holes, missing):
        rng = np.random.default_rng(3)
        hidden = np.zeros((600, 2))
        for i in range(1, 600):
            hidden[i] = 0.9 * hidden[i - 1] + rng.normal(size=2)
        X = hidden @ rng.normal(size=(2, 6)) + 0.5 * rng.normal(size=(600, 6))
        X[rng.random(X.shape) < missing] = np.nan
        minutes = np.arange(600) + 600 * (np.arange(600) // 50 if holes else 0)
        return pd.DataFrame(
            X, columns=list("abcdef"), index=pd.Timestamp("2024-01-01") + pd.to_timedelta(minutes, "min")
        )

    @pytest.mark.filterwarnings("ignore::UserWarning")
    @pytest.mark.parametrize("given", [None, ["a"]])
    @pytest.mark.parametrize(("holes", "missing"), [(True, 0.0), (False, 0.03), (True, 0.03)])
    def test_share_and_calibration(self, given, holes, missing):
        rows = self.rows(holes=holes, missing=missing)
        detector = PCADetector(smooth=0.1, given=given, contamination=0.05).fit(rows)
        scored = ~np.isnan(detector.score_samples(rows))
        flagged = detector.predict(rows)[scored] == -1
        assert flagged.sum() == pytest.approx(0.05 * scored.sum(), abs=1)
        score = -detector.calibrate_limit(rows).score_samples(rows)
        assert np.isclose(score, detector.limit_, rtol=1e-9, atol=0).any()
        held_out = PCADetector(smooth=0.1, given=given, confidence=0.95).fit(rows)
        assert (held_out.predict(rows)[scored] == -1).mean() < 0.07


@pytest.mark.parametrize("seed", range(12))
def test_tiny_tables_are_answered_or_refused_in_a_sentence(seed):
    """Random settings on a handful of rows and columns: an answer that adds up, or a ValueError; nothing else."""
    rng = np.random.default_rng(seed)
    answered = 0
    for _ in range(12):
        d, n = int(rng.integers(2, 5)), int(rng.integers(2, 40))
        options = {
            "n_components": [1, "auto", 0.8, "mle"][rng.integers(4)],
            "confidence": float(rng.choice([0.001, 0.5, 0.99, 0.9999])),
            "limit": ["auto", "formula", "empirical", "conformal"][rng.integers(4)],
            "lags": int(rng.integers(0, 2)),
        }
        X = rng.normal(size=(n, 1)) @ rng.normal(size=(1, d)) + 0.3 * rng.normal(size=(n, d))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                detector = PCADetector(**options).fit(X)
            except ValueError:
                continue
            method = str(rng.choice(["auto", "exact", "permutation", "kernel"]))
            why = detector.explain(X, method=method, progress=lambda *_: None)
            detector.predict(X)
            detector.incidents(X)
        np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-6, atol=1e-6)
        assert np.isfinite(detector.limit_)
        answered += 1
    assert answered
