"""What normal looks like, in the user's units: a distribution of scaled rows together with the scaling and the columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from culpa._core.choices import GameName, Ranking
from culpa._core.copies import CopiedInUse
from culpa._core.types import Floats
from culpa._core.validation import default_names
from culpa.columns import Columns, Plain, Reading
from culpa.columns.columns import Cells
from culpa.models.context import Context
from culpa.models.distribution import Distribution
from culpa.models.latent import LatentGaussian
from culpa.models.margins import Margins
from culpa.models.scatter import Scatter


class SeveralModesError(ValueError):
    """What was asked for exists for models with one mode only."""


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
class FittedModel(CopiedInUse):
    """What normal looks like, in the user's units: standardised rows, (x - centre) / scale, follow ``standard``.

    ``sample``, the covariance of scaled data, is ``None`` where the source did not keep it; ``shrinkage`` is how far it was
    drawn towards its diagonal before the model was made of it. ``encoding`` is how the user's columns become the features
    that ``feature_names`` names; ``None`` where they are the same. With a ``context``, all of this is about rows that were
    adjusted to the usual context, and rows hold the given features, too. With ``margins``, all of this is about the rows'
    normal scores. ``own`` is what the model decides by. A model with ``no_residuals`` is a Gaussian without a subspace, so
    there is no reconstruction error. With several modes, ``mode_units`` has the units that each mode's scores are measured
    in, by the name of the score; without, scores are as they are.
    """

    standard: Distribution
    centre: Floats
    scale: Floats
    sample: Scatter | None = None
    n_samples: float | None = None  # the sum of their weights
    feature_names: tuple[str, ...] | None = None
    encoding: Columns | None = None
    shrinkage: float = 0.0
    context: Context | None = None
    margins: Margins | None = None
    own: OwnChoices = OwnChoices()
    no_residuals: bool = False
    mode_units: Mapping[str, Floats] = field(default_factory=dict)

    @classmethod
    def of(
        cls, distribution: Distribution, shift: Floats | float = 0.0, scale: Floats | None = None, **known: Any
    ) -> Self:
        """The model of rows where (x - shift) / scale follow a distribution around any mean."""
        scale = np.ones(distribution.n_features) if scale is None else scale
        return cls(distribution.centred(), shift + scale * distribution.mean, scale, **known)

    @property
    def gaussian(self) -> LatentGaussian:
        """The distribution of standardised rows where there is one mode; else an error says that modes are in the way."""
        if self.n_modes > 1:
            raise SeveralModesError(
                f"this is not available for a model with several modes, and this one has {self.n_modes}. "
                "Use a model with one mode, such as PPCA or PCADetector(modes=None)."
            )
        return self.standard.modes[0]

    @property
    def n_modes(self) -> int:
        """Number of modes of normal rows."""
        return self.standard.n_modes

    def in_mode(self, mode: int) -> Self:
        """What normal looks like in one mode alone; its standardised rows are those of this model less the mode's mean."""
        own = self.standard.modes[mode]
        if own is self.standard:
            return self
        n = None if self.n_samples is None else self.n_samples * float(self.standard.weights[mode])
        centre = self.centre + self.scale * own.mean
        return replace(self, standard=own.centred(), centre=centre, sample=None, n_samples=n, mode_units={})

    @property
    def scatter(self) -> Scatter:
        """Covariance of scaled data: the sample's where it is known, or else the model's."""
        return Scatter.of_matrix(self.gaussian.covariance) if self.sample is None else self.sample

    @property
    def sample_covariance(self) -> Floats | None:
        """Covariance of scaled data, (d, d)."""
        return None if self.sample is None else self.sample.matrix

    @cached_property
    def columns(self) -> Columns:
        """The user's columns."""
        return self.encoding or Plain(self.feature_names, self.standard.n_features)

    @property
    def own_groups(self) -> dict[str, list[str]]:
        """The model's own groups by the names of columns, or of single features where a column is only partly in one."""
        names = self.feature_names or default_names(self.standard.n_features)
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

    def standardise(self, X: Floats) -> Floats:
        """Rows as the model sees them: adjusted to the usual context, centred, scaled."""
        if self.margins is not None:
            X = self.margins.to_normal(X)
        if self.context is not None:
            X = self.context.adjust(X)
        standard = X - self.centre
        standard /= self.scale
        return standard

    def to_user_units(self, Z: Floats, X: Floats | None = None) -> Floats:
        """Inverse of `standardise`, in the context of the rows ``X``; without rows, in the usual context."""
        if self.margins is None:
            readings = self.scale * Z
            readings += self.centre
            return readings if self.context is None or X is None else readings + self.context.shift(X)
        scores = self.centre + self.scale * Z
        if self.context is None:
            return self.margins.to_user(scores)
        whole = np.tile(self.context.row(self.centre), (len(Z), 1)) if X is None else self.margins.to_normal(X)
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
        modelled = self.standard.variances
        if self.sample is None:
            return np.asarray(np.sqrt(modelled))
        sampled = self.sample.diagonal
        return np.asarray(np.sqrt(np.where(sampled > 0, sampled, modelled)))
