"""Threads and processes that use one detector get the numbers that it gives alone, and none waits for ever."""

import copy
import decimal
import importlib
import locale
import os
import pickle
import pkgutil
import random
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import culpa
from culpa import Explainer, PCADetector
from culpa._core.threads import in_threads, one_blas_thread
from culpa._kernels.contributions import CONTRIBUTIONS
from culpa._kernels.elimination_steps import ELIMINATION


@pytest.fixture
def compiled(monkeypatch):
    """Kernels are used even for small jobs."""
    for kernel in (ELIMINATION.kernel, CONTRIBUTIONS):
        monkeypatch.setattr(kernel, "worth", 0.0)


def answers(detector, X):
    exact = detector.explain(X[:5])
    sampled = detector.explain(X[:5], method="permutation", seed=1)
    return np.concatenate([detector.score_samples(X), exact.values.ravel(), sampled.values.ravel()])


def normal_rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 3)) @ rng.normal(size=(3, 9)) + rng.normal(size=(200, 9))


@pytest.mark.usefixtures("compiled")
def test_sixteen_threads_on_one_detector():
    X = normal_rows()
    expected = answers(PCADetector(n_components=3).fit(X), X)
    detector, start = PCADetector(n_components=3).fit(X), threading.Barrier(16)

    def work(_):
        start.wait()
        return answers(detector, X)

    with ThreadPoolExecutor(16) as pool:
        for found in pool.map(work, range(16), timeout=120):
            np.testing.assert_allclose(found, expected, rtol=1e-9)


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_blas_threads_are_given_back_when_the_last_thread_leaves():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before
        in_threads(lambda _: None, range(4), 2)
        assert blas_threads() == before


# what a worker process does must be importable there, so it is a file of its own
SCRIPT = """
import multiprocessing
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from culpa import PCADetector, load

warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of forks beside threads
PATH = Path("plant.culpa")
ROWS = np.random.default_rng(0).normal(size=(200, 9)) @ np.random.default_rng(1).normal(size=(9, 9))


def work(detector):
    from culpa._kernels.elimination_steps import ELIMINATION

    ELIMINATION.kernel.worth = 0.0
    detector.save(PATH)
    return np.stack([each.explain(ROWS[:5]).values for each in (detector, load(PATH))])


def started(detector, method, n):
    with multiprocessing.get_context(method).Pool(n) as pool:
        return pool.map(work, [detector] * 4, chunksize=1)


if __name__ == "__main__":
    detector = PCADetector(n_components=3).fit(ROWS)
    expected = work(detector)  # so that threads, BLAS and kernels have been used before
    for name, found in (
        ("fork", started(detector, "fork", 2)),
        ("spawn", started(detector, "spawn", 1)),
        ("loky", Parallel(2, backend="loky")(delayed(work)(detector) for _ in range(2))),
    ):
        np.testing.assert_allclose(found, [expected] * len(found), rtol=1e-9, err_msg=name)
    assert {path.name for path in Path().iterdir()} == {"workers.py", PATH.name}
    print("equal")
"""


def test_processes_that_fork_spawn_or_are_started_by_loky(tmp_path):
    """All of them also write the same model file at once."""
    script = tmp_path / "workers.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-B", "-W", "error::UserWarning", script.name]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert (result.returncode, result.stdout) == (0, "equal\n"), result.stderr[-3000:]


def classes_in_use():
    """All classes with cached properties that an explainer or a detector may hold."""
    for package in (culpa, culpa.explaining, culpa.games, culpa.models, culpa.scores, culpa.shapley):
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if not found.ispkg and found.name not in ("culpa.mlflow", "culpa.__main__"):
                for value in vars(importlib.import_module(found.name)).values():
                    if isinstance(value, type) and value.__module__ == found.name:
                        yield value


def test_all_that_grow_in_use_are_copied_from_a_snapshot():
    growing = {each for each in classes_in_use() if any(isinstance(x, cached_property) for x in vars(each).values())}
    assert len(growing) > 15
    assert [each.__name__ for each in growing if each.__getstate__ is getattr(object, "__getstate__", None)] == []


class Interrupting:
    """Something in an explainer that runs other code while it is copied, as another thread might."""

    def __init__(self, other_code):
        self.other_code = other_code

    def __call__(self, *_):
        pass

    def __deepcopy__(self, memo):
        self.other_code()
        return None

    def __reduce__(self):
        self.other_code()
        return dict, ()


