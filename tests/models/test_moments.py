"""Moments of weighted rows, however they come in pieces; models and blocks that forget."""

from itertools import pairwise

import numpy as np
import pytest

import culpa
from culpa import PPCA, PCADetector
from culpa.models import Moments
from culpa.models.blocks import BlockMoments


def rows(n, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(n, 3)) @ np.random.default_rng(7).normal(size=(3, 6)) + 0.5 * rng.normal(size=(n, 6)) + shift
    )


@pytest.mark.parametrize("shift", [0.0, 1e8])
@pytest.mark.parametrize("forget", [0.001, 0.02, 0.5])
def test_moments_of_weighted_rows(forget, shift):
    X = rows(400, shift=shift)
    moments = Moments.of(X[:0])
    for start, stop in [(0, 1), (1, 150), (150, 150), (150, 400)]:
        moments = moments.then(X[start:stop], forget)
    weights = (1 - forget) ** np.arange(399, -1, -1)
    assert moments.n == pytest.approx(weights.sum())
    mean = np.average(X - shift, axis=0, weights=weights)
    np.testing.assert_allclose(moments.mean - shift, mean, rtol=1e-10, atol=1e-7 if shift else 1e-12)
    centred = (X - shift) - mean
    scatter = (centred * weights[:, None]).T @ centred
    np.testing.assert_allclose(moments.scatter, scatter, rtol=1e-7 if shift else 1e-10, atol=1e-6 if shift else 1e-10)


def test_forgetting_nothing_is_merging():
    X = rows(300)
    together = Moments.of(X[:100]).merge(Moments.of(X[100:]))
    again = Moments.of(X[:100]).then(X[100:])
    for name in ("n", "reference", "offset", "scatter"):
        np.testing.assert_array_equal(getattr(again, name), getattr(together, name))


@pytest.mark.parametrize("make", [lambda: PPCA(3), lambda: PCADetector(3, limit="box")], ids=["ppca", "detector"])
def test_a_model_of_weighted_rows(make):
    X = rows(500)
    pieces = make().partial_fit(X[:100], forget=0.01).partial_fit(X[100:], forget=0.01)
    weights = 0.99 ** np.arange(499, -1, -1)
    model = pieces.model_ if isinstance(pieces, PCADetector) else pieces
    assert model.n_samples_ == pytest.approx(weights.sum())
    mean = np.average(X, axis=0, weights=weights)
    np.testing.assert_allclose(pieces.mean_, mean, atol=1e-10)
    centred = X - mean
    covariance = (centred * weights[:, None]).T @ centred / (weights.sum() - 1)
    scale = np.sqrt(np.diag(covariance)) if isinstance(pieces, PCADetector) else np.ones(6)
    np.testing.assert_allclose(model.covariance_, covariance / np.outer(scale, scale), atol=1e-10)


def test_follows_a_change():
    """What happened long ago hardly counts: half after log 2 / forget rows."""
    detector = PCADetector(3, limit="box").fit(rows(2000))
    moved = PCADetector(3, limit="box").fit(rows(2000)).partial_fit(rows(693, 1, shift=1.0), forget=0.001)
    share = (moved.mean_ - detector.mean_).mean()
    assert share == pytest.approx(500 / (0.5 * 2000 + 500), abs=0.03)
    assert PCADetector(3, limit="box").fit(rows(2000)).partial_fit(rows(693, 1, 1.0)).mean_.mean() < moved.mean_.mean()


def test_zero_is_the_default_and_exact():
    X = rows(300)
    plain, zero = (
        PCADetector(3, limit="box").partial_fit(X[:100]).partial_fit(X[100:], **options)
        for options in ({}, {"forget": 0})
    )
    assert plain.limit_ == zero.limit_
    assert zero.model_.n_samples_ == 300
    np.testing.assert_array_equal(plain.model_.components_, zero.model_.components_)


@pytest.mark.parametrize("forget", [-0.1, 1, np.nan, "0.1"])
def test_refused(forget):
    for estimator in (PPCA(2), PCADetector(2, limit="box")):
        with pytest.raises(ValueError, match="forget must be"):
            estimator.partial_fit(rows(50), forget=forget)
    with pytest.raises(ValueError, match="too few to learn from"):
        PPCA(2).partial_fit(rows(50), forget=0.9)


def test_fractional_rows_survive_a_file(tmp_path):
    detector = PCADetector(3, limit="box").partial_fit(rows(300), forget=0.01)
    detector.save(tmp_path / "m.culpa")
    again = culpa.load(tmp_path / "m.culpa")
    assert again.model_.n_samples_ == detector.model_.n_samples_
    more = rows(50, 3)
    np.testing.assert_allclose(
        again.partial_fit(more, forget=0.01).model_.covariance_,
        detector.partial_fit(more, forget=0.01).model_.covariance_,
        atol=1e-10,
    )
    assert detector.control_limits().shape[0] > 0


@pytest.mark.parametrize("forget", [0.0, 0.001, 0.05])
@pytest.mark.parametrize("cuts", [[0, 400], [0, 1, 2, 90, 400], list(range(0, 401, 5))])
def test_blocks_of_weighted_rows(forget, cuts):
    X, more = rows(300), rows(400, 1)
    blocks = BlockMoments.of(X)
    for start, stop in pairwise(cuts):
        blocks = blocks.then(more[start:stop], forget)
    together = Moments.of(X).then(more, forget)
    assert 10 <= len(blocks) < 20
    assert blocks.total.n == pytest.approx(together.n)
    np.testing.assert_allclose(blocks.total.mean, together.mean, atol=1e-10)
    np.testing.assert_allclose(blocks.total.scatter, together.scatter, atol=1e-8)
    if not forget:
        assert max(block.n for block in blocks.blocks) <= 4 * min(block.n for block in blocks.blocks[:-1])
    again = BlockMoments.from_arrays(blocks.to_arrays())
    np.testing.assert_allclose(again.total.scatter, blocks.total.scatter, atol=1e-9)
    assert again.total.n == pytest.approx(blocks.total.n)


def test_one_block_stays_one():
    alone = BlockMoments((Moments.of(rows(100)),))
    assert len(alone.then(rows(50, 1))) == 1
    assert alone.then(rows(50, 1)).total.n == 150
    assert len(BlockMoments.of(rows(0)).then(rows(100))) > 3


def test_variances_are_not_negative_where_rows_were_taken_away():
    rng = np.random.default_rng(0)
    left = []
    for _ in range(50):  # a column that varies only in the block that is taken away
        blocks = [Moments.of(rng.normal(size=(20, 1))), Moments.of(np.full((30, 1), rng.normal()))]
        left.append(blocks[0].merge(blocks[1]).without(blocks[0]))
    assert any(moments.about_mean.diagonal[0] < 0 for moments in left)
    assert all(0 <= moments.variances[0] < 1e-15 for moments in left)
