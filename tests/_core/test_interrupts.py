"""Signals end a program soon and with their exit code, whatever became of the `KeyboardInterrupt` on its way."""

import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import os, signal, sys
from culpa._core.interrupts import run_interruptible

def run():
    try:
        os.kill(os.getpid(), signal.{signal})
    except KeyboardInterrupt:
        {then}

run_interruptible(run)
"""


@pytest.mark.parametrize(
    ("signal", "then", "code"),
    [
        ("SIGINT", "raise", 130),
        ("SIGTERM", "raise", 143),
        ("SIGHUP", "raise", 129),
        ("SIGINT", "raise ValueError('another library')", 130),
        ("SIGINT", "sys.exit(1)", 130),
        ("SIGINT", "sys.exit(0)", 0),
        ("SIGINT", "exec('raise KeyboardInterrupt')", 130),  # as in an import; Python itself would die of the signal
    ],
)
def test_exit_code_is_that_of_the_signal(signal, then, code):
    program = PROGRAM.format(signal=signal, then=then)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (code, "Interrupted.\n" if code else "")


IGNORED = """
import os, signal
from culpa._core.interrupts import run_interruptible

for each in (signal.SIGINT, signal.SIGHUP):
    signal.signal(each, signal.SIG_IGN)
run_interruptible(lambda: [os.kill(os.getpid(), each) for each in (signal.SIGINT, signal.SIGHUP)])
print("finished")
"""


def test_signals_that_are_ignored_stay_ignored():
    """As by nohup, and for background jobs of a shell script."""
    result = subprocess.run([sys.executable, "-c", IGNORED], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "finished\n", "")


EARLY = """
import os, signal
from culpa._core import interrupts

interrupts._watch_signals = lambda: os.kill(os.getpid(), signal.SIGTERM)  # while the thread starts
interrupts.run_interruptible(lambda: None)
"""


def test_a_signal_before_the_beginning():
    result = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (-signal.SIGTERM, "")


IMPORTING = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":  # the first large package that commands import
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from culpa.__main__ import main
sys.argv = ["culpa", "--help"]
main()
"""


def test_a_signal_while_the_commands_are_imported():
    result = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "Interrupted.\n")


STUCK = """
import sys
from pathlib import Path
import numpy as np
from culpa._core.files import write_whole
from culpa._core.interrupts import run_interruptible

matrix = np.random.default_rng(0).normal(size=(4000, 4000))

def run():
    with write_whole(Path(sys.argv[1]), force=True) as file:
        file.write(b"new")
        print("stuck", flush=True)
        np.linalg.svd(matrix)  # takes a minute, and Python raises no exception meanwhile

run_interruptible(run)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_long_instruction_is_not_waited_for(number, code, tmp_path):
    output = tmp_path / "out"
    output.write_text("old")
    command = [sys.executable, "-c", STUCK, str(output)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "stuck\n"
        start = time.monotonic()
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
        seconds = time.monotonic() - start
    assert (process.returncode, errors) == (code, "Interrupted.\n")
    assert seconds < 5
    assert output.read_text() == "old"
    assert list(tmp_path.iterdir()) == [output]


LATE = """
import os, signal, sys
from culpa._core.interrupts import run_interruptible

try:
    run_interruptible(lambda: sys.exit({code}))
finally:
    os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_signal_after_the_end_changes_nothing(code):
    result = subprocess.run([sys.executable, "-c", LATE.format(code=code)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (code, "")


SWALLOWED = """
import os, signal, time
from culpa._core.interrupts import run_interruptible

class Deleted:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

def run():
    Deleted()  # Python cannot raise exceptions there
    time.sleep(30)

run_interruptible(run)
"""


def test_an_interrupt_that_python_cannot_raise_is_answered_without_a_traceback():
    result = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (130, "Interrupted.\n")
