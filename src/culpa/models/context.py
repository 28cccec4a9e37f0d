"""Features that are given: the others are judged by what is left of them once the given ones are accounted for.

The mean of Gaussian features x_R given features x_G is linear in x_G:

    x_R = B (x_G - c) + y,   B = Cov(x_R, x_G) Cov(x_G)^-1,

and y is independent of x_G. So a model of y, the readings adjusted to the usual context, is a model of x_R given x_G. A
coalition of features of y is worth what the same coalition together with all given features is worth in the joint Gaussian.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa._core.words import count
from culpa.models.moments import Moments, spread
from culpa.models.scatter import Scatter

_SAME = 1e-10  # eigenvalue of the correlation of given features below which one of them repeats the others


@dataclass(frozen=True, eq=False)
class Context:
    """Given features of a row, by position, and what they imply for the other features.

    ``coefficients`` is B above, (others, given); ``centre`` is the mean of the given features and ``covariance`` their
    covariance over the training rows.
    """

    given: NDArray[np.intp]
    others: NDArray[np.intp]
    coefficients: Floats
    centre: Floats
    covariance: Floats

    @classmethod
    def of_moments(cls, moments: Moments, given: NDArray[np.intp]) -> Self:
        """From the moments of complete rows."""
        others = np.setdiff1d(np.arange(moments.n_features), given)
        _refuse_few(moments.n, len(given))
        covariance = moments.covariance
        within, across = covariance[np.ix_(given, given)], covariance[np.ix_(others, given)]
        return cls(given, others, across @ _inverse(within), moments.mean[given], within)

    @classmethod
    def of_rows(cls, X: Floats, given: NDArray[np.intp]) -> Self:
        """From rows; each feature by the rows where it and all given features are observed."""
        others = np.setdiff1d(np.arange(X.shape[1]), given)
        X = X[~np.isnan(X[:, given]).any(axis=1)]
        _refuse_few(len(X), len(given))
        everything = Moments.of(X[:, given])
        coefficients = np.empty((len(others), len(given)))
        observed = ~np.isnan(X[:, others])
        for pattern in np.unique(observed, axis=1).T:
            alike = np.flatnonzero((observed == pattern[:, None]).all(axis=0))
            rows = X[pattern]
            _refuse_few(len(rows), len(given))
            context = rows[:, given] - rows[:, given].mean(axis=0)
            features = rows[:, others[alike]] - rows[:, others[alike]].mean(axis=0)
            coefficients[alike] = features.T @ context @ _inverse(context.T @ context)
        return cls(given, others, coefficients, everything.mean, everything.covariance)

    def row(self, others: Floats) -> Floats:
        """A whole row in the usual context, with these other features."""
        row = np.empty(len(self.given) + len(others))
        row[self.others], row[self.given] = others, self.centre
        return row

    def shift(self, X: Floats) -> Floats:
        """What the context of each row adds to the other features."""
        return np.asarray((X[:, self.given] - self.centre) @ self.coefficients.T)

    def adjust(self, X: Floats) -> Floats:
        """The other features as they would be in the usual context; missing where a given feature is missing."""
        return X[:, self.others] - self.shift(X)

    def adjust_moments(self, moments: Moments) -> Moments:
        """Moments of rows that are adjusted to their context, from those of whole rows."""
        back = np.zeros((len(self.others), moments.n_features))
        back[np.arange(len(self.others)), self.others] = 1.0
        back[:, self.given] = -self.coefficients
        reference = moments.reference[self.others] - self.coefficients @ (moments.reference[self.given] - self.centre)
        offset = back @ moments.offset
        if moments.about_mean.factor is not None:
            return Moments(moments.n, reference, offset, Scatter.of_factor(moments.about_mean.factor @ back.T))
        scatter = back @ moments.scatter @ back.T
        return Moments(moments.n, reference, offset, Scatter.of_matrix((scatter + scatter.T) / 2))

    def joint_moments(self, adjusted: Moments) -> Moments:
        """Moments of whole rows, from those of adjusted training rows."""
        d = len(self.given) + len(self.others)
        mean, scatter = np.empty(d), np.empty((d, d))
        mean[self.others], mean[self.given] = adjusted.mean, self.centre
        within = self.covariance * (adjusted.n - 1)
        across = self.coefficients @ within
        scatter[np.ix_(self.given, self.given)] = within
        scatter[np.ix_(self.others, self.given)] = across
        scatter[np.ix_(self.given, self.others)] = across.T
        scatter[np.ix_(self.others, self.others)] = adjusted.scatter + across @ self.coefficients.T
        return Moments(adjusted.n, mean, np.zeros(d), Scatter.of_matrix(scatter))


def _inverse(covariance: Floats) -> Floats:
    """Pseudo-inverse that does not depend on units: a given feature that repeats others adds nothing."""
    std = spread(np.zeros(len(covariance)), np.diag(covariance))
    std = np.where(std > 0, std, 1.0)
    return np.asarray(np.linalg.pinv(covariance / np.outer(std, std), rcond=_SAME, hermitian=True) / np.outer(std, std))


def _refuse_few(n_rows: float, n_given: int) -> None:
    if n_rows < n_given + 2:
        raise ValueError(
            f"{count(n_rows, 'row')} with values in all given columns: too few to learn the effect of "
            f"{count(n_given, 'given column')}. At least {n_given + 2} are needed."
        )
