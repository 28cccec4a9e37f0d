"""What normal looks like, in the user's units: a distribution of scaled rows together with the scaling and the columns."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from culpa._core.types import Floats
from culpa.columns import Columns, Plain, Reading
from culpa.columns.columns import Cells
from culpa.models.context import Context
from culpa.models.latent import LatentGaussian
from culpa.models.margins import Margins


@dataclass(frozen=True, eq=False)
class FittedModel:
    """What normal looks like, in the user's units: scaled = (x - centre) / scale follows ``gaussian``.

    ``sample_covariance`` (of scaled data) is ``None`` where the source did not keep it; ``shrinkage`` is how far it was
    drawn towards its diagonal before the model was made of it. ``encoding`` is how the user's columns become the features
    that ``feature_names`` names; ``None`` where they are the same. With a ``context``, all of this is about rows that were
    adjusted to the usual context, and rows hold the given features, too. With ``margins``, all of this is about the rows'
    normal scores.
    """

    gaussian: LatentGaussian
    centre: Floats
    scale: Floats
    sample_covariance: Floats | None = None
    n_samples: float | None = None  # the sum of their weights
    feature_names: tuple[str, ...] | None = None
    encoding: Columns | None = None
    shrinkage: float = 0.0
    context: Context | None = None
    margins: Margins | None = None

    @property
    def columns(self) -> Columns:
        """The user's columns."""
        return self.encoding or Plain(self.feature_names, self.gaussian.n_features)

    @property
    def location(self) -> Floats:
        """The model's mean in the user's units; with margins, in normal scores."""
        return self.centre + self.scale * self.gaussian.mean

    def standardise(self, X: Floats) -> Floats:
        """Rows as the model sees them: adjusted to the usual context, centred at the model's mean, scaled."""
        if self.margins is not None:
            X = self.margins.to_normal(X)
        if self.context is not None:
            X = self.context.adjust(X)
        return (X - self.location) / self.scale

    def to_user_units(self, Z: Floats, X: Floats | None = None) -> Floats:
        """Inverse of `standardise`, in the context of the rows ``X``; without rows, in the usual context."""
        if self.margins is None:
            readings = self.location + self.scale * Z
            return readings if self.context is None or X is None else readings + self.context.shift(X)
        scores = self.location + self.scale * Z
        if self.context is None:
            return self.margins.to_user(scores)
        whole = np.tile(self.context.row(self.location), (len(Z), 1)) if X is None else self.margins.to_normal(X)
        whole[:, self.context.others] = scores + self.context.shift(whole)
        return self.margins.to_user(whole)[:, self.context.others]

    @property
    def usual(self) -> Floats:
        """The row in the user's units that is standardised to zeros, (d,), in the usual context."""
        return np.asarray(self.to_user_units(np.zeros((1, len(self.centre))))[0])

    @property
    def usual_spread(self) -> Floats:
        """Standard deviations in the user's units, (d,); with margins, half of what two standard deviations span."""
        low, high = self.to_user_units(np.outer([-1.0, 1.0], self.spread))
        return np.asarray((high - low) / 2)

    def to_cells(self, Z: Floats, reading: Reading, columns: Columns) -> Cells:
        """What standardised rows would look like in place of those of a reading, in these columns."""
        return columns.show(self.to_user_units(Z, reading.features), reading)

    @property
    def spread(self) -> Floats:
        """Standard deviations of standardised features: the sample's where they are known, or else the model's."""
        modelled = np.diag(self.gaussian.covariance)
        if self.sample_covariance is None:
            return np.asarray(np.sqrt(modelled))
        sampled = np.diag(self.sample_covariance)
        return np.asarray(np.sqrt(np.where(sampled > 0, sampled, modelled)))

    @property
    def reference(self) -> Floats:
        """The row that is standardised to zeros: the mean of normal rows."""
        return self.location if self.context is None else self.context.row(self.location)

    @classmethod
    def plain(cls, gaussian: LatentGaussian, **known: Any) -> Self:
        """A model of unscaled data."""
        d = gaussian.n_features
        return cls(gaussian, np.zeros(d), np.ones(d), **known)

    @property
    def centred(self) -> LatentGaussian:
        """The distribution of standardised rows."""
        if not self.gaussian.mean.any():
            return self.gaussian
        return replace(self.gaussian, mean=np.zeros(self.gaussian.n_features))
