"""Weights of training rows: whole weights are repeated rows, others are proportions."""

import numpy as np
import pytest

from culpa import PCADetector
from culpa.fitting.weighting import read_weights


def plant(n, seed, d=6, p=2):
    rng = np.random.default_rng(seed)
    W = np.random.default_rng(42).normal(size=(p, d))
    return (rng.normal(size=(n, p)) @ W + 0.4 * rng.normal(size=(n, d))) * np.arange(1, d + 1) + 100


@pytest.mark.parametrize("limit", ["formula", "box", "empirical"])
@pytest.mark.parametrize("n_components", [2, 0.9])
def test_whole_weights_are_repeated_rows(n_components, limit):
    X, weights = plant(200, 0), np.random.default_rng(1).integers(0, 4, size=200)
    weighted = PCADetector(n_components, limit=limit).fit(X, sample_weight=weights)
    repeated = PCADetector(n_components, limit=limit).fit(np.repeat(X, weights, axis=0))
    for name in ("mean_", "scale_", "limit_"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-10)
    np.testing.assert_allclose(weighted.score_samples(X), repeated.score_samples(X), rtol=1e-7)
    one, other = (detector.fitted.normal_range.to_arrays() for detector in (weighted, repeated))
    for name, array in one.items():
        np.testing.assert_allclose(array, other[name], rtol=1e-7)


def test_held_out_limits_count_weights():
    """Blocks of equal weight have the same boundaries after repeating, so even held-out limits agree."""
    X, weights = plant(500, 0), np.tile([1, 3, 2, 2, 2], 100)
    weighted = PCADetector(confidence=0.95).fit(X, sample_weight=weights)
    repeated = PCADetector(confidence=0.95).fit(np.repeat(X, weights, axis=0))
    assert weighted.limit_kind_ == repeated.limit_kind_ == "held-out"
    assert weighted.model_.n_components_ == repeated.model_.n_components_
    assert weighted.limit_ == pytest.approx(repeated.limit_, rel=1e-8)
    assert weighted.false_alarm_rate_.value == pytest.approx(repeated.false_alarm_rate_.value)


def test_equal_weights_change_nothing():
    X = plant(300, 0)
    plain = PCADetector().fit(X)
    for weight in (np.ones(300), np.full(300, 0.37), 1.0):
        weighted = PCADetector().fit(X, sample_weight=weight)
        np.testing.assert_allclose(weighted.score_samples(X), plain.score_samples(X), rtol=1e-8)
        assert weighted.limit_ == pytest.approx(plain.limit_, rel=0.02)


def test_proportions_alone_matter():
    X, weights = plant(300, 0), np.random.default_rng(1).uniform(0.1, 2, size=300)
    one, other = (PCADetector().fit(X, sample_weight=factor * weights) for factor in (1.0, 7.3))
    np.testing.assert_allclose(one.score_samples(X), other.score_samples(X), rtol=1e-9)
    assert one.limit_ == pytest.approx(other.limit_, rel=1e-9)
    n = weights.sum() ** 2 / (weights**2).sum()
    assert one.model_.n_samples_ == pytest.approx(n)
    np.testing.assert_allclose(one.mean_, weights @ X / weights.sum())
    np.testing.assert_allclose(
        one.scale_, np.sqrt(weights @ (X - one.mean_) ** 2 / weights.sum() * n / (n - 1)), rtol=1e-10
    )


def test_rows_of_little_weight_hardly_matter():
    X = plant(400, 0)
    X[::4] += 50 * np.random.default_rng(3).normal(size=(100, 6))
    doubted = np.tile([1e-5, 1, 1, 1], 100)
    clean = PCADetector(2).fit(X[doubted == 1])
    weighted, plain = PCADetector(2).fit(X, sample_weight=doubted), PCADetector(2).fit(X)
    assert abs(weighted.scale_ / clean.scale_ - 1).max() < 0.2 < abs(plain.scale_ / clean.scale_ - 1).max()


