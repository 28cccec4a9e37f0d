"""Rows with missing cells and what a Gaussian knows about them, for many patterns of missing cells at a time.

What depends only on the pattern is computed for all patterns together. Rows are sorted by pattern, so the only work done
pattern by pattern is one matrix product.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from culpa._core.missing import kinds_of_rows, sorted_by_pattern
from culpa._core.types import Floats, Mask, Positions

if TYPE_CHECKING:
    from culpa.models.latent import LatentGaussian

_CHUNK = 1 << 22  # numbers held at once for rows that observe different features
_KEPT = 1 << 19  # numbers, of the patterns of missing cells that were asked for last


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


class Posteriors:
    """What a Gaussian knows about its latent variables given some of the features, for one row or many."""

    def __init__(self, model: "LatentGaussian") -> None:
        self.model = model
        self._latest: dict[bytes, tuple[Floats, Floats]] = {}

    def __getstate__(self) -> dict[str, Any]:
        # without what other threads may be changing while a copy is made
        return {"model": self.model, "_latest": {}}

    def of(self, observed: Positions) -> tuple[Floats, Floats]:
        """Gain (p, |S|) and covariance root (p, p) of the latent variables given the features S.

        From one QR factorisation of [Psi^-1/2 W_S; I], which squares no condition number: with Q = [Q1; Q2] the
        posterior covariance is Q2 Q2^T and the posterior mean Q2 Q1^T Psi^-1/2 x.
        """
        model = self.model
        weights = 1 / np.sqrt(model.noise[observed])
        stacked = np.vstack([model.loadings[observed] * weights[:, None], np.eye(model.n_components)])
        q = np.linalg.qr(stacked)[0]
        top, root = q[: len(observed)], q[len(observed) :]
        return root @ (top * weights[:, None]).T, root

    def of_many(self, observed: Mask) -> Iterator[tuple[slice, Floats, Floats]]:
        """The same for many rows that observe different features, some rows at a time: gains (n, p, d), roots (n, p, p)."""
        d, p = self.model.loadings.shape
        step = max(1, _CHUNK // max(1, (d + p) * p))  # an isotropic model has no components
        if observed.size * max(1, p) > _KEPT:
            for start in range(0, len(observed), step):
                yield slice(start, start + step), *self._of_some(observed[start : start + step])
            return
        # scores, expected values and fixes ask for those of the same patterns, some with and some without complete rows
        key, kept = observed.tobytes(), self._latest
        found = kept.get(key) or self._of_some(observed)
        if key not in kept:
            for old in list(kept)[:-1]:
                kept.pop(old, None)
            kept[key] = found
        yield slice(0, len(observed)), *found

    def by_pattern(self, X: Floats) -> Iterator[Incomplete]:
        """Rows by their patterns of NaN, with the latent variables given what they have; some patterns at a time."""
        kinds, kind_of_row = kinds_of_rows(np.isnan(X))
        order, starts = sorted_by_pattern(kind_of_row, len(kinds))
        for some, gains, roots in self.of_many(~kinds):
            stop = min(some.stop, len(kinds))
            rows = order[starts[some.start] : starts[stop]]
            yield Incomplete(rows, kind_of_row[rows] - some.start, kinds[some], gains, roots)

    def _of_some(self, observed: Mask) -> tuple[Floats, Floats]:
        model = self.model
        d, p = model.loadings.shape
        weights = observed / np.sqrt(model.noise)
        stacked = np.empty((len(weights), d + p, p))
        stacked[:, :d] = weights[:, :, None] * model.loadings
        stacked[:, d:] = np.eye(p)
        q = np.linalg.qr(stacked)[0]
        root = q[:, d:]
        return root @ (q[:, :d] * weights[:, :, None]).transpose(0, 2, 1), root
