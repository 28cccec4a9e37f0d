"""How soon Ctrl-C is answered: `python -m benchmarks.interrupts [--only TEXT] [--times N]`.

Each job takes much longer than it is given. It is interrupted at several moments, while two other processes keep two cores
busy. Commands must end with exit code 130 and leave the old output as it was, Python calls must raise `KeyboardInterrupt`.
Prints a Markdown table of the seconds from the signal to the end of the command, or to the exception.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BUSY_PROCESSES = 2
DELAYS = (2.3, 5.1, 0.7, 3.9, 1.4)  # seconds of work before the signal
LONGEST_DELAY = 20.0  # seconds, of those that are random
STARTING = 4.0  # seconds that a command needs to import
OLD = b"the output of an earlier run"
WITHIN = 1.0  # seconds

PREPARE = """
import sys
import numpy as np, pandas as pd
from culpa import PCADetector
folder = sys.argv[1]
def table(name, n, d, seed=0, faults=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) @ np.random.default_rng(9).normal(size=(5, d)) + rng.normal(size=(n, d))
    X[::7] += 9 * faults * (np.arange(d) == 3)
    columns = {f"x{i:03}": X[:, i] for i in range(d)}
    pd.DataFrame(columns).astype("float32").to_parquet(f"{folder}/{name}.parquet")
    return X
table("long", 2_000_000, 30)
for d in (24, 120):
    PCADetector(n_components=5, limit="formula").fit(pd.DataFrame(
        table(f"normal{d}", 20_000, d), columns=[f"x{i:03}" for i in range(d)])).save(f"{folder}/plant{d}.culpa")
    table(f"new{d}", 100_000, d, seed=1, faults=1)
"""

# what Python calls have in common: they say when they start to work, and when they are told to stop
CALL = """
import time
import numpy as np
from culpa import *
rng = np.random.default_rng(0)
def rows(n, d):
    return rng.normal(size=(n, 5)) @ rng.normal(size=(5, d)) + rng.normal(size=(n, d))
def model(d, p, noise=0.3):
    return LatentGaussian(np.zeros(d), rng.normal(size=(d, p)), noise)
{prepare}
print("working", flush=True)
try:
    while True:
        {call}
except KeyboardInterrupt:
    print(time.time(), flush=True)
