"""Algorithm 1's sampling plan, drawn from a table of all coalition values so that thousands of runs are affordable.

The features that stand before feature i in a random order form a coalition S that is drawn with probability
|S|! (d - 1 - |S|)! / d!. Which of the Q draws gives which coalition does not matter for their mean, so it is enough to draw
how often each coalition occurs.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from culpa._core.types import Floats
from culpa.games import Game
from culpa.shapley import tabulate


class CoalitionTable:
    """The value of every coalition for every row."""

    def __init__(self, game: Game, rows: Floats) -> None:
        self.n_features = game.n_features
        self.values: Floats = tabulate(game, rows, [[i] for i in range(game.n_features)])

    def changes(self) -> Iterator[tuple[int, Floats]]:
        """For every feature, what it adds to each coalition without it: (2^(d-1), n)."""
        everybody = np.arange(1 << self.n_features)
        for i in range(self.n_features):
            without = everybody[(everybody >> i) & 1 == 0]
            yield i, self.values[without | (1 << i)] - self.values[without]

    def probabilities(self, *, skip_ends: bool = False) -> Floats:
        """Probability of each coalition without a feature to be the one before it, (2^(d-1),).

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
        """What the plan gives with infinitely many orders, (n, d): the Shapley values unless ends are skipped."""
        probabilities = self.probabilities(skip_ends=skip_ends)
        return np.column_stack([probabilities @ change for _, change in self.changes()])

    def algorithm1(self, n_orders: int, seeds: Sequence[int], *, skip_ends: bool = False) -> Floats:
        """Monte Carlo values (seeds, n, d); the same orders serve all rows."""
        rngs = [np.random.default_rng(seed) for seed in seeds]
        probabilities = self.probabilities(skip_ends=skip_ends)
        result = np.empty((len(rngs), self.values.shape[1], self.n_features))
        for i, change in self.changes():
            counts = np.stack([rng.multinomial(n_orders, probabilities) for rng in rngs])
            result[:, :, i] = counts @ change / n_orders
        return result

    def algorithm1_per_row(self, n_orders: int, seed: int) -> Floats:
        """Monte Carlo values (n, d); every row draws orders of its own."""
        rng = np.random.default_rng(seed)
        probabilities, n = self.probabilities(), self.values.shape[1]
        result = np.empty((n, self.n_features))
        for i, change in self.changes():
            counts = rng.multinomial(n_orders, probabilities, size=n)
            result[:, i] = np.einsum("ns,sn->n", counts, change) / n_orders
        return result
