"""Algorithm 1 on a table of all coalition values, which makes thousands of runs cheap.

The features before feature i in a random order form a coalition S with probability |S|! (d - 1 - |S|)! / d!. The mean over
Q orders depends only on how often each coalition occurs, so it is enough to draw these counts.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from culpa._core.types import Floats
from culpa.games import Game
from culpa.shapley import tabulate


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation, minimum and maximum over seeds of some numbers; only the mean where nothing was sampled.

    A mean is ``None`` where the paper gives no number.
    """

    mean: tuple[float | None, ...]
    sd: Any = None  # tuples of numbers
    low: Any = None
    high: Any = None

    @classmethod
    def over_seeds(cls, per_seed: Sequence[Sequence[float]] | Floats) -> Self:
        """Summarise one line of numbers per seed."""
        table = np.asarray(per_seed, dtype=np.float64)
        sd = table.std(axis=0, ddof=1) if len(table) > 1 else np.zeros(table.shape[1])
        return cls(*map(numbers, (table.mean(axis=0), sd, table.min(axis=0), table.max(axis=0))))


def numbers(values: Floats) -> tuple[float, ...]:
    """The numbers as a tuple of plain floats."""
    return tuple(np.asarray(values, dtype=np.float64).tolist())


class CoalitionTable:
    """The value of every coalition for every row."""

    def __init__(self, game: Game, rows: Floats) -> None:
        self.n_features = game.n_features
        self.values: Floats = tabulate(game, rows, [[i] for i in range(game.n_features)])

    def changes(self) -> Iterator[tuple[int, Floats]]:
        """For every feature, what it adds to each coalition without it: (2^(d-1), n)."""
        coalitions = np.arange(1 << self.n_features)
        for i in range(self.n_features):
            without = coalitions[(coalitions >> i) & 1 == 0]
            yield i, self.values[without | (1 << i)] - self.values[without]

    def probabilities(self, *, skip_ends: bool = False) -> Floats:
        """Probability that each coalition without a feature is the one before it, (2^(d-1),).

        ``skip_ends`` leaves out orders in which the feature comes first or last.
        """
        d = self.n_features
        sizes = np.array([mask.bit_count() for mask in range(1 << (d - 1))])
        weights = np.array([1 / math.comb(d - 1, size) for size in range(d)])
        if skip_ends:
            weights[[0, -1]] = 0.0
        result = weights[sizes]
        return np.asarray(result / result.sum())

    def expectation(self, *, skip_ends: bool = False) -> Floats:
        """Values with infinitely many orders, (n, d): the Shapley values unless ends are skipped."""
        probabilities = self.probabilities(skip_ends=skip_ends)
        return np.column_stack([probabilities @ change for _, change in self.changes()])

    def algorithm1(self, n_orders: int, seeds: Sequence[int], *, skip_ends: bool = False) -> Floats:
        """Monte Carlo values (seeds, n, d); all rows share the same orders."""
        rngs = [np.random.default_rng(seed) for seed in seeds]
        probabilities = self.probabilities(skip_ends=skip_ends)
        result = np.empty((len(rngs), self.values.shape[1], self.n_features))
        for i, change in self.changes():
            counts = np.stack([rng.multinomial(n_orders, probabilities) for rng in rngs])
            result[:, :, i] = counts @ change / n_orders
        return result

    def algorithm1_per_row(self, n_orders: int, seed: int) -> Floats:
        """Monte Carlo values (n, d); every row draws its own orders."""
        rng = np.random.default_rng(seed)
        probabilities, n = self.probabilities(), self.values.shape[1]
        result = np.empty((n, self.n_features))
        for i, change in self.changes():
            counts = rng.multinomial(n_orders, probabilities, size=n)
            result[:, i] = np.einsum("ns,sn->n", counts, change) / n_orders
        return result
