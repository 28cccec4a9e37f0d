"""Table I: how often is the corrupted feature among the most blamed?

A is the matrix of the reconstruction error, C the model's covariance. `culpa.ranking.contributions` has the formulas of
everything that is not a Shapley value: the reconstruction error of a feature is its complete decomposition contribution
to SPE, x (A x) its partial one, x (C^-1 x) the partial one to the Mahalanobis distance.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from culpa import scores
from culpa._core.types import Floats
from culpa.games import Conditional, Game, Interventional, Retraining
from culpa.models import LatentGaussian
from culpa.models.latent import shrunk
from culpa.paper.cars import EXTREMES, Cars, Extreme, corrupt, hits, prepare
from culpa.paper.published import Progress, paper, silent
from culpa.paper.sampling import CoalitionTable, Spread, numbers
from culpa.ranking import contributions
from culpa.shapley import exact

Criterion = Callable[[Floats], Floats]

N_ORDERS = (10, 100, 1000)
# Noise variances of the sweep, as multiples of the maximum-likelihood one.
SWEEP = (1e-6, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
PER_TRIAL_SEEDS = 3  # runs hardly differ if each of the 957 trials draws its own orders
_SHRINKAGE = 0.01


@dataclass(frozen=True)
class Row:
    """One line of the table: a criterion, where it comes from ("paper", "exact" or "sampled"), and Hits@1, 2, 3."""

    criterion: str
    origin: str
    max: Spread
    min: Spread


@dataclass(frozen=True)
class SweepPoint:
    """Hits@1 of the exact Shapley values with the noise variance multiplied by ``factor``."""

    factor: float
    max: float
    min: float


@dataclass(frozen=True)
class Table1:
    """All rows, the sweep over noise variances, and the numbers of trials and seeds."""

    rows: tuple[Row, ...]
    sweep: tuple[SweepPoint, ...]
    n_trials: int
    n_seeds: int

    def row(self, criterion: str) -> Row:
        """The line of one criterion."""
        return next(row for row in self.rows if row.criterion == criterion)


def run(data: str | os.PathLike[str] | None = None, *, n_seeds: int = 20, progress: Progress = silent) -> Table1:
    """Compute the whole table."""
    cars = prepare(data)
    error, *others = _exact_rows(cars)
    rows = [_paper_row("reconstruction error"), error, _paper_row("Shapley"), *others]
    progress(0.1, "Table I: exact rows")
    for done, row in enumerate(_sampled_rows(cars, n_seeds)):
        rows.append(row)
        progress(0.1 + 0.8 * (done + 1) / (4 * len(N_ORDERS)), f"Table I: {row.criterion}")
    sweep = noise_sweep(cars)
    progress(1.0, "Table I: noise variance")
    return Table1(tuple(rows), sweep, cars.test.size, n_seeds)


def criteria(cars: Cars) -> dict[str, Criterion]:
    """Every criterion that needs no sampling."""
    gaussian, sample = cars.model.gaussian, cars.model.sample_covariance
    assert sample is not None
    spe, score = scores.spe(gaussian).root, scores.mse(gaussian)
    games: dict[str, Game] = {
        "Shapley, exact": Conditional(score),
        "Shapley, interventional": Interventional(score),
        "Shapley, retraining (v1)": Retraining(sample, gaussian.n_components, mean=True),
        "Shapley, retraining (v1), same share of variance": Retraining(
            sample, gaussian.n_components, mean=True, rank="share"
        ),
    }
    shapley = {name: _shapley_of(game, cars.players) for name, game in games.items()}
    return {
        "reconstruction error": lambda x: contributions.cdc(x, spe),
        "Shapley, exact": shapley.pop("Shapley, exact"),
        "|Shapley|, exact": lambda x: np.abs(exact(games["Shapley, exact"], x, cars.players).values),
        **shapley,
        "|x|": lambda x: contributions.z_scores(x, sample),
        "x (A x)": lambda x: contributions.pdc(x, spe),
        "RBC of SPE": lambda x: contributions.rbc(x, spe),
        **_mahalanobis(gaussian.covariance, ""),
        **_mahalanobis(shrunk(sample, _SHRINKAGE), ", sample covariance"),
    }


def noise_sweep(cars: Cars, factors: tuple[float, ...] = SWEEP) -> tuple[SweepPoint, ...]:
    """Hits@1 of exact Shapley values under models that differ only in the noise variance."""
    sample, gaussian = cars.model.sample_covariance, cars.model.gaussian
    assert sample is not None
    points = []
    for factor in factors:
        model = LatentGaussian.from_covariance(sample, gaussian.n_components, noise=factor)
        blame = _shapley_of(Conditional(scores.mse(model)), cars.players)
        points.append(SweepPoint(factor, *(float(_hits(cars, blame, extreme)[0]) for extreme in EXTREMES)))
    return tuple(points)


def _exact_rows(cars: Cars) -> list[Row]:
    return [
        Row(name, "exact", *(Spread(numbers(_hits(cars, blame, extreme))) for extreme in EXTREMES))
        for name, blame in criteria(cars).items()
    ]


def _sampled_rows(cars: Cars, n_seeds: int) -> Iterator[Row]:
    """Algorithm 1 by absolute value, signed, with the ends skipped, and with separate orders for every trial."""
    trials = [corrupt(cars.test, extreme) for extreme in EXTREMES]
    tables = [CoalitionTable(cars.game, each.rows) for each in trials]
    seeds = range(n_seeds)
    for n in N_ORDERS:
        shared = [table.algorithm1(n, seeds) for table in tables]
        for name, values in (
            (f"|Algorithm 1|, Q = {n}", [np.abs(each) for each in shared]),
            (f"Algorithm 1, Q = {n}", shared),
            (f"|Algorithm 1|, Q = {n}, ends skipped", [np.abs(t.algorithm1(n, seeds, skip_ends=True)) for t in tables]),
            (
                f"|Algorithm 1|, Q = {n}, orders per trial",
                [np.abs([table.algorithm1_per_row(n, seed) for seed in range(PER_TRIAL_SEEDS)]) for table in tables],
            ),
        ):
            found = (hits(blame, each.changed) for blame, each in zip(values, trials, strict=True))
            yield Row(name, "sampled", *map(Spread.over_seeds, found))


def _paper_row(criterion: str) -> Row:
    printed = paper()["table1"][criterion]
    return Row(
        f"{criterion}, paper",
        "paper",
        *(Spread(tuple(printed[extreme].get(str(n)) for n in (1, 2, 3))) for extreme in EXTREMES),
    )


def _shapley_of(game: Game, players: list[list[int]]) -> Criterion:
    return lambda x: np.asarray(exact(game, x, players).values)


def _mahalanobis(covariance: Floats, suffix: str) -> dict[str, Criterion]:
    root = contributions.root_of(np.linalg.inv(covariance))
    return {
        f"Mahalanobis leave-one-out{suffix}": lambda x: contributions.rbc(x, root),
        f"x (C^-1 x){suffix}": lambda x: contributions.pdc(x, root),
    }


def _hits(cars: Cars, blame: Criterion, extreme: Extreme) -> Floats:
    trials = corrupt(cars.test, extreme)
    return hits(blame(trials.rows), trials.changed)
