"""How abnormal is a row? Quadratic scores, each a weighing of two things a model knows about a row.

A row has residuals x - x_hat (what the model cannot rebuild) and latent variables z(x) (where the row sits inside the
model). Every score here is  sum_i a_i residual_i^2 + sum_j b_j z_j^2  with its own weights a and b:

| score | a (residuals) | b (latent variables) |
| --- | --- | --- |
| spe (Q, reconstruction error) | 1 | 0 |
| mse | 1 / d | 0 |
| t2 (Hotelling) | 0 | 1 / Var z_j |
| mahalanobis, x^T C^-1 x | 1 / noise | 1 / Var z_j (least squares), 1 (posterior) |
| combined | 1 / SPE limit | 1 / (Var z_j * T2 limit) |
| error of some features | 1 for those, else 0 | 0 |
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from culpa._core.missing import mostly_alone, patterns
from culpa._core.threads import interruptible
from culpa._core.types import Floats, Mask
from culpa.models import LatentGaussian
from culpa.scores.fixing import Fixing


@dataclass(frozen=True, eq=False)
class QuadraticScore(Fixing):
    """A quadratic score q(x) = x^T A x of centred rows; larger is more abnormal.

    >>> import numpy as np
    >>> model = LatentGaussian([0.0, 0.0], [[2.0], [0.0]], 0.5)
    >>> spe(model)(np.array([[1.0, 3.0]]))
    array([9.])
    """

    name: str
    gaussian: LatentGaussian
    residual_weights: Floats
    latent_weights: Floats

    @property
    def distribution(self) -> LatentGaussian:
        """Of centred normal rows."""
        return self.gaussian

    def divided_by(self, unit: float) -> "QuadraticScore":
        """The same score in other units."""
        return replace(self, residual_weights=self.residual_weights / unit, latent_weights=self.latent_weights / unit)

    def __call__(self, X: Floats) -> Floats:
        """Score of each row; a row with missing cells gets its expected score given the observed ones."""
        result = self.complete(self.gaussian.impute(X))
        missing = np.isnan(X)
        if not missing.any():
            return result
        factor = self.gaussian.spread_factor(X)
        if mostly_alone(missing):
            result += factor * self._from_missing(missing)
            result[missing.all(axis=1)] = np.nan
            return result
        for rows, observed in patterns(X):
            if not len(observed):
                result[rows] = np.nan
            elif len(observed) < X.shape[1]:
                result[rows] += factor[rows] * self._uncertainty(observed)
        return result

    def _uncertainty(self, observed: NDArray[np.intp]) -> float:
        """What the uncertainty of the other features adds to the expected score of Gaussian rows."""
        _, spread = self.gaussian.conditional(np.zeros((0, self.gaussian.n_features)), observed)
        return float((self.matrix * spread).sum())

    def _from_missing(self, missing: Mask) -> Floats:
        """What the uncertainty of missing cells adds to each row's expected score."""
        model = self.gaussian
        result = missing @ (np.diag(self.matrix) * model.noise)
        for rows, _, root in model.posteriors(~missing):
            spread = (missing[rows, :, None] * model.loadings) @ root
            result[rows] += ((self.matrix @ spread) * spread).sum(axis=(1, 2))
        return np.asarray(result)

    def complete(self, X: Floats) -> Floats:
        """Score of complete rows."""
        z = X @ self.gaussian.encoder.T
        result = z**2 @ self.latent_weights
        if self.residual_weights.any():
            result += (X - z @ self.gaussian.decoder.T) ** 2 @ self.residual_weights
        return np.asarray(result)

    @cached_property
    def root(self) -> Floats:
        """(d + p, d) matrix F with q(x) = |F x|^2."""
        return np.vstack(
            [
                np.sqrt(self.residual_weights)[:, None] * self.gaussian.residual_map,
                np.sqrt(self.latent_weights)[:, None] * self.gaussian.encoder,
            ]
        )

    @property
    def offset(self) -> Floats | float:
        """r of scores q(x) = |F x + r|^2; 0 for those that are smallest at the mean of normal rows."""
        return 0.0

    @cached_property
    def matrix(self) -> Floats:
        """A, (d, d)."""
        return self.root.T @ self.root

    def root_given(self, observed: NDArray[np.intp]) -> Floats:
        """The root of the score as a function of the observed features, the others at their conditional mean.

        (d + p, d) with zeros for features that were not observed.
        """
        if len(observed) == self.gaussian.n_features:
            return self.root
        seen = np.isin(np.arange(self.gaussian.n_features), observed)
        # how the whole row's conditional mean moves with each observed cell
        moves = self.gaussian.conditional(np.diag(seen.astype(np.float64)), observed)[0]
        return np.asarray(self.root @ moves.T)

    def _whole_root_given(self, observed: NDArray[np.intp]) -> Floats:
        """The same, with what the observed features of Student-t rows tell about the spread of the others."""
        g, root = self.gaussian, self.root_given(observed)
        if not g.tail or len(observed) in (0, g.n_features):
            return root
        weight = g.tail / (1 + g.tail * len(observed)) * self._uncertainty(observed)
        return np.vstack([root, np.sqrt(weight) * mahalanobis(g).root_given(observed)])

    @cached_property
    def expectation(self) -> float:
        """Mean score of normal rows, Tr(A C): the base value of every game."""
        g = self.gaussian
        return float(self.residual_weights @ g.residual_variance + self.latent_weights @ g.latent_variance)

    def spectrum(self, covariance: Floats) -> Floats:
        """Eigenvalues of A S: the score of N(0, S) rows is a sum of chi-squares with these weights."""
        root = self.root[np.concatenate([self.residual_weights, self.latent_weights]) > 0]
        eigenvalues = interruptible(np.linalg.eigvalsh, root @ covariance @ root.T)
        return np.asarray(np.maximum(eigenvalues, 0.0), dtype=np.float64)

    def if_fixed(self, X: Floats, score: Floats, expected: Floats, blocks: Sequence[Sequence[int]]) -> Floats:
        """Score of each row with one block of features moved to its expected values, (n, blocks).

        ``score`` is what the rows have now. NaN where nothing of the block was observed.
        """
        result = np.empty((len(X), len(blocks)))
        for rows, observed in patterns(X):
            seen = np.isin(np.arange(X.shape[1]), observed)
            root = self._whole_root_given(observed)
            curvature = root.T @ root
            change_of_score = 2 * (np.where(seen, X[rows], 0.0) @ root.T + self.offset) @ root
            step = np.where(seen, expected[rows] - X[rows], 0.0)
            for k, block in enumerate(blocks):
                part = step[:, block]
                bend = ((part @ curvature[np.ix_(block, block)]) * part).sum(axis=1)
                fixed = score[rows] + (part * change_of_score[:, block]).sum(axis=1) + bend
                # no score is below 0, though what rounding leaves of a large one may be
                result[rows, k] = np.maximum(fixed, 0.0) if seen[list(block)].any() else np.nan
        return result


