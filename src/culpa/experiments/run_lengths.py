"""How soon are small faults found, and how often is there a false alarm? Average run lengths of charts.

``python -m culpa.experiments.run_lengths`` prints the table of `docs/slow-faults.md`.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from culpa._core.types import Floats, Mask
from culpa.detector import PCADetector
from culpa.fitted import FittedDetector
from culpa.monitoring.cusum import cusum

_FEATURES, _COMPONENTS, _TRAINING = 10, 3, 1000
_BEFORE = 50  # normal rows before a fault begins
_LONGEST = {0.0: 5000, 0.5: 1000, 1.0: 500}  # rows of a run, by the size of the fault

Alarms = Callable[[Floats], Mask]


@dataclass(frozen=True)
class RunLengths:
    """Of one chart: share of normal rows that it flags, and mean rows to the first alarm by the size of the fault."""

    chart: str
    flagged: float
    rows: dict[float, float]


def run_lengths(n_models: int = 12, n_runs: int = 25, seed: int = 0) -> list[RunLengths]:
    """Simulate charts of Gaussian rows with a shift of one column, in standard deviations of that column."""
    rng = np.random.default_rng(seed)
    flagged: dict[str, list[float]] = {}
    lengths: dict[str, dict[float, list[int]]] = {}
    for _ in range(n_models):
        loadings = rng.normal(size=(_COMPONENTS, _FEATURES))

        def draw(n: int, loadings: Floats = loadings) -> Floats:
            return np.asarray(rng.normal(size=(n, _COMPONENTS)) @ loadings + rng.normal(size=(n, _FEATURES)))

        charts = dict(_charts(draw(_TRAINING)))
        std = np.sqrt((loadings**2).sum(axis=0) + 1)
        for shift, longest in _LONGEST.items():
            for _ in range(n_runs):
                before = _BEFORE if shift else 0
                rows = draw(before + longest)
                column = rng.integers(_FEATURES)
                rows[before:, column] += shift * std[column]
                for name, alarms in charts.items():
                    found = alarms(rows)
                    if not shift:
                        flagged.setdefault(name, []).append(float(found.mean()))
                    if not found[:before].any():
                        first = int(np.argmax(found)) + 1 if found.any() else len(found)
                        lengths.setdefault(name, {}).setdefault(shift, []).append(first - before)
    return [
        RunLengths(name, float(np.mean(flagged[name])), {shift: float(np.mean(n)) for shift, n in by_shift.items()})
        for name, by_shift in lengths.items()
    ]


def _charts(normal: Floats) -> Iterator[tuple[str, Alarms]]:
    for smooth in (None, 0.2, 0.1, 0.05):
        fitted = PCADetector(smooth=smooth).fit(normal).fitted
        name = "each row alone" if smooth is None else f"`smooth={smooth:g}`"
        yield name, partial(_over_limit, fitted)
        if smooth is None:
            yield "`cusum=True`", partial(_above, fitted)


def _over_limit(fitted: FittedDetector, rows: Floats) -> Mask:
    return fitted.is_flagged(fitted.score(rows))


def _above(fitted: FittedDetector, rows: Floats) -> Mask:
    sums = cusum(fitted, fitted.score(rows))
    return np.asarray(sums.values > sums.interval)


def table(found: list[RunLengths]) -> str:
    """As Markdown."""
    lines = [
        "| chart | normal rows above | rows to a false alarm | to find 0.5 sd | to find 1 sd |",
        "| --- | --- | --- | --- | --- |",
    ]
    for one in found:
        cells = [f"{one.flagged:.2%}", f"{one.rows[0.0]:.0f}", *(f"{one.rows[shift]:.1f}" for shift in (0.5, 1.0))]
        lines.append(f"| {one.chart} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{table(run_lengths())}\n")