"""


@dataclass(frozen=True)
class Job:
    """A command of culpa (words) or a call from Python (preparation and call)."""

    name: str
    words: tuple[str, ...] = ()
    prepare: str = "pass"
    call: str = ""


JOBS = (
    Job("`culpa fit`, 2,000,000 rows, 30 columns", ("fit", "long.parquet", "-o", "out")),
    Job("`culpa fit --model student`", ("fit", "normal24.parquet", "-o", "out", "--model", "student")),
    Job("`culpa score`", ("score", "new120.parquet", "-m", "plant120.culpa", "-o", "out", "--format", "csv")),
    Job(
        "`culpa explain`, exact, 24 features",
        ("explain", "new24.parquet", "-m", "plant24.culpa", "-o", "out", "--format", "csv"),
    ),
    Job(
        "`culpa explain`, sampled, 120 features",
        ("explain", "new120.parquet", "-m", "plant120.culpa", "-o", "out", "--format", "csv"),
    ),
    Job("`culpa incidents`", ("incidents", "new120.parquet", "-m", "plant120.culpa", "-o", "out", "--format", "csv")),
    Job("`culpa report`", ("report", "new24.parquet", "-m", "plant24.culpa", "-o", "out")),
    Job("`culpa calibrate`", ("calibrate", "normal24.parquet", "-o", "out")),
    Job("`culpa reproduce table1`", ("reproduce", "table1", "-o", "folder")),
    Job(
        "exact, 26 features",
        prepare="e = Explainer(model(26, 8), method='exact'); X = rows(40, 26)",
        call="e.explain(X)",
    ),
    Job(
        "exact, tiny noise, 26 features",
        prepare="e = Explainer(model(26, 8, 1e-9), method='exact'); X = rows(40, 26)",
        call="e.explain(X)",
    ),
    Job(
        "sampled, 300 features, 40 components",
        prepare="X = rows(2000, 300)",
        call="Explainer(model(300, 40), method='permutation').explain(X)",
    ),
    Job(
        "sampled, 100 features, eight missing cells",
        prepare="X = rows(3000, 100); X[np.arange(3000)[:, None], rng.integers(100, size=(3000, 8))] = np.nan",
        call="Explainer(model(100, 10), method='permutation', n_orders=24_000).explain(X)",
    ),
    Job(
        "kernel regression, 120 features",
        prepare="X = rows(500, 120)",
        call="Explainer(model(120, 9), method='kernel').explain(X)",
    ),
    Job(
        "retraining game, 14 features",
        prepare="X = rows(500, 14); e = Explainer(PPCA(n_components=3).fit(X), game='retraining')",
        call="e.explain(X)",
    ),
    Job(
        "any score, 20 features",
        prepare="X = rows(3000, 20); f = lambda Z: np.tanh(Z).sum(axis=1)",
        call="Explainer(score=f, normal=X).explain(X)",
    ),
    Job("fit, 4,000 x 2,500", prepare="X = rows(4000, 2500)", call="PCADetector(n_components=5).fit(X)"),
    Job(
        "fit with missing cells, 20,000 x 100",
        prepare="X = rows(20_000, 100); X[rng.random(X.shape) < 0.1] = np.nan",
        call="PCADetector(n_components=5).fit(X)",
    ),
    Job("fit of modes, 200,000 x 20", prepare="X = rows(200_000, 20)", call="PCADetector(modes=4).fit(X)"),
)
COMPILE = Job(
    "first use, kernels not compiled",
    prepare="e = Explainer(model(26, 8), method='exact'); X = rows(9, 26)",
    call="e.explain(X)",
)


@contextmanager
def busy_cores() -> Iterator[None]:
    """Other processes that compute all the time."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY_PROCESSES)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def interrupt(job: Job, folder: Path, delay: float, environment: dict[str, str]) -> tuple[float, str]:
    """Seconds from the signal to the answer, and what was wrong with it, if anything."""
    (folder / "out").write_bytes(OLD)
    code = CALL.format(prepare=job.prepare, call=job.call)
    words = ["-m", "culpa", *job.words, *(["--force"] if "out" in job.words else [])] if job.words else ["-c", code]
    process = subprocess.Popen(
        [sys.executable, *words], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    if not job.words:
        process.stdout.readline()
    time.sleep(delay + STARTING * bool(job.words))
    if process.poll() is not None:
        return 0.0, f"ended by itself: {process.communicate()[1][-300:]}"
    sent = time.time()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate()
    if not job.words:
        return (float(output) - sent, "") if output else (time.time() - sent, errors[-300:])
    seconds = time.time() - sent
    left = [path.name for path in folder.iterdir() if path.name.endswith(".part")]
    problems = [f"exit code {process.returncode}: {errors[-300:]}"] * (process.returncode != 130)
    problems += [f"left {left}"] * bool(left)
    problems += ["the old output changed"] * ((folder / "out").read_bytes() != OLD)
    return seconds, "; ".join(problems)


def delays(times: int) -> tuple[float, ...]:
    """When to interrupt a job: at moments that are the same in every run, then at random ones."""
    return (*DELAYS, *(random.uniform(0.2, LONGEST_DELAY) for _ in range(times - len(DELAYS))))[:times]


def measure(job: Job, folder: Path, delays: tuple[float, ...], environment: dict[str, str]) -> list[str]:
    """Print a line of the table; returns what went wrong."""
    answers = [interrupt(job, folder, delay, environment) for delay in delays]
    seconds = [answer[0] for answer in answers]
    print(f"| {job.name} | {sorted(seconds)[len(seconds) // 2]:.2f} | {max(seconds):.2f} |", flush=True)
    late = [f"{job.name}: answered after {max(seconds):.2f} s"] * (max(seconds) > WITHIN)
    return late + [f"{job.name}: {problem}" for _, problem in answers if problem]


def main() -> None:
    # a shell ignores Ctrl-C for programs in the background, and jobs would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only jobs whose name contains this")
    parser.add_argument(
        "--times", type=int, default=len(DELAYS), help="interrupts of each job, from the sixth at random"
    )
    options = parser.parse_args()
    problems = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-c", PREPARE, name], check=True)
        print("| job | median, s | longest, s |\n| --- | --- | --- |")
        with busy_cores():
            for job in (*JOBS, COMPILE):
                if options.only in job.name:
                    fresh = {"NUMBA_CACHE_DIR": str(folder / "empty")} if job is COMPILE else {}
                    problems += measure(job, folder, delays(options.times), os.environ | fresh)
    sys.exit("\n".join(problems) or None)


if __name__ == "__main__":
    main()
