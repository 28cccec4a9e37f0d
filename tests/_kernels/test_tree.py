"""The compiled walks in their own terms: every way in which players decide, vectors, memory."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from culpa import Explainer, LatentGaussian, scores, shapley
from culpa._kernels import tree
from culpa._kernels.kernel import Kernel, kernels_in_python
from culpa._kernels.vectors import LANES, lanes_of_zero, load, store
from culpa.games import Conditional
from culpa.shapley.exact import size_weights


@pytest.fixture(autouse=True)
def compiled_always(monkeypatch):
    monkeypatch.setattr(Kernel, "pays", lambda self, operations: True)


def game_and_rows(d, n=2, p=3, steps="elimination", score=scores.spe):
    rng = np.random.default_rng(d)
    game = Conditional(score(LatentGaussian(np.zeros(d), rng.normal(size=(d, p)), 0.3)))
    game.__dict__["_well_conditioned"] = steps == "elimination"  # both ways are accurate here, so they must agree
    return game, 2 * rng.normal(size=(n, d))


def whole_tree(game, X):
    d = game.n_features
    job = game.tree_job(X, np.arange(d))
    return tree.Tree(job.steps, job.prepare(), size_weights(d), [1] * d)


def singles(d):
    return [[i] for i in range(d)]


def by_arrays(game, X, players, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Kernel, "pays", lambda self, operations: False)
        return shapley.exact(game, X, players).values


@pytest.mark.parametrize("steps", ["elimination", "factored"])
class TestTree:
    # piece, restart, lane (always two), depth-first and register players, from the fewest to the most of each
    @pytest.mark.parametrize("d", range(5, 13))
    @pytest.mark.parametrize(("restart", "depth_first"), [(4, 6), (0, 0), (1, 0), (2, 1), (0, 2)])
    def test_however_players_decide(self, steps, d, restart, depth_first, monkeypatch):
        monkeypatch.setattr(tree, "_RESTART_PLAYERS", restart)
        monkeypatch.setattr(tree, "_DEPTH_FIRST_PLAYERS", depth_first)
        game, X = game_and_rows(d, steps=steps)
        values = shapley.exact(game, X, singles(d)).values
        np.testing.assert_allclose(values, by_arrays(game, X, singles(d), monkeypatch), rtol=1e-10, atol=1e-12)

    def test_as_planned(self, steps, monkeypatch):
        game, X = game_and_rows(18, steps=steps)
        values = shapley.exact(game, X, singles(18)).values
        np.testing.assert_allclose(values, by_arrays(game, X, singles(18), monkeypatch), rtol=1e-10, atol=1e-12)

    @pytest.mark.parametrize(
        "sizes",
        [[1, 3, 1, 2, 1, 1, 1, 2], [2] * 6, [1, 1, 2, 2, 2, 2], [4, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 5]],
    )
    @pytest.mark.parametrize("deep", [0, 6])
    def test_groups(self, steps, sizes, deep, monkeypatch):
        monkeypatch.setattr(tree, "_DEPTH_FIRST_PLAYERS", deep)
        monkeypatch.setattr(tree, "_RESTART_PLAYERS", 1)
        game, X = game_and_rows(sum(sizes), steps=steps)
        features = np.random.default_rng(0).permutation(sum(sizes))
        players = [part.tolist() for part in np.split(features, np.cumsum(sizes)[:-1])]
        values = shapley.exact(game, X, players).values
        np.testing.assert_allclose(values, by_arrays(game, X, players, monkeypatch), rtol=1e-10, atol=1e-12)

    @pytest.mark.parametrize("n_pieces", [1, 2, 3, 7, 11])
    def test_pieces_of_rows_add_up(self, steps, n_pieces, monkeypatch):
        monkeypatch.setattr(tree, "_DEPTH_FIRST_PLAYERS", 1)
        monkeypatch.setattr(tree, "_RESTART_PLAYERS", 1)
        game, X = game_and_rows(10, n=3, steps=steps)
        whole = whole_tree(game, X)
        edges = np.linspace(0, whole.n_pieces, n_pieces + 1).astype(int)
        values = np.zeros((3, 10))
        for first, last in pairwise(edges):
            part = whole.walk(first, last)
            values[part.rows] += part.values
        np.testing.assert_allclose(values, by_arrays(game, X, singles(10), monkeypatch), rtol=1e-10, atol=1e-12)

    def test_what_was_in_memory_before_does_not_matter(self, steps, monkeypatch):
        game, X = game_and_rows(14, steps=steps)
        expected = shapley.exact(game, X, singles(14)).values
        empty = np.empty
        monkeypatch.setattr(tree.np, "empty", lambda shape: np.full_like(empty(shape), np.nan))
        np.testing.assert_array_equal(shapley.exact(game, X, singles(14)).values, expected)

    def test_it_pays_by_what_arrays_would_cost(self, steps, monkeypatch):
        asked = []
        monkeypatch.setattr(Kernel, "pays", lambda self, operations: asked.append(operations) or False)
        game, X = game_and_rows(10, n=2, p=7, steps=steps)
        shapley.exact(game, X, singles(10))
        assert asked == [2**10 * (38 * 2 if steps == "elimination" else 60 + 6 * 7**2 + 6 * 7 * 2)]

    def test_few_players_are_walked_by_arrays(self, steps):
        game, X = game_and_rows(4, steps=steps)
        assert np.isfinite(shapley.exact(game, X, singles(4)).values).all()
        with pytest.raises(ValueError, match="needs 5 players, got 4"):
            whole_tree(game, X)

    @pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 9, 16, 17, 30])  # rows go in blocks that share what they can
    @pytest.mark.parametrize("d", [7, 15])
    def test_any_number_of_rows(self, steps, n, d, monkeypatch):
        game, X = game_and_rows(d, n, steps=steps)
        values = shapley.exact(game, X, singles(d)).values
        np.testing.assert_allclose(values, by_arrays(game, X, singles(d), monkeypatch), rtol=1e-9, atol=1e-11)

    def test_a_bad_row_spoils_no_other(self, steps):
        game, X = game_and_rows(9, 11, steps=steps)
        X[4, 2], X[9, 0] = np.nan, np.inf
        values = shapley.exact(game, X, singles(9)).values
        good = np.delete(np.arange(11), [4, 9])
        np.testing.assert_allclose(values[good], shapley.exact(game, X[good], singles(9)).values, rtol=1e-10)
        assert np.isnan(values[[4, 9]]).any(axis=1).all()

    def test_a_thread_needs_a_few_kilobytes(self, steps):
        work = {}
        for d in (20, 25, 30, 40):
            game, X = game_and_rows(d, n=1, steps=steps)
            whole = whole_tree(game, X)
            work[d] = whole.work_bytes
        more = 1.0 if steps == "elimination" else 1.15
        assert work[20] < 25_000 * more
        assert work[30] < 29_000 * more
        assert work[40] < 36_000 * more  # grows with the square of the features, not with the coalitions

    def test_all_threads_and_python_together_need_little(self, steps):
        game, X = game_and_rows(20, n=1, steps=steps)
        shapley.exact(game, X, singles(20), n_jobs=2)
        tracemalloc.start()
        try:
            shapley.exact(game, X, singles(20), n_jobs=2)
            assert tracemalloc.get_traced_memory()[1] < 90_000  # a million coalitions
        finally:
            tracemalloc.stop()


class TestVectors:
    """numba's vectors and those of plain Python are two implementations of one thing."""

    @pytest.fixture
    def in_python(self):
        with kernels_in_python():
            yield

    @pytest.mark.parametrize("steps", ["elimination", "factored"])
    @pytest.mark.parametrize("players", [singles(8), [[0, 5], [1], [2, 3], [4], [6], [7]]], ids=["features", "groups"])
    def test_tree(self, players, steps, monkeypatch, request):
        monkeypatch.setattr(tree, "_DEPTH_FIRST_PLAYERS", 0)
        monkeypatch.setattr(tree, "_RESTART_PLAYERS", 1)
        game, X = game_and_rows(8, steps=steps)
        compiled = shapley.exact(game, X, players).values
        request.getfixturevalue("in_python")
        np.testing.assert_allclose(shapley.exact(game, X, players).values, compiled, rtol=1e-11, atol=1e-13)

    def test_contributions(self, request):
        model = LatentGaussian(np.zeros(8), np.random.default_rng(0).normal(size=(8, 3)), 0.4)
        rows, how = model.sample(20, 1), {"method": "permutation", "n_orders": 48}
        compiled = Explainer(model, **how).explain(rows)
        request.getfixturevalue("in_python")
        slow = Explainer(model, **how).explain(rows)
        np.testing.assert_allclose(slow.values, compiled.values, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(slow.std_error, compiled.std_error, rtol=1e-8, atol=1e-12)

    def test_strided_arrays_are_refused(self):
        import numba

        import culpa._kernels.numba_vectors  # noqa: F401

        @numba.njit
        def copy(array):
            store(array, 0, load(array, 0, lanes_of_zero()))

        copy(np.zeros(LANES))
        for other in (np.zeros(2 * LANES)[::2], np.zeros(LANES, dtype=np.float32)):
            with pytest.raises(numba.TypingError, match="float64 numbers that lie one after the other"):
                copy(other)
