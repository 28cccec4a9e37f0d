"""How soon are small faults found, and how often is there a false alarm? Average run lengths of charts.

Charts are compared twice: with their default limits, and with limits that give all of them the same run length in control,
found from other normal rows. ``python -m culpa.experiments.run_lengths`` prints the tables of `docs/slow-faults.md`.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from culpa._core.types import Floats, Mask
from culpa.detector import PCADetector
from culpa.fitted import FittedDetector
from culpa.monitoring.cusum import cusum

_FEATURES, _COMPONENTS, _TRAINING = 10, 3, 1000
_BEFORE = 50  # normal rows before a fault begins
_LONGEST = {0.0: 3000, 0.5: 1000, 1.0: 500}  # rows of a run, by the size of the fault
_SAME = 100.0  # run length in control at which charts are compared
_TUNING = 60, 1000  # runs of normal rows, and rows of each, that the limits for it are found from


class Chart(NamedTuple):
    """What a chart shows of rows, and its default limit."""

    values: Callable[[Floats], Floats]
    limit: float


@dataclass
class RunLengths:
    """Of one chart: rows to the first alarm of every run by the size of the fault, and share of normal rows above."""

    chart: str
    flagged: list[float] = field(default_factory=list)
    rows: dict[float, list[int]] = field(default_factory=dict)

    def add(self, above: Mask, before: int, shift: float) -> None:
        """A run of which some rows are above the limit; one with an alarm before the fault does not count."""
        if not shift:
            self.flagged.append(float(above.mean()))
        if not above[:before].any():
            first = int(np.argmax(above)) + 1 if above.any() else len(above)
            self.rows.setdefault(shift, []).append(first - before)


def run_lengths(n_models: int = 12, n_runs: int = 25, seed: int = 0) -> tuple[list[RunLengths], list[RunLengths]]:
    """Simulate charts of Gaussian rows with a shift of one column, in standard deviations of that column.

    The first results are with default limits, the second ones with limits of the same run length in control.
    """
    rng = np.random.default_rng(seed)
    found: tuple[dict[str, RunLengths], dict[str, RunLengths]] = {}, {}
    for _ in range(n_models):
        loadings = rng.normal(size=(_COMPONENTS, _FEATURES))
        draw = partial(_draw, loadings, rng)
        charts = dict(_charts(draw(_TRAINING)))
        normal = [draw(_TUNING[1]) for _ in range(_TUNING[0])]
        limits = {name: (chart.limit, same_run_length(chart, normal)) for name, chart in charts.items()}
        std = np.sqrt((loadings**2).sum(axis=0) + 1)
        for shift, longest in _LONGEST.items():
            before = _BEFORE if shift else 0
            for _ in range(n_runs):
                rows, column = draw(before + longest), rng.integers(_FEATURES)
                rows[before:, column] += shift * std[column]
                for name, chart in charts.items():
                    values = chart.values(rows)
                    for results, limit in zip(found, limits[name], strict=True):
                        results.setdefault(name, RunLengths(name)).add(values > limit, before, shift)
    return list(found[0].values()), list(found[1].values())


def same_run_length(chart: Chart, normal: Sequence[Floats], run_length: float = _SAME) -> float:
    """The limit that the first alarm in runs of normal rows comes after so many rows on average."""
    highest = np.array([np.maximum.accumulate(chart.values(rows)) for rows in normal])
    low, high = 0.0, float(highest.max())
    for _ in range(40):
        middle = (low + high) / 2
        mean = 1 + float((highest <= middle).sum(axis=1).mean())
        low, high = (middle, high) if mean < run_length else (low, middle)
    return high


def _draw(loadings: Floats, rng: np.random.Generator, n: int) -> Floats:
    return np.asarray(rng.normal(size=(n, _COMPONENTS)) @ loadings + rng.normal(size=(n, _FEATURES)))


def _charts(normal: Floats) -> Iterator[tuple[str, Chart]]:
    for smooth in (None, 0.2, 0.1, 0.05):
        fitted = PCADetector(smooth=smooth).fit(normal).fitted
        name = "each row alone" if smooth is None else f"`smooth={smooth:g}`"
        yield name, Chart(fitted.score, fitted.limit)
        if smooth is None:
            yield "`cusum=True`", Chart(partial(_sums, fitted), cusum(fitted, np.empty(0)).interval)


def _sums(fitted: FittedDetector, rows: Floats) -> Floats:
    return cusum(fitted, fitted.score(rows)).values


def table(found: list[RunLengths]) -> str:
    """As Markdown."""
    lines = [
        "| chart | normal rows above | rows to a false alarm | to find 0.5 sd | to find 1 sd |",
        "| --- | --- | --- | --- | --- |",
    ]
    for one in found:
        means = {shift: float(np.mean(lengths)) for shift, lengths in one.rows.items()}
        cells = [f"{np.mean(one.flagged):.2%}", f"{means[0.0]:.0f}", *(f"{means[shift]:.1f}" for shift in (0.5, 1.0))]
        lines.append(f"| {one.chart} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write("\n\n".join(map(table, run_lengths())) + "\n")
