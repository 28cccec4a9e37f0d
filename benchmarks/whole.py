"""Whole answers: `explain` of a million rows beside the values alone, one row, and lines on a pipe."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.timing import best_of, once
from culpa import PCADetector
from culpa._kernels.form_values import FORM_VALUES

D, P = 21, 13


def rows_like(d: int, p: int, n: int, seed: int) -> np.ndarray:
    """Rows of one made-up plant; every third row of those after the first has a fault."""
    plant, rng = np.random.default_rng(0), np.random.default_rng([1, seed])
    X = rng.normal(size=(n, p)) @ plant.normal(size=(p, d)) + 0.3 * rng.normal(size=(n, d))
    faults = np.arange(0, n, 3)
    X[faults, rng.integers(d, size=len(faults))] += 8.0
    return X


def compiled_detector(d: int = D, p: int = P) -> PCADetector:
    detector = PCADetector(p).fit(rows_like(d, p, 3000, 0)[1::3])
    detector.explainer().compile()
    return detector


def whole_explanations(quick: bool) -> list[dict[str, Any]]:
    """Microseconds a row, the values alone and the whole explanation in turns, so that both see the same machine."""
    lines = []
    FORM_VALUES.worth = 0.0  # as if some million rows had been explained before
    for d, p in ((11, 8), (D, P)):
        detector = compiled_detector(d, p)
        explainer = detector.explainer()
        for n in (100_000,) if quick else (100_000, 1_000_000):
            X = rows_like(d, p, n, 1)
            standard = explainer.model.standardise(X)
            jobs = {
                "values alone": lambda z=standard, e=explainer: e.forms(z),
                "explain": lambda x=X, e=detector: e.explain(x),
                'explain, parts="values"': lambda x=X, e=detector: e.explain(x, parts="values"),
            }
            best = dict.fromkeys(jobs, float("inf"))
            for _ in range(5):
                for name, job in jobs.items():
                    best[name] = min(best[name], once(job)[0])
            times = {f"{name}, us a row": seconds / n * 1e6 for name, seconds in best.items()}
            lines.append({"d": d, "rows": n} | times | {"ratio": best["explain"] / best["values alone"]})
    return lines


def one_row() -> list[dict[str, Any]]:
    """Milliseconds for one row, warm and compiled."""
    lines = []
    for d, p in ((11, 8), (D, P)):
        names = [f"c{i}" for i in range(d)]
        detector, row = compiled_detector(d, p), rows_like(d, p, 1, 1)
        named_row = pd.DataFrame(row, columns=names)
        with_names = PCADetector(p).fit(pd.DataFrame(rows_like(d, p, 3000, 0)[1::3], columns=names))
        with_names.explainer().compile()
        jobs = {
            "explain": lambda e=detector, x=row: e.explain(x),
            "explain, pandas": lambda e=with_names, x=named_row: e.explain(x),
            "predict": lambda e=detector, x=row: e.predict(x),
        }
        times = {f"{name}, ms": best_of(job, 200, at_least=0.5) * 1e3 for name, job in jobs.items()}
        lines.append({"d": d} | times)
    return lines


def pipes(source: Path | None = None, lines: int = 300) -> list[dict[str, Any]]:
    """Milliseconds from a line written to `culpa explain -` to its answer; ``source`` is that of another version."""
    names = [f"c{i}" for i in range(D)]
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "plant.culpa"
        PCADetector(P).fit(pd.DataFrame(rows_like(D, P, 3000, 0)[1::3], columns=names)).save(model)
        return [_pipe(kind, model, names, rows_like(D, P, lines, 1), source) for kind in ("ndjson", "csv")]


def _pipe(kind: str, model: Path, names: list[str], rows: np.ndarray, source: Path | None) -> dict[str, Any]:
    environment = os.environ | ({} if source is None else {"PYTHONPATH": str(source)})
    command = [sys.executable, "-m", "culpa", "explain", "-", "-m", str(model), "--all", "-q"]
    times = []
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if kind == "csv":
            process.stdin.write(",".join(names).encode() + b"\n")
        for number, row in enumerate(rows.tolist()):
            text = json.dumps(dict(zip(names, row, strict=True))) if kind == "ndjson" else ",".join(map(repr, row))
            start = time.perf_counter()
            process.stdin.write(text.encode() + b"\n")
            process.stdin.flush()
            for _ in range(2 if kind == "csv" and number == 0 else 1):
                process.stdout.readline()
            times.append((time.perf_counter() - start) * 1e3)
        process.stdin.close()
    later = times[10:]
    return {
        "d": len(names),
        "format": kind,
        "first line, ms": times[0],
        "second line, ms": times[1],
        "later lines, median ms": float(np.median(later)),
        "shortest, ms": min(later),
    }
