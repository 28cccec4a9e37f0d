"""How normal rows are distributed: in one mode or several, each of which is a Gaussian with a few latent variables.

In mode k, which has the weight w_k, rows follow a `culpa.models.LatentGaussian`. Given some features S of a row, its mode
is known only with probabilities, the responsibilities

    r_k(x_S) = w_k p_k(x_S) / sum_j w_j p_j(x_S)

and every expectation is a mean over modes with these weights: E[f(x) | x_S] = sum_k r_k(x_S) E_k[f(x) | x_S].
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from culpa._core.border import entered
from culpa._core.copies import CopiedInUse
from culpa._core.types import Floats, Positions

if TYPE_CHECKING:
    from culpa.models.latent import LatentGaussian


@entered
class Distribution(CopiedInUse, ABC):
    """Rows that follow ``modes[k]`` with probability ``weights[k]``. A mode by itself is a distribution of one mode."""

    if TYPE_CHECKING:  # fields or properties of the subclasses

        @property
        def weights(self) -> Floats:
            """Share of normal rows in each mode, (modes,)."""

        @property
        def modes(self) -> tuple[LatentGaussian, ...]:
            """The Gaussian distribution of each mode."""

        @property
        def mean(self) -> Floats:
            """Mean of normal rows, (d,)."""

    @abstractmethod
    def mapped(self, shift: Floats, scale: Floats | float = 1.0) -> Self:
        """The distribution of the rows shift + scale x.

        Parameters
        ----------
        shift
            One number per feature.
        scale
            One number per feature, or one for all.

        Returns
        -------
        Distribution
            Of the same kind.
        """

    @cached_property
    def covariance(self) -> Floats:
        """Covariance of normal rows, (d, d): that within modes, plus that of their means."""
        offsets = np.array([mode.mean for mode in self.modes]) - self.mean
        within = sum(weight * mode.covariance for weight, mode in zip(self.weights, self.modes, strict=True))
        return np.asarray(within + (offsets.T * self.weights) @ offsets)

    @cached_property
    def variances(self) -> Floats:
        """Variance of each feature: the diagonal of the covariance, (d,)."""
        offsets = np.array([mode.mean for mode in self.modes]) - self.mean
        return np.asarray(self.weights @ (np.array([mode.variances for mode in self.modes]) + offsets**2))

    def impute(self, X: ArrayLike) -> Floats:
        """The rows with every missing cell at its conditional mean given the observed ones."""
        X = self._rows(X)
        missing = np.isnan(X)
        return np.where(missing, self._average(X, [mode.impute(X) for mode in self.modes]), X) if missing.any() else X

    def expected(self, X: ArrayLike, blocks: Sequence[Sequence[int]] | None = None) -> Floats:
        """What the other observed features imply each feature should have been.

        Parameters
        ----------
        X
            Rows; missing cells are allowed.
        blocks
            Groups of features that are left out together; by default each feature is left out alone.

        Returns
        -------
        ndarray of shape (rows, features)
            Conditional means.
        """
        X = self._rows(X)
        result = self.impute(X).copy()
        for block in blocks or [[i] for i in range(X.shape[1])]:
            at = list(block)
            without = X.copy()
            without[:, at] = np.nan
            result[:, at] = self.impute(without)[:, at]
        return result

    def reconstruct(self, X: ArrayLike) -> Floats:
        """What the modes make of each row, weighted by its responsibilities; missing cells are filled in."""
        X = self._rows(X)
        return self._average(X, [mode.reconstruct(X) for mode in self.modes])

    def sample(self, n_rows: int, seed: int | np.random.Generator | None = None) -> Floats:
        """Draw rows from the model.

        Parameters
        ----------
        n_rows
            Number of rows.
        seed
            Of the random numbers, or a generator.

        Returns
        -------
        ndarray of shape (rows, features)
            Independent rows.
        """
        rng = np.random.default_rng(seed)
        which = rng.choice(self.n_modes, size=n_rows, p=self.weights)
        rows = np.empty((n_rows, self.n_features))
        for k, mode in enumerate(self.modes):
            rows[which == k] = mode.sample(int((which == k).sum()), rng)
        return rows

    def _average(self, X: Floats, of_modes: Sequence[Floats]) -> Floats:
        return np.asarray(np.einsum("nk,knd->nd", self.responsibilities(X), np.array(of_modes)))

    @property
    def n_modes(self) -> int:
        """Number of modes."""
        return len(self.modes)

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return len(self.mean)

    @property
    def n_components(self) -> int:
        """Number of latent variables, the largest of a mode."""
        return max(int(mode.loadings.shape[1]) for mode in self.modes)

    def log_densities(self, X: ArrayLike) -> Floats:
        """Log-density of the observed cells of each row in each mode, (n, modes); 0 for a row with none."""
        X = np.asarray(X, dtype=np.float64)
        return np.column_stack([mode.log_density(X) for mode in self.modes])

    def log_density(self, X: ArrayLike) -> Floats:
        """Log-density of the observed cells of each row, (n,); 0 for a row with none."""
        return np.asarray(special.logsumexp(self.log_densities(X) + np.log(self.weights), axis=1))

    def responsibilities(self, X: ArrayLike) -> Floats:
        """Probability of each mode given the observed cells of each row, (n, modes)."""
        return np.asarray(special.softmax(self.log_densities(X) + np.log(self.weights), axis=1))

    def mode_of(self, X: ArrayLike) -> NDArray[np.intp]:
        """The most probable mode of each row, counted from 0."""
        if self.n_modes == 1:
            return np.zeros(len(np.asarray(X)), dtype=np.intp)
        return np.asarray((self.log_densities(X) + np.log(self.weights)).argmax(axis=1))

    def by_mode(self, X: ArrayLike) -> list[tuple[int, Positions]]:
        """The modes that are the most probable ones of some rows, with the positions of these rows."""
        mode_of_row = self.mode_of(X)
        return [(mode, np.flatnonzero(mode_of_row == mode)) for mode in np.unique(mode_of_row).tolist()]

    def residuals(self, X: ArrayLike) -> Floats:
        """Row minus reconstruction; NaN where the cell is missing."""
        return np.asarray(X, dtype=np.float64) - self.reconstruct(X)

    def _rows(self, X: ArrayLike) -> Floats:
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(f"expected rows of {self.n_features} features, got an array of shape {X.shape}.")
        return X

    def centred(self) -> Self:
        """The same distribution around 0."""
        return self.mapped(-self.mean) if self.mean.any() else self
