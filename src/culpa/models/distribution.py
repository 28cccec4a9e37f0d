"""What the rest of the code asks of a distribution of normal rows, whichever model it comes from."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from culpa._core.types import Floats


class Expecting(Protocol):
    """What knows what to expect of some features given others. `culpa.models.draws.NormalRows` and all distributions do."""

    @property
    def n_features(self) -> int:
        """d."""
        ...

    def expected(self, X: Floats, blocks: Sequence[Sequence[int]] | None = None) -> Floats:
        """What the other observed features imply each feature, or each block of features, should have been."""
        ...


class Distribution(Expecting, Protocol):
    """How normal rows are distributed. `culpa.models.LatentGaussian` and `culpa.models.LatentMixture` are such."""

    @property
    def n_components(self) -> int:
        """Number of latent variables."""
        ...

    @property
    def mean(self) -> Floats:
        """Mean of normal rows, (d,)."""
        ...

    @property
    def covariance(self) -> Floats:
        """Covariance of normal rows, (d, d)."""
        ...

    @property
    def variances(self) -> Floats:
        """Its diagonal, (d,)."""
        ...

    def impute(self, X: ArrayLike) -> Floats:
        """The rows with every missing cell at its conditional mean given the observed ones."""
        ...

    def reconstruct(self, X: ArrayLike) -> Floats:
        """What the model makes of each row."""
        ...

    def log_density(self, X: ArrayLike) -> Floats:
        """Log-density of the observed cells of each row."""
        ...

    def sample(self, n_rows: int, seed: int | np.random.Generator | None = None) -> Floats:
        """Draw rows."""
        ...
