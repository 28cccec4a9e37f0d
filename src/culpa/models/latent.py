"""The Gaussian of PPCA and factor analysis, as one immutable object.

| symbol | code | meaning |
| --- | --- | --- |
| b | ``mean`` | centre of the data, (d,) |
| W | ``loadings`` | (d, p); rotated so that W^T Psi^-1 W is diagonal |
| Psi | ``noise_variance`` | one number (PPCA) or one per feature (factor analysis) |
| C | ``covariance`` | W W^T + Psi |
| g | ``signal`` | diagonal of W^T Psi^-1 W: signal to noise of each latent variable |
| z(x) | ``latent(X)`` | posterior mean of the latent variables, diag(1 / (1 + g)) W^T Psi^-1 (x - b) |
| | ``decoder`` | (d, p) with reconstruction = b + decoder z(x) |
| nu | ``degrees_of_freedom`` | of Student-t rows; infinite for Gaussian ones |
| t | ``tail`` | 1 / (nu - 2), 0 for Gaussian rows |

Student-t rows have the covariance C, too (their scale matrix is C (nu - 2) / nu), so that everything that depends on means
and covariances is the same for both. Given features S of a row x, the mean of the others is that of a Gaussian, and their
covariance is that of a Gaussian times

    (1 + t m) / (1 + t |S|),   m = x_S^T C_SS^-1 x_S,

because a row that is far out in S is likely to be far out elsewhere.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from culpa._core import memory
from culpa._core.border import entered
from culpa._core.threads import interruptible
from culpa._core.types import Floats
from culpa.models.distribution import Distribution
from culpa.models.incomplete import Posteriors
from culpa.models.leaving_out import ExpectedCells

# Smallest noise variance, and smallest excess of an eigenvalue over it, relative to the largest eigenvalue.
RELATIVE_FLOOR = 1e-12


@entered
@dataclass(frozen=True, eq=False)
class LatentGaussian(Distribution):
    """x = W z + b + noise with Gaussian z and noise: what PPCA and factor analysis know about normal rows.

    Attributes
    ----------
    mean : ndarray of shape (d,)
        The offset b.
    loadings : ndarray of shape (d, p)
        The matrix W.
    noise_variance : float, or ndarray of shape (d,)
        One for all features as in PPCA, or one for each as in factor analysis.
    reconstruction : str
        How a row is rebuilt from its latent variables: "least-squares" (the projection on the principal axes, as PCA does;
        needs one noise variance for all features) or "posterior" (loadings times posterior mean, as factor analysis does).
    degrees_of_freedom : float
        If finite, rows have the same mean and covariance, but Student-t tails (`StudentPPCA`).

    References
    ----------
    Tipping and Bishop (1999), "Probabilistic principal component analysis". Ding (2016), "On the conditional distribution
    of the multivariate t distribution".

    Examples
    --------
    >>> model = LatentGaussian([0.0, 0.0], [[2.0], [1.0]], 0.5)
    >>> model.covariance
    array([[4.5, 2. ],
           [2. , 1.5]])
    >>> model.reconstruct([[1.0, 0.5]])
    array([[1. , 0.5]])
    """

    mean: Floats
    loadings: Floats
    noise_variance: Floats | float
    reconstruction: Literal["least-squares", "posterior"] | None = None
    degrees_of_freedom: float = math.inf

    def __post_init__(self) -> None:
        mean = np.array(self.mean, dtype=np.float64)
        loadings = np.array(self.loadings, dtype=np.float64)
        noise = np.array(self.noise_variance, dtype=np.float64)
        if loadings.ndim != 2 or mean.shape != loadings.shape[:1] or noise.shape not in ((), mean.shape):
            raise ValueError(
                f"mean {mean.shape}, loadings {loadings.shape} and noise_variance {noise.shape} do not fit together: "
                "expected (d,), (d, p) and () or (d,)."
            )
        if not (np.isfinite(mean).all() and np.isfinite(loadings).all() and np.isfinite(noise).all()):
            raise ValueError("mean, loadings and noise_variance must be finite.")
        if (noise <= 0).any():
            raise ValueError("noise_variance must be positive.")
        if not self.degrees_of_freedom > 2:
            raise ValueError(
                f"degrees_of_freedom must be more than 2, got {self.degrees_of_freedom}: otherwise rows have no covariance."
            )
        rule = self.reconstruction or ("least-squares" if noise.ndim == 0 else "posterior")
        if rule not in ("least-squares", "posterior"):
            raise ValueError(f"unknown reconstruction {rule!r}: choose 'least-squares' or 'posterior'.")
        if rule == "least-squares" and noise.ndim:
            raise ValueError("reconstruction='least-squares' needs a single noise_variance; use 'posterior'.")
        loadings = _rotated(loadings, noise)
        for array in (mean, loadings, noise):
            array.setflags(write=False)
        for name, value in (
            ("mean", mean),
            ("loadings", loadings),
            ("noise_variance", noise),
            ("reconstruction", rule),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def from_eigen(
        cls,
        mean: ArrayLike,
        components: ArrayLike,
        variances: ArrayLike,
        noise_variance: float,
        degrees_of_freedom: float = math.inf,
    ) -> "LatentGaussian":
        """PPCA from principal axes and the variances along them.

        Parameters
        ----------
        mean
            Of shape (d,).
        components
            Principal axes, of shape (p, d).
        variances
            Along the axes, of shape (p,).
        noise_variance
            The variance left over per feature.
        degrees_of_freedom
            Of Student-t tails; infinite for Gaussian rows.

        Returns
        -------
        LatentGaussian
            With these axes.
        """
        components = np.asarray(components, dtype=np.float64)
        variances = np.asarray(variances, dtype=np.float64)
        floor = RELATIVE_FLOOR * (max(variances.max(initial=0.0), noise_variance) or 1.0)
        noise_variance = max(float(noise_variance), floor)
        excess = np.maximum(variances - noise_variance, floor)
        # in the layout of model files, so that products round alike
        loadings = np.ascontiguousarray(components.T * np.sqrt(excess))
        return cls(np.asarray(mean), loadings, noise_variance, degrees_of_freedom=degrees_of_freedom)

    @classmethod
    def from_covariance(
        cls, covariance: ArrayLike, n_components: int, mean: ArrayLike | None = None, *, noise: float = 1.0
    ) -> "LatentGaussian":
        """Maximum-likelihood PPCA of a covariance matrix.

        Parameters
        ----------
        covariance
            Of shape (d, d).
        n_components
            Number of latent variables.
        mean
            Of shape (d,); 0 by default.
        noise
            Multiplies the noise variance: the same axes, but a model that trusts them more or less.

        Returns
        -------
        LatentGaussian
            With the leading principal axes of the covariance.
        """
        covariance = np.asarray(covariance, dtype=np.float64)
        d = len(covariance)
        if not 0 < n_components < d:
            raise ValueError(f"n_components={n_components} must be at least 1 and less than the {d} features.")
        variances, axes = interruptible(np.linalg.eigh, covariance)
        variances, axes = variances[::-1], axes[:, ::-1]
        left_over = noise * float(variances[n_components:].mean())
        centre = np.zeros(d) if mean is None else mean
        return cls.from_eigen(centre, axes[:, :n_components].T, variances[:n_components], left_over)

    @property
    def weights(self) -> Floats:
        """Probability of the only mode, which is 1."""
        return np.ones(1)

    @property
    def modes(self) -> "tuple[LatentGaussian, ...]":
        """The distribution itself, which is its only mode."""
        return (self,)

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
        return replace(
            self,
            mean=shift + scale * self.mean,
            loadings=np.ascontiguousarray((scale * self.loadings.T).T),
            noise_variance=scale**2 * self.noise_variance,
            reconstruction=self.reconstruction if np.ndim(scale) == 0 else "posterior",
        )

    @property
    def tail(self) -> float:
        """How heavy the tails are: 1 / (nu - 2), 0 for a Gaussian."""
        return 1 / (self.degrees_of_freedom - 2)

    @cached_property
    def noise(self) -> Floats:
        """Noise variance of every feature, (d,)."""
        return np.broadcast_to(self.noise_variance, self.mean.shape)

    @cached_property
    def covariance(self) -> Floats:
        """C = W W^T + Psi, (d, d)."""
        memory.claim_square(self.n_features, "the covariance")
        return self.loadings @ self.loadings.T + np.diag(self.noise)

    @cached_property
    def variances(self) -> Floats:
        """Of the features, (d,): the diagonal of C."""
        return np.asarray((self.loadings**2).sum(axis=1) + self.noise)

    @cached_property
    def signal(self) -> Floats:
        """Signal-to-noise ratio of each latent variable, (p,)."""
        return np.asarray((self.loadings**2 / self.noise[:, None]).sum(axis=0))

    @cached_property
    def encoder(self) -> Floats:
        """(p, d): maps a centred row to the posterior mean of its latent variables."""
        return np.asarray((self.loadings / self.noise[:, None]).T / (1 + self.signal)[:, None])

    @cached_property
    def decoder(self) -> Floats:
        """(d, p): maps that posterior mean to the reconstruction of the centred row."""
        if self.reconstruction == "posterior":
            return self.loadings
        # undo the shrinkage of the posterior mean, so that the result is the orthogonal projection
        return np.asarray(self.loadings + self.loadings * inverse(self.signal))

    @cached_property
    def latent_variance(self) -> Floats:
        """Variance of each z_j(x) over normal rows, (p,)."""
        return np.asarray(self.signal / (1 + self.signal))

    def latent(self, X: ArrayLike) -> Floats:
        """Posterior mean of the latent variables given the observed cells of each row, (n, p)."""
        X = self._rows(X)
        Z = np.empty((len(X), self.n_components))
        missing = np.isnan(X)
        if not missing.any():
            return np.asarray((X - self.mean) @ self.encoder.T)
        centred = np.where(missing, 0.0, X - self.mean)
        for part in self.posteriors.by_pattern(X):
            Z[part.rows] = part.latent(centred[part.rows])
        return Z

    def reconstruct(self, X: ArrayLike) -> Floats:
        """What the model makes of each row; missing cells are filled in."""
        return np.asarray(self.mean + self.latent(X) @ self.decoder.T)

    def conditional(self, X: ArrayLike, observed: Sequence[int] | NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Mean and covariance of whole rows given some of their features.

        Parameters
        ----------
        X
            Rows.
        observed
            Positions of the features that are given.

        Returns
        -------
        mean : ndarray of shape (rows, d)
            Equal to the row on the observed features.
        covariance : ndarray of shape (d, d)
            Zero on the observed features. Student-t rows have this covariance times `spread_factor`.
        """
        observed = np.asarray(observed, dtype=np.intp)
        hidden = np.setdiff1d(np.arange(self.n_features), observed)
        gain, root = self.posteriors.of(observed)
        mean = self._rows(X).copy()
        z = (mean[:, observed] - self.mean[observed]) @ gain.T
        mean[:, hidden] = self.mean[hidden] + z @ self.loadings[hidden].T
        covariance = np.zeros((self.n_features, self.n_features))
        spread = self.loadings[hidden] @ root
        covariance[np.ix_(hidden, hidden)] = spread @ spread.T + np.diag(self.noise[hidden])
        return mean, covariance

    def squared_distance(self, X: ArrayLike) -> Floats:
        """Squared Mahalanobis distance of the observed cells of each row, (n,)."""
        X = self._rows(X)
        return _distance(self, X - self.mean, self.latent(X))

    def spread_factor(self, X: ArrayLike) -> Floats:
        """By how much the variances of each row's missing cells exceed those of a Gaussian, (n,)."""
        X = self._rows(X)
        if not self.tail:
            return np.ones(len(X))
        n_observed = (~np.isnan(X)).sum(axis=1)
        return np.asarray((1 + self.tail * self.squared_distance(X)) / (1 + self.tail * n_observed))

    def impute(self, X: ArrayLike) -> Floats:
        """The rows with every missing cell at its conditional mean given the observed ones."""
        X = self._rows(X).copy()
        hidden = np.isnan(X)
        if hidden.any():
            X[hidden] = (self.mean + self.latent(X) @ self.loadings.T)[hidden]
        return X

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
        return self._expected_cells(self._rows(X), blocks)

    @cached_property
    def _expected_cells(self) -> ExpectedCells:
        return ExpectedCells(self)

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
        z = rng.standard_normal((n_rows, self.n_components))
        noise = rng.standard_normal((n_rows, self.n_features)) * np.sqrt(self.noise)
        deviation = z @ self.loadings.T + noise
        if self.tail:
            nu = self.degrees_of_freedom
            deviation *= np.sqrt((nu - 2) / rng.chisquare(nu, size=n_rows))[:, None]
        return np.asarray(self.mean + deviation)

    def log_density(self, X: ArrayLike) -> Floats:
        """Log-density of the observed cells of each row, (n,); 0 for a row with none."""
        X = self._rows(X)
        result, log_noise = np.empty(len(X)), np.log(self.noise)
        for part in self.posteriors.by_pattern(X):
            missing = part.missing[part.pattern]
            log_det = (~part.missing @ log_noise - 2 * np.linalg.slogdet(part.roots)[1])[part.pattern]
            centred = X[part.rows] - self.mean
            distance = _distance(self, centred, part.latent(np.nan_to_num(centred, nan=0.0)))
            result[part.rows] = log_kernel(self, distance, (~missing).sum(axis=1)) - 0.5 * log_det
        return result

    @cached_property
    def posteriors(self) -> Posteriors:
        """What some features tell about the latent variables."""
        return Posteriors(self)


