"""Normal rows in several modes, as one immutable object.

A plant has operating modes, a building has weekdays and weekends. See `culpa.models.distribution`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from culpa._core.border import entered
from culpa._core.types import Floats
from culpa.models.distribution import Distribution
from culpa.models.latent import LatentGaussian


@entered
@dataclass(frozen=True, eq=False)
class LatentMixture(Distribution):
    """Normal rows in several modes: with probability ``weights[k]`` a row follows ``modes[k]``.

    >>> left, right = (LatentGaussian([mean, 0.0], [[1.0], [1.0]], 0.1) for mean in (-5.0, 5.0))
    >>> mixture = LatentMixture([0.5, 0.5], (left, right))
    >>> mixture.responsibilities([[-4.0, 1.0], [0.0, 0.0]]).round(3)
    array([[1. , 0. ],
           [0.5, 0.5]])
    """

    weights: Floats
    modes: tuple[LatentGaussian, ...]

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float64)
        if not len(self.modes) or weights.shape != (len(self.modes),):
            raise ValueError(f"{len(self.modes)} modes need as many weights, got an array of shape {weights.shape}.")
        if not (np.isfinite(weights).all() and (weights > 0).all() and abs(weights.sum() - 1) < 1e-6):
            raise ValueError("weights must be positive and add up to 1.")
        if len({mode.n_features for mode in self.modes}) > 1:
            raise ValueError("all modes must have the same number of features.")
        if any(mode.tail for mode in self.modes):
            raise ValueError("modes with Student-t tails have no exact explanation: use Gaussian modes.")
        weights = weights / weights.sum()
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "modes", tuple(self.modes))

    @cached_property
    def mean(self) -> Floats:
        """Mean over all modes."""
        return np.asarray(self.weights @ np.array([mode.mean for mode in self.modes]))

    @cached_property
    def covariance(self) -> Floats:
        """Covariance over all modes: that within modes, plus that of their means."""
        offsets = np.array([mode.mean for mode in self.modes]) - self.mean
        within = sum(weight * mode.covariance for weight, mode in zip(self.weights, self.modes, strict=True))
        return np.asarray(within + (offsets.T * self.weights) @ offsets)

    @cached_property
    def variances(self) -> Floats:
        """Of the features, (d,): the diagonal of the covariance."""
        offsets = np.array([mode.mean for mode in self.modes]) - self.mean
        return np.asarray(self.weights @ (np.array([mode.variances for mode in self.modes]) + offsets**2))

    def mapped(self, shift: Floats, scale: Floats | float = 1.0) -> Self:
        """The distribution of the rows shift + scale x."""
        return replace(self, modes=tuple(mode.mapped(shift, scale) for mode in self.modes))

    def impute(self, X: ArrayLike) -> Floats:
        """The rows with every missing cell at its conditional mean given the observed ones."""
        X = np.asarray(X, dtype=np.float64)
        missing = np.isnan(X)
        return np.where(missing, self._average(X, [mode.impute(X) for mode in self.modes]), X) if missing.any() else X

    def expected(self, X: ArrayLike, blocks: Sequence[Sequence[int]] | None = None) -> Floats:
        """What the other observed features imply each feature should have been, (n, d).

        ``blocks`` are groups of features that are left out together; by default each feature is left out alone.
        """
        X = np.asarray(X, dtype=np.float64)
        result = self.impute(X).copy()
        for block in blocks or [[i] for i in range(X.shape[1])]:
            at = list(block)
            without = X.copy()
            without[:, at] = np.nan
            result[:, at] = self.impute(without)[:, at]
        return result

    def reconstruct(self, X: ArrayLike) -> Floats:
        """What the modes make of each row, weighted by its responsibilities; missing cells are filled in."""
        X = np.asarray(X, dtype=np.float64)
        return self._average(X, [mode.reconstruct(X) for mode in self.modes])

    def sample(self, n_rows: int, seed: int | np.random.Generator | None = None) -> Floats:
        """Draw rows, each from a mode drawn at random."""
        rng = np.random.default_rng(seed)
        which = rng.choice(self.n_modes, size=n_rows, p=self.weights)
        rows = np.empty((n_rows, self.n_features))
        for k, mode in enumerate(self.modes):
            rows[which == k] = mode.sample(int((which == k).sum()), rng)
        return rows

    def _average(self, X: Floats, of_modes: Sequence[Floats]) -> Floats:
        return np.asarray(np.einsum("nk,knd->nd", self.responsibilities(X), np.array(of_modes)))
