"""Figures 1-3: three corrupted cars, the error of each feature, and the Shapley values of the error."""

import os
from dataclasses import dataclass

import numpy as np

from culpa import scores
from culpa.paper.cars import Cars, extreme_values, prepare
from culpa.paper.published import Progress, paper, silent
from culpa.paper.sampling import CoalitionTable, numbers
from culpa.paper.table1 import SweepPoint, noise_sweep
from culpa.ranking import contributions

N_ORDERS = 100
AGAINST = 2  # position of the engine size, the other axis of the paper's scatter plots


@dataclass(frozen=True)
class Figure:
    """What one figure shows. Rows and features count from 1, as in the paper.

    ``scatter`` holds engine size and corrupted feature of the test cars, and ``point`` those of the corrupted car.
    ``expected`` is what the other features imply for the corrupted one. ``algorithm1`` and ``algorithm1_sd`` are mean and
    standard deviation of Algorithm 1 over seeds. ``shapley`` is exact.
    """

    figure: int
    row: int
    feature: int
    feature_names: tuple[str, ...]
    scatter: tuple[tuple[float, float], ...]
    point: tuple[float, float]
    expected: float
    errors: tuple[float, ...]
    shapley: tuple[float, ...]
    algorithm1: tuple[float, ...]
    algorithm1_sd: tuple[float, ...]

    @property
    def error_blames(self) -> int:
        """Feature with the largest error."""
        return int(np.argmax(self.errors)) + 1

    @property
    def shapley_blames(self) -> int:
        """Feature with the largest Shapley value."""
        return int(np.argmax(self.shapley)) + 1


@dataclass(frozen=True)
class Figures:
    """The paper's three figures, the sweep over noise variances, and the number of seeds."""

    figures: tuple[Figure, ...]
    sweep: tuple[SweepPoint, ...]
    n_seeds: int


def run(data: str | os.PathLike[str] | None = None, *, n_seeds: int = 20, progress: Progress = silent) -> Figures:
    """Compute what the figures show."""
    cars = prepare(data)
    figures = []
    for printed in paper()["figures"]:
        figures.append(_figure(cars, printed["figure"], printed["row"], printed["feature"], n_seeds))
        progress(len(figures) / 4, f"Figure {printed['figure']}")
    sweep = noise_sweep(cars)
    progress(1.0, "noise variance")
    return Figures(tuple(figures), sweep, n_seeds)


def _figure(cars: Cars, number: int, row: int, feature: int, n_seeds: int) -> Figure:
    at = feature - 1
    corrupted = cars.test[row - 1 : row].copy()
    corrupted[0, at] = extreme_values(cars.test, "MAX")[at]
    table = CoalitionTable(cars.game, corrupted)
    sampled = table.algorithm1(N_ORDERS, range(n_seeds))[:, 0, :]
    errors = contributions.cdc(corrupted, scores.spe(cars.model.gaussian).root)[0]
    return Figure(
        number,
        row,
        feature,
        cars.feature_names,
        tuple((float(x), float(y)) for x, y in np.delete(cars.test, row - 1, axis=0)[:, [AGAINST, at]]),
        (float(corrupted[0, AGAINST]), float(corrupted[0, at])),
        float(cars.model.gaussian.expected(corrupted)[0, at]),
        numbers(errors),
        numbers(table.expectation()[0]),
        numbers(sampled.mean(axis=0)),
        numbers(sampled.std(axis=0, ddof=1) if n_seeds > 1 else np.zeros(sampled.shape[1])),
    )
