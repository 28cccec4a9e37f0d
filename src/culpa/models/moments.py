"""Mean and covariance of rows that come in pieces: one pass, any order of merging, no digits lost to a large mean."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from culpa._core.missing import any_missing
from culpa._core.types import Floats
from culpa.models.scatter import Scatter

_CONSTANT = 10 * np.finfo(np.float64).eps  # standard deviation, relative to the mean, that is rounding


def spread(mean: Floats, variance: Floats) -> Floats:
    """Standard deviations, and 1 for columns that do not vary."""
    std = np.sqrt(variance)
    return np.where(std <= _CONSTANT * np.abs(mean), 1.0, std)


def mean_and_spread(X: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation (divisor n - 1) of the observed cells of every column; 1 for columns that do not vary."""
    add = np.nansum if any_missing(X) else np.sum
    counts = np.maximum((~np.isnan(X)).sum(axis=0), 1)
    mean = add(X, axis=0) / counts
    mean = mean + add(X - mean, axis=0) / counts  # second pass: exact for large means
    return mean, spread(mean, add((X - mean) ** 2, axis=0) / np.maximum(counts - 1, 1))


@dataclass(frozen=True, eq=False)
class Moments:
    """Number of rows, mean and scatter of complete rows, measured from a reference point near the data.

    Rows may have weights: a row of weight 0.5 counts as half a row, and ``n`` is the sum of the weights.

    Differences to a nearby point are exact in floating point, so that data whose mean is 1e8 times its spread keep all
    their digits. ``about_mean`` is the sum of (x - mean)(x - mean)^T, kept as a factor where rows are few.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 3)) + 1e8
    >>> whole = Moments.of(X[:30]).merge(Moments.of(X[30:]))
    >>> whole.n, bool(np.allclose(whole.covariance, np.cov(X.T), rtol=1e-9))
    (100, True)

    References
    ----------
    Chan, Golub and LeVeque (1983), "Algorithms for computing the sample variance".
    """

    n: float  # a whole number unless rows have weights
    reference: Floats
    offset: Floats  # mean minus reference
    about_mean: Scatter

    @classmethod
    def of(cls, X: Floats, reference: Floats | None = None, weights: Floats | None = None) -> Self:
        """Moments of some rows; give the pieces of one table the same ``reference``, such as the first piece's."""
        if reference is None:
            reference = X[0].copy() if len(X) else np.zeros(X.shape[1])
        d = X.shape[1]
        if not len(X):
            return cls(0, reference, np.zeros(d), Scatter.of_factor(np.zeros((0, d))))
        near = X - reference
        if weights is not None:
            n = float(weights.sum())
            offset = weights @ near / n
            centred = near - offset
            offset = offset + weights @ centred / n
            centred = (near - offset) * np.sqrt(weights)[:, None]
            return cls(n, reference, offset, Scatter.of_factor(centred))
        offset = near.mean(axis=0)
        centred = near - offset
        offset = offset + centred.mean(axis=0)
        centred = near - offset
        return cls(len(X), reference, offset, Scatter.of_factor(centred))

    def merge(self, other: "Moments") -> "Moments":
        """Moments of both sets of rows together."""
        if not self.n or not other.n:
            return self if self.n else other
        n = self.n + other.n
        step = (other.reference - self.reference) + other.offset - self.offset
        about_mean = self.about_mean.plus(other.about_mean, step, self.n * other.n / n)
        return Moments(n, self.reference, self.offset + step * (other.n / n), about_mean)

    def weighted(self, factor: float) -> "Moments":
        """Moments of the same rows with every weight multiplied by a factor."""
        return Moments(self.n * factor, self.reference, self.offset, self.about_mean.times(factor))

    def then(self, X: Floats, forget: float = 0.0) -> "Moments":
        """Moments after more rows, each of which takes a share ``forget`` off the weight of every row before it.

        The result does not depend on how rows are cut into pieces.
        """
        if not forget or not len(X):
            return self.merge(Moments.of(X))
        weights = np.power(1 - forget, np.arange(len(X) - 1.0, -1.0, -1.0))
        return self.weighted((1 - forget) ** len(X)).merge(Moments.of(X, weights=weights))

    def without(self, other: "Moments") -> "Moments":
        """Moments of the rows that are left when those of ``other`` are taken away: `merge` undone."""
        return self.merge(Moments(-other.n, other.reference, other.offset, other.about_mean.times(-1.0)))

    def column(self, position: int) -> "Moments":
        """Moments of a single column."""
        at = slice(position, position + 1)
        variance = self.about_mean.diagonal[at]
        return Moments(self.n, self.reference[at], self.offset[at], Scatter.of_matrix(variance[:, None]))

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return len(self.reference)

    @property
    def scatter(self) -> Floats:
        """Sum of (x - mean)(x - mean)^T, (d, d)."""
        return self.about_mean.matrix

    @property
    def second(self) -> Floats:
        """Mean of x x^T, not centred."""
        mean = self.mean
        return self.scatter / self.n + np.outer(mean, mean)

    @property
    def mean(self) -> Floats:
        """Mean of the rows, (d,)."""
        return self.reference + self.offset

    @property
    def covariance(self) -> Floats:
        """Sample covariance, divisor n - 1."""
        return self.scatter / max(self.n - 1, 1)

    @property
    def sample(self) -> Scatter:
        """The sample covariance, as a factor where rows are few."""
        if self.about_mean.is_thin:
            return self.about_mean.times(1 / max(self.n - 1, 1))
        return Scatter.of_matrix(self.covariance)

    @property
    def variances(self) -> Floats:
        """Sample variances, (d,).

        Those of a constant column can come out just below 0 where rows were taken away, or a context was accounted for.
        """
        return np.maximum(self.about_mean.diagonal, 0.0) / max(self.n - 1, 1)

    def mean_squares(self, axes: Floats) -> Floats:
        """Mean of (a . x)^2, not centred, for each of some axes, given as rows."""
        return self.about_mean.along(axes) / self.n + (axes @ self.mean) ** 2

    def scaled(self, centre: Floats, scale: Floats) -> "Moments":
        """Moments of the rows (x - centre) / scale."""
        offset = (self.offset - (centre - self.reference)) / scale
        return Moments(self.n, np.zeros(self.n_features), offset, self.about_mean.over(scale))
