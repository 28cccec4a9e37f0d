"""Ctrl-C is answered inside long calculations: those that threads share, and single calls of NumPy."""

import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from culpa._core.threads import InterruptAfterwards, in_own_thread, in_threads, interruptible, stop_if_given_up

LONG = np.zeros(1 << 19)  # large enough for a thread of its own

CALL = """
import sys, time
import numpy as np
from culpa import Explainer, LatentGaussian
from culpa._core.threads import interruptible
rng = np.random.default_rng(0)
X, matrix = rng.normal(size=(500, {d})), rng.normal(size=(3000, 3000))
explainer = Explainer(LatentGaussian(np.zeros({d}), rng.normal(size=({d}, 9)), 0.3), method="{method}")
try:
    print("working", flush=True)
    while True:
        {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    import os
    os._exit(0)  # Python itself would wait for the call that was left behind
"""
CALLS = {
    "exact": (26, "exact", "explainer.explain(X)"),
    "kernel regression": (120, "kernel", "explainer.explain(X)"),
    "sampled": (200, "permutation", "explainer.explain(X)"),
    "decomposition": (5, "exact", "interruptible(np.linalg.svd, matrix)"),
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_ctrl_c_is_answered_soon(name):
    d, method, call = CALLS[name]
    program = CALL.format(d=d, method=method, call=call)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "working\n"
        time.sleep(1.0)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "interrupted\n"
        seconds = time.monotonic() - start
    assert seconds < 3  # it takes a few tenths; machines that run tests are busy


KERNEL = """
import os, signal, threading, time
import numpy as np
from culpa._kernels.form_values import FORM_VALUES
rng = np.random.default_rng(0)
forms, constants, rows, result = rng.random((1, 6 * 78)), np.zeros(6), rng.random((8, 12)), np.empty((8, 6))
FORM_VALUES(forms, constants, rows, result)
answered = 0
for k in range(30):
    try:
        threading.Timer(0.01 + 0.0007 * k, os.kill, (os.getpid(), signal.SIGINT)).start()
        end = time.monotonic() + 2
        while time.monotonic() < end:
            FORM_VALUES(forms, constants, rows, result)
    except KeyboardInterrupt:
        answered += 1
print(answered)
"""


def test_ctrl_c_is_not_lost_in_a_kernel():
    """numba looks at the arguments of each call, and would drop an exception of that moment."""
    done = subprocess.run([sys.executable, "-c", KERNEL], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("30\n", "")


class TestInterruptAfterwards:
    def test_the_block_ends_first(self):
        done = []

        def interrupted():
            with InterruptAfterwards():
                signal.raise_signal(signal.SIGINT)
                done.append(True)

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert done
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_an_error_of_the_block_comes_through(self):
        with pytest.raises(ValueError, match="own"), InterruptAfterwards():
            raise ValueError("own")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_signals_that_somebody_handles_are_left_alone(self):
        seen = []
        before = signal.signal(signal.SIGINT, lambda *_: seen.append(True))
        try:
            with InterruptAfterwards():
                signal.raise_signal(signal.SIGINT)
                assert seen == [True]
        finally:
            signal.signal(signal.SIGINT, before)

    def test_another_thread_changes_nothing(self):
        def enter():
            with InterruptAfterwards():
                return signal.getsignal(signal.SIGINT) is signal.default_int_handler

        assert in_own_thread(enter)


class TestInterruptible:
    def test_results_and_errors_come_back(self):
        assert interruptible(np.sum, LONG + 1) == LONG.size
        with pytest.raises(np.linalg.LinAlgError):
            interruptible(lambda _: np.linalg.inv(np.zeros((2, 2))), LONG)

    def test_settings_of_numpy_hold_in_the_other_thread(self):
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            interruptible(lambda x: 1 / x, LONG)

    @pytest.mark.parametrize(("array", "is_main"), [(LONG, False), (LONG[:9], True)])
    def test_only_long_calls_get_a_thread(self, array, is_main):
        thread = interruptible(lambda _: threading.current_thread(), array)
        assert (thread is threading.main_thread()) == is_main


class TestOtherThreadsStop:
    """While another thread works, the main thread does something and Ctrl-C is pressed."""

    def steps_of_the_other(self, in_main_thread):
        works, n_steps = threading.Event(), 0

        def task(number):
            nonlocal n_steps
            if threading.current_thread() is threading.main_thread():
                assert works.wait(10)
                in_main_thread()
                return
            works.set()
            for _ in range(1000):
                stop_if_given_up()
                n_steps += 1
                time.sleep(0.01)

        with pytest.raises(KeyboardInterrupt):
            in_threads(task, range(2), 2)
        return n_steps

    def test_when_a_task_fails(self):
        def fail():
            raise KeyboardInterrupt

        assert self.steps_of_the_other(fail) < 500
        assert in_threads(lambda x: x + 1, range(4), 2) == [1, 2, 3, 4]
        stop_if_given_up()  # the next piece of work is not given up

    def test_when_the_main_thread_only_waits(self):
        # from another thread, so that the signal does not wake the main thread
        assert self.steps_of_the_other(lambda: press_ctrl_c(0.2)) < 500


def press_ctrl_c(seconds):
    """After a while, and from another thread."""
    threading.Timer(seconds, signal.raise_signal, [signal.SIGINT]).start()


def test_ctrl_c_does_not_wait_for_a_thread_that_cannot_stop():
    works, may_end = threading.Event(), threading.Event()

    def task(number):
        if threading.current_thread() is threading.main_thread():
            assert works.wait(10)
            raise KeyboardInterrupt
        works.set()
        may_end.wait(10)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        in_threads(task, range(2), 2)
    assert time.monotonic() - began < 5
    may_end.set()


def test_ctrl_c_during_a_call_in_its_own_thread():
    began = time.monotonic()
    press_ctrl_c(0.2)
    with pytest.raises(KeyboardInterrupt):
        in_own_thread(time.sleep, 10)
    assert time.monotonic() - began < 5
