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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from culpa._core import memory
from culpa._core.border import entered
from culpa._core.missing import kinds_of_rows, patterns, sorted_by_pattern
from culpa._core.threads import interruptible
from culpa._core.types import Floats, Mask, Positions
from culpa.models.distribution import Distribution
from culpa.models.incomplete import Incomplete
from culpa.models.leaving_out import THIN, LeavingOut
from culpa.models.scatter import Scatter

# Smallest noise variance, and smallest excess of an eigenvalue over it, relative to the largest eigenvalue.
RELATIVE_FLOOR = 1e-12
_CHUNK = 1 << 22  # numbers held at once for rows that observe different features
_POSTERIORS_KEPT = 1 << 19  # numbers, of the patterns of missing cells that were asked for last
_BLOCKINGS_KEPT = 8  # ways to leave features out, prepared for complete rows
_FAR = 1e3  # standard deviations beyond which leave-one-out by subtraction would lose the digits of normal values


@entered
@dataclass(frozen=True, eq=False)
class LatentGaussian(Distribution):
    """x = W z + b + noise with Gaussian z and noise: what PPCA and factor analysis know about normal rows.

    With finite ``degrees_of_freedom``, rows have the same mean and covariance, but Student-t tails (`StudentPPCA`).
    ``reconstruction`` says how a row is rebuilt from its latent variables: "least-squares" (the projection on the
    principal axes, as PCA does; needs one noise variance for all features) or "posterior" (loadings times posterior
    mean, as factor analysis does).

    >>> model = LatentGaussian([0.0, 0.0], [[2.0], [1.0]], 0.5)
    >>> model.covariance
    array([[4.5, 2. ],
           [2. , 1.5]])
    >>> model.reconstruct([[1.0, 0.5]])
    array([[1. , 0.5]])

    References
    ----------
    Tipping and Bishop (1999), "Probabilistic principal component analysis". Ding (2016), "On the conditional distribution
    of the multivariate t distribution".
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
        """PPCA from principal axes (p, d), the variances along them, and the variance left over per feature."""
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
        """Maximum-likelihood PPCA of a covariance matrix with ``n_components`` latent variables.

        ``noise`` multiplies its noise variance: the same axes, but a model that trusts them more or less.
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

    @classmethod
    def saturated(cls, mean: ArrayLike, axes: ArrayLike, variances: ArrayLike) -> "LatentGaussian":
        """Any Gaussian, from all its principal axes (d, d) and the variances along them.

        The smallest variance is the noise, so C = W W^T + noise holds exactly, with d - 1 latent variables or fewer.
        """
        axes, variances = np.asarray(axes, dtype=np.float64), np.asarray(variances, dtype=np.float64)
        noise = float(variances.min())
        if noise <= RELATIVE_FLOOR * variances.max():
            raise ValueError("the covariance is singular.")
        above = variances > noise
        return cls(np.asarray(mean), axes[above].T * np.sqrt(variances[above] - noise), noise)

    @property
    def weights(self) -> Floats:
        """Of its only mode."""
        return np.ones(1)

    @property
    def modes(self) -> "tuple[LatentGaussian, ...]":
        """Itself."""
        return (self,)

    def mapped(self, shift: Floats, scale: Floats | float = 1.0) -> Self:
        """The distribution of the rows shift + scale x."""
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

    @property
    def scatter(self) -> Scatter:
        """C, as what sample covariances are compared with."""
        return Scatter.of_matrix(self.covariance)

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
        return np.asarray(self.loadings + self.loadings * _inverse(self.signal))

    @cached_property
    def latent_variance(self) -> Floats:
        """Variance of each z_j(x) over normal rows, (p,)."""
        return np.asarray(self.signal / (1 + self.signal))

    @cached_property
    def residual_variance(self) -> Floats:
        """Variance of each feature's residual over normal rows, (d,)."""
        divisor = self.signal if self.reconstruction == "least-squares" else 1 + self.signal
        return np.asarray(np.maximum(self.noise - self.loadings**2 @ _inverse(divisor), 0.0))

    @cached_property
    def residual_map(self) -> Floats:
        """(d, d): maps a centred row to its residual x - x_hat."""
        memory.claim_square(self.n_features, "the map of residuals", copies=4)
        return np.eye(self.n_features) - self.decoder @ self.encoder

    def marginal(self, features: Sequence[int] | NDArray[np.intp]) -> "LatentGaussian":
        """The distribution of some of the features."""
        noise = self.noise[features] if np.ndim(self.noise_variance) else self.noise_variance
        return LatentGaussian(
            self.mean[features], self.loadings[features], noise, self.reconstruction, self.degrees_of_freedom
        )

    def latent(self, X: ArrayLike) -> Floats:
        """Posterior mean of the latent variables given the observed cells of each row, (n, p)."""
        X = self._rows(X)
        Z = np.empty((len(X), self.n_components))
        missing = np.isnan(X)
        if not missing.any():
            return np.asarray((X - self.mean) @ self.encoder.T)
        centred = np.where(missing, 0.0, X - self.mean)
        for part in self.incomplete(X):
            Z[part.rows] = part.latent(centred[part.rows])
        return Z

    def incomplete(self, X: Floats) -> Iterator[Incomplete]:
        """Rows by their patterns of NaN, with the latent variables given what they have; some patterns at a time."""
        kinds, kind_of_row = kinds_of_rows(np.isnan(X))
        order, starts = sorted_by_pattern(kind_of_row, len(kinds))
        for some, gains, roots in self.posteriors(~kinds):
            stop = min(some.stop, len(kinds))
            rows = order[starts[some.start] : starts[stop]]
            yield Incomplete(rows, kind_of_row[rows] - some.start, kinds[some], gains, roots)

    def reconstruct(self, X: ArrayLike) -> Floats:
        """What the model makes of each row; missing cells are filled in."""
        return np.asarray(self.mean + self.latent(X) @ self.decoder.T)

    def conditional(self, X: ArrayLike, observed: Sequence[int] | NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Mean (n, d) and covariance (d, d) of whole rows given some of their features.

        The mean equals the row on the observed features, where the covariance is zero. Student-t rows have this covariance
        times `spread_factor`.
        """
        observed = np.asarray(observed, dtype=np.intp)
        hidden = np.setdiff1d(np.arange(self.n_features), observed)
        gain, root = self.posterior(observed)
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
        return self._distance(X - self.mean, self.latent(X))

    def _distance(self, centred: Floats, Z: Floats) -> Floats:
        """The same of centred rows with these latent variables."""
        residual = np.nan_to_num(centred - Z @ self.loadings.T, nan=0.0)
        # a sum of squares, so that it cannot cancel
        return np.asarray((residual**2 / self.noise).sum(axis=1) + (Z**2).sum(axis=1))

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
        """What the other observed features imply each feature should have been, (n, d).

        ``blocks`` are groups of features that are left out together; by default each feature is left out alone.
        """
        X = self._rows(X)
        result = self._leave_each_out(X, blocks)
        for rows, block in self._far_cells(X, blocks):
            without = X[rows]
            without[:, block] = np.nan
            result[np.ix_(rows, block)] = self.impute(without)[:, block]
        return result

    def _far_cells(self, X: Floats, blocks: Sequence[Sequence[int]] | None) -> Iterator[tuple[Positions, Positions]]:
        """Rows and observed features of blocks with a cell that would swamp what the other features imply."""
        if self._all_are_near(X):
            return
        far = np.abs(X - self.mean) > self._far
        for block in blocks or [[i] for i in range(self.n_features)]:
            at = np.asarray(block, dtype=np.intp)
            affected = np.flatnonzero(far[:, at].any(axis=1))
            for rows, observed in patterns(X[np.ix_(affected, at)]):
                yield affected[rows], at[observed]

    def _all_are_near(self, X: Floats) -> bool:
        """Whether no cell is far: by the smallest and the largest cell, which usually is enough, or cell by cell."""
        low, high = self._near
        if X.size and low <= X.min() and X.max() <= high:  # false if cells are missing
            return True
        return not (np.abs(X - self.mean) > self._far).any()

    @cached_property
    def _near(self) -> tuple[float, float]:
        """Bounds within which a cell of any feature is near."""
        return float((self.mean - self._far).max()), float((self.mean + self._far).min())

    @cached_property
    def _far(self) -> Floats:
        """Distance from the mean beyond which a cell is far, (d,)."""
        return np.asarray(_FAR * np.sqrt(self.variances))

    def _leave_each_out(self, X: Floats, blocks: Sequence[Sequence[int]] | None) -> Floats:
        """`expected`, by one formula for all features and rows, which subtracts each feature from itself."""
        if not np.isnan(X).any():
            return self._leaving_out(blocks)(X)
        result = np.empty_like(X)
        for part in self.incomplete(X):
            unexplained = part.unexplained(self)
            if blocks is None and unexplained.min() > THIN:
                result[part.rows] = part.leave_each_out(X[part.rows], self, unexplained)
            else:
                self._leave_out_by_pattern(X, blocks, part, result)
        return result

    def _leave_out_by_pattern(
        self, X: Floats, blocks: Sequence[Sequence[int]] | None, part: Incomplete, result: Floats
    ) -> None:
        """`_leave_each_out`, where some blocks are more than a division, for the rows of some patterns."""
        for rows, observed, gain, root in part.one_by_one():
            here, gain = np.ix_(rows, observed), gain[:, observed]
            result[rows] = self.mean + (X[here] - self.mean[observed]) @ gain.T @ self.loadings.T
            seen = set(observed.tolist())
            kept = None if blocks is None else [[i for i in block if i in seen] for block in blocks]
            leave_out = LeavingOut.of(self, observed, None if kept is None else filter(None, kept), (gain, root))
            result[here] = leave_out(X[here])

    def sample(self, n_rows: int, seed: int | np.random.Generator | None = None) -> Floats:
        """Draw rows from the model."""
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
        for part in self.incomplete(X):
            missing = part.missing[part.pattern]
            log_det = (~part.missing @ log_noise - 2 * np.linalg.slogdet(part.roots)[1])[part.pattern]
            centred = X[part.rows] - self.mean
            distance = self._distance(centred, part.latent(np.nan_to_num(centred, nan=0.0)))
            result[part.rows] = self.log_kernel(distance, (~missing).sum(axis=1)) - 0.5 * log_det
        return result

    def log_kernel(self, distance: Floats, k: NDArray[np.intp] | int) -> Floats:
        """Log-density of k features by their squared distance, without the determinant of their covariance."""
        if not self.tail:
            return np.asarray(-0.5 * (distance + k * np.log(2 * np.pi)))
        nu, scale = self.degrees_of_freedom, 1 / self.tail
        constant = special.gammaln((nu + k) / 2) - special.gammaln(nu / 2) - k / 2 * np.log(np.pi * scale)
        return np.asarray(constant - (nu + k) / 2 * np.log1p(distance / scale))

    def _rows(self, X: ArrayLike) -> Floats:
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(f"expected rows of {self.n_features} features, got an array of shape {X.shape}.")
        return X

    def posterior(self, observed: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Gain (p, |S|) and covariance root (p, p) of the latent variables given the features S.

        From one QR factorisation of [Psi^-1/2 W_S; I], which squares no condition number: with Q = [Q1; Q2] the
        posterior covariance is Q2 Q2^T and the posterior mean Q2 Q1^T Psi^-1/2 x.
        """
        weights = 1 / np.sqrt(self.noise[observed])
        stacked = np.vstack([self.loadings[observed] * weights[:, None], np.eye(self.n_components)])
        q = np.linalg.qr(stacked)[0]
        top, root = q[: len(observed)], q[len(observed) :]
        return root @ (top * weights[:, None]).T, root

    def posteriors(self, observed: Mask) -> Iterator[tuple[slice, Floats, Floats]]:
        """The same for many rows that observe different features, some rows at a time: gains (n, p, d), roots (n, p, p)."""
        d, p = self.loadings.shape
        step = max(1, _CHUNK // max(1, (d + p) * p))  # an isotropic model has no components
        if observed.size * max(1, p) > _POSTERIORS_KEPT:
            for start in range(0, len(observed), step):
                yield slice(start, start + step), *self._posteriors(observed[start : start + step])
            return
        # scores, expected values and fixes ask for those of the same patterns, some with and some without complete rows
        key, kept = observed.tobytes(), self._latest_posteriors
        found = kept.get(key) or self._posteriors(observed)
        if key not in kept:
            for old in list(kept)[:-1]:
                kept.pop(old, None)
            kept[key] = found
        yield slice(0, len(observed)), *found

    def __getstate__(self) -> dict[str, Any]:
        # without what other threads may be changing while a copy is made
        return {name: value for name, value in dict(vars(self)).items() if name != "_latest_posteriors"}

    @cached_property
    def _latest_posteriors(self) -> dict[bytes, tuple[Floats, Floats]]:
        return {}

    def _posteriors(self, observed: Mask) -> tuple[Floats, Floats]:
        d, p = self.loadings.shape
        weights = observed / np.sqrt(self.noise)
        stacked = np.empty((len(weights), d + p, p))
        stacked[:, :d] = weights[:, :, None] * self.loadings
        stacked[:, d:] = np.eye(p)
        q = np.linalg.qr(stacked)[0]
        root = q[:, d:]
        return root @ (q[:, :d] * weights[:, :, None]).transpose(0, 2, 1), root

    def _leaving_out(self, blocks: Sequence[Sequence[int]] | None) -> LeavingOut:
        """Blocks of complete rows, prepared once."""
        key = None if blocks is None else tuple(map(tuple, blocks))
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = LeavingOut.of(self, np.arange(self.n_features), blocks)
            if len(self._prepared) >= _BLOCKINGS_KEPT:
                self._prepared.clear()
            self._prepared[key] = prepared
        return prepared

    @cached_property
    def _prepared(self) -> dict[tuple[tuple[int, ...], ...] | None, LeavingOut]:
        return {}


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


def _inverse(values: Floats) -> Floats:
    """1 / values, and 0 for the latent variables that carry nothing at all."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
