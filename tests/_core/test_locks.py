"""A forked process never waits for a thread that it does not have."""

import copy
import os
import pickle
import re
import signal
import threading
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import culpa
from culpa import Explainer
from culpa._core.locks import Lock
from culpa._core.threads import one_blas_thread
from culpa._kernels.kernel import Kernel
from culpa.models import LatentGaussian
from culpa.shapley.engine import Engine
from culpa.shapley.form_cache import FormCache

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


def in_child(work, seconds=30):
    """Whether a forked process does some work in time."""
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


class Busy:
    """A thread that stays inside a call until it is released; another process is not stopped there."""

    def __init__(self, monkeypatch, owner, name):
        self.inside, self.go_on, parent = threading.Event(), threading.Event(), os.getpid()
        original = getattr(owner, name)

        def slow(*arguments, **options):
            if os.getpid() == parent and threading.current_thread() is self.thread:
                self.inside.set()
                self.go_on.wait(60)
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, slow)

    def start(self, work):
        self.thread = threading.Thread(target=work)
        self.thread.start()
        assert self.inside.wait(20)
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.go_on.set()
        self.thread.join()


def an_explainer(seed=0):
    rng = np.random.default_rng(seed)
    return Explainer(LatentGaussian(np.zeros(6), rng.normal(size=(6, 2)), 0.5)), rng.normal(size=(20, 6))


def test_child_of_a_process_that_compiles_forms(monkeypatch):
    explainer, rows = an_explainer()
    expected = Explainer(explainer.model).explain(rows).values
    with Busy(monkeypatch, Engine, "_find_forms").start(explainer.compile):

        def work():
            np.testing.assert_allclose(explainer.compile().explain(rows).values, expected, rtol=1e-9)

        assert in_child(work)


def test_child_of_a_process_that_finds_forms_of_missing_cells(monkeypatch):
    explainer, rows = an_explainer()
    explainer.compile()
    rows[:, 2] = np.nan
    expected = Explainer(explainer.model).explain(rows).values
    with Busy(monkeypatch, FormCache, "_forms_of").start(lambda: explainer.explain(rows)):
        assert in_child(lambda: np.testing.assert_allclose(explainer.explain(rows).values, expected, rtol=1e-9))


def test_child_of_a_process_that_computes_a_cached_property(monkeypatch):
    """In Python 3.11 all objects share its lock."""
    cached = vars(Engine)["_cost_of_complete"]
    assert isinstance(cached, cached_property)
    explainer, rows = an_explainer()
    with Busy(monkeypatch, cached, "func").start(lambda: explainer.explain(np.repeat(rows, 50, axis=0))):
        assert in_child(lambda: an_explainer(1)[0].explain(np.repeat(rows, 50, axis=0)))


def double(array):
    array *= 2


def test_a_fork_waits_for_numba(monkeypatch):
    """Which has locks of its own, so that a child forked while it compiles could never compile anything."""
    kernel, timer = Kernel(double, 0.0), None
    with Busy(monkeypatch, kernel, "_prepare").start(lambda: kernel(np.ones(3))) as busy:
        timer = threading.Timer(0.5, busy.go_on.set)
        timer.start()

        def work():
            assert kernel.is_ready
            kernel(array := np.ones(2))
            assert array.tolist() == [2, 2]

        assert in_child(work)
    timer.join()


def test_a_child_does_without_numba_if_the_fork_could_not_wait():
    """Compiling may take longer than a fork waits, and may be somebody else's."""
    from numba.core.compiler_lock import global_compiler_lock

    kernel, ready, inside, go_on = Kernel(double, 0.0), Kernel(double, 0.0), threading.Event(), threading.Event()
    ready(np.ones(3))

    def compile_for_long():
        with global_compiler_lock:
            inside.set()
            go_on.wait(60)

    thread = threading.Thread(target=compile_for_long)
    thread.start()
    assert inside.wait(20)

    def work():
        assert not kernel.pays(1e30)
        assert ready.pays(1.0)
        for each in (kernel, ready):
            each(array := np.ones(2))
            assert array.tolist() == [2, 2]

    try:
        assert in_child(work, seconds=10)
    finally:
        go_on.set()
        thread.join()
    assert in_child(lambda: kernel(np.ones(2)))


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_child_of_a_process_that_limits_blas():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()

        def unlimited():
            assert blas_threads() == before
            with one_blas_thread():
                assert blas_threads() == {1}
            assert blas_threads() == before

        with one_blas_thread():
            assert in_child(unlimited)
            assert blas_threads() == {1}
        assert blas_threads() == before


def test_a_lock_stays_held_by_the_thread_that_forks():
    lock = Lock()

    def work():
        threading.Thread(target=lambda: (lock.__enter__(), os._exit(1)), daemon=True).start()
        with lock:
            pass

    with lock:
        assert in_child(work)
    with lock:
        pass


def test_forks_beside_threads_that_make_and_drop_locks():
    done, kept = threading.Event(), Lock(1.0)

    def work():
        while not done.is_set():
            with Lock(), kept:
                pass

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert all(in_child(kept.__enter__) for _ in range(20))
    done.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_copies_of_a_lock_are_open():
    lock = Lock(2.0)
    with lock:
        for other in (copy.copy(lock), copy.deepcopy(lock), pickle.loads(pickle.dumps(lock))):
            assert other.seconds == 2.0
            threads = [threading.Thread(target=other.__enter__, daemon=True)]
            threads[0].start()
            threads[0].join(10)
            assert not threads[0].is_alive()


def test_all_locks_are_made_in_one_module():
    source = Path(culpa.__file__).parent
    found = [
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(
            r"\b(R?Lock|Condition|Semaphore|Barrier)\(", path.read_text(encoding="utf-8").replace(" Lock(", "")
        )
    ]
    assert found == ["_core/locks.py"]
