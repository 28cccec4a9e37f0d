"""The GPU's kernels: their arithmetic on the processor, the choice between the two, and on a GPU where there is one."""

import cuda_on_cpu
import numpy as np
import pytest
from cuda_on_cpu import SMALL

from culpa import PPCA, Explainer, LatentGaussian, scores, shapley
from culpa._kernels.cuda import device as gpu
from culpa._kernels.cuda import tree as gpu_tree
from culpa._kernels.cuda.states import Eliminating, kind_of
from culpa._kernels.elimination_steps import ELIMINATION
from culpa._kernels.kernel import Kernel
from culpa.games import Conditional, Minimal
from culpa.shapley.exact import size_weights

needs_compiler = pytest.mark.skipif(cuda_on_cpu.COMPILER is None, reason="there is no C++ compiler")
NO_LOOPS = gpu.Options(
    **dict.fromkeys(
        ("BOTTOM", "IN_REGISTERS", "TABLE_IN_REGISTERS", "ROWS_BOTTOM", "STAGE", "ROWS_IN_REGISTERS", "ROWS_SUMS"), 3
    ),
    **{"THREADS": 2, "ROWS": 1, "ROWS_THREADS": 8, "SIDE": 2},
)
both_steps = pytest.mark.parametrize("steps", ["elimination", "factors"])


def model(d, p=3, noise=0.3):
    return LatentGaussian(np.zeros(d), np.random.default_rng(d).normal(size=(d, p)), noise)


def game_and_rows(d, n, score=scores.spe, p=3, noise=0.3, steps="elimination"):
    """Both kinds of steps are accurate here, so they must agree with the array code, which follows the same switch."""
    game = Conditional(score(model(d, p, noise)))
    game.__dict__["_well_conditioned"] = steps == "elimination"
    return game, 2 * np.random.default_rng(d + n).normal(size=(n, d))


def players_of(sizes):
    return [part.tolist() for part in np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])]


def walked(device, game, X, sizes):
    job = game.tree_job(X, np.arange(X.shape[1]))
    return gpu_tree.walk_on_gpu(device, kind_of(job.steps), job.prepare(), size_weights(len(sizes)), sizes)


def assert_exact(device, game, X, sizes):
    expected = shapley.exact(game, X, players_of(sizes), device="cpu").values
    np.testing.assert_allclose(
        walked(device, game, X, sizes), expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max()
    )


