"""A covariance, or a sum of squares, of many features: a matrix, or a factor of it where rows are fewer than features.

A table of n rows and d features has a covariance of rank n at most. If n < d, its n x d factor F with S = F^T F is smaller
than S, and the principal axes follow from a thin singular value decomposition of F. No d x d matrix is made unless
somebody asks for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from culpa._core import memory
from culpa._core.copies import CopiedInUse
from culpa._core.threads import interruptible
from culpa._core.types import Floats

_CELLS_PER_STRIP = 1 << 22  # numbers held at a time


@dataclass(frozen=True, eq=False)
class Scatter(CopiedInUse):
    """S = F^T F (d, d), by its factor F (m, d) with m < d, or by the matrix itself.

    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(3, 5))
    >>> thin = Scatter.of_factor(rows)
    >>> thin.is_thin, bool(np.allclose(thin.diagonal, np.diag(rows.T @ rows)))
    (True, True)
    """

    n_features: int
    factor: Floats | None = None
    given_matrix: Floats | None = None

    @classmethod
    def of_factor(cls, factor: Floats) -> Self:
        """From a factor, which is multiplied out if it is as tall as wide."""
        m, d = factor.shape
        return cls(d, factor) if m < d else cls(d, given_matrix=factor.T @ factor)

    @classmethod
    def of_matrix(cls, matrix: Floats) -> Self:
        """A covariance that is given as a matrix, (d, d)."""
        return cls(len(matrix), given_matrix=matrix)

    @property
    def kept(self) -> Floats:
        """What it is kept as: the matrix, or a factor, which has fewer rows than columns."""
        return self.matrix if self.factor is None else self.factor

    @property
    def is_thin(self) -> bool:
        """Whether it is kept as a factor."""
        return self.factor is not None

    @cached_property
    def matrix(self) -> Floats:
        """The covariance S as a matrix, (d, d)."""
        if self.factor is None:
            assert self.given_matrix is not None
            return self.given_matrix
        memory.claim_square(self.n_features, "the covariance")
        return self.factor.T @ self.factor

    @cached_property
    def diagonal(self) -> Floats:
        """Variances, the diagonal of S, (d,)."""
        return np.diag(self.matrix) if self.factor is None else np.einsum("ij,ij->j", self.factor, self.factor)

    def times(self, number: float) -> "Scatter":
        """S multiplied by a number."""
        if self.factor is None or number < 0:
            return Scatter.of_matrix(self.matrix * number)
        return Scatter(self.n_features, self.factor * np.sqrt(number))

    def over(self, scale: Floats) -> "Scatter":
        """S of features divided by ``scale``."""
        if self.factor is None:
            return Scatter.of_matrix(self.matrix / np.outer(scale, scale))
        return Scatter(self.n_features, self.factor / scale)

    def plus(self, other: "Scatter", step: Floats, weight: float) -> "Scatter":
        """S of both, plus ``weight`` times the outer square of ``step``."""
        if self.factor is None or other.factor is None or weight < 0:
            return Scatter.of_matrix(self.matrix + other.matrix + np.outer(step, step) * weight)
        return Scatter.of_factor(np.vstack([self.factor, other.factor, np.sqrt(weight) * step]))

    def along(self, axes: Floats) -> Floats:
        """a^T S a of each of some axes, given as rows."""
        if self.factor is None:
            return np.asarray(((axes @ self.matrix) * axes).sum(axis=1))
        return np.asarray(((self.factor @ axes.T) ** 2).sum(axis=0))

    def eigen(self) -> tuple[Floats, Floats]:
        """Principal axes, in rows, and the eigenvalues (d,), largest first; those beyond the axes are 0."""
        if self.factor is None:
            values, columns = interruptible(np.linalg.eigh, self.matrix)
            values, axes = np.maximum(values[::-1], 0.0), columns[:, ::-1].T
        else:
            # first a QR decomposition, after which a small matrix is left: twice as fast as all at once
            span, coordinates = interruptible(np.linalg.qr, self.factor.T)
            directions, sizes, _ = np.linalg.svd(coordinates)
            values, axes = self._padded(sizes**2), (span @ directions).T
        return with_signs(axes), values

    def eigenvalues(self) -> Floats:
        """The eigenvalues (d,), largest first."""
        if self.factor is None:
            return np.asarray(np.linalg.eigvalsh(self.matrix)[::-1])
        coordinates = np.linalg.qr(self.factor.T, mode="r")
        return self._padded(np.asarray(np.linalg.svd(coordinates, compute_uv=False) ** 2, dtype=np.float64))

    def strips(self) -> Iterator[tuple[int, Floats]]:
        """S a few rows at a time, from the diagonal on: the first row and column of a strip, and the strip, a copy."""
        step = max(1, _CELLS_PER_STRIP // self.n_features)
        for start in range(0, self.n_features, step):
            if self.factor is None:
                yield start, self.matrix[start : start + step, start:].copy()
            else:
                yield start, self.factor[:, start : start + step].T @ self.factor[:, start:]

    def _padded(self, values: Floats) -> Floats:
        return np.concatenate([values, np.zeros(self.n_features - len(values))])


def with_signs(axes: Floats) -> Floats:
    """Axes, in rows, with the signs of scikit-learn's PCA: the largest loading of every axis is positive."""
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
    return np.ascontiguousarray(axes * signs[:, None])  # as model files have them, so that products round alike
