"""Fits to dirty training rows: `python -m benchmarks.dirty_cells [--runs N]` writes the tables of docs/robust.md.

The error of a fit is the distance of its principal subspace from the true one: the norm of the sines of their principal
angles. Real rows have no true subspace; there, the distance is from the fit to the clean rows.
"""

import argparse
import re
import time
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from culpa import PCADetector
from culpa.datasets import load_cars04, load_odds, load_wine_outliers
from studies.recorded import load_tennessee_eastman

PAGE = Path(__file__).parents[1] / "docs" / "robust.md"
SHAPES = ((200, 10, 2), (500, 20, 4), (300, 30, 3), (600, 15, 6))
TRIMS = (0.25, 0.45)  # the better one counts
Rows = np.ndarray


def simulated(n: int, d: int, p: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows with p components and a seventh of noise, and their true subspace."""
    W = rng.normal(size=(d, p))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    return rng.normal(size=(n, p)) @ W.T + 0.4 * rng.normal(size=(n, d)), W


def dirtied(X: Rows, share: float, how: str, size: float, rng: np.random.Generator) -> Rows:
    """Wrong cells: single ones with either sign, or each column for one stretch of rows."""
    n, d = X.shape
    if how == "single cells":
        wrong, sign = rng.random((n, d)) < share, rng.choice([-1, 1], (n, d))
    else:
        length = int(share * n)
        start, rows = rng.integers(0, n - length + 1, d), np.arange(n)[:, None]
        wrong, sign = (rows >= start) & (rows < start + length), rng.choice([-1, 1], d)
    return np.where(wrong, X + size * X.std(axis=0) * sign, X)


def subspace(X: Rows, p: int, unit: Rows | float = 1.0, **options: object) -> Rows:
    """Principal subspace of a fit; ``unit`` is what distances are measured in."""
    detector = PCADetector(p, statistic="spe", limit="formula", **options).fit(X)  # no row is judged
    return np.linalg.qr((detector.scale_ / unit)[:, None] * detector.model_.components_.T)[0]


def distance(A: Rows, B: Rows) -> float:
    A, B = np.linalg.qr(A)[0], np.linalg.qr(B)[0]
    return float(np.linalg.norm(A @ A.T - B @ B.T) / np.sqrt(2))


def errors(X: Rows, dirty: Rows, p: int, truth: Rows, unit: Rows | float = 1.0) -> list[float]:
    """Of the fit to clean rows, and of plain, trimmed and robust fits to dirty ones."""
    trimmed = min(distance(subspace(dirty, p, unit, trim=trim), truth) for trim in TRIMS)
    fits = [subspace(X, p, unit), subspace(dirty, p, unit), subspace(dirty, p, unit, robust="cells")]
    clean, plain, robust = (distance(fit, truth) for fit in fits)
    return [clean, plain, trimmed, robust]


def cases(sizes: Iterable[float], shares: Iterable[float]) -> list[tuple[float, str, float]]:
    return [(size, how, share) for size in sizes for how in ("single cells", "stretches") for share in shares]


def line(label: list[str], found: Rows, share: float) -> str:
    """Errors, of which the last ones are plain, trimmed and robust, and whether the last is below half of both others."""
    plain, trimmed, robust = found[-3:]
    below = "-" if not share else "yes" if robust < 0.5 * min(plain, trimmed) else "no"
    return "| " + " | ".join([*label, *(f"{value:.3f}" for value in found), below]) + " |"


def simulated_table(runs: int, shapes: Iterable[tuple[int, int, int]], what: list[tuple[float, str, float]]) -> str:
    lines = [
        "| rows x features, components | wrong cells | clean rows | plain | trimmed | cells | below half |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for n, d, p in shapes:
        for size, how, share in what:
            found = []
            for run in range(runs):
                rng = np.random.default_rng(run)
                X, truth = simulated(n, d, p, rng)
                found.append(errors(X, dirtied(X, share, how, size, rng) if share else X, p, truth))
            wrong = f"{share:.0%} {how}, {size:g} sd" if share else "none"
            lines.append(line([f"{n} x {d}, {p}", wrong], np.mean(found, axis=0), share))
            print(lines[-1], flush=True)
    return "\n".join(lines)


def real_table(runs: int) -> str:
    lines = [
        "| rows | wrong cells | plain | trimmed | cells | below half |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, X, p in real_rows():
        unit = X.std(axis=0, ddof=1)
        truth = subspace(X, p, unit)
        for size, how, share in [(6.0, "", 0.0), *cases((6.0,), (0.05, 0.1, 0.2))]:
            found = []
            for run in range(runs if share else 1):
                rng = np.random.default_rng(run)
                found.append(errors(X, dirtied(X, share, how, size, rng) if share else X, p, truth, unit))
            wrong = f"{share:.0%} {how}" if share else "none"
            label = f"{name}, {len(X)} x {X.shape[1]}, {p} components"
            lines.append(line([label, wrong], np.mean(found, axis=0)[1:], share))
            print(lines[-1], flush=True)
    return "\n".join(lines)


def real_rows() -> list[tuple[str, Rows, int]]:
    """Normal rows of real sets, and how many components to fit."""
    result = []
    for name, data, p in (
        ("wine", load_wine_outliers(), 3),
        ("cars", load_cars04(), 3),
        ("breast cancer", load_odds("wbc"), 5),
        ("vowels", load_odds("vowels"), 5),
    ):
        rows = np.asarray(data.X, dtype=np.float64)
        if data.y is not None:
            rows = rows[np.asarray(data.y) == 0]
        result.append((name, rows[~np.isnan(rows).any(axis=1)], p))
    return [*result, ("Tennessee Eastman", load_tennessee_eastman().normal, 5)]


def speed_table() -> str:
    lines = ["| rows x features | wrong cells | CPU seconds |", "| --- | --- | --- |"]
    for n, d, p in ((500, 20, 4), (5_000, 50, 8), (100_000, 20, 4)):
        rng = np.random.default_rng(0)
        X = dirtied(simulated(n, d, p, rng)[0], 0.1, "single cells", 6.0, rng)
        start = time.process_time()
        PCADetector(p, statistic="spe", robust="cells").fit(X)
        lines.append(f"| {n:,} x {d} | 10% | {time.process_time() - start:.1f} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs that numbers are means of")
    runs = parser.parse_args().runs
    warnings.simplefilter("ignore")
    half = [(6.0, "", 0.0), *cases((6.0,), (0.05, 0.1, 0.2))]
    tables = {
        "simulated": simulated_table(runs, SHAPES, half),
        "breakdown": simulated_table(
            runs, SHAPES[1:2], cases((6.0,), (0.25, 0.3, 0.4)) + cases((3.0,), (0.05, 0.1, 0.2))
        ),
        "real": real_table(runs),
        "speed": speed_table(),
    }
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables.items():
        before, after = re.split(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end -->)", text, maxsplit=1, flags=re.S)
        text = f"{before}\n{table}\n\n{after}"
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