@needs_compiler
class TestArithmetic:
    """The same source, compiled for the processor."""

    @pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
    @pytest.mark.parametrize("most", [1e8, 3e4, 1e3])  # bytes: more or fewer players above and breadth first
    @pytest.mark.parametrize("options", [SMALL, NO_LOOPS], ids=["loops", "registers"])
    @both_steps
    def test_rows(self, steps, options, n, most):
        assert_exact(cuda_on_cpu.OnCpu(options, most=most), *game_and_rows(9, n, steps=steps), [1] * 9)

    @pytest.mark.parametrize("n", [1, 4])
    @both_steps
    def test_as_shipped(self, steps, n):
        device = cuda_on_cpu.OnCpu(most=1e5)
        assert_exact(device, *game_and_rows(13, n, steps=steps), [1] * 13)
        assert ("walk" if n == 1 else "walk_rows") in device.launched

    @pytest.mark.parametrize("noise", [1e-6, 1e-8, 1e-10, 1e-12])
    @pytest.mark.parametrize("score", [scores.spe, scores.t2, scores.mahalanobis])
    def test_tiny_noise(self, score, noise, with_gpu, monkeypatch):
        """As accurate as the kernel of the processor; `tests/games/test_numerics.py` compares both with sixty digits."""
        monkeypatch.setattr(Kernel, "pays", lambda self, operations: True)
        for n in (1, 4):
            X = 2 * np.random.default_rng(n).normal(size=(n, 9))
            game = Conditional(score(model(9, noise=noise)))
            found = shapley.exact(game, X, players_of([1] * 9), device="gpu").values
            expected = shapley.exact(game, X, players_of([1] * 9), device="cpu").values
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())
        assert {"walk", "walk_rows"} <= set(with_gpu.launched)

    @pytest.mark.parametrize("n", [1, 4])
    @both_steps
    @pytest.mark.parametrize("most", [1e8, 5e3])
    @pytest.mark.parametrize(
        "sizes", [[3, 2, 1, 1, 1, 1, 1, 1], [2, 2, 2, 2], [3, 2, 2, 1, 1], [5, 1], [4, 3, 1, 1, 1, 1, 1]]
    )
    def test_groups(self, steps, sizes, most, n):
        assert_exact(cuda_on_cpu.OnCpu(SMALL, most=most), *game_and_rows(sum(sizes), n, steps=steps), sizes)

    @pytest.mark.parametrize("score", [scores.mse, scores.t2, scores.mahalanobis])
    def test_scores(self, score):
        assert_exact(cuda_on_cpu.OnCpu(SMALL), *game_and_rows(8, 3, score), [1] * 8)

    def test_minimal_game(self):
        game = Minimal(scores.spe(model(8)))
        assert_exact(cuda_on_cpu.OnCpu(SMALL), game, game_and_rows(8, 3)[1], [1] * 8)

    def test_features_of_very_different_size(self):
        """A GPU's reciprocal has not the range of a division, so variances are near 1 in all states."""
        game, X = game_and_rows(8, 2)
        expected = shapley.exact(game, X, players_of([1] * 8), device="cpu").values
        size, plain = 10.0 ** np.linspace(-60, 60, 8), game.tree_job(X, np.arange(8)).prepare()
        scaled = plain._replace(pairs=plain.pairs * size * size[:, None], rows=plain.rows * size)
        assert np.abs(np.log2(np.diag(Eliminating.start(scaled).pairs[0]))).max() <= 1.5
        found = gpu_tree.walk_on_gpu(cuda_on_cpu.OnCpu(SMALL), kind_of(ELIMINATION), scaled, size_weights(8), [1] * 8)
        np.testing.assert_allclose(found, expected, rtol=1e-9)

    def test_a_bad_row_spoils_no_other(self):
        game, X = game_and_rows(8, 5)
        expected = walked(cuda_on_cpu.OnCpu(SMALL), game, X, [1] * 8)
        X[2, 3] = np.nan
        found = walked(cuda_on_cpu.OnCpu(SMALL), game, X, [1] * 8)
        np.testing.assert_array_equal(np.delete(found, 2, axis=0), np.delete(expected, 2, axis=0))

    def test_the_number_of_threads_only_changes_rounding(self):
        game, X = game_and_rows(10, 3)
        few, many = (walked(cuda_on_cpu.OnCpu(SMALL, n_threads=n), game, X, [1] * 10) for n in (3, 64))
        np.testing.assert_allclose(few, many, rtol=1e-12)

    def test_progress(self):
        game, X = game_and_rows(9, 2)
        told = []
        job = game.tree_job(X, np.arange(9))
        device = cuda_on_cpu.OnCpu(SMALL, most=1e3)
        gpu_tree.walk_on_gpu(device, kind_of(job.steps), job.prepare(), size_weights(9), [1] * 9, told.append)
        assert told == sorted(told)
        assert told[-1] == 1.0
        assert len(told) > 2


@pytest.fixture
def with_gpu(monkeypatch):
    """A machine with a GPU, played by the processor."""
    device = cuda_on_cpu.OnCpu(SMALL)
    monkeypatch.setattr(gpu, "obstacle", lambda: None)
    monkeypatch.setattr(gpu.LOADING, "_device", device)
    return device


