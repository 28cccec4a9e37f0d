"""Scores that are any function of a row: an autoencoder's error, an isolation forest, a detector of another package.

Nothing is known about the function, so expectations are means over draws: E[f(x) | x_S] is the mean of f over rows whose
features in S are those of x and whose other features are drawn from the model of normal rows, given those in S.

`culpa.models.draws` says how. One set of draws serves all coalitions and all rows (common random numbers), and draws come
in mirrored pairs (antithetic).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from culpa._core.choices import GameName
from culpa._core.missing import patterns
from culpa._core.types import Floats, Positions
from culpa.games import Game, Simulated
from culpa.games.simulated import Estimate
from culpa.models import FittedModel
from culpa.models.draws import Chances, NormalRows
from culpa.scores.quadratic import mahalanobis
from culpa.scores.score import GameSettings, InPlace, Score

N_DRAWS, FEWEST_DRAWS = 256, 8
_N_BASE = 4096  # for the mean score of normal rows
_CELLS_PER_CALL = 1 << 21  # numbers that the function gets at a time


@dataclass(frozen=True, eq=False)
class FunctionScore(Score):
    """A function of rows in the user's units, with the model of normal rows that stands in for unknown features.

    >>> import numpy as np
    >>> from culpa.models import LatentGaussian
    >>> normal = NormalRows(LatentGaussian([1.0, 2.0], [[2.0], [0.0]], 0.5))
    >>> score = FunctionScore("sum", normal, lambda rows: rows.sum(axis=1), seed=0)
    >>> score(np.array([[1.0, 3.0], [5.0, np.nan]]))
    array([4., 7.])
    """

    name: str
    normal: NormalRows
    function: Callable[[Floats], Any]
    seed: int = 0
    n_draws: int = N_DRAWS  # for the expected score of a row with missing cells
    model: FittedModel | None = None  # that normal rows are drawn from
    independent: bool = False  # whether unknown features are drawn as if they had nothing to do with the observed ones

    @property
    def distribution(self) -> NormalRows:
        """Of normal rows, in the user's units."""
        return self.normal

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
        result = np.asarray(self.function(rows.copy()), dtype=np.float64)  # its own rows, since it may work in place
        if result.shape == (len(rows), 1):
            result = result[:, 0]
        if result.shape != (len(rows),):
            raise ValueError(
                f"score must return one number per row, {len(rows)} here, but its shape was {result.shape}."
            )
        if not np.isfinite(result).all():
            raise ValueError("score returned NaN or infinity for a row of finite numbers.")
        return result

    def given(self, X: Floats, observed: Positions) -> Estimate:
        """Expected score given the observed features; the other cells of ``X`` do not matter."""
        if len(observed) == self.normal.n_features:
            return Estimate(self.evaluate(X), np.zeros(len(X)))
        return self._mean(X, observed, self._chances)

    def game(self, name: GameName, settings: GameSettings) -> Game:
        """Games in which unknown features are drawn."""
        if name == "retraining":
            raise ValueError("game='retraining' retrains a PCA: use game='conditional' for the score of another model.")
        if name == "minimal":
            raise ValueError("game='minimal' is not available for a score that is a function: use 'conditional'.")
        return Simulated(self)

    def with_draws(self, n_draws: int, *, independent: bool) -> Self:
        """The same score with other draws."""
        return replace(self, n_draws=n_draws, independent=independent)

    def in_place(self, model: FittedModel, X: Floats) -> Iterator[InPlace]:
        """The Mahalanobis distance, in the most probable mode."""
        own = self.model
        assert own is not None
        Z = own.standardise(X)
        for k, at in own.standard.by_mode(Z):
            view = own.in_mode(k)
            yield InPlace(at, view, Z[at] - own.standard.modes[k].mean, mahalanobis(view.gaussian))

    def evaluations(self, complete: bool) -> int:
        """How often the function is called for the score of a row."""
        return 1 if complete else self.n_draws

    def _mean(self, X: Floats, observed: Positions, chances: Chances) -> Estimate:
        """Mean over draws and their mirror images."""
        n_modes, m, d = chances.deviations.shape
        step = max(1, _CELLS_PER_CALL // (2 * n_modes * m * d))
        pairs = [np.empty((0, m))]
        for start in range(0, len(X), step):
            drawn = self.normal.given(X[start : start + step], observed, chances, independent=self.independent)
            pairs.append(self.evaluate(drawn.reshape(-1, d)).reshape(len(drawn), m, 2).mean(axis=2))
        values = np.concatenate(pairs)
        return Estimate(values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(m))

    @cached_property
    def base(self) -> tuple[float, float]:
        """Mean score of normal rows, and its standard error."""
        chances = self.normal.chances(_N_BASE // 2, np.random.default_rng([self.seed, 1]))
        nothing = np.zeros((1, self.normal.n_features)), np.empty(0, dtype=np.intp)
        value, error = self._mean(*nothing, chances)
        return float(value[0]), float(error[0])

    @property
    def expectation(self) -> float:
        """Mean score of normal rows."""
        return self.base[0]

    @cached_property
    def _chances(self) -> Chances:
        return self.normal.chances(self.n_draws // 2, np.random.default_rng([self.seed, 2]))
