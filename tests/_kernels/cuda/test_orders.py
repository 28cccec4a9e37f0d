"""Sampled orders and compiled forms on a GPU: their arithmetic on the processor, and on a GPU where there is one."""

import cuda_on_cpu
import numpy as np
import pytest

from culpa import Explainer, LatentGaussian, scores, shapley
from culpa._kernels.cuda import device as gpu
from culpa._kernels.cuda.orders import OrdersOnGpu
from culpa.games import Conditional
from culpa.shapley.forms import compile_rule
from culpa.shapley.rules import default_rule

needs_compiler = pytest.mark.skipif(cuda_on_cpu.COMPILER is None, reason="there is no C++ compiler")
needs_gpu = pytest.mark.skipif(gpu.obstacle() is not None, reason="there is no NVIDIA GPU")
GROUPS = [[3], [0, 5], [1], [8, 2, 4], [6], [7]]


def model(d, p, noise=0.3):
    return LatentGaussian(np.zeros(d), np.random.default_rng(d).normal(size=(d, p)), noise)


def case(d=9, p=5, n=3, noise=0.3, score=scores.spe):
    return Conditional(score(model(d, p, noise))), 2 * np.random.default_rng(n).normal(size=(n, d))


def single(d):
    return [[i] for i in range(d)]


def assert_same_orders(game, X, players, net=1):
    rule = default_rule(len(players), net, 0)
    found = shapley.permutation(game, X, players, rule, device="gpu")
    expected = shapley.permutation(game, X, players, rule, device="cpu")
    for ours, theirs in ((found.values, expected.values), (found.std_error, expected.std_error)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-11 * np.abs(expected.values).max())


def assert_same_forms(game, X, players, net=1):
    rule = default_rule(len(players), net, 0)
    found, expected = (compile_rule(game, players, rule, device=device) for device in ("gpu", "cpu"))
    for ours, theirs in ((found.coefficients, expected.coefficients), (found.constants, expected.constants)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11 * np.abs(theirs).max())
    there, here = found(X, device="gpu"), expected(X, device="cpu")
    assert type(there.values) is np.ndarray
    np.testing.assert_allclose(there.values, here.values, rtol=1e-10, atol=1e-11 * np.abs(here.values).max())
    np.testing.assert_allclose(there.std_error, here.std_error, rtol=1e-8, atol=1e-11 * np.abs(here.values).max())


@pytest.fixture
def with_gpu(monkeypatch):
    """A machine with a GPU, played by the processor."""
    device = cuda_on_cpu.OnCpu(cuda_on_cpu.SMALL)
    monkeypatch.setattr(gpu, "obstacle", lambda: None)
    monkeypatch.setattr(gpu.LOADING, "_device", device)
    return device


@needs_compiler
class TestArithmetic:
    """The same source, compiled for the processor."""

    @pytest.mark.parametrize(("p", "n"), [(1, 1), (3, 1), (7, 5), (8, 2)])
    def test_rows(self, with_gpu, p, n):
        assert_same_orders(*case(p=p, n=n), single(9))
        assert with_gpu.launched == ["follow_orders", "pay_orders"]

    @pytest.mark.parametrize("score", [scores.spe, scores.t2, scores.mahalanobis])
    def test_tiny_noise(self, with_gpu, score):
        assert_same_orders(*case(noise=1e-8, score=score), single(9))

    def test_groups(self, with_gpu):
        assert_same_orders(*case(), GROUPS)

    def test_little_shared_memory(self, with_gpu):
        with_gpu.shared_bytes = 400
        assert_same_orders(*case(p=7), single(9))

    def test_little_memory(self, with_gpu):
        """Orders and rows are walked in several parts."""
        with_gpu.most = 5e3
        assert_same_orders(*case(n=7), single(9))
        assert len(with_gpu.launched) > 4

    @pytest.mark.parametrize("players", [single(9), GROUPS], ids=["single", "groups"])
    def test_forms(self, with_gpu, monkeypatch, players):
        monkeypatch.setattr("culpa.shapley.forms._FORM_NUMBERS_ON_GPU", 6 * 81 * 8)  # several batches
        assert_same_forms(*case(), players)
        assert with_gpu.launched.count("pay_orders") > 1

    def test_forms_that_do_not_fit_stay_on_the_processor(self, with_gpu):
        with_gpu.most = 1e3
        compile_rule(case()[0], single(9), default_rule(9, 1, 0), device="gpu")
        assert not with_gpu.launched


