"""Signals end a program with their exit code, whatever became of the `KeyboardInterrupt` on its way."""

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys
from culpa.cli.interrupts import run_interruptible

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
        ("SIGINT", "raise ValueError('another library')", 130),
        ("SIGINT", "sys.exit(1)", 130),
        ("SIGINT", "sys.exit(0)", 0),
    ],
)
def test_exit_code_is_that_of_the_signal(signal, then, code):
    program = PROGRAM.format(signal=signal, then=then)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (code, "")
