"""Rows with missing cells and what a Gaussian knows about them, for many patterns of missing cells at a time.

What depends only on the pattern is computed for all patterns together. Rows are sorted by pattern, so the only work done
pattern by pattern is one matrix product.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from culpa._core.types import Floats, Mask, Positions

if TYPE_CHECKING:
    from culpa.models.latent import LatentGaussian


class Incomplete(NamedTuple):
    """Some patterns of missing cells, and the rows that have them."""

    rows: Positions  # (n,): positions in a table, sorted by pattern
    pattern: Positions  # (n,): which pattern each of them has
    missing: Mask  # (patterns, d)
    gains: Floats  # (patterns, p, d): latent variables by centred cells; 0 for missing features
    roots: Floats  # (patterns, p, p): of the covariance of the latent variables

    @property
    def slices(self) -> list[slice]:
        """Where the rows of each pattern are."""
        ends = np.cumsum(np.bincount(self.pattern, minlength=len(self.missing))).tolist()
        return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]

    def one_by_one(self) -> Iterator[tuple[Positions, Positions, Floats, Floats]]:
        """Of each pattern: its rows, the features they have, the gain (p, d) and the root (p, p)."""
        for here, missing, gain, root in zip(self.slices, self.missing, self.gains, self.roots, strict=True):
            yield self.rows[here], np.flatnonzero(~missing), gain, root

    def latent(self, centred: Floats) -> Floats:
        """Latent variables (n, p) of centred rows (n, d) with 0 in missing cells."""
        return self._products(centred, self.gains.transpose(0, 2, 1))

    def by_cells(self, by_latent: Floats) -> Floats:
        """Derivatives (n, d) by observed cells, of what has the derivatives (n, p) by the latent variables."""
        return self._products(by_latent, self.gains)

    def _products(self, X: Floats, matrices: Floats) -> Floats:
        result = np.empty((len(X), matrices.shape[2]))
        for matrix, here in zip(matrices, self.slices, strict=True):
            np.matmul(X[here], matrix, out=result[here])
        return result

    def unexplained(self, model: "LatentGaussian") -> Floats:
        """Share of each feature's noise that the other observed features leave, (patterns, d); 1 for missing features."""
        spread = model.loadings @ self.roots
        share = 1 - np.square(spread, out=spread).sum(axis=2) / model.noise
        return np.where(self.missing, 1.0, share)

    def leave_each_out(self, X: Floats, model: "LatentGaussian", unexplained: Floats) -> Floats:
        """What the other observed features imply for each feature of rows (n, d); see `culpa.models.leaving_out`."""
        missing = self.missing[self.pattern]
        centred = np.where(missing, 0.0, X - model.mean)
        rebuilt = self.latent(centred) @ model.loadings.T
        steps = (centred - rebuilt) / unexplained[self.pattern]
        return np.where(missing, model.mean + rebuilt, X - steps)
