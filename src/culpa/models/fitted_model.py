"""What normal looks like, in the user's units: a distribution of scaled rows together with the scaling and the columns."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from culpa._core.choices import GameName, Ranking
from culpa._core.types import Floats
from culpa._core.validation import default_names
from culpa.columns import Columns, Plain, Reading
from culpa.columns.columns import Cells
from culpa.models.context import Context
from culpa.models.latent import LatentGaussian


@dataclass(frozen=True)
class OwnChoices:
    """What a model decides by, and how it explains that: the defaults of an `Explainer` of the model.

    ``confidence`` is that of the limits that weigh the parts of the score "combined". ``groups`` are names and features.
    """

    score: str = "spe"
    game: GameName = "conditional"
    ranking: Ranking = "shapley"
    confidence: float = 0.99
    groups: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, eq=False)
class FittedModel:
    """What normal looks like, in the user's units: scaled = (x - centre) / scale follows ``gaussian``.

    ``sample_covariance`` (of scaled data) is ``None`` where the source did not keep it; ``shrinkage`` is how far it was
    drawn towards its diagonal before the model was made of it. ``encoding`` is how the user's columns become the features
    that ``feature_names`` names; ``None`` where they are the same. With a ``context``, all of this is about rows that were
    adjusted to the usual context, and rows hold the given features, too. ``own`` is what the model decides by. A model with
    ``no_residuals`` is a Gaussian without a subspace, so there is no reconstruction error.
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
    own: OwnChoices = OwnChoices()
    no_residuals: bool = False

    @property
    def columns(self) -> Columns:
        """The user's columns."""
        return self.encoding or Plain(self.feature_names, self.gaussian.n_features)

    @property
    def own_groups(self) -> dict[str, list[str]]:
        """The model's own groups by the names of columns, or of single features where a column is only partly in one."""
        names = self.feature_names or default_names(self.gaussian.n_features)
        result = {}
        for group, features in self.own.groups:
            whole = [
                (name, members)
                for name, members in zip(self.columns.names, self.columns.members, strict=True)
                if set(members) <= set(features)
            ]
            rest = set(features) - {feature for _, members in whole for feature in members}
            result[group] = [name for name, _ in whole] + [names[feature] for feature in sorted(rest)]
        return result

    @property
    def location(self) -> Floats:
        """The model's mean in the user's units."""
        return self.centre + self.scale * self.gaussian.mean

    def standardise(self, X: Floats) -> Floats:
        """Rows as the model sees them: adjusted to the usual context, centred at the model's mean, scaled."""
        if self.context is not None:
            X = self.context.adjust(X)
        return (X - self.location) / self.scale

    def to_user_units(self, Z: Floats, X: Floats | None = None) -> Floats:
        """Inverse of `standardise`, in the context of the rows ``X``; without rows, in the usual context."""
        readings = self.location + self.scale * Z
        return readings if self.context is None or X is None else readings + self.context.shift(X)

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
        if self.context is None:
            return self.location
        row = np.empty(len(self.context.given) + len(self.location))
        row[self.context.others], row[self.context.given] = self.location, self.context.centre
        return row

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