class TestChoice:
    @needs_compiler
    def test_large_jobs_are_for_the_gpu(self, with_gpu, monkeypatch):
        (game, X), rule = case(), default_rule(9, 1, 0)
        shapley.permutation(game, X, single(9), rule)
        compile_rule(game, single(9), rule)
        assert not with_gpu.launched
        monkeypatch.setattr(gpu, "_WORTH_LAUNCHING", 1e3)
        shapley.permutation(game, X, single(9), rule, device="cpu")
        compile_rule(game, single(9), rule, device="cpu")
        assert not with_gpu.launched
        shapley.permutation(game, X, single(9), rule)
        compile_rule(game, single(9), rule)
        assert with_gpu.launched == ["follow_orders", "pay_orders"] * 2

    @needs_compiler
    def test_an_explainer_passes_its_device_on(self, with_gpu):
        X = case()[1]
        there, here = (
            Explainer(model(9, 5), method="permutation", n_orders=12, device=device) for device in ("gpu", "cpu")
        )
        np.testing.assert_allclose(there.shares(X).values, here.shares(X).values, rtol=1e-10, atol=1e-12)
        assert with_gpu.launched == ["follow_orders", "pay_orders"]
        compiled = there.compile()
        assert len(with_gpu.launched) == 4
        np.testing.assert_allclose(compiled.shares(X).values, here.shares(X).values, rtol=1e-9, atol=1e-10)

    def test_games_without_a_walk_stay_on_the_processor(self, with_gpu):
        different = LatentGaussian(np.zeros(6), np.random.default_rng(0).normal(size=(6, 2)), np.linspace(0.1, 1, 6))
        game, X = Conditional(scores.spe(different)), np.ones((2, 6))
        rule = default_rule(6, 1, 0)
        found = shapley.permutation(game, X, single(6), rule, device="gpu").values
        np.testing.assert_array_equal(found, shapley.permutation(game, X, single(6), rule, device="cpu").values)
        assert not with_gpu.launched


@pytest.mark.gpu
@needs_gpu
class TestOnGpu:
    @pytest.mark.parametrize(("d", "p", "n"), [(9, 5, 1), (40, 12, 7), (166, 33, 3), (60, 58, 2), (300, 200, 1)])
    def test_rows(self, d, p, n):
        assert_same_orders(*case(d, p, n), single(d), net=4)

    @pytest.mark.parametrize("score", [scores.spe, scores.t2])
    def test_tiny_noise(self, score):
        assert_same_orders(*case(30, 8, 4, noise=1e-8, score=score), single(30), net=4)

    def test_groups(self):
        assert_same_orders(*case(), GROUPS, net=4)

    def test_large_triangles_and_little_memory(self, monkeypatch):
        device = gpu.LOADING.device()
        monkeypatch.setattr(device, "shared_bytes", 20_000)
        monkeypatch.setattr(gpu, "_MOST_BYTES", 1e7)
        assert_same_orders(*case(80, 70, 20), single(80), net=3)

    @pytest.mark.parametrize("d", [12, 60])
    def test_forms(self, d):
        assert_same_forms(*case(d, 5, 40), single(d), net=4)

    @pytest.mark.parametrize("library", ["numpy", "cupy", "torch"])
    def test_rows_of_any_library(self, library):
        xp = pytest.importorskip(library)
        game, X = case(40, 8, 6)
        there = xp.asarray(X, device="cuda") if library == "torch" else xp.asarray(X)
        rule = default_rule(40, 4, 0)
        expected = shapley.permutation(game, X, single(40), rule, device="cpu").values
        forms = compile_rule(game, single(40), rule, device="cpu")
        for found in (shapley.permutation(game, there, single(40), rule, device="gpu"), forms(there, device="gpu")):
            assert type(found.values) is type(there)
            np.testing.assert_allclose(np.asarray(found.values.tolist()), expected, rtol=1e-9, atol=1e-10)

    def test_twice_the_same(self):
        game, X = case(40, 12, 5)
        rule, players = default_rule(40, 4, 0), single(40)
        first, second = (shapley.permutation(game, X, players, rule, device="gpu").values for _ in range(2))
        np.testing.assert_array_equal(first, second)

    def test_the_walk_itself(self):
        game, X = case(50, 10, 2)
        walk, orders = game.order_walk(X), default_rule(50, 3, 0).orders
        delta, slope, constant = OrdersOnGpu(gpu.LOADING.device(), walk).factors(orders)
        for found, expected in zip((delta, slope, constant), walk.factors(orders), strict=True):
            np.testing.assert_allclose(gpu.on_cpu(found), expected, rtol=1e-9, atol=1e-10)
