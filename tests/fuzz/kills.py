"""Commands that are interrupted or killed at random moments.

Afterwards the output is the old one or the new one, never a mixture. Ctrl-C and SIGTERM leave nothing else behind. What
SIGKILL leaves behind is removed by the next run.
"""

import functools
import os
import re
import signal
import sys
import time

import numpy as np
import pandas as pd

from culpa.__main__ import main
from culpa.io.model_container import read, unpack
from culpa.io.tables import csv_cells
from fuzz.command import run
from fuzz.finding import must

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
COMMANDS = {
    "fit": ("o.model", ["fit", "t.csv", "--columns", "a,b,c,d,e"]),
    "update": ("o.model", ["update", "plant.model", "t.csv"]),
    "score": ("o.csv", ["score", "t.csv", "-m", "plant.model"]),
    "explain": ("o.ndjson", ["explain", "t.csv", "-m", "plant.model"]),
    "score to Parquet": ("o.parquet", ["score", "t.csv", "-m", "plant.model"]),
    "incidents": ("o.ndjson", ["incidents", "t.csv", "-m", "plant.model"]),
    "report": ("o.html", ["report", "t.csv", "-m", "plant.model"]),
}
PATIENCE = 60  # seconds until a command that was interrupted counts as hanging


@functools.cache
def plant(folder):
    """A table, a model, and for each command its duration and the output of an undisturbed run."""
    os.chdir(folder)
    csv_cells._BLOCK = 1 << 17  # many batches, so that outputs grow for a while
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20000, 3)) @ rng.normal(size=(3, 5)) + 0.1 * rng.normal(size=(20000, 5))
    pd.DataFrame(X, columns=list("abcde")).to_csv("t.csv", index=False)
    run(["fit", "t.csv", "--columns", "a,b,c,d,e", "-o", "plant.model"])
    known = {}
    for name, (output, words) in COMMANDS.items():
        run([*words, "-o", output])  # compiles and imports what is needed
        began = time.monotonic()
        must(_end(_start([*words, "-o", output, "--force"], folder)) == 0, f"{name}: {(folder / 'told').read_text()}")
        known[name] = (time.monotonic() - began, _content(folder / output))
        (folder / output).unlink()
    return known


def try_kill(rng, folder):
    known = plant(folder)
    name = list(COMMANDS)[rng.integers(len(COMMANDS))]
    (duration, whole), (output, words) = known[name], COMMANDS[name]
    out, how, old = folder / output, SIGNALS[rng.integers(3)], rng.bytes(20)
    out.write_bytes(old)
    child = _start([*words, "-o", output, "--force"], folder)
    time.sleep(float(rng.random()) * 1.2 * duration)
    code, told = _end(child, how), (folder / "told").read_text()
    # a signal that comes before the command has begun ends the process as it ends any other
    must(code in (0, -how, 128 + how), f"{name}: exit code {code} after {how.name}: {told[-500:]}")
    is_old = out.read_bytes() == old
    must("Traceback" not in told, f"{name}: {told[-500:]}")
    must(is_old or _content(out) == whole, f"{name}: half an output after {how.name}")
    must(not is_old or code != 0, f"{name}: success without an output")
    hidden = _hidden(folder)
    must(not hidden or how == signal.SIGKILL, f"{name}: {hidden} after {how.name}")
    if hidden:
        run([*words, "-o", output, "--force"])
        must(not _hidden(folder), f"{name}: {_hidden(folder)} after the next run")
        must(_content(out) == whole, f"{name}: another output in the next run")
    return f"{how.name}: {'finished' if code == 0 else 'stopped'}{', a part was left and removed' * bool(hidden)}"


def _start(words, folder):
    """The command in a child of this process, which has imported everything."""
    child = os.fork()
    if child:
        return child
    code = 1
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the command has begun, a signal ends the process
    try:
        told = os.open(folder / "told", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(told, 1)
        os.dup2(told, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        sys.argv = ["culpa", *words]
        main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end(child, how=0):
    """Send a signal, and wait; the negative number of the signal if that ended the child."""
    if how:
        os.kill(child, how)  # a child that has ended is there until it is waited for
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    must(False, f"still running after {PATIENCE} s")


def _hidden(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def _content(path):
    """Bytes, or what a model file holds, because the order of the parts of its container varies; no time of creation."""
    if path.suffix != ".model":
        return re.sub(rb"\d{4}-\d\d-\d\d \d\d:\d\d UTC", b"", path.read_bytes())
    arrays, header = unpack(read(path))
    return header, {name: array.tobytes() for name, array in arrays.items()}
