"""Three ways to the same numbers: arrays, compiled kernels, quadratic forms; and the same on other array libraries."""

import copy
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import array_api_strict
import numpy as np
import pytest

import culpa._core.threads
from culpa import PPCA, Explainer, LatentGaussian, PCADetector, scores, shapley
from culpa.explaining import batch_explainer
from culpa.games import Conditional, Retraining
from culpa.games.arrays import as_array_like
from culpa.scores import ScoredRows
from culpa.shapley import QuadraticForms, engine, form_evaluation, plan

GROUPS = [[0, 5], [1], [2, 3, 7], [4], [6], [8]]


@pytest.fixture
def arrays_only(monkeypatch):
    monkeypatch.setattr(culpa._kernels.kernel.Kernel, "pays", lambda self, operations: False)


@pytest.fixture
def compiled_always(monkeypatch):
    monkeypatch.setattr(culpa._kernels.kernel.Kernel, "pays", lambda self, operations: True)


def singles(d):
    return [[i] for i in range(d)]


def gaussian(d=9, p=4, seed=0, per_feature=False):
    rng = np.random.default_rng(seed)
    noise = 0.1 + rng.random(d) if per_feature else 0.4
    return LatentGaussian(np.zeros(d), rng.normal(size=(d, p)), noise)


GAMES = {
    "spe": lambda: Conditional(scores.spe(gaussian())),
    "t2": lambda: Conditional(scores.t2(gaussian(p=3))),  # odd, where kernels take latent variables two at a time
    "combined": lambda: Conditional(scores.combined(gaussian(), 2.0, 3.0)),
    "some features": lambda: Conditional(scores.of_features(gaussian(), [1, 4])),
    "factor analysis": lambda: Conditional(scores.spe(gaussian(per_feature=True))),
    "tiny noise": lambda: Conditional(scores.spe(LatentGaussian(np.zeros(9), gaussian().loadings, 1e-9))),
    "retraining": lambda: Retraining(gaussian().covariance, 4, mean=True),
}


