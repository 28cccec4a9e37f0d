"""The retraining game: a coalition is worth the reconstruction error of a PCA trained on its features alone.

The paper's v1(S) = e^(S)(x_S) / |S| with v1 of nobody = 0 ("mse"), or e^(S)(x_S) itself ("spe"). Retraining needs no
data: PCA on the columns S is the eigendecomposition of a submatrix of the sample covariance.
"""

from functools import cached_property
from typing import Literal

import numpy as np
from array_api_compat import array_namespace

from culpa._core.choices import one_of
from culpa._core.types import Array, Floats, Positions
from culpa.games.arrays import as_array_like
from culpa.games.game import Game

Rank = Literal["components", "share"]


class Retraining(Game):
    """Reconstruction error of a PCA retrained on the coalition's features.

    ``rank`` is the number of components that it keeps: "components" means min(p, |S|), "share" the smallest number that
    explains as large a share of the variance as p components do on all features.
    """

    def __init__(self, covariance: Floats, n_components: int, *, mean: bool, rank: Rank = "components") -> None:
        one_of(rank, ("components", "share"), "rank")
        self.covariance = covariance
        self.n_components = n_components
        self.mean = mean
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
        """Standard deviations."""
        variances = np.diag(self.covariance)
        return np.sqrt(np.where(variances > 0, variances, 1.0))

    def value(self, X: Floats, members: Positions) -> Floats:
        """One coalition: the batched computation with a batch of one."""
        mask = np.zeros((1, self.n_features))
        mask[0, members] = 1.0
        return np.asarray(self.values(np.where(np.isnan(X), 0.0, X), mask)[0])

    def values(self, X: Array, members: Array) -> Array:
        """Values (B, n) of coalitions given as (B, d) arrays of 0 and 1."""
        xp = array_namespace(X)
        both = members[:, :, None] * members[:, None, :]
        # features outside get eigenvalue -1, so that their axes come last whatever the coalition's rank
        outside = xp.eye(self.n_features, dtype=X.dtype, device=X.device) * (1 - members)[:, None, :]
        variances, axes = xp.linalg.eigh(as_array_like(self.covariance, X) * both - outside)
        kept = self._kept(variances, members)
        present = members[:, None, :] * X[None, :, :]
        scores = present @ (axes * kept[:, None, :])
        residual = present - scores @ xp.permute_dims(axes, (0, 2, 1))
        # the axes of the features outside carry nothing, but rounding should not either
        error = xp.sum((residual * members[:, None, :]) ** 2, axis=2)
        if not self.mean:
            return error
        size = xp.sum(members, axis=1)
        return error / xp.where(size > 0, size, xp.ones_like(size))[:, None]

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
