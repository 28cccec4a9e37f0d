"""How long a command on a small table takes, beside what Python takes to load scikit-learn's decompositions."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from culpa import PCADetector

_TIMES = 7


def small_commands() -> list[dict[str, Any]]:
    """Seconds of each, the fastest of several runs, which take turns."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(300, 3)) @ rng.normal(size=(3, 8)) + rng.normal(size=(300, 8)))
    table.columns = [f"sensor {j}" for j in range(8)]
    with tempfile.TemporaryDirectory() as folder:
        new, model = Path(folder, "new.csv"), Path(folder, "plant.culpa")
        table.iloc[200:].to_csv(new, index=False)
        PCADetector().fit(table.iloc[:200]).save(model)
        jobs = {"import sklearn.decomposition": [sys.executable, "-c", "import sklearn.decomposition"]}
        for job in ("score", "explain", "incidents"):
            jobs[f"culpa {job}"] = [sys.executable, "-m", "culpa", job, str(new), "-m", str(model), "-q"]
        seconds = {name: min(times) for name, times in _taking_turns(jobs).items()}
    first = next(iter(seconds.values()))
    return [{"what": name, "seconds": took, "ratio": took / first} for name, took in seconds.items()]


def _taking_turns(jobs: dict[str, list[str]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(_TIMES):
        for name, words in jobs.items():
            start = time.perf_counter()
            subprocess.run(words, check=True, capture_output=True)
            found[name].append(time.perf_counter() - start)
    return found