def marginal(model: LatentGaussian, features: Sequence[int] | NDArray[np.intp]) -> LatentGaussian:
    """The distribution of some of the features."""
    noise = model.noise[features] if np.ndim(model.noise_variance) else model.noise_variance
    tails = model.degrees_of_freedom
    return LatentGaussian(model.mean[features], model.loadings[features], noise, model.reconstruction, tails)


def shrunk(covariance: Floats, share: float) -> Floats:
    """A covariance drawn a share of the way towards its diagonal: correlations count less, variances stay.

    References
    ----------
    Schäfer and Strimmer (2005), "A shrinkage approach to large-scale covariance matrix estimation".
    """
    return (1 - share) * covariance + share * np.diag(np.diag(covariance))


def _rotated(loadings: Floats, noise: Floats) -> Floats:
    """The same W W^T with W^T Psi^-1 W diagonal and decreasing; unchanged if it is so already.

    Latent variables that only rounding tells from nothing are left out: divided by their variances, they would be all that
    T2 sees.
    """
    if not loadings.shape[1]:
        return loadings
    scale = np.sqrt(np.broadcast_to(noise, loadings.shape[:1]))[:, None]
    whitened = loadings / scale
    gram = whitened.T @ whitened
    off = np.abs(gram - np.diag(np.diag(gram)))
    size = np.sqrt(np.diag(gram))
    if (off <= 1e-12 * np.outer(size, size)).all():
        return loadings
    u, s, _ = np.linalg.svd(whitened, full_matrices=False)
    real = s > s[0] * max(whitened.shape) * np.finfo(np.float64).eps
    return np.asarray(u[:, real] * s[real] * scale)


def inverse(values: Floats) -> Floats:
    """1 / values, and 0 for the latent variables that carry nothing at all."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)


def _distance(model: LatentGaussian, centred: Floats, Z: Floats) -> Floats:
    """Squared distance of centred rows with these latent variables."""
    residual = np.nan_to_num(centred - Z @ model.loadings.T, nan=0.0)
    # a sum of squares, so that it cannot cancel
    return np.asarray((residual**2 / model.noise).sum(axis=1) + (Z**2).sum(axis=1))


def log_kernel(model: LatentGaussian, distance: Floats, k: NDArray[np.intp] | int) -> Floats:
    """Log-density of k features by their squared distance, without the determinant of their covariance."""
    if not model.tail:
        return np.asarray(-0.5 * (distance + k * np.log(2 * np.pi)))
    nu, scale = model.degrees_of_freedom, 1 / model.tail
    constant = special.gammaln((nu + k) / 2) - special.gammaln(nu / 2) - k / 2 * np.log(np.pi * scale)
    return np.asarray(constant - (nu + k) / 2 * np.log1p(distance / scale))
