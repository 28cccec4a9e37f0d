"""A mixture of Gaussians with a few latent variables each, as one immutable object: normal rows in several modes.

A plant has operating modes, a building has weekdays and weekends. In mode k, which has the weight w_k, rows follow a
`LatentGaussian` of their own. Given some features S of a row, its mode is known only with probabilities, the
responsibilities

    r_k(x_S) = w_k p_k(x_S) / sum_j w_j p_j(x_S)

and every expectation is a mean over modes with these weights: E[f(x) | x_S] = sum_k r_k(x_S) E_k[f(x) | x_S].
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from culpa._core.border import entered
from culpa._core.copies import CopiedInUse
from culpa._core.missing import mostly_alone
from culpa._core.types import Floats
from culpa.models.latent import LatentGaussian

_LOG_2_PI = float(np.log(2 * np.pi))


@entered
@dataclass(frozen=True, eq=False)
class LatentMixture(CopiedInUse):
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

    @property
    def n_modes(self) -> int:
        """Number of modes."""
        return len(self.modes)

    @property
    def n_features(self) -> int:
        """d."""
        return self.modes[0].n_features

    @property
    def n_components(self) -> int:
        """The largest number of latent variables of a mode."""
        return max(mode.n_components for mode in self.modes)

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

    def centred(self) -> Self:
        """The same mixture around 0."""
        return replace(self, modes=tuple(replace(mode, mean=mode.mean - self.mean) for mode in self.modes))

    def log_densities(self, X: ArrayLike) -> Floats:
        """Log-density of the observed cells of each row in each mode, (n, modes); 0 for a row with none."""
        X = np.asarray(X, dtype=np.float64)
        return np.column_stack([log_density(mode, X) for mode in self.modes])

    def log_density(self, X: ArrayLike) -> Floats:
        """Log-density of the observed cells of each row, (n,)."""
        return np.asarray(special.logsumexp(self.log_densities(X) + np.log(self.weights), axis=1))

    def responsibilities(self, X: ArrayLike) -> Floats:
        """Probability of each mode given the observed cells of each row, (n, modes)."""
        return np.asarray(special.softmax(self.log_densities(X) + np.log(self.weights), axis=1))

    def mode_of(self, X: ArrayLike) -> NDArray[np.intp]:
        """The most probable mode of each row, counted from 0."""
        return np.asarray((self.log_densities(X) + np.log(self.weights)).argmax(axis=1))

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

    def residuals(self, X: ArrayLike) -> Floats:
        """Row minus reconstruction; NaN where the cell is missing."""
        X = np.asarray(X, dtype=np.float64)
        return X - self.reconstruct(X)

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


def log_density(mode: LatentGaussian, X: Floats) -> Floats:
    """Log-density of the observed cells of each row, also where most rows miss other cells than their neighbours."""
    missing = np.isnan(X)
    if not mostly_alone(missing):
        return mode.log_density(X)
    result = np.empty(len(X))
    centred = np.where(missing, 0.0, X - mode.mean)
    log_noise = ~missing @ np.log(mode.noise)
    for rows, gains, roots in mode.posteriors(~missing):
        z = np.einsum("npd,nd->np", gains, centred[rows])
        left = np.where(missing[rows], 0.0, centred[rows] - z @ mode.loadings.T)
        distance = (left**2 / mode.noise).sum(axis=1) + (z**2).sum(axis=1)
        log_det = log_noise[rows] - 2 * np.linalg.slogdet(roots)[1]
        result[rows] = -0.5 * (distance + log_det + (~missing[rows]).sum(axis=1) * _LOG_2_PI)
    return result
