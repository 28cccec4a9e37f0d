"""What the argument ``normal`` of `culpa.Explainer` means: a model of normal rows, or rows to fit PPCA to."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from culpa._core.types import Floats
from culpa._core.validation import read_table
from culpa.columns import Columns
from culpa.models.adapters import as_fitted_model
from culpa.models.blocks import BlockMoments
from culpa.models.components import choose_components
from culpa.models.draws import NormalRows
from culpa.models.fitted_model import FittedModel
from culpa.models.latent import LatentGaussian
from culpa.models.mixture import LatentMixture
from culpa.models.moments import mean_and_spread
from culpa.models.ppca import PPCA

_STILL = 1e-9  # of a number, by which a column that never varied is taken to vary


def model_of(normal: Any, columns: Columns | None = None) -> FittedModel:
    """A model of normal rows: ``normal`` itself, if it is one, or a PPCA of the rows that it holds.

    ``columns`` say how a Pipeline makes features of the rows; without them, rows hold the features. The number of
    components is the one with the highest held-out likelihood.
    """
    if isinstance(normal, (FittedModel, LatentGaussian, LatentMixture)) or hasattr(normal, "fit"):
        return _checked(normal, columns)
    if columns is None:
        table = read_table(normal, argument="normal", min_rows=2, min_features=2)
        return _fitted(table.array, table.names)
    return replace(_fitted(columns.read(normal).features, None), encoding=columns)


def _fitted(rows: Floats, names: tuple[str, ...] | None) -> FittedModel:
    centre, scale = mean_and_spread(rows)
    # draws of a column that never varied must not either, whatever its unit
    still = ~(np.fmax.reduce(rows) - np.fmin.reduce(rows) > _STILL * np.abs(centre))
    scale = np.where(still, _STILL * np.maximum(1.0, np.abs(centre)), scale)
    standard = (rows - centre) / scale
    filled = np.where(np.isnan(standard), 0.0, standard)  # at the mean, to choose the number of components only
    p = choose_components(BlockMoments.of(filled), scale=False).n_components
    ppca = PPCA(min(p, rows.shape[1] - 1)).fit(standard)
    return FittedModel(ppca.gaussian_, centre, scale, ppca.sample_, len(rows), names)


def _checked(normal: Any, columns: Columns | None) -> FittedModel:
    """A model whose features are the columns of the rows to explain."""
    model = as_fitted_model(normal)
    if columns is not None or model.encoding is not None or model.context is not None:
        raise ValueError(
            "normal is a model of other features than the score has: with a Pipeline, lags, smoothing or given columns, "
            "pass the normal rows themselves."
        )
    return model


def in_user_units(model: FittedModel) -> "UnscaledModel":
    """The same model of rows as the user has them, so that functions of rows see the very numbers of the table."""
    own, scale = model.distribution, model.scale
    if isinstance(own, LatentMixture):
        modes = tuple(_unscaled(mode, model.centre, scale) for mode in own.modes)
        distribution: LatentGaussian | LatentMixture = replace(own, modes=modes)
    else:
        distribution = _unscaled(own, model.centre, scale)
    d = len(scale)
    sampled = None if model.sample is None else model.sample.over(1 / scale)
    known = {name: getattr(model, name) for name in ("n_samples", "feature_names", "encoding", "shrinkage")}
    return UnscaledModel(distribution, np.zeros(d), np.ones(d), sampled, scaled=model, **known)


def _unscaled(mode: LatentGaussian, centre: Floats, scale: Floats) -> LatentGaussian:
    return LatentGaussian(
        centre + scale * mode.mean,
        scale[:, None] * mode.loadings,
        mode.noise * scale**2,
        degrees_of_freedom=mode.degrees_of_freedom,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class UnscaledModel(FittedModel):
    """A model that sees rows as they are: neither centred nor scaled.

    ``scaled`` is the model that it was made of. If that has margins, ``distribution`` is that of normal scores.
    """

    scaled: FittedModel

    @property
    def rows(self) -> NormalRows:
        """Normal rows to draw from."""
        return NormalRows(self.distribution, self.scaled.margins)

    def standardise(self, X: Floats) -> Floats:
        """As they are."""
        return X

    def to_user_units(self, Z: Floats, X: Floats | None = None) -> Floats:
        """As they are."""
        return Z

    @property
    def centred(self) -> LatentGaussian:
        """Rows are not centred."""
        return self.gaussian