@pytest.mark.parametrize("copied", [copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("options", [{}, {"method": "permutation"}, {"method": "kernel"}, {"game": "retraining"}])
def test_an_explainer_is_copied_during_its_first_call(copied, options):
    X = normal_rows()
    explainer = Explainer(PCADetector(n_components=3).fit(X), **options)
    explainer.progress = Interrupting(lambda: explainer.explain(X[:5]))
    copied(explainer)
    assert "_one_pass" in vars(explainer)  # it was used meanwhile


def test_a_detector_that_has_learned_from_few_rows_can_be_pickled():
    X = normal_rows()
    with pytest.warns(UserWarning, match="extrapolated"):
        detector = PCADetector(n_components=3).fit(X[:60])
    again, scores = pickle.loads(pickle.dumps(detector)), -detector.score_samples(3 * X)
    np.testing.assert_array_equal(again.fitted.p_values(scores), detector.fitted.p_values(scores))


def state_of_the_process():
    """What belongs to the whole process, and to the user."""
    return {
        "warnings": list(warnings.filters),
        "shown by": warnings.showwarning,
        "floating point": np.geterr(),
        "blas": blas_threads(),
        "locale": locale.setlocale(locale.LC_ALL),
        "random": random.getstate(),
        "numpy random": str(np.random.get_state()),  # noqa: NPY002
        "signal": signal.getsignal(signal.SIGINT),
        "folder": str(Path.cwd()),
        "environment": dict(os.environ),
        "decimals": decimal.getcontext().prec,
        "printed": np.get_printoptions(),
    }


X = pd.DataFrame(normal_rows(), columns=[f"x{j}" for j in range(9)])
NEW = X.iloc[:40].copy()
NEW.iloc[20:26, 2] += 6
HOLES = NEW.where(np.random.default_rng(1).random(NEW.shape) > 0.1)
EMPTY = HOLES.copy()
EMPTY.iloc[3] = np.nan  # of which a report gives no warning


def saved(detector):
    with tempfile.TemporaryDirectory() as folder:
        detector.save(Path(folder) / "plant.culpa")
        return culpa.load(Path(folder) / "plant.culpa").explain(NEW).values


# with a detector and an explainer that all threads use
CALLS = {
    "predict": lambda d, e: d.predict(NEW),
    "score": lambda d, e: d.score_samples(NEW.iloc[::-1]),
    "statistics": lambda d, e: d.statistics(HOLES)["spe"],
    "exact": lambda d, e: d.explain(NEW).values,
    "missing": lambda d, e: d.explain(HOLES).values,
    "sampled": lambda d, e: d.explain(NEW, method="permutation", seed=1, n_orders=60).values,
    "kernel": lambda d, e: d.explain(NEW.iloc[:3], method="kernel", seed=1).values,
    "retraining": lambda d, e: d.explain(NEW, game="retraining", score="spe").values,
    "groups": lambda d, e: d.explain(NEW, groups={"a": ["x0", "x1"]}, n_jobs=2).values,
    "compiled": lambda d, e: e.compile().explain(NEW).values,
    "explainer": lambda d, e: e.explain(HOLES).values,
    "counterfactual": lambda d, e: d.explain(NEW.iloc[20:23]).counterfactual().score_if_changed,
    "incidents": lambda d, e: [(one.first, one.last, one.score) for one in d.incidents(NEW)],
    "report": lambda d, e: [len(d.report(EMPTY).to_dict()["incidents"])],
    "fix": lambda d, e: d.fix(NEW, ["x2"]).score_if_fixed,
    "contributions": lambda d, e: d.contributions(NEW).to_numpy(),
    "drift": lambda d, e: [d.drift(X).to_dict()["n_rows"]],
    "saved": lambda d, e: saved(d),
    "pickled": lambda d, e: pickle.loads(pickle.dumps(d)).explain(NEW).values,
    "copied": lambda d, e: copy.deepcopy(e).explain(NEW).values,
    "fit": lambda d, e: PCADetector(3).fit(X).score_samples(NEW),
    "fit with missing cells": lambda d, e: PCADetector(3).fit(X.where(X < 3)).score_samples(NEW),
    "fit to dirty rows": lambda d, e: PCADetector(3, robust="cells").fit(X).score_samples(NEW),
    "fit modes": lambda d, e: PCADetector(2, modes=2).fit(X).score_samples(NEW),
    "update": lambda d, e: PCADetector(3).fit(X.iloc[:100]).partial_fit(X.iloc[100:]).score_samples(NEW),
    "fit again": lambda d, e: d.fit(X).score_samples(NEW),
}


@pytest.fixture(scope="module")
def alone():
    """The answers of fresh objects, each used once."""
    found = {}
    for name, call in CALLS.items():
        detector = PCADetector(n_components=3).fit(X)
        found[name] = np.asarray(call(detector, Explainer(detector)))
    return found


@pytest.mark.usefixtures("alone")  # so that all packages are loaded: some draw random numbers meanwhile
@pytest.mark.parametrize("name", CALLS)
def test_a_call_leaves_the_process_as_it_was(name):
    detector = PCADetector(n_components=3).fit(X)
    explainer = Explainer(detector)
    with np.errstate(under="raise"), warnings.catch_warnings(), threadpool_limits(2, user_api="blas"):
        warnings.simplefilter("always", ResourceWarning)
        before = state_of_the_process()
        CALLS[name](detector, explainer)
        assert state_of_the_process() == before


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("seed", range(2))
def test_threads_that_do_different_things_get_the_same_answers_and_leave_the_process_as_it_was(alone, seed):
    detector = PCADetector(n_components=3).fit(X)
    explainer = Explainer(detector)
    start = threading.Barrier(8)

    def work(k):
        order = np.random.default_rng([seed, k]).choice(list(CALLS), 12, replace=False)
        start.wait(60)
        return {name: np.asarray(CALLS[name](detector, explainer)) for name in order}

    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(8) as pool:
        before = state_of_the_process()
        for found in pool.map(work, range(8), timeout=240):
            for name, values in found.items():
                scale = np.abs(alone[name]).max()
                np.testing.assert_allclose(values, alone[name], rtol=0, atol=1e-9 * scale, err_msg=name)
        assert state_of_the_process() == before