class TestChoice:
    def test_without_a_gpu_it_says_what_is_missing(self, monkeypatch):
        monkeypatch.setattr(gpu, "obstacle", lambda: "CuPy is not installed")
        with pytest.raises(ValueError, match=r"CuPy is not installed. Install culpa\[gpu\]"):
            Explainer(model(6), device="gpu")
        assert Explainer(model(6)).chosen == "exact: 64 coalitions of 6 players"
        assert Explainer(model(27), n_orders=96).chosen.startswith("permutation")

    def test_the_reason_is_found(self):
        reason = gpu.obstacle()
        assert reason is None or "CuPy" in reason or "CUDA" in reason

    def test_games_that_the_kernels_do_not_walk(self, monkeypatch):
        monkeypatch.setattr(gpu, "obstacle", lambda: None)
        for explain in (
            lambda: Explainer(model(6, noise=np.geomspace(1e-9, 1e-3, 6)), device="gpu"),
            lambda: Explainer(model(6), game="interventional", device="gpu"),
            lambda: Explainer(model(6), given=[0], device="gpu"),
        ):
            with pytest.raises(ValueError, match="device='gpu' walks the conditional and the minimal game"):
                explain()
        # "auto" leaves them to the processor
        assert "GPU" not in Explainer(model(27, noise=np.geomspace(1e-9, 1e-3, 27)), n_orders=96).chosen
        assert Explainer(model(27, noise=1e-9)).chosen.endswith("27 players, on the GPU")

    def test_auto_is_exact_for_more_features(self, monkeypatch):
        monkeypatch.setattr(gpu, "obstacle", lambda: None)
        assert Explainer(model(25)).chosen == "exact: 33,554,432 coalitions of 25 players"
        assert Explainer(model(31)).chosen == "exact: 2,147,483,648 coalitions of 31 players, on the GPU"
        assert Explainer(model(32), n_orders=96).chosen.startswith("permutation")
        assert Explainer(model(30, noise=1e-9)).chosen.endswith("30 players, on the GPU")
        assert Explainer(model(31, noise=1e-9), n_orders=96).chosen.startswith("permutation")
        assert Explainer(model(31), n_orders=96, device="cpu").chosen.startswith("permutation")
        assert Explainer(model(40), method="exact").chosen.endswith("40 players, on the GPU")
        with pytest.raises(ValueError, match=r"2\^48 coalitions .* takes about"):
            Explainer(model(48), method="exact")

    def test_large_jobs_are_for_the_gpu(self, monkeypatch):
        monkeypatch.setattr(gpu, "obstacle", lambda: None)
        loading = gpu._Loading()
        assert not loading.pays(1e9)
        assert not loading.pays(3e10)  # CuPy has to be loaded first
        assert loading.pays(3e10)  # both together
        assert gpu._Loading().pays(1e11)
        monkeypatch.setattr(gpu, "obstacle", lambda: "CuPy is not installed")
        assert not loading.pays(1e12)

    @needs_compiler
    def test_asked_for(self, with_gpu):
        X = np.random.default_rng(0).normal(size=(30, 8)) @ np.random.default_rng(1).normal(size=(8, 8))
        fitted = PPCA(3).fit(X)
        there, here = Explainer(fitted, device="gpu"), Explainer(fitted, device="cpu")
        assert there.chosen == "exact: 256 coalitions of 8 players, on the GPU"
        X[3, 2] = np.nan
        found, expected = there.explain(X[:6]), here.explain(X[:6])
        assert "walk_rows" in with_gpu.launched
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(
            there.compile().explain(X[:3]).values, here.compile().explain(X[:3]).values, rtol=1e-9, atol=1e-10
        )

    @needs_compiler
    def test_by_itself(self, with_gpu, monkeypatch):
        monkeypatch.setattr(gpu, "_WORTH_LAUNCHING", 38 * 2.0**8)
        game, X = game_and_rows(8, 2)
        shapley.exact(game, X[:, :8], players_of([1] * 7))
        assert with_gpu.launched
        with_gpu.launched.clear()
        shapley.exact(game, X, players_of([1] * 8), device="cpu")
        shapley.exact(game, X, players_of([1] * 6))
        assert not with_gpu.launched

    @needs_compiler
    def test_groups_in_any_order(self, with_gpu):
        game, X = game_and_rows(9, 4)
        players = [[3], [0, 5], [1], [8, 2, 4], [6], [7]]
        expected = shapley.exact(game, X, players, device="cpu").values
        np.testing.assert_allclose(shapley.exact(game, X, players, device="gpu").values, expected, rtol=1e-10)

    @needs_compiler
    def test_arrays_of_other_libraries_come_back_as_they_are(self, with_gpu):
        xp = pytest.importorskip("array_api_strict")
        game, X = game_and_rows(8, 3)
        found = shapley.exact(game, xp.asarray(X), players_of([1] * 8), device="gpu").values
        assert type(found) is type(xp.asarray(X))
        expected = shapley.exact(game, X, players_of([1] * 8), device="cpu").values
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-10)


