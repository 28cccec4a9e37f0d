"""How soon are small faults found, and how often is there a false alarm? Average run lengths of charts.

Charts are compared twice: with their default limits, and with limits that give all of them the same run length in control,
found from other normal rows.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from culpa._core.types import Floats, Mask
from culpa.detecting.detector import PCADetector
from culpa.fitted import FittedDetector
from culpa.monitoring.cusum import cusum
from culpa.paper.pages import percent
from culpa.paper.published import Progress, silent

_FEATURES, _COMPONENTS, _TRAINING = 10, 3, 1000
_BEFORE = 50  # normal rows before a fault begins
_LONGEST = {0.0: 3000, 0.5: 1000, 1.0: 500}  # rows of a run, by the size of the fault
_SAME = 100.0  # run length in control at which charts are compared
_TUNING = 60, 1000  # runs of normal rows, and rows of each, that the limits for it are found from


class Chart(NamedTuple):
    """What a chart shows of rows, and its default limit."""

    values: Callable[[Floats], Floats]
    limit: float


class RunLengths:
    """Of one chart: rows to the first alarm of every run by the size of the fault, and share of normal rows above."""

    def __init__(self) -> None:
        self.flagged: list[float] = []
        self.rows: dict[float, list[int]] = {}

    def add(self, above: Mask, before: int, shift: float) -> None:
        """A run of which some rows are above the limit; one with an alarm before the fault does not count."""
        if not shift:
            self.flagged.append(float(above.mean()))
        if not above[:before].any():
            first = int(np.argmax(above)) + 1 if above.any() else len(above)
            self.rows.setdefault(shift, []).append(first - before)

    def means(self) -> dict[str, float]:
        """Share of normal rows above, and mean number of rows by the size of the fault."""
        rows = {f"shift {shift:g}": float(np.mean(self.rows[shift])) for shift in _LONGEST}
        return {name: float(f"{value:.6g}") for name, value in ({"flagged": np.mean(self.flagged)} | rows).items()}


def run(
    data: str | os.PathLike[str] | None = None,
    *,
    n_models: int = 12,
    n_runs: int = 25,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Simulate charts of Gaussian rows with a shift of one column, in standard deviations of that column.

    The results are those with default limits, and those with limits of the same run length in control. No data are read.
    """
    rng = np.random.default_rng(0)
    found: dict[str, dict[str, RunLengths]] = {"default": {}, "same": {}}
    for done in range(n_models):
        progress(done / n_models, f"model {done + 1}")
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
                    for results, limit in zip(found.values(), limits[name], strict=True):
                        results.setdefault(name, RunLengths()).add(values > limit, before, shift)
    return {
        "models": n_models,
        "runs": n_runs,
        **{kind: {name: one.means() for name, one in charts.items()} for kind, charts in found.items()},
    }


def shown(found: dict[str, Any]) -> dict[str, Any]:
    """Both tables."""
    return {kind: [_line(name, means) for name, means in found[kind].items()] for kind in ("default", "same")}


def _line(name: str, means: dict[str, float]) -> list[str]:
    shifts = (f"{means[f'shift {shift:g}']:.1f}" for shift in _LONGEST if shift)
    return [name, percent(means["flagged"], 2), f"{means['shift 0']:.0f}", *shifts]


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
