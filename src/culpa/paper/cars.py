"""The trials of Table I and Figures 1-3: one cell of a test car is replaced by an extreme value.

Cars with a missing value are left out. Of the other 387, the first 300 train the model and the last 87 test it. Rows are
standardised by the training mean and standard deviation. The PCA keeps 8 of 11 components.
"""

import os
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.calibration.evaluation import places, within
from culpa.datasets import Dataset, load_cars04
from culpa.detecting.detector import PCADetector
from culpa.games import Conditional
from culpa.models import FittedModel
from culpa.scores import mse

Extreme = Literal["MAX", "MIN"]

EXTREMES: tuple[Extreme, ...] = ("MAX", "MIN")
N_TRAIN, N_COMPONENTS = 300, 8


class Cars(NamedTuple):
    """The model of normal cars, and the standardised test cars."""

    model: FittedModel
    test: Floats
    feature_names: tuple[str, ...]

    @property
    def players(self) -> list[list[int]]:
        """One player per feature."""
        return [[i] for i in range(self.test.shape[1])]

    @property
    def game(self) -> Conditional:
        """The paper's value function v2."""
        return Conditional(mse(self.model.gaussian))


class Trials(NamedTuple):
    """Corrupted rows, and the position of the corrupted feature in each."""

    rows: Floats
    changed: NDArray[np.intp]


def prepare(data: str | os.PathLike[str] | None = None) -> Cars:
    """Load the cars, split them and fit the model."""
    dataset = load_cars04(data)
    train, test = split(dataset)
    model = PCADetector(N_COMPONENTS, statistic="mse", limit="formula").fit(train).fitted.deciding_model
    return Cars(model, model.standardise(test), dataset.feature_names)


def split(cars: Dataset) -> tuple[Floats, Floats]:
    """Training and test cars, both without missing values."""
    complete = cars.X[~np.isnan(cars.X).any(axis=1)]
    return complete[:N_TRAIN], complete[N_TRAIN:]


def extreme_values(test: Floats, extreme: Extreme) -> Floats:
    """Largest or smallest value of each feature among the test rows."""
    return np.asarray(test.max(axis=0) if extreme == "MAX" else test.min(axis=0))


def corrupt(test: Floats, extreme: Extreme) -> Trials:
    """One trial per test row and feature."""
    n, d = test.shape
    rows = np.repeat(test[:, None, :], d, axis=1)
    feature = np.arange(d)
    rows[:, feature, feature] = extreme_values(test, extreme)
    return Trials(rows.reshape(n * d, d), np.tile(feature, n))


def hits(blame: Floats, changed: NDArray[np.intp], most: int = 3) -> Floats:
    """Hits@1 to Hits@most: share of trials whose corrupted feature is among the n most blamed. Blame is (..., n, d)."""
    above, tied = places(blame, culprits(changed, blame.shape[-1]))
    return np.stack([within(above, tied, n).mean(axis=-1) for n in range(1, most + 1)], axis=-1)


def culprits(changed: NDArray[np.intp], n_features: int) -> NDArray[np.bool_]:
    """Mask of the corrupted cells, (n, d)."""
    return np.asarray(changed[:, None] == np.arange(n_features))