def relative(actual, expected):
    return np.abs(actual - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("players", [singles(9), GROUPS], ids=["features", "groups"])
@pytest.mark.parametrize("name", sorted(GAMES))
class TestSameNumbers:
    X = 2 * np.random.default_rng(1).normal(size=(5, 9))

    def test_exact_kernel(self, name, players, monkeypatch):
        game = GAMES[name]()
        results = []
        for pays in (False, True):
            monkeypatch.setattr(culpa._kernels.kernel.Kernel, "pays", lambda self, operations, pays=pays: pays)
            results.append(shapley.exact(game, self.X, players, n_jobs=2).values)
        assert relative(*results) < 1e-9

    def test_exact_forms(self, name, players, arrays_only):
        game = GAMES[name]()
        forms = shapley.compile_exact(game, players)
        assert relative(forms(self.X).values, shapley.exact(game, self.X, players).values) < 1e-9
        assert (forms(self.X).std_error == 0).all()


def test_kernels_are_really_used(compiled_always):
    """Guard for the tests above: a kernel that is never called would agree with anything."""
    from culpa._kernels.contributions import CONTRIBUTIONS
    from culpa._kernels.elimination_steps import ELIMINATION
    from culpa._kernels.factored_steps import FACTORED

    kernels = (ELIMINATION.kernel, CONTRIBUTIONS, FACTORED.kernel)
    for kernel in kernels:
        kernel.forget()
    game, X = GAMES["spe"](), np.ones((130, 9))
    for k, job in enumerate(
        (
            lambda: shapley.exact(game, X[:2], singles(9)),
            lambda: Explainer(gaussian(9, 4), method="permutation", n_orders=96).explain(X[:20]),
            lambda: shapley.exact(GAMES["tiny noise"](), X, singles(9)),
        )
    ):
        job()
        assert [kernel.is_ready for kernel in kernels] == [True] * (k + 1) + [False] * (2 - k)


def test_threads_that_share_an_explainer_compile_it_once(monkeypatch):
    table = np.random.default_rng(0).normal(size=(200, 6))
    explainer = Explainer(PPCA(2).fit(table))
    made, compile_exact = [], shapley.compile_exact

    def slow(*given, **options):
        made.append(1)
        time.sleep(0.05)
        return compile_exact(*given, **options)

    monkeypatch.setattr(engine, "compile_exact", slow)
    with ThreadPoolExecutor(4) as pool:
        values = list(pool.map(lambda _: explainer.compile().explain(table[:3]).values, range(4)))
    assert len(made) == 1
    assert all((value == values[0]).all() for value in values)
    again = copy.deepcopy(explainer)  # its lock is its own
    assert (again.compile().explain(table[:3]).values == values[0]).all()
    assert again._engine._cache.finding is not explainer._engine._cache.finding


def test_threads_inside_threads_do_not_wait_for_each_other():
    inner = lambda task: sum(culpa._core.threads.in_threads(lambda x: x * task, range(5), 2))  # noqa: E731
    assert culpa._core.threads.in_threads(inner, range(8), 2) == [10 * task for task in range(8)]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return rng.normal(size=(300, 4)) @ rng.normal(size=(4, 9)) + 0.3 * rng.normal(size=(300, 9)) + 5


@pytest.mark.parametrize("method", ["exact", "permutation"])
class TestSameRowSameAnswer:
    def test_whatever_the_batch(self, table, method):
        explain = Explainer(PPCA(4).fit(table), method=method).explain
        together = explain(table)
        for row in (0, 17):
            np.testing.assert_allclose(
                explain(table[row : row + 1]).values[0], together.values[row], rtol=0, atol=1e-10
            )

    def test_whatever_the_threads(self, table, method):
        one, two = (Explainer(PPCA(4).fit(table), method=method, n_jobs=n).explain(table[:40]) for n in (1, 2))
        np.testing.assert_allclose(one.values, two.values, rtol=0, atol=1e-10)
        np.testing.assert_allclose(one.std_error, two.std_error, rtol=0, atol=1e-10)

    def test_whether_compiled_or_walked(self, table, method):
        walked = Explainer(PPCA(4).fit(table), method=method, memory_bytes=0)
        compiled = Explainer(PPCA(4).fit(table), method=method).compile()
        a, b = walked.explain(table), compiled.explain(table)
        assert walked.forms is None
        np.testing.assert_allclose(a.values, b.values, rtol=0, atol=1e-9 * np.abs(a.values).max())
        np.testing.assert_allclose(a.std_error, b.std_error, rtol=0, atol=1e-9 * np.abs(a.values).max())
        np.testing.assert_allclose(b.values.sum(axis=1) + b.base_value, b.score, rtol=1e-9)


class TestCompiledExplainer:
    def test_compiles_by_itself_when_it_pays(self, table):
        explainer = Explainer(PPCA(4).fit(table))
        explainer.explain(table[:3])
        assert explainer.forms is None
        explainer.explain(np.tile(table, (5, 1)))
        assert explainer.forms is not None

    def test_small_calls_add_up(self, table):
        explainer = Explainer(PPCA(4).fit(table))
        first = explainer.explain(table[:3])
        for _ in range(100):
            last = explainer.explain(table[:3])
        assert explainer.forms is not None
        np.testing.assert_allclose(last.values, first.values, rtol=1e-9, atol=1e-10)

    @pytest.mark.parametrize(("live", "most", "compiled_after"), [(False, 0, 79), (True, 1e12, 1), (True, 1e3, None)])
    def test_a_pipe_compiles_soon_or_never(self, live, most, compiled_after, monkeypatch):
        """A file compiles as soon as it pays, a pipe before its first line, unless that would take long."""
        monkeypatch.setattr(batch_explainer, "_LIVE_OPERATIONS", most)
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 12)) + 0.3 * rng.normal(size=(300, 12))
        explainer, notes, compiled = Explainer(PPCA(5).fit(X)), [], []
        by_batch = batch_explainer.BatchExplainer(explainer, live=live, note=notes.append)
        for row in X:
            reading = explainer.columns.read(row[None])
            by_batch.explain(ScoredRows.of(reading, explainer.model, explainer.score))
            compiled.append(explainer.forms is not None)
        assert (compiled.index(True) + 1 if any(compiled) else None) == compiled_after
        assert notes == ([] if compiled_after is None else ["preparing to explain many rows", ""])

    def test_rows_with_missing_cells_are_walked(self, table):
        explainer = Explainer(PPCA(4).fit(table)).compile()
        holes = table[:6].copy()
        holes[2, 3] = np.nan
        walked = Explainer(PPCA(4).fit(table)).explain(holes)
        np.testing.assert_allclose(explainer.explain(holes).values, walked.values, rtol=1e-9, atol=1e-10)

    def test_detector_keeps_it(self, table):
        detector = PCADetector(4).fit(table)
        kept = detector.explainer().compile()
        assert detector.explainer() is kept
        assert detector.explainer(score="t2") is not kept
        assert detector.fit(table).explainer() is not kept

    def test_saved_as_plain_arrays(self, table, tmp_path):
        explainer = Explainer(PPCA(4).fit(table), method="permutation", n_orders=200).compile()
        np.savez(tmp_path / "forms.npz", **explainer.forms.to_arrays())
        with np.load(tmp_path / "forms.npz", allow_pickle=False) as arrays:
            again = QuadraticForms.from_arrays(arrays)
            broken = dict(arrays) | {"constants": arrays["constants"][:, 1:]}
        other = Explainer(PPCA(4).fit(table), method="permutation", n_orders=200)
        other.forms = again
        np.testing.assert_array_equal(other.explain(table).values, explainer.explain(table).values)
        with pytest.raises(ValueError, match="do not fit 9 features"):
            QuadraticForms.from_arrays(broken)
        with pytest.raises(ValueError, match="the forms have 9 players and 9 features, but the model has 8 and 8"):
            Explainer(PPCA(4).fit(table[:, :8])).forms = again

    def test_nothing_to_compile(self, table):
        with pytest.raises(ValueError, match="cannot be compiled"):
            Explainer(PPCA(4).fit(table), game="interventional").compile()


