"""The retraining game: a coalition is worth the reconstruction error of a PCA trained on its features alone.

The paper's v1(S) = e^(S)(x_S) / |S| with v1 of nobody = 0 ("mse"), or e^(S)(x_S) itself ("spe"). Retraining needs no
data: PCA on the columns S is the eigendecomposition of a submatrix of the sample covariance.

In a row with missing cells, the missing columns M are nobody's to delete. They belong to every retrained PCA, and their
cells are what the coalition's features imply: v(S) = E[e^(S and M)(x) given x_S], divided by |S and M| for "mse", and still
0 for nobody. Then all observed features together are worth the expected error of the row, which is its score.
"""

from functools import cached_property
from typing import Literal

import numpy as np
from array_api_compat import array_namespace

from culpa._core.choices import one_of
from culpa._core.types import Array, Floats, Mask, Positions
from culpa.games.arrays import as_array_like
from culpa.games.game import Game
from culpa.models import LatentGaussian

Rank = Literal["components", "share"]


class Retraining(Game):
    """Reconstruction error of a PCA retrained on the coalition's features.

    ``rank`` is the number of components that it keeps: "components" means min(p, |S|), "share" the smallest number that
    explains as large a share of the variance as p components do on all features. ``gaussian`` knows what to expect of
    missing cells. By default, it is the PPCA of the covariance.
    """

    explains_score = False  # but to the precision of a fit with missing cells

    def __init__(
        self,
        covariance: Floats,
        n_components: int,
        *,
        mean: bool,
        rank: Rank = "components",
        gaussian: LatentGaussian | None = None,
        missing: Mask | None = None,
    ) -> None:
        one_of(rank, ("components", "share"), "rank")
        self.covariance = covariance
        self.n_components = n_components
        self.mean, self.rank = mean, rank
        self.gaussian, self.missing = gaussian, missing
        variances = np.linalg.eigvalsh(covariance)[::-1]
        self._share = variances[:n_components].sum() / (variances.sum() or 1.0) if rank == "share" else None

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return len(self.covariance)

    @property
    def base_value(self) -> float:
        """Nothing to reconstruct, no error."""
        return 0.0

    @property
    def quadratic(self) -> bool:
        """Yes: the squared residuals of a projection."""
        return True

    @cached_property
    def scale(self) -> Floats:
        """Standard deviations of the features in the training rows, (d,)."""
        variances = np.diag(self.covariance)
        return np.sqrt(np.where(variances > 0, variances, 1.0))

    def where(self, observed: Mask) -> "Retraining":
        """Missing columns belong to every retrained PCA."""
        if observed.all():
            return self
        model = self.gaussian or LatentGaussian.from_covariance(self.covariance, self.n_components)
        return Retraining(
            self.covariance, self.n_components, mean=self.mean, rank=self.rank, gaussian=model, missing=~observed
        )

    def value(self, X: Floats, members: Positions) -> Floats:
        """One coalition: the batched computation with a batch of one."""
        if self.missing is None and len(X) and np.isnan(X[0]).any():
            return self.where(~np.isnan(X[0])).value(X, members)
        mask = np.zeros((1, self.n_features))
        mask[0, members] = 1.0
        return np.asarray(self.values(np.where(np.isnan(X), 0.0, X), mask)[0])

    def values(self, X: Array, members: Array) -> Array:
        """Values (B, n) of coalitions given as (B, d) arrays of 0 and 1."""
        if self.missing is not None:
            return self._expected_values(np.asarray(X), np.asarray(members))
        residual = self._residuals(members[:, None, :] * X[None, :, :], members)
        return self._per_feature(array_namespace(X).sum(residual**2, axis=2), members)

    def _expected_values(self, X: Floats, members: Floats) -> Floats:
        """The same where cells are missing: squared residuals at the mean, and what the doubt about it adds."""
        assert self.missing is not None
        assert self.gaussian is not None
        g, unknown = self.gaussian, np.flatnonzero(self.missing)
        values = np.zeros((len(members), len(X)))
        for some, gains, roots in g.posteriors.of_many(members > 0):
            known = members[some]
            rows = known[:, None, :] * X
            rows[:, :, unknown] = rows @ gains.transpose(0, 2, 1) @ g.loadings[unknown].T
            # one row for each latent variable and each noise that makes a missing cell uncertain
            doubt = np.zeros((len(known), g.n_components + len(unknown), self.n_features))
            doubt[:, : g.n_components, unknown] = (g.loadings[unknown] @ roots).transpose(0, 2, 1)
            doubt[:, g.n_components + np.arange(len(unknown)), unknown] = np.sqrt(g.noise[unknown])
            columns = np.maximum(known, self.missing)
            error = (self._residuals(np.concatenate([rows, doubt], axis=1), columns) ** 2).sum(axis=2)
            expected = error[:, : len(X)] + error[:, len(X) :].sum(axis=1, keepdims=True)
            values[some] = self._per_feature(expected, columns)
            values[some][known.sum(axis=1) == 0] = 0.0
        return values

    def _per_feature(self, error: Array, columns: Array) -> Array:
        """Errors (B, n) of models of these columns (B, d), or their means over features."""
        if not self.mean:
            return error
        xp = array_namespace(error)
        size = xp.sum(columns, axis=1)
        return error / xp.where(size > 0, size, xp.ones_like(size))[:, None]

    def _residuals(self, rows: Array, members: Array) -> Array:
        """What PCAs of the columns ``members`` (B, d) leave of rows (B, n, d) that are 0 elsewhere."""
        xp = array_namespace(rows)
        both = members[:, :, None] * members[:, None, :]
        # features outside get eigenvalue -1, so that their axes come last whatever the coalition's rank
        outside = xp.eye(self.n_features, dtype=rows.dtype, device=rows.device) * (1 - members)[:, None, :]
        variances, axes = xp.linalg.eigh(as_array_like(self.covariance, rows) * both - outside)
        kept = self._kept(variances, members)
        residual = rows - rows @ (axes * kept[:, None, :]) @ xp.permute_dims(axes, (0, 2, 1))
        # the axes of the features outside carry nothing, but rounding should not either
        return residual * members[:, None, :]

    def _kept(self, variances: Array, members: Array) -> Array:
        """1 for the axes that the retrained PCA keeps, (B, d); variances are in increasing order."""
        xp = array_namespace(variances)
        size = xp.sum(members, axis=1)
        rank_from_top = xp.arange(self.n_features, 0, -1, dtype=variances.dtype, device=variances.device)[None, :]
        if self._share is None:
            limit = xp.minimum(size, xp.full_like(size, self.n_components))
        else:
            real = xp.where(rank_from_top <= size[:, None], variances, xp.zeros_like(variances))
            explained = xp.flip(xp.cumulative_sum(xp.flip(real, axis=1), axis=1), axis=1)
            enough = explained >= (self._share - 1e-12) * xp.sum(real, axis=1)[:, None]
            # enough from rank r on means r components suffice: count the ranks that do not
            lacking = xp.astype(~enough & (rank_from_top <= size[:, None]), variances.dtype)
            limit = xp.minimum(size, xp.sum(lacking, axis=1) + 1)
        return xp.astype(rank_from_top <= limit[:, None], variances.dtype)
