"""What is explained: the paper's protocol on real data with 11, 21, 33 and 166 features."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from culpa import Explainer, PCADetector, shapley
from culpa.datasets import load_cars04, load_odds

REFERENCE_COALITIONS = {33: 1 << 19, 166: 1 << 18}  # where exact values are out of reach


@dataclass(frozen=True, eq=False)
class Problem:
    """A fitted detector, and the standardised rows whose reconstruction error is to be explained."""

    name: str
    detector: PCADetector
    train: np.ndarray
    rows: np.ndarray

    @property
    def d(self) -> int:
        return self.rows.shape[1]

    @property
    def p(self) -> int:
        return int(self.detector.model_.n_components_)

    @cached_property
    def explainer(self) -> Explainer:
        return Explainer(self.detector)

    @property
    def game(self) -> Any:
        return self.explainer.game

    @property
    def players(self) -> list[list[int]]:
        return self.explainer.players

    @property
    def some_rows(self) -> np.ndarray:
        """Rows from all over the test set, anomalies and normal ones."""
        return self.rows[np.linspace(0, len(self.rows) - 1, 32).astype(int)]

    @cached_property
    def reference(self) -> np.ndarray:
        """Exact Shapley values of some rows, or converged ones."""
        rows = self.some_rows
        if self.d <= 24:
            return shapley.exact(self.game, rows, self.players).values
        explainer = Explainer(self.detector, method="permutation", n_orders=REFERENCE_COALITIONS[self.d], seed=12345)
        model = self.detector.fitted.deciding_model
        return explainer.shares(rows * model.scale + model.centre).values

    def error(self, values: np.ndarray) -> float:
        """Median relative error of the values of the first of these rows."""
        reference = self.reference[: len(values)]
        return float(np.median(np.linalg.norm(values - reference, axis=1) / np.linalg.norm(reference, axis=1)))


def cars() -> Problem:
    X = load_cars04().X
    X = X[~np.isnan(X).any(axis=1)]
    return _problem("cars", X[:300], X[300:], 8)


def odds(name: str) -> Problem:
    data = load_odds(name)
    good, bad = data.X[data.y == 0], data.X[data.y == 1]
    n_train = len(good) - len(bad)
    return _problem(name, good[:n_train], np.vstack([good[n_train:], bad]), 0.95)


def _problem(name: str, train: np.ndarray, new: np.ndarray, n_components: float) -> Problem:
    detector = PCADetector(n_components).fit(train)
    normal = detector.fitted.deciding_model
    return Problem(name, detector, normal.standardise(train), normal.standardise(new))


def all_problems() -> list[Problem]:
    return [cars(), odds("cardio"), odds("ionosphere"), odds("musk")]