@pytest.mark.parametrize("n_jobs", [0, "two", 1.5])
def test_n_jobs_that_mean_nothing(n_jobs):
    with pytest.raises(ValueError, match="n_jobs must be a number of threads, -1 for all cores"):
        shapley.exact(GAMES["spe"](), np.ones((2, 9)), singles(9), n_jobs=n_jobs)


class TestWhenCompilingPays:
    def test_exact(self):
        game, n = Conditional(scores.spe(gaussian(15, 4))), 15 * 16 // 2  # rows that are walked to find the forms
        cost = plan.exact_cost(game, 15, 15)
        assert [cost.pays(rows) for rows in (1, n // 2, n - 1, 2 * n, 10**6)] == [False, False, False, True, True]
        assert not Explainer(gaussian(15, 4), memory_bytes=1e3)._one_pass.engine.compiles_within(1e15)

    def test_sampled(self):
        for d, p, n_orders, rows in ((33, 9, 1536, 100_000), (100, 1, 96, None)):
            explainer = Explainer(gaussian(d, p), n_orders=n_orders)
            explainer._one_pass.count_rows(np.zeros((2, d)))
            assert not explainer._one_pass.compiling_is_due
            explainer._one_pass.count_rows(np.zeros((rows or 10**6, d)))
            assert explainer._one_pass.compiling_is_due == (rows is not None)


def test_memory_does_not_grow_with_the_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_000_000, 6))
    explainer = Explainer(PPCA(3).fit(X[:1000])).compile()
    tracemalloc.start()
    try:
        why = explainer.explain(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    result = sum(getattr(why, name).nbytes for name in ("values", "std_error", "score", "expected", "score_if_fixed"))
    # one copy of the table may be made while it is checked; work space for a chunk of rows comes on top
    assert peak < result + X.nbytes + 2**27
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score, rtol=1e-8)


