"""Later rows, judged by fits to earlier ones, and what a fit says about its false alarms."""

from dataclasses import replace

import numpy as np
import pytest

from culpa import FitWarning, PCADetector, load
from culpa.detecting.pieces import fit_moments
from culpa.fitting.diagnostics import rate_in_words
from culpa.fitting.later import alike, spacing_of
from culpa.models.blocks import BlockMoments
from culpa.scores.stated import OverTime


def autoregressive(n, d, phi, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    for t in range(1, n):
        x[t] = phi * x[t - 1] + np.sqrt(1 - phi**2) * x[t]
    return x


def drifting(n=2000, d=5, seed=0):
    """The mean leaves its level for good in the last tenth."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[-n // 10 :, 0] += 6
    return X


def fitted(X, **parameters):
    with pytest.warns(FitWarning):
        return PCADetector(**parameters).fit(X)


def test_stretches_by_definition():
    X = drifting()
    over_time = fitted(X).fitted.over_time
    flagged = []
    for start, end in ((200, 400), (400, 800), (800, 1400), (1400, 2000)):
        earlier = PCADetector().fit(X[:start])
        flagged += (earlier.predict(X[start:end]) == -1).reshape(-1, 200).sum(axis=1).tolist()
    assert over_time.n.tolist() == [200] * 9
    assert over_time.flagged.tolist() == flagged
    assert flagged[-1] > 150
    assert over_time.spacing == 1


def test_rows_that_drift_are_said_to():
    detector = fitted(drifting())
    rate = detector.false_alarm_rate_
    assert rate > 0.05
    assert rate.low <= 0.01
    assert rate.high > 0.9
    words = rate_in_words(detector.fitted)
    assert words.startswith("rows drift: expect ")
    assert "above the 99% limit instead of" in words
    assert words.endswith("%; incidents and reports use a limit that follows")
    assert rate_in_words(PCADetector(trim=0.01).fit(drifting()).fitted).endswith("%")  # these have no views


def test_one_bad_stretch_does_not_make_the_usual_rate_another_one():
    """Held-out rows exceed the limit as often as later rows on average: nothing is expected "instead"."""
    fitted = PCADetector(confidence=0.9).fit(np.random.default_rng(1).normal(size=(2000, 5))).fitted
    flagged = np.array([0.0] * 8 + [60.0])
    fitted = replace(fitted, over_time=OverTime(1.0, np.full(9, 200.0), flagged))
    assert fitted.stated.later is not None
    words = rate_in_words(fitted)
    assert "instead of" not in words
    assert words.startswith("held-out rows: 10% above the 90% limit, but rows drift: 95% interval ")


def test_what_exceeded_another_limit_does_not_count():
    rng = np.random.default_rng(1)
    detector = PCADetector(confidence=0.9).fit(rng.normal(size=(2000, 5)))
    assert detector.fitted.over_time.flagged.sum() > 100
    detector.confidence = 0.99
    detector.calibrate_limit(rng.normal(size=(2000, 5)))
    detector.partial_fit(rng.normal(size=(500, 5)))
    assert detector.fitted.stated.later is None


@pytest.mark.parametrize("n", [2000, 40_000])
def test_faults_that_were_trimmed_are_no_drift(n):
    X = np.random.default_rng(1).normal(size=(n, 5))
    X[n * 8 // 10 : n * 9 // 10, 0] += 15  # a tenth, of which no row counts
    detector = PCADetector(trim=0.12).fit(X)
    assert detector.fitted.stated.later is None
    assert len(detector.fitted.over_time.n) == 8


def test_rows_that_do_not_drift_are_not():
    X = np.random.default_rng(1).normal(size=(2000, 5))
    detector = PCADetector().fit(X)
    assert detector.fitted.stated.later is None
    assert rate_in_words(detector.fitted).startswith("held-out rows: ")
    assert float(detector.false_alarm_rate_) == detector.fitted.stated.held_out.value


@pytest.mark.parametrize(("phi", "n"), [(0.9, 100), (0.9, 200), (0.98, 500), (0.98, 1000)])
def test_nothing_is_promised_by_rows_that_are_worth_few(phi, n):
    for seed in range(3):
        with pytest.warns(FitWarning, match="no rate of false alarms can be promised"):
            detector = PCADetector().fit(autoregressive(n, 5, phi, seed))
        assert detector.false_alarm_rate_ is None
        assert rate_in_words(detector.fitted).startswith(f"no rate of false alarms can be promised: {n:,} rows, which")


@pytest.mark.filterwarnings("ignore::culpa.FitWarning")
@pytest.mark.parametrize(("phi", "n"), [(0.0, 200), (0.5, 200), (0.5, 1000), (0.9, 500), (0.9, 1000)])
def test_the_interval_covers_the_realised_rate(phi, n):
    """Of 20 fits each, the interval contains the rate of new rows with the same distribution in 17 or more."""
    covered = 0
    for seed in range(20):
        detector = PCADetector().fit(autoregressive(n, 4, phi, seed))
        new = np.random.default_rng([seed, 1]).normal(size=(4000, 4))
        low, high = detector.false_alarm_rate_[1:]
        covered += low <= (detector.predict(new) == -1).mean() <= high
    assert covered >= 17


def test_alike():
    assert alike(np.random.default_rng(0).normal(size=(5000, 3))) == pytest.approx(1.0, abs=0.01)
    X = autoregressive(20_000, 3, 0.9, 0)
    assert alike(X) == pytest.approx((1 + 0.81) / (1 - 0.81), rel=0.1)
    X[:, 1] = 5.0  # a column that does not vary says nothing
    X[::7, 2] = np.nan
    assert alike(X) == pytest.approx((1 + 0.81) / (1 - 0.81), rel=0.15)


def test_rows_in_batches_and_model_files_say_the_same(tmp_path):
    X = drifting()
    whole = fitted(X)
    with pytest.warns(FitWarning):
        batches = fit_moments(PCADetector(), BlockMoments.of(X), batches=np.array_split(X, 7))
    whole.save(tmp_path / "model.culpa")
    for other in (batches, load(tmp_path / "model.culpa")):
        assert other.false_alarm_rate_ == pytest.approx(whole.false_alarm_rate_)
        np.testing.assert_array_equal(other.fitted.over_time.flagged, whole.fitted.over_time.flagged)


def test_long_tables_are_thinned():
    assert [spacing_of(n) for n in (0, 31_999, 32_000, 1_000_000)] == [1, 1, 2, 62]
    X = drifting(40_000, 3)
    over_time = fitted(X).fitted.over_time
    assert over_time.spacing == 2
    assert over_time.n.sum() == 18_000
    assert over_time.flagged[-1] > 1500
