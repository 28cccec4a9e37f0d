"""Exponentially weighted rows: by hand, in pieces, and in a detector."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

import culpa
from culpa import FitWarning, PCADetector
from culpa.columns import Smoother, smoothing
from culpa.columns.smoothing import clustering, dependence
from culpa.detecting.pieces import fit_moments, learn_features
from culpa.models import Moments
from culpa.scores import HeldOutScores


def by_hand(X, weight, reference):
    """Row by row, column by column."""
    result, shrink = np.full(X.shape, np.nan), np.zeros(X.shape)
    for j in range(X.shape[1]):
        z, t = 0.0, 0
        for i, cell in enumerate(X[:, j]):
            if not np.isnan(cell):
                z, t = weight * (cell - reference[j]) + (1 - weight) * z, t + 1
                shrink[i, j] = np.sqrt(weight / (2 - weight) * (1 - (1 - weight) ** (2 * t)))
                result[i, j] = reference[j] + z / shrink[i, j]
    return result


@given(
    n=st.integers(1, 30),
    weight=st.floats(0.01, 1.0),
    holes=st.floats(0, 0.5),
    cuts=st.lists(st.integers(0, 30), max_size=4),
    seed=st.integers(0, 100),
)
@settings(max_examples=60, deadline=None)
def test_equals_the_definition_in_any_pieces(n, weight, holes, cuts, seed):
    rng = np.random.default_rng(seed)
    X, reference = rng.normal(size=(n, 3)) + 5, np.array([5.0, 4.0, 6.0])
    X[rng.random(X.shape) < holes] = np.nan
    expected = by_hand(X, weight, reference)
    np.testing.assert_allclose(Smoother(weight, reference).join(X).rows, expected, rtol=1e-9)
    smoother = Smoother(weight, reference)
    pieces = [smoother.join(piece).rows for piece in np.split(X, sorted(min(cut, n) for cut in cuts))]
    np.testing.assert_allclose(np.concatenate(pieces), expected, rtol=1e-9)


def test_smoothed_rows_follow_the_model_of_single_rows_from_the_first_row_on():
    rng = np.random.default_rng(0)
    covariance = np.array([[2.0, 1.0], [1.0, 3.0]])
    for t in (1, 2, 30):
        runs = np.stack(
            [
                Smoother(0.2, np.zeros(2)).join(rng.multivariate_normal([0, 0], covariance, t)).rows[-1]
                for _ in range(4000)
            ]
        )
        np.testing.assert_allclose(np.cov(runs.T), covariance, atol=0.3)


def rows_of(n, seed=0, shift=0.0):
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(7)
    X = rng.normal(size=(n, 2)) @ fixed.normal(size=(2, 6)) + rng.normal(size=(n, 6)) + 10
    X[:, 2] += shift
    return pd.DataFrame(X, columns=list("abcdef"))


@pytest.fixture(scope="module")
def detector():
    return PCADetector(smooth=0.2).fit(rows_of(1000))


def test_limits_hold_for_smoothed_rows(detector):
    assert (detector.predict(rows_of(20_000, seed=1)) == -1).mean() == pytest.approx(0.01, abs=0.007)
    rate = detector.false_alarm_rate_
    assert rate.low <= 0.01 <= rate.high


def test_finds_a_small_fault_that_lasts(detector):
    alone = PCADetector().fit(rows_of(1000))
    faulty = rows_of(500, seed=3, shift=1.0)
    assert (detector.predict(faulty) == -1).mean() > 3 * (alone.predict(faulty) == -1).mean()
    why = detector.explain(faulty, rows=np.arange(100, 500))
    assert why.values.mean(axis=0).argmax() == 2
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-9)
    # averages in the user's units, near the shifted mean and not stretched
    assert why.data[:, 2].mean() == pytest.approx(11, abs=0.3)
    assert why.expected[:, 2].mean() == pytest.approx(10, abs=0.3)
    assert "averaged" in detector.incidents(faulty, gap=5)[0].sentence


def test_explains_the_smoothed_row_as_if_it_were_a_row(detector):
    plain = PCADetector(detector.model_.n_components_, statistic="mahalanobis").fit(rows_of(1000))
    new = rows_of(30, seed=2)
    reference = plain.fitted.deciding_model.centre
    stretched = Smoother(0.2, reference).join(new.to_numpy()).rows
    ours, theirs = detector.explain(new), plain.explain(pd.DataFrame(stretched, columns=new.columns))
    np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(ours.score_if_fixed, theirs.score_if_fixed, rtol=1e-8)


def test_model_file_round_trip(detector, tmp_path):
    detector.save(tmp_path / "m.culpa")
    again, rows = culpa.load(tmp_path / "m.culpa"), rows_of(50, seed=4)
    np.testing.assert_array_equal(again.score_samples(rows), detector.score_samples(rows))
    np.testing.assert_array_equal(again.explain(rows).data, detector.explain(rows).data)
    assert again.limit_ == detector.limit_
    assert again.false_alarm_rate_ == detector.false_alarm_rate_


def test_a_weight_of_one_is_no_smoothing():
    rows = rows_of(200)
    np.testing.assert_array_equal(
        PCADetector(smooth=1).fit(rows).score_samples(rows), PCADetector().fit(rows).score_samples(rows)
    )


def test_goes_with_given_and_not_with_lags():
    rows = rows_of(600)
    why = PCADetector(smooth=0.2, given=["a"]).fit(rows).explain(rows_of(20, seed=3))
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-9)
    with pytest.raises(ValueError, match="cannot be combined"):
        PCADetector(smooth=0.2, lags=1).fit(rows)
    for wrong in (0, 1.5, "a"):
        with pytest.raises(ValueError, match="smooth"):
            PCADetector(smooth=wrong).fit(rows)


def test_rows_must_follow_each_other(detector):
    with pytest.warns(UserWarning, match="smooth=0.2 starts anew where 10 rows or more are missing"):
        detector.predict(rows_of(30).iloc[[0, 3, 20, 21]])


def test_conformal_and_empirical_limits_are_of_smoothed_rows():
    rows = rows_of(1500)
    for limit in ("empirical", "conformal"):
        detector = PCADetector(3, smooth=0.2, limit=limit, statistic="mahalanobis").fit(rows)
        assert (detector.predict(rows_of(5000, seed=2)) == -1).mean() < 0.04
    calibrated = (
        PCADetector(3, smooth=0.2, limit="formula", statistic="mahalanobis")
        .fit(rows)
        .calibrate_limit(rows_of(1000, seed=5))
    )
    assert (calibrated.predict(rows_of(5000, seed=2)) == -1).mean() < 0.04


def test_limits_of_averages_hold_where_rows_resemble_each_other(tmp_path):
    """Few independent averages are left of 500 rows that follow each other: a plain quantile would be far too low."""
    rates = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows = lfilter([1.0], [1.0, -0.7], rng.normal(size=(4500, 8)), axis=0)[500:] @ rng.normal(size=(8, 8))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)
            detector = PCADetector(smooth=0.2, confidence=0.95).fit(rows[:500])
        rates.append((detector.predict(rows[500:]) == -1).mean())
    assert np.mean(rates) < 0.1
    detector.save(tmp_path / "smooth.culpa")
    assert culpa.load(tmp_path / "smooth.culpa").limit_ == detector.limit_


def test_few_averages_are_warned_about():
    rows = lfilter([1.0], [1.0, -0.7], np.random.default_rng(0).normal(size=(500, 5)), axis=0)
    with pytest.warns(FitWarning, match="rows, which after smoothing are worth about"):
        PCADetector(smooth=0.1).fit(rows)


def with_holes(n, seed, weight=0.9):
    """Rows that resemble each other, in stretches of 40 that are hours apart."""
    rng = np.random.default_rng(seed)
    rows = lfilter([1.0], [1.0, -weight], rng.normal(size=(n + 500, 6)), axis=0)[500:]
    place = np.arange(n) + 1000 * (np.arange(n) // 40)
    rows += rng.normal(size=(n // 40 + 1, 6))[np.arange(n) // 40] * 3  # what was before a hole says nothing
    times = pd.Timestamp("2024-01-01") + pd.to_timedelta(place, unit="min")
    return pd.DataFrame(rows, columns=list("abcdef"), index=times)


def fitted(options, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PCADetector(2, smooth=0.2, statistic="mahalanobis", **options).fit(rows)


def scores(detector, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return -detector.score_samples(rows)


@pytest.mark.parametrize("missing", [False, True])
def test_limits_of_a_fit_are_those_of_averages_that_start_anew_after_holes(missing):
    rows = with_holes(2000, 0)
    if missing:
        rows.iloc[::7, 1] = np.nan
    found = fitted({"confidence": 0.9}, rows)
    values, block = [], np.arange(len(rows)) // 200
    for k in range(10):
        others = fitted({"limit": "formula"}, rows[block != k])
        values.append(scores(others, rows[block == k])[10:])  # 2 / 0.2 rows settle
    held_out = np.concatenate(values)
    alone = HeldOutScores.of(
        held_out, np.repeat(np.arange(10), 190), clustering=clustering(0.2), dependence=dependence(0.2, held_out)
    )
    assert found.limit_ == pytest.approx(alone.limit(0.9).value, rel=0.02 if missing else 1e-9)
    with pytest.warns(UserWarning, match="starts anew"):
        seen = found.fitted.model.standardise(found.fitted.read(rows).features)
    np.testing.assert_allclose(found.fitted.normal_range.high, np.nanmax(seen, axis=0))


def test_quantiles_of_averages_are_of_those_that_start_anew_after_holes():
    rows = with_holes(2000, 0)
    found = fitted({"limit": "empirical", "confidence": 0.9}, rows)
    assert found.limit_ == pytest.approx(np.quantile(scores(found, rows), 0.9), rel=1e-9)
    calibrated = fitted({"limit": "conformal", "confidence": 0.9}, rows)
    held_out = np.sort(scores(calibrated, rows[1600:]))
    assert calibrated.limit_ == pytest.approx(held_out[int(np.ceil(401 * 0.9)) - 1], rel=1e-9)


def test_only_fit_smooths(tmp_path):
    rows = rows_of(300)
    detector = PCADetector(smooth=0.2).fit(rows)
    for call in (
        lambda: detector.partial_fit(rows),
        lambda: learn_features(detector, rows.to_numpy()),
        lambda: fit_moments(detector, Moments.of(rows.to_numpy())),
    ):
        with pytest.raises((ValueError, AttributeError)) as told:
            call()
        assert "smooth=0.2 needs all training rows at once" in f"{told.value} {told.value.__cause__}"
    assert PCADetector(smooth=1).partial_fit(rows).partial_fit(rows).model_.n_samples_ == 600


@pytest.mark.parametrize("weight", [0.2, 0.05])
def test_few_averages_do_not_flag_more_than_asked(weight):
    """Independent rows: a quantile of few averages that resemble each other lies too low on average."""
    rates = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        W = rng.normal(size=(2, 6))
        rows, new = (rng.normal(size=(n, 2)) @ W + rng.normal(size=(n, 6)) for n in (300, 6000))
        detector = fitted({"confidence": 0.95}, rows).set_params(smooth=weight).fit(rows)
        rates.append((detector.predict(new) == -1).mean())
    assert np.mean(rates) < 0.05 + 1.5 * np.std(rates) / 5


def test_running_averages_are_the_same_by_both_ways(monkeypatch):
    rng = np.random.default_rng(0)
    rows, before = rng.normal(size=(3000, 5)) * 10.0 ** np.arange(5), rng.normal(size=5)
    expected = lfilter([0.1], [1.0, -0.9], rows, axis=0, zi=0.9 * before[None])[0]
    for loaded in ({}, {"scipy.signal": None}):
        monkeypatch.setattr(smoothing, "sys", SimpleNamespace(modules=loaded))
        np.testing.assert_array_equal(smoothing.running_average(rows, before, 0.1), expected)
