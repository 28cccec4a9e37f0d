"""Processor seconds for a given precision, beside an older version: ``python -m benchmarks --only sampling``.

The older version is a work tree of the repository, ``CULPA_BEFORE=/path/to/tree``. It also has independent random orders,
with a compiled walk. Without it, only this version is measured.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.problems import Problem
from culpa import LatentGaussian

ROWS, GOALS, SEEDS = 100, (0.01, 0.001), 3
_WORKER = Path(__file__).with_name("sampling_worker.py")
_HERE = Path(__file__).parents[1]


def large_model() -> dict[str, np.ndarray]:
    """1,000 features with 50 components, and rows with five outliers each."""
    rng, (d, p) = np.random.default_rng(0), (1000, 50)
    loadings = rng.standard_normal((d, p)) * np.sqrt(np.linspace(2, 0.2, p) / p)
    model = LatentGaussian(np.zeros(d), loadings, 0.3)
    rows = model.sample(ROWS, rng)
    for row in rows:
        row[rng.integers(0, d, 5)] += 4 * rng.choice([-1, 1], 5)
    return {"loadings": model.loadings, "noise": np.array(0.3), "rows": rows}


def arrays_of(problem: Problem) -> dict[str, np.ndarray]:
    """Its model, and rows from all over the test set."""
    model = problem.detector.fitted.deciding_model.gaussian
    rows = problem.rows[np.linspace(0, len(problem.rows) - 1, ROWS).astype(int)]
    return {"loadings": model.loadings, "noise": np.array(model.noise_variance), "rows": rows}


def sampling(name: str, arrays: dict[str, np.ndarray], score: str, goal: float) -> dict[str, Any]:
    """Seconds of one core after which the median relative error of the rows is the goal.

    Errors are the spread between seeds. They fall at least with the square root of the time, by which seconds are scaled.
    """
    before = os.environ.get("CULPA_BEFORE")
    seconds = {"now": _seconds(_HERE, arrays, score, "default", goal, goal)}
    if before is not None:
        seconds["before"] = _seconds(Path(before), arrays, score, "default", goal, goal)
        seconds["independent orders"] = _seconds(Path(before), arrays, score, "independent", 600, goal)
    line: dict[str, Any] = {"model": name, "d": arrays["rows"].shape[1], "score": score, "goal": goal} | seconds
    if before is not None:
        line["times sooner than before"] = seconds["before"] / seconds["now"]
        line["than independent orders"] = seconds["independent orders"] / seconds["now"]
    return line


def _seconds(tree: Path, arrays: dict[str, np.ndarray], score: str, way: str, size: float, goal: float) -> float:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "model.npz"), Path(folder, "found.npz")
        np.savez(source, **arrays)
        environment = os.environ | {"PYTHONPATH": str(tree / "src"), "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-P", str(_WORKER), str(source), score, way, str(size), str(SEEDS), str(target)]
        subprocess.run(command, check=True, env=environment, cwd=folder)
        found = np.load(target)
    values = found["values"]
    spread = np.sqrt(values.var(axis=0, ddof=1).sum(axis=1)) / np.linalg.norm(values.mean(axis=0), axis=1)
    return float(found["seconds"].min() * (np.median(spread) / goal) ** 2)
