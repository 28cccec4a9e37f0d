"""Dirty training rows, and learning piece by piece."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import culpa
from culpa import PPCA, PCADetector
from culpa.fitting.trimming import spe_and_t2


def clean(n=500, seed=0, d=10, p=3):
    rng = np.random.default_rng(seed)
    W = np.random.default_rng(42).normal(size=(p, d))
    return rng.normal(size=(n, p)) @ W + 0.4 * rng.normal(size=(n, d))


def dirty(share, n=500, seed=0):
    """Rows of which a share has one of the first three columns off by six standard deviations."""
    X, rng = clean(n, seed), np.random.default_rng(seed + 1000)
    at = rng.choice(n, int(share * n), replace=False)
    which = rng.integers(3, size=len(at))
    X[at, which] += 6 * X.std(axis=0)[which]
    return X, np.sort(at)


class TestAbnormalRows:
    def test_those_above_the_limits_of_spe_and_t2(self):
        X, _ = dirty(0.02)
        frame = pd.DataFrame(X, columns=[f"s{i}" for i in range(10)], index=[f"day {i}" for i in range(500)])
        detector = PCADetector(3, limit="formula").fit(frame)
        found = detector.abnormal_training_rows_
        chart = detector.statistics(frame)
        table = detector.control_limits(training=True)
        beta = table[(table["statistic"] == "t2") & (table["confidence"] == 0.99)]["limit"].item()
        above = np.flatnonzero(chart["spe_flag"] | (chart["t2"] > beta))
        assert sorted(found["position"]) == above.tolist()
        assert found["row"].tolist() == [f"day {i}" for i in found["position"]]
        assert found["times_limit"].is_monotonic_decreasing
        assert (found["times_limit"] > 1).all()
        assert not found["trimmed"].any()
        np.testing.assert_allclose(found["spe"], chart["spe"].iloc[found["position"]])
        np.testing.assert_allclose(found["t2"], chart["t2"].iloc[found["position"]])

    def test_planted_rows_are_listed_first(self):
        X, at = dirty(0.02)
        found = PCADetector(3).fit(X).abnormal_training_rows_
        assert sorted(found["position"][: len(at)]) == at.tolist()

    def test_few_of_clean_rows(self):
        assert len(PCADetector(3).fit(clean(5000)).abnormal_training_rows_) < 0.03 * 5000

    def test_a_row_that_pulled_a_component_towards_itself_is_found_by_t2(self):
        X = clean(200)
        X[17] += 300 * np.ones(10)
        found = PCADetector(3).fit(X).abnormal_training_rows_
        assert found["position"].iloc[0] == 17
        assert found["spe"].iloc[0] < found["spe"].max()

    def test_rows_with_missing_cells(self):
        X, at = dirty(0.02)
        X[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
        X[3] = np.nan
        detector = PCADetector(3).fit(X)
        found = detector.abnormal_training_rows_
        assert 3 not in found["position"].tolist()
        assert np.isin(at, found["position"]).mean() > 0.8

    def test_model_files_keep_them(self, tmp_path):
        X, _ = dirty(0.04)
        for labels in (None, pd.date_range("2024-03-05", periods=500, freq="min")):
            detector = PCADetector(3, trim=0.05).fit(pd.DataFrame(X, index=labels).rename(columns="s{}".format))
            detector.save(tmp_path / "m")
            again = culpa.load(tmp_path / "m")
            wanted = detector.abnormal_training_rows_
            if labels is not None:
                wanted = wanted.assign(row=wanted["row"].astype(str))
            pd.testing.assert_frame_equal(again.abnormal_training_rows_, wanted, check_dtype=False)
            again.save(tmp_path / "n")
            assert culpa.load(tmp_path / "n").limit_ == detector.limit_


class TestTrim:
    def test_it_is_the_fit_to_what_is_left(self):
        X, at = dirty(0.05)
        detector = PCADetector(3, trim=0.05, limit="formula").fit(X)
        trimmed = detector.abnormal_training_rows_.query("trimmed")["position"]
        assert sorted(trimmed) == at.tolist()
        same = PCADetector(3, limit="formula").fit(np.delete(X, at, axis=0))
        np.testing.assert_allclose(detector.model_.covariance_, same.model_.covariance_, rtol=1e-12, atol=1e-12)
        assert detector.limit_ == pytest.approx(same.limit_)
        assert detector.model_.n_samples_ == 475

    @pytest.mark.parametrize("share", [0.02, 0.05, 0.1])
    def test_it_finds_the_planted_rows_and_mends_the_detector(self, share):
        new = clean(5000, seed=7)
        faulty = new[:1000] + 1.5 * new.std(axis=0) * (np.arange(10) == 1)
        plain, trimmed = [], []
        for seed in range(5):
            X, at = dirty(share, seed=seed)
            detector = PCADetector(3, trim=share).fit(X)
            assert np.isin(at, detector.abnormal_training_rows_.query("trimmed")["position"]).mean() > 0.9
            assert (detector.predict(new) == -1).mean() < 0.025
            trimmed.append((detector.predict(faulty) == -1).mean())
            plain.append((PCADetector(3).fit(X).predict(faulty) == -1).mean())
        assert np.mean(trimmed) > np.mean(plain) + 0.1

    @pytest.mark.parametrize("statistic", ["spe", "t2"])
    @pytest.mark.parametrize(("share", "trim"), [(0.0, 0.05), (0.0, 0.1), (0.02, 0.05), (0.05, 0.05), (0.05, 0.1)])
    def test_false_alarms_of_an_empirical_limit(self, share, trim, statistic):
        """1% whether or not the trimmed rows were faults; the quantile of the kept rows alone gives up to 7%."""
        new, alarms, detected = clean(20_000, seed=10**6), [], []
        faulty = new[:500] + 3 * new.std(axis=0) * (np.arange(10) == 1)
        for seed in range(20):
            X, _ = dirty(share, seed=seed)
            detector = PCADetector(3, trim=trim, limit="empirical", statistic=statistic).fit(X)
            alarms.append((detector.predict(new) == -1).mean())
            detected.append((detector.predict(faulty) == -1).mean())
        assert 0.008 < np.mean(alarms) < 0.014
        assert statistic == "t2" or np.mean(detected) > 0.99

    def test_refitting_beats_trimming_once(self, monkeypatch):
        X, at = dirty(0.1)
        settled = PCADetector(3, trim=0.1, limit="formula").fit(X).limit_
        monkeypatch.setattr("culpa.fitting.trimming._MOST_REFITS", 1)
        once = PCADetector(3, trim=0.1, limit="formula").fit(X).limit_
        ideal = PCADetector(3, limit="formula").fit(np.delete(X, at, axis=0)).limit_
        assert abs(settled - ideal) < abs(once - ideal)

    def test_it_settles(self):
        """One more round leaves out the same rows."""
        X, _ = dirty(0.1)
        detector = PCADetector(3, trim=0.1).fit(X)
        excess = spe_and_t2(detector.fitted.deciding_model, X, 0.99)[2]
        left_out = detector.abnormal_training_rows_.query("trimmed")["position"]
        assert set(np.argsort(excess)[-50:]) == set(left_out)

    def test_missing_cells_and_empty_rows(self):
        X, _ = dirty(0.05)
        X[np.random.default_rng(0).random(X.shape) < 0.02] = np.nan
        X[[0, 1]] = np.nan
        detector = PCADetector(3, trim=0.05).fit(X)
        assert detector.abnormal_training_rows_["trimmed"].sum() == 25
        assert np.isfinite(detector.limit_)

    def test_so_small_a_share_trims_nothing(self):
        X = clean(50)
        assert PCADetector(3, trim=0.01).fit(X).limit_ == PCADetector(3).fit(X).limit_

    @pytest.mark.parametrize("trim", [-0.1, 0.5, 1, "much", None])
    def test_mistakes(self, trim):
        with pytest.raises(ValueError, match="trim must be a number of at least 0 and below"):
            PCADetector(trim=trim).fit(clean(50))


class TestPartialFit:
    @pytest.mark.parametrize("shift", [0.0, 1e6])
    @pytest.mark.parametrize(
        "options", [{}, {"scale": False}, {"n_components": 3}, {"statistic": "combined"}, {"statistic": "spe"}]
    )
    def test_equal_to_fit_on_all_rows(self, options, shift):
        X = clean(700) * np.arange(1, 11) + shift
        options = {"limit": "formula"} | options  # held-out scores are of other blocks than those of fit
        pieces = PCADetector(**options)
        for a, b in ((0, 40), (40, 41), (41, 400), (400, 700)):
            pieces.partial_fit(X[a:b])
        started = PCADetector(**options).fit(X[:300]).partial_fit(X[300:])
        # the number of components is still the one that the first 300 rows chose
        again = {"n_components": started.model_.n_components_, "statistic": started.fitted.statistic.name}
        kept = PCADetector(**options | again).fit(X)
        for other, whole in ((pieces, PCADetector(**options).fit(X)), (started, kept)):
            assert other.model_.n_samples_ == 700
            for name in ("mean_", "scale_", "limit_"):
                np.testing.assert_allclose(getattr(other, name), getattr(whole, name), rtol=1e-9)
            for name in ("components_", "covariance_", "explained_variance_", "noise_variance_"):
                actual, wanted = getattr(other.model_, name), getattr(whole.model_, name)
                np.testing.assert_allclose(actual, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())
            new = clean(50, 3) * np.arange(1, 11) + shift
            np.testing.assert_allclose(other.score_samples(new), whole.score_samples(new), rtol=1e-9)
            np.testing.assert_allclose(other.explain(new).values, whole.explain(new).values, rtol=1e-7, atol=1e-9)

    @pytest.mark.parametrize("shift", [0.0, 1e6])
    def test_ppca(self, shift):
        X = clean(300) + shift
        whole = PPCA(3).fit(X)
        for pieces in (PPCA(3).partial_fit(X[:20]).partial_fit(X[20:]), PPCA(3).fit(X[:150]).partial_fit(X[150:])):
            np.testing.assert_allclose(pieces.mean_, whole.mean_, rtol=1e-12)
            np.testing.assert_allclose(pieces.get_covariance(), whole.get_covariance(), rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(pieces.components_, whole.components_, rtol=1e-8, atol=1e-9)

    def test_after_loading(self, tmp_path):
        X = clean(600)
        PCADetector(3, limit="formula").fit(X[:400]).save(tmp_path / "m")
        again = culpa.load(tmp_path / "m").partial_fit(X[400:])
        whole = PCADetector(3, limit="formula").fit(X)
        np.testing.assert_allclose(again.limit_, whole.limit_, rtol=1e-9)
        np.testing.assert_allclose(again.score_samples(X), whole.score_samples(X), rtol=1e-9)

    def test_names_are_those_of_the_first_rows(self):
        frame = pd.DataFrame(clean(200), columns=[f"s{i}" for i in range(10)])
        detector = PCADetector(3).partial_fit(frame[:100]).partial_fit(frame[100:])
        assert list(detector.feature_names_in_) == list(frame.columns)
        assert detector.explain(frame[:1]).feature_names[0] == "s0"
        with pytest.raises(ValueError, match="feature names"):
            detector.partial_fit(frame.rename(columns={"s0": "other"}))

    def test_fit_starts_anew(self):
        X = clean(300)
        detector = PCADetector(3).partial_fit(X[:100]).fit(X[100:])
        assert detector.limit_ == PCADetector(3).fit(X[100:]).limit_
        assert PPCA(3).partial_fit(X[:100]).fit(X[100:]).n_samples_ == 200

    def test_no_list_of_abnormal_rows(self):
        X = clean(300)
        detector = PCADetector(3).fit(X[:100]).partial_fit(X[100:])
        assert detector.abnormal_training_rows_ is None

    def test_a_conformal_limit_can_follow(self):
        detector = PCADetector(3).partial_fit(clean(300)).calibrate_limit(clean(200, 1))
        assert detector.limit_kind_ == "conformal"
        # a new model, a new limit: from the 200 rows, and from these
        detector.partial_fit(clean(50, 2))
        assert detector.limit_kind_ == "held-out"
        assert detector.fitted.limits.held_out(detector.fitted.statistic).n == 250

    def test_missing_cells_are_refused(self):
        X = clean(100)
        X[7, 2] = np.nan
        for estimator in (PCADetector(3), PPCA(3)):
            with pytest.raises(
                ValueError, match="column 'x2' of X is NaN in row 7, but partial_fit needs complete rows"
            ):
                estimator.partial_fit(X)
            fitted = clone(estimator).fit(X)
            with pytest.raises(ValueError, match="fitted by expectation-maximisation"):
                fitted.partial_fit(clean(50))

    @pytest.mark.parametrize(
        ("options", "what"),
        [({"limit": "empirical"}, "limit='empirical'"), ({"limit": "conformal"}, "conformal"), ({"trim": 0.1}, "trim")],
    )
    def test_what_needs_all_rows_has_no_partial_fit(self, options, what):
        detector = PCADetector(**options)
        assert not hasattr(detector, "partial_fit")
        with pytest.raises(AttributeError) as caught:
            detector.partial_fit(clean(50))
        assert what in str(caught.value.__cause__)
        assert "needs all training rows at once. Use fit" in str(caught.value.__cause__)

    def test_too_few_rows(self):
        with pytest.raises(ValueError, match="too few"):
            PCADetector().partial_fit(clean(1))
