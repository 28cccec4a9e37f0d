"""Scores that are any function of a row: an autoencoder's error, an isolation forest, a detector of another package.

Nothing is known about the function, so expectations are means over draws: E[f(x) | x_S] is the mean of f over rows whose
features in S are those of x and whose other features are drawn from the model of normal rows, given those in S.

A draw given x_S is m + e. m is the conditional mean of the row given x_S. e is what a draw y from the model deviates from
its own conditional mean given y_S. So one set of draws serves all coalitions and all rows (common random numbers), and
-e is as good a draw as e (antithetic).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from culpa._core.missing import patterns
from culpa._core.types import Floats, Positions
from culpa.models import LatentGaussian
from culpa.scores.fixing import Fixing

N_DRAWS = 256  # for the expected score of a row with missing cells
_N_BASE = 4096  # for the mean score of normal rows
_CELLS_PER_CALL = 1 << 21  # numbers that the function gets at a time


class Estimate(NamedTuple):
    """Mean over draws and its standard error."""

    value: Floats
    std_error: Floats


@dataclass(frozen=True, eq=False)
class FunctionScore(Fixing):
    """A function of rows in the user's units, with the model of normal rows that stands in for unknown features.

    >>> import numpy as np
    >>> gaussian = LatentGaussian([1.0, 2.0], [[2.0], [0.0]], 0.5)
    >>> score = FunctionScore("sum", gaussian, lambda rows: rows.sum(axis=1), seed=0)
    >>> score(np.array([[1.0, 3.0], [5.0, np.nan]]))
    array([4., 7.])
    """

    name: str
    gaussian: LatentGaussian
    function: Callable[[Floats], Any]
    seed: int = 0

    @property
    def distribution(self) -> LatentGaussian:
        """Of normal rows, in the user's units."""
        return self.gaussian

    def __call__(self, X: Floats) -> Floats:
        """Score of each row; a row with missing cells gets its expected score given the observed ones."""
        result = np.full(len(X), np.nan)
        for rows, observed in patterns(X):
            if len(observed):
                result[rows] = self.given(X[rows], observed).value
        return result

    def evaluate(self, rows: Floats) -> Floats:
        """The function itself, of complete rows, in calls of limited size."""
        step = max(1, _CELLS_PER_CALL // rows.shape[1])
        parts = [self._call(rows[start : start + step]) for start in range(0, len(rows), step)]
        return np.concatenate([np.empty(0), *parts])

    def _call(self, rows: Floats) -> Floats:
        result = np.asarray(self.function(rows), dtype=np.float64)
        if result.shape == (len(rows), 1):
            result = result[:, 0]
        if result.shape != (len(rows),):
            raise ValueError(
                f"score must return one number per row, {len(rows)} here, but its shape was {result.shape}."
            )
        if not np.isfinite(result).all():
            raise ValueError("score returned NaN or infinity for a row of finite numbers.")
        return result

    def given(self, X: Floats, observed: Positions, *, independent: bool = False) -> Estimate:
        """Expected score given the observed features; the other cells of ``X`` do not matter.

        ``independent``: the others are drawn as if they had nothing to do with the observed ones.
        """
        if len(observed) == self.gaussian.n_features:
            return Estimate(self.evaluate(X), np.zeros(len(X)))
        means, deviation = (self._conditional_mean(rows, observed, independent) for rows in (X, self._draws))
        deviation = self._draws - deviation
        both = np.stack([deviation, -deviation], axis=1).reshape(1, -1, X.shape[1])
        both[:, :, observed] = 0.0
        step = max(1, _CELLS_PER_CALL // both.size)
        pairs = [
            self.evaluate((mean[:, None, :] + both).reshape(-1, X.shape[1])).reshape(len(mean), -1, 2).mean(axis=2)
            for mean in (means[start : start + step] for start in range(0, len(X), step))
        ]
        values = np.concatenate([np.empty((0, both.shape[1] // 2)), *pairs])
        return Estimate(values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(values.shape[1]))

    def _conditional_mean(self, X: Floats, observed: Positions, independent: bool) -> Floats:
        """Of whole rows, (n, d): the rows themselves where they are observed."""
        if not independent:
            return self.gaussian.conditional(np.where(np.isnan(X), 0.0, X), observed)[0]
        mean = np.tile(self.gaussian.mean, (len(X), 1))
        mean[:, observed] = X[:, observed]
        return mean

    @cached_property
    def base(self) -> tuple[float, float]:
        """Mean score of normal rows, and its standard error."""
        draws = self.gaussian.sample(_N_BASE // 2, np.random.default_rng([self.seed, 1]))
        both = np.concatenate([draws, 2 * self.gaussian.mean - draws])
        pairs = self.evaluate(both).reshape(2, -1).mean(axis=0)
        return float(pairs.mean()), float(pairs.std(ddof=1) / np.sqrt(len(pairs)))

    @property
    def expectation(self) -> float:
        """Mean score of normal rows."""
        return self.base[0]

    def if_fixed(self, X: Floats, score: Floats, expected: Floats, blocks: Sequence[Sequence[int]]) -> Floats:
        """Score of each row with one block of features moved to its expected values, (n, blocks).

        NaN where nothing of the block was observed.
        """
        result = np.full((len(X), len(blocks)), np.nan)
        for rows, observed in patterns(X):
            seen = set(observed.tolist())
            touched = [(k, [i for i in block if i in seen]) for k, block in enumerate(blocks)]
            touched = [(k, block) for k, block in touched if block]
            if touched:
                fixed = np.repeat(X[rows][None], len(touched), axis=0)
                for place, (_, block) in enumerate(touched):
                    fixed[place][:, block] = expected[rows[:, None], block]
                value = self.given(fixed.reshape(-1, X.shape[1]), observed).value
                result[rows[:, None], [k for k, _ in touched]] = value.reshape(len(touched), -1).T
        return result

    @cached_property
    def _draws(self) -> Floats:
        return self.gaussian.sample(N_DRAWS // 2, np.random.default_rng([self.seed, 2]))