@pytest.mark.parametrize(
    ("options", "weights", "message"),
    [
        ({"trim": 0.1}, 1, "sample_weight cannot be combined with trim"),
        ({"robust": "cells"}, 1, "sample_weight cannot be combined with robust"),
        ({"contamination": 0.1}, 1, "sample_weight cannot be combined with contamination"),
        ({"smooth": 0.3}, 1, "sample_weight cannot be combined with smooth"),
        ({"limit": "conformal"}, 1, "sample_weight cannot be combined with limit='conformal'"),
        ({}, [1, 2], r"sample_weight.shape == \(2,\), expected \(100,\)"),
        ({}, np.full(100, -1), "sample_weight must hold finite numbers that are not negative"),
        ({}, np.zeros(100), "sample_weight is zero for all rows"),
    ],
)
def test_what_is_refused(options, weights, message):
    with pytest.raises(ValueError, match=message):
        PCADetector(**options).fit(plant(100, 0), sample_weight=weights)


def test_missing_cells_are_refused():
    X = plant(100, 0)
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="is NaN in row 3, but sample_weight needs complete rows"):
        PCADetector().fit(X, sample_weight=np.ones(100))
    assert read_weights(2, 3).tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "options", [{}, {"limit": "formula"}, {"limit": "empirical"}, {"n_components": 2}, {"scale": False}]
)
@pytest.mark.parametrize("n", [25, 130, 2500])
def test_whole_weights_have_the_limit_of_repeated_rows(options, n):
    rng = np.random.default_rng(n)
    X, weights = rng.normal(size=(n, 2)) @ rng.normal(size=(2, 6)) + rng.normal(size=(n, 6)), rng.integers(0, 5, n)
    counted = PCADetector(**options).fit(X, sample_weight=weights)
    repeated = PCADetector(**options).fit(np.repeat(X, weights, axis=0))
    assert counted.model_.n_components_ == repeated.model_.n_components_
    assert counted.limit_kind_ == repeated.limit_kind_
    assert counted.limit_ == pytest.approx(repeated.limit_)


def test_weights_with_lags_are_judged_by_held_out_rows():
    rng, mixing = np.random.default_rng(0), np.random.default_rng(1).normal(size=(3, 20))

    def rows(n):
        return rng.normal(size=(n, 3)) @ mixing + 0.5 * rng.normal(size=(n, 20))

    X, new = rows(300), rows(4000)
    plain, ones = PCADetector(lags=2).fit(X), PCADetector(lags=2).fit(X, sample_weight=np.ones(300))
    assert ones.limit_ == pytest.approx(plain.limit_)
    weighted = PCADetector(lags=2).fit(X, sample_weight=rng.integers(0, 3, 300))
    assert weighted.limit_kind_ == "held-out"
    assert (weighted.predict(new) == -1).mean() < 0.02


def test_positions_of_abnormal_rows_with_weights():
    X = np.random.default_rng(0).normal(size=(100, 4))
    X[60] += [30, -30, 30, -30]
    for lags in (0, 1):
        table = PCADetector(1, lags=lags).fit(X, sample_weight=np.arange(100) % 3 > 0).abnormal_training_rows_
        assert 60 not in table["position"].tolist()  # 60 weighs nothing
        X[61] = X[60]
        table = PCADetector(1, lags=lags).fit(X, sample_weight=np.arange(100) % 3 > 0).abnormal_training_rows_
        assert table["position"].iloc[0] - 61 in range(lags + 1)


def test_abnormal_rows_are_where_they_are_in_the_table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 4)) + 0.1 * rng.normal(size=(300, 4))
    X[200, 0] += 5.0
    weights = np.ones(300)
    weights[:50] = 0.0
    for lags in (0, 1):
        worst = PCADetector(2, lags=lags).fit(X, sample_weight=weights).abnormal_training_rows_
        assert worst["position"][0] in (200, 201)
        assert (worst["position"] == worst["row"]).all()
