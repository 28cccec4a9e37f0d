"""Threads and processes that use one detector get the numbers that it gives alone, and none waits for ever."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from culpa import PCADetector
from culpa._core.threads import in_threads, one_blas_thread
from culpa._kernels.elimination_steps import ELIMINATION
from culpa._kernels.orders import ORDERS


@pytest.fixture
def compiled(monkeypatch):
    """Kernels are used even for small jobs."""
    for kernel in (ELIMINATION.kernel, ORDERS):
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


# what a worker process does; it must be importable there, so it is a file of its own
SCRIPT = """
import multiprocessing
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path[:0] = [{tests!r}]
from culpa import PCADetector, load
from test_concurrency import answers, normal_rows

warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of forks beside threads
PATH = Path("plant.culpa")


def work(detector):
    from culpa._kernels.elimination_steps import ELIMINATION
    from culpa._kernels.orders import ORDERS

    ELIMINATION.kernel.worth = ORDERS.worth = 0.0
    detector.save(PATH)
    return np.stack([answers(detector, normal_rows()), answers(load(PATH), normal_rows())])


def started(detector, method):
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        return pool.map(work, [detector] * 2, chunksize=1)


def loky(detector, method):
    from joblib import Parallel, delayed

    return Parallel(2, backend=method)(delayed(work)(detector) for _ in range(2))


if __name__ == "__main__":
    detector = PCADetector(n_components=3).fit(normal_rows())
    expected = work(detector)  # so that threads, BLAS and kernels have been used before
    for found in {function}(detector, {method!r}):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert [path.name for path in Path().iterdir() if not path.suffix == ".py"] == [PATH.name]
    print("equal")
"""


@pytest.mark.parametrize(("function", "method"), [("started", "fork"), ("started", "spawn"), ("loky", "loky")])
def test_processes(function, method, tmp_path):
    script = tmp_path / "workers.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent), function=function, method=method))
    command = [sys.executable, "-W", "error::UserWarning", script.name]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert (result.returncode, result.stdout) == (0, "equal\n"), result.stderr[-3000:]
