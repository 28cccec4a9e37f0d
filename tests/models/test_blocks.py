"""Consecutive blocks of rows gathered in any portions, and the number of components that they choose."""

import itertools

import numpy as np
import pytest
from scipy import stats

from culpa.models import blocks as blocks_module
from culpa.models.blocks import BlockGatherer, BlockMoments, block_starts
from culpa.models.components import choose_components


def table(n, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1) + 1e6


def gathered(X, sizes):
    gatherer, at = BlockGatherer(X.shape[1]), 0
    while at < len(X):
        size = next(sizes)
        gatherer.add(X[at : at + size])
        at += size
        assert gatherer.n == min(at, len(X))
    return gatherer.finish()


def same(found, expected):
    assert [block.n for block in found.blocks] == [block.n for block in expected.blocks]
    np.testing.assert_array_equal(found.starts, expected.starts)
    for one, other in zip(found.blocks, expected.blocks, strict=True):
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-15)
        np.testing.assert_allclose(one.scatter, other.scatter, rtol=1e-9, atol=1e-9 * np.abs(other.scatter).max())


class TestStarts:
    @pytest.mark.parametrize("n", [10, 11, 99, 100, 1234, 4096])
    def test_exact_tenths_of_small_tables(self, n):
        starts = block_starts(n)
        lengths = np.diff([*starts, n])
        assert starts[0] == 0
        assert len(lengths) == 10
        assert set(lengths) <= {n // 10, -(-n // 10)}

    @pytest.mark.parametrize("n", [1, 2, 9])
    def test_a_row_each_where_there_are_fewer(self, n):
        assert block_starts(n).tolist() == list(range(n))

    @pytest.mark.parametrize("n", [4097, 5000, 8191, 8192, 8193, 100_000, 1_048_576, 1_048_577, 9_999_999])
    def test_nearly_tenths_of_large_tables(self, n):
        """At most half a piece off at both ends, and a table has at least 64 pieces."""
        starts = block_starts(n)
        assert starts[0] == 0
        assert len(starts) == 10
        np.testing.assert_allclose(starts, n * np.arange(10) / 10, atol=n / 64 / 2 + 1)
        assert (np.diff([*starts, n]) > 0).all()

    def test_blocks_of_rows(self):
        blocks = BlockMoments.of(table(103))
        of_rows = blocks.of_rows(np.arange(103))
        np.testing.assert_array_equal(of_rows, np.repeat(np.arange(10), [block.n for block in blocks.blocks]))


class TestBlocks:
    def test_each_is_the_moments_of_its_rows(self):
        X = table(1003)
        blocks = BlockMoments.of(X)
        for part, block in zip(np.split(X, blocks.starts[1:]), blocks.blocks, strict=True):
            np.testing.assert_allclose(block.mean, part.mean(axis=0), rtol=1e-14)
            np.testing.assert_allclose(block.covariance, np.cov(part.T), rtol=1e-9)
        np.testing.assert_allclose(blocks.total.covariance, np.cov(X.T), rtol=1e-9)

    def test_all_but_one(self):
        X = table(200)
        blocks = BlockMoments.of(X)
        for k in range(10):
            others = np.delete(X, np.arange(20 * k, 20 * k + 20), axis=0)
            left = blocks.without(k)
            assert left.n == 180
            np.testing.assert_allclose(left.mean, others.mean(axis=0), rtol=1e-14)
            np.testing.assert_allclose(left.covariance, np.cov(others.T), rtol=1e-9, atol=1e-9)


class TestGatherer:
    @pytest.mark.parametrize("n", [1, 5, 10, 57, 100, 4095, 4096, 4097, 4159, 8191, 8192, 8193, 20_011])
    def test_any_portions_give_the_same_blocks(self, n):
        X = table(n)
        expected = BlockMoments.of(X)
        rng = np.random.default_rng(n)
        for sizes in (
            iter(lambda: n, None),
            iter(lambda: 1000, None),
            iter(lambda: int(rng.integers(0, 900)), None),
            iter(lambda: int(rng.choice([1, 63, 64, 65, 4096, 5000])), None),
        ):
            same(gathered(X, sizes), expected)

    def test_row_by_row(self):
        X = table(4500)
        same(gathered(X, iter(lambda: 1, None)), BlockMoments.of(X))

    @pytest.mark.parametrize("n", [33, 64, 65, 127, 128, 129, 1000])
    def test_many_rows_in_little(self, n, monkeypatch):
        """Pieces double again and again, here from one row on."""
        monkeypatch.setattr(blocks_module, "HELD", 32)
        monkeypatch.setattr(blocks_module, "_PIECES", 32)
        X = table(n)
        for size in (1, 3, 50):
            same(gathered(X, iter(lambda size=size: size, None)), BlockMoments.of(X))

    def test_it_may_go_on_after_it_has_finished(self):
        X = table(6000)
        gatherer = BlockGatherer(3)
        for start in range(0, 6000, 500):
            gatherer.add(X[start : start + 500])
            same(gatherer.finish(), BlockMoments.of(X[: start + 500]))

    def test_nothing_yet(self):
        assert BlockGatherer(3).n == 0
        assert BlockGatherer(3).finish().total.n == 0


def held_out_log_likelihood(X, p, *, scale):
    """Mean log density of every row under PPCA of the other blocks, by the explicit covariance matrix."""
    starts = [*(len(X) * k // 10 for k in range(10)), len(X)]
    total = 0.0
    for a, b in itertools.pairwise(starts):
        others = np.delete(X, np.arange(a, b), axis=0)
        mean, std = others.mean(axis=0), others.std(axis=0, ddof=1) if scale else np.ones(X.shape[1])
        values, vectors = np.linalg.eigh(np.cov(((others - mean) / std).T))
        values, vectors = values[::-1], vectors[:, ::-1]
        noise = values[p:].mean()
        W = vectors[:, :p] * np.sqrt(values[:p] - noise)
        density = stats.multivariate_normal(np.zeros(X.shape[1]), W @ W.T + noise * np.eye(X.shape[1]))
        total += density.logpdf((X[a:b] - mean) / std).sum()
    return total / len(X)


def factors(n, d, p, noise, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) @ rng.normal(size=(p, d)) + noise * rng.normal(size=(n, d)) + 100.0


class TestComponents:
    @pytest.mark.parametrize("scale", [True, False])
    @pytest.mark.parametrize(
        ("n", "d", "p", "noise"), [(200, 8, 3, 0.5), (57, 6, 2, 0.3), (400, 10, 1, 2.0), (103, 4, 2, 1.0)]
    )
    def test_brute_force_over_every_number(self, n, d, p, noise, scale):
        X = factors(n, d, p, noise, seed=n) * np.arange(1, d + 1)
        choice = choose_components(BlockMoments.of(X), scale=scale)
        expected = np.array([held_out_log_likelihood(X, q, scale=scale) for q in range(1, d)])
        assert choice.n_components == np.argmax(expected) + 1
        # the curve leaves out the constant -d/2 log(2 pi)
        np.testing.assert_allclose(choice.log_likelihood - d / 2 * np.log(2 * np.pi), expected, rtol=1e-9)

    @pytest.mark.parametrize("p", [1, 2, 5])
    def test_it_finds_the_number_that_made_the_rows(self, p):
        found = [
            choose_components(BlockMoments.of(factors(500, 12, p, 0.5, seed)), scale=False).n_components
            for seed in range(20)
        ]
        assert found.count(p) >= 18

    def test_noise_alone_needs_as_few_as_possible(self):
        X = np.random.default_rng(0).normal(size=(500, 10))
        assert choose_components(BlockMoments.of(X)).n_components <= 2

    def test_fewer_rows_than_features(self):
        X = factors(40, 60, 3, 0.3, 0)
        choice = choose_components(BlockMoments.of(X))
        assert 3 <= choice.n_components <= 8
        assert len(choice.log_likelihood) == 40 - 4 - 2
        assert np.isfinite(choice.log_likelihood).all()

    def test_a_direction_without_variance_does_not_count(self):
        """A sum of two other columns adds no direction: the curve is that of coordinates within the plane of the rows."""
        X = factors(300, 6, 2, 0.5, 1)
        summed = np.column_stack([X, X[:, 0] + X[:, 1]])
        axes = np.linalg.svd(summed - summed.mean(axis=0), full_matrices=False)[2][:6]
        choice = choose_components(BlockMoments.of(summed), scale=False)
        within = choose_components(BlockMoments.of(summed @ axes.T), scale=False)
        assert choice.n_components == within.n_components
        np.testing.assert_allclose(choice.log_likelihood, within.log_likelihood, rtol=1e-6)

    def test_constant_columns(self):
        X = factors(200, 6, 2, 0.5, 1)
        X[:, 4] = 7.0
        choice = choose_components(BlockMoments.of(X))
        without = choose_components(BlockMoments.of(np.delete(X, 4, axis=1)))
        assert choice.n_components == without.n_components
        np.testing.assert_allclose(choice.log_likelihood, without.log_likelihood, rtol=1e-9)

    def test_rows_that_do_not_vary(self):
        assert choose_components(BlockMoments.of(np.ones((50, 4)))).n_components == 1


@pytest.mark.parametrize("n", [6, 22, 60])
def test_one_component_if_rows_vary_in_one_direction_only(n):
    rows = np.zeros((n, 3))
    rows[n // 2, 1] = -50
    choice = choose_components(BlockMoments.of(rows))
    assert choice.n_components == 1
    assert np.isfinite(choice.log_likelihood).all()