@pytest.mark.gpu
@pytest.mark.skipif(gpu.obstacle() is not None, reason="there is no NVIDIA GPU")
class TestOnGpu:
    @pytest.mark.parametrize(("d", "n"), [(12, 1), (20, 1), (24, 1), (18, 2), (18, 3), (20, 40), (18, 300)])
    @both_steps
    def test_rows(self, steps, d, n):
        assert_exact(gpu.LOADING.device(), *game_and_rows(d, n, steps=steps), [1] * d)

    @pytest.mark.parametrize("n", [1, 7])
    @pytest.mark.parametrize("sizes", [[3, 2, 2] + [1] * 12, [2] * 10, [4, 3] + [2] * 8, [1] * 5])
    @both_steps
    def test_groups(self, steps, sizes, n):
        assert_exact(gpu.LOADING.device(), *game_and_rows(sum(sizes), n, steps=steps), sizes)

    @pytest.mark.parametrize("noise", [1e-3, 1e-2, 10.0])
    def test_noise(self, noise):
        game = Conditional(scores.spe(model(20, noise=noise)))
        for n in (1, 5):
            assert_exact(gpu.LOADING.device(), game, game_and_rows(20, n)[1], [1] * 20)

    @pytest.mark.parametrize("noise", [1e-8, 1e-12])
    def test_tiny_noise(self, noise):
        game = Conditional(scores.spe(model(16, noise=noise)))
        for n in (1, 5):
            X, players = game_and_rows(16, n)[1], players_of([1] * 16)
            found, expected = (shapley.exact(game, X, players, device=device).values for device in ("gpu", "cpu"))
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())

    @both_steps
    def test_chunks(self, steps, monkeypatch):
        """Several chunks, as there are for more than thirty features."""
        monkeypatch.setattr(gpu, "_MOST_BYTES", 1e7)
        for n in (1, 5):
            assert_exact(gpu.LOADING.device(), *game_and_rows(21, n, steps=steps), [1] * 21)

    def test_twice_the_same(self):
        game, X = game_and_rows(20, 5)
        first, second = (walked(gpu.LOADING.device(), game, X, [1] * 20) for _ in range(2))
        np.testing.assert_array_equal(first, second)

    def test_auto(self):
        explainer = Explainer(model(28))
        X = model(28).sample(2, 1) + 1.0
        assert explainer.chosen.endswith("28 players, on the GPU")
        values = explainer.explain(X).values
        np.testing.assert_allclose(values.sum(axis=1) + explainer.game.base_value, explainer.score(X), rtol=1e-10)

    @pytest.mark.parametrize("library", ["cupy", "torch"])
    def test_tensors(self, library):
        xp = pytest.importorskip(library)
        X = np.random.default_rng(0).normal(size=(3, 22))
        there = xp.asarray(X, device="cuda") if library == "torch" else xp.asarray(X)
        found = Explainer(model(22), device="gpu").shares(there).values
        assert type(found) is type(there)
        assert found.device == there.device
        expected = Explainer(model(22), device="cpu").shares(X).values
        np.testing.assert_allclose(np.asarray(found.tolist()), expected, rtol=1e-10)