def spe(gaussian: LatentGaussian) -> QuadraticScore:
    """Squared prediction error |x - x_hat|^2, the paper's reconstruction error."""
    return _score("spe", gaussian, 1.0, 0.0)


def mse(gaussian: LatentGaussian) -> QuadraticScore:
    """Mean squared error SPE / d: the scale of the paper's value function."""
    return _score("mse", gaussian, 1 / gaussian.n_features, 0.0)


def t2(gaussian: LatentGaussian) -> QuadraticScore:
    """Hotelling's T2: how far out a row is inside the model."""
    return _score("t2", gaussian, 0.0, _precision(gaussian))


def mahalanobis(gaussian: LatentGaussian) -> QuadraticScore:
    """Squared Mahalanobis distance x^T C^-1 x under the model's covariance."""
    inside = _precision(gaussian) if gaussian.reconstruction == "least-squares" else 1.0
    return _score("mahalanobis", gaussian, 1 / gaussian.noise, inside)


def combined(gaussian: LatentGaussian, spe_limit: float, t2_limit: float) -> QuadraticScore:
    """SPE and T2, each in units of its limit, added up (Yue and Qin, 2001)."""
    return _score("combined", gaussian, 1 / spe_limit, _precision(gaussian) / t2_limit)


def of_features(gaussian: LatentGaussian, features: Sequence[int], *, mean: bool = False) -> QuadraticScore:
    """Reconstruction error of some of the features: their sum of squares, or its mean."""
    weights = np.zeros(gaussian.n_features)
    weights[list(features)] = 1 / len(features) if mean else 1.0
    return _score("mse" if mean else "spe", gaussian, weights, 0.0)


def _precision(gaussian: LatentGaussian) -> Floats:
    variance = gaussian.latent_variance
    return np.divide(1.0, variance, out=np.zeros_like(variance), where=variance > 0)


def _score(
    name: str, gaussian: LatentGaussian, residual_weights: Floats | float, latent_weights: Floats | float
) -> QuadraticScore:
    d, p = gaussian.loadings.shape
    return QuadraticScore(
        name,
        gaussian,
        np.broadcast_to(np.asarray(residual_weights, dtype=np.float64), (d,)),
        np.broadcast_to(np.asarray(latent_weights, dtype=np.float64), (p,)),
    )


def response(X: Floats, root: Floats) -> Floats:
    """A x of each row, for a score given by a root F with A = F^T F."""
    return np.asarray(X @ root.T @ root)
