"""Any quadratic form of a row, under any Gaussian: the reconstruction error of a linear encoder and decoder.

A linear autoencoder x_hat = M x + c leaves the residual (I - M) x - c. With the rows centred at the mean of the Gaussian
and scaled as its features are, the residual is F x + r, and the score is its square. r is zero where the mean of normal
rows is reconstructed perfectly.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from culpa._core.types import Array, Floats, Positions
from culpa.models import FittedModel
from culpa.models.linear_maps import LinearMap
from culpa.models.scatter import Scatter
from culpa.scores.quadratic import QuadraticScore

_ROUNDING = 1e-12  # of what normal rows vary: an offset below it is one


@dataclass(frozen=True, eq=False)
class QuadraticForm(QuadraticScore):
    """q(x) = |F x + r|^2 of centred rows. F is ``form_root``, (k, d), and r ``form_offset``, (k,)."""

    form_root: Floats
    form_offset: Floats

    @cached_property
    def root(self) -> Floats:
        """F."""
        return self.form_root

    @property
    def offset(self) -> Floats:
        """r."""
        return self.form_offset

    @cached_property
    def slope(self) -> Floats:
        """F^T r, half the gradient at the mean of normal rows, (d,)."""
        return np.asarray(self.form_root.T @ self.form_offset)

    @cached_property
    def expectation(self) -> float:
        """Mean score of normal rows, Tr(F C F^T) + |r|^2."""
        g = self.gaussian
        spread = ((self.root @ g.loadings) ** 2).sum() + (self.root**2).sum(axis=0) @ g.noise
        return float(spread + self.form_offset @ self.form_offset)

    def spectrum(self, covariance: Scatter) -> Floats:
        """Eigenvalues of A S. There are none that describe a score with an offset."""
        if self.form_offset.any():
            raise ValueError("the score is not smallest at the mean of normal rows, so it is no sum of chi-squares.")
        if covariance.is_thin:
            return super().spectrum(covariance)
        eigenvalues = np.linalg.eigvalsh(self.root @ covariance.matrix @ self.root.T)
        return np.asarray(np.maximum(eigenvalues, 0.0), dtype=np.float64)

    def parts(self, X: Floats) -> Floats:
        """F x of each row."""
        return X @ self.root.T

    def response(self, X: Array, convert: Callable[[Floats], Array] = np.asarray) -> Array:
        """A x of each row."""
        root = convert(self.root)
        return X @ root.T @ root

    @cached_property
    def diagonal(self) -> Floats:
        """Of A, (d,)."""
        return np.asarray((self.root**2).sum(axis=0))

    def complete(self, X: Floats) -> Floats:
        """Score of complete rows."""
        return np.asarray(((X @ self.root.T + self.form_offset) ** 2).sum(axis=1))


def given_observed(score: QuadraticScore, observed: Positions) -> QuadraticForm:
    """The score of rows that have these features only, as a function of them: E[q(x) given x_observed].

    F is zero for the other features. What their uncertainty adds to the score is a component of r of its own.
    """
    root, added = score.given(observed)
    zeros = np.zeros_like(score.residual_weights), np.zeros_like(score.latent_weights)
    r = np.zeros(len(root) + 1)
    r[: len(score.root)], r[-1] = score.offset, np.sqrt(added)
    return QuadraticForm(score.name, score.gaussian, *zeros, np.vstack([root, np.zeros_like(root[:1])]), r)


def reconstruction_error(
    model: FittedModel, encoder: LinearMap, features: Sequence[int] | None = None, *, mean: bool = False
) -> QuadraticForm:
    """Squared error of a linear reconstruction in its own units, of all features or of some."""
    gaussian, d = model.gaussian, model.gaussian.n_features
    if len(encoder.matrix) != d:
        raise ValueError(f"the model reconstructs {len(encoder.matrix)} features, but normal has {d}.")
    kept = np.arange(d) if features is None else np.array(features, dtype=np.intp)
    if not len(kept):
        raise ValueError("features must name at least one feature.")
    root = ((np.eye(d) - encoder.matrix) * model.scale)[kept]
    offset = encoder.residual_of(model.centre)[kept]
    # what rounding leaves of an offset would keep the forms from being compiled
    size = float(np.abs(root).max() * np.sqrt(np.diag(gaussian.covariance)).max())
    if np.abs(offset).max() <= _ROUNDING * max(size, float(np.abs(model.centre).max())):
        offset = np.zeros_like(offset)
    weight = np.sqrt(1 / len(kept)) if mean else 1.0
    zeros = np.zeros(d), np.zeros(gaussian.n_components)
    return QuadraticForm("mse" if mean else "spe", gaussian, *zeros, weight * root, weight * offset)