class TestOtherArrayLibraries:
    X = 2 * np.random.default_rng(1).normal(size=(5, 9))

    @pytest.mark.parametrize("name", sorted(GAMES))
    def test_strictly_standard_arrays(self, name):
        strict = array_api_strict.asarray(self.X)
        game, rule = GAMES[name](), shapley.order_rule(9, 3, 0)
        for run in (
            lambda X: shapley.exact(game, X, singles(9), at_once=256),
            lambda X: shapley.exact(game, X, GROUPS),
            lambda X: shapley.permutation(game, X, singles(9), rule),
            shapley.compile_exact(game, singles(9)),
        ):
            ours, theirs = run(self.X), run(strict)
            assert isinstance(theirs.values, type(strict))
            assert relative(np.asarray(theirs.values), ours.values) < 1e-9

    def test_explainer_keeps_the_library(self, table):
        explainer = Explainer(PPCA(4).fit(table))
        shares = explainer.shares(array_api_strict.asarray(table[:7]))
        np.testing.assert_allclose(
            np.asarray(shares.values), explainer.explain(table[:7]).values, rtol=1e-9, atol=1e-12
        )
        with pytest.raises(ValueError, match=r"X has missing cells\. Use explain"):
            explainer.shares(np.full((1, 9), np.nan))
        with pytest.raises(ValueError, match="the model has 9 features"):
            explainer.shares(table[:, :4])

    def test_numbers_keep_64_bits(self, monkeypatch):
        """Other libraries may take a Python number for one of 32 bits, as torch does."""
        strict, given = array_api_strict.asarray(self.X), []

        class Library:
            @staticmethod
            def asarray(array, device):
                given.append(array)
                return array_api_strict.asarray(array, device=device)

        monkeypatch.setattr(culpa.games.arrays, "array_namespace", lambda X: Library)
        as_array_like(1 / 3, strict)
        frozen = np.ones(3)
        frozen.flags.writeable = False
        as_array_like(frozen, strict)
        assert [array.dtype for array in given] == [np.float64] * 2
        assert all(array.flags.writeable for array in given)

    @pytest.mark.parametrize("name", sorted(GAMES))
    def test_torch_games(self, name):
        torch = pytest.importorskip("torch", reason="torch is not installed; it is optional")
        game, rule, X = GAMES[name](), shapley.order_rule(9, 3, 0), torch.asarray(self.X)
        for run in (
            lambda X: shapley.exact(game, X, singles(9)),
            lambda X: shapley.permutation(game, X, singles(9), rule),
            shapley.compile_exact(game, singles(9)),
        ):
            assert relative(run(X).values.numpy(), run(self.X).values) < 1e-9

    def test_torch(self, table):
        torch = pytest.importorskip("torch", reason="torch is not installed; it is optional")
        device = "cuda" if torch.cuda.is_available() else "cpu"
        X = torch.asarray(table[:7], device=device)
        for explainer in (Explainer(PPCA(4).fit(table)), Explainer(PPCA(4).fit(table)).compile()):
            shares = explainer.shares(X)
            assert shares.values.device == X.device
            assert shares.values.dtype == torch.float64
            np.testing.assert_allclose(shares.values.cpu(), explainer.explain(table[:7]).values, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("n", "d", "limited"), [(1, 200, True), (4, 120, True), (1, 40, False)])
def test_few_rows_of_many_features_use_one_thread_of_blas(monkeypatch, n, d, limited):
    """Next to busy processes, threads of BLAS would wait for each other; where there is little to do it uses none."""
    used = []

    @contextmanager
    def limit():
        used.append(True)
        yield

    monkeypatch.setattr(form_evaluation, "one_blas_thread", limit)
    rng = np.random.default_rng(0)
    flat, X = rng.normal(size=(d, d * (d + 1) // 2)), rng.normal(size=(n, d))
    found = form_evaluation.evaluate_threaded(flat, np.zeros(d), X, None, None)
    first, second = np.triu_indices(d)
    np.testing.assert_allclose(found, (X[:, first] * X[:, second]) @ flat.T, atol=1e-9)
    assert bool(used) == limited
