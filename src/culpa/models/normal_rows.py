"""What normal rows look like, where only the rows are given: PPCA of standardised rows, as `PCADetector` fits it."""

from dataclasses import replace
from typing import Any

import numpy as np

from culpa._core.types import Floats
from culpa._core.validation import read_table
from culpa.columns import Columns
from culpa.models.adapters import as_fitted_model
from culpa.models.blocks import BlockMoments
from culpa.models.components import choose_components
from culpa.models.fitted_model import FittedModel
from culpa.models.latent import LatentGaussian
from culpa.models.moments import mean_and_spread
from culpa.models.ppca import PPCA


def model_of(normal: Any, columns: Columns | None = None) -> FittedModel:
    """A model of normal rows: ``normal`` itself, if it is one, or a PPCA of the rows that it holds.

    ``columns`` say how a Pipeline makes features of the rows; without them, rows hold the features. The number of
    components is the one with the highest held-out likelihood.
    """
    if isinstance(normal, (FittedModel, LatentGaussian)) or hasattr(normal, "fit"):
        return _checked(normal, columns)
    if columns is None:
        table = read_table(normal, argument="normal", min_rows=2, min_features=2)
        return _fitted(table.array, table.names)
    return replace(_fitted(columns.read(normal).features, None), encoding=columns)


def _fitted(rows: Floats, names: tuple[str, ...] | None) -> FittedModel:
    centre, scale = mean_and_spread(rows)
    standard = (rows - centre) / scale
    filled = np.where(np.isnan(standard), 0.0, standard)  # at the mean, to choose the number of components only
    p = choose_components(BlockMoments.of(filled), scale=False).n_components
    ppca = PPCA(min(p, rows.shape[1] - 1)).fit(standard)
    return FittedModel(ppca.gaussian_, centre, scale, ppca.covariance_, len(rows), names)


def _checked(normal: Any, columns: Columns | None) -> FittedModel:
    """A model whose features are the columns of the rows to explain."""
    model = as_fitted_model(normal)
    if columns is not None or model.encoding is not None or model.context is not None:
        raise ValueError(
            "normal is a model of other features than the score has: with a Pipeline, lags, smoothing or given columns, "
            "pass the normal rows themselves."
        )
    # draws and forms assume Gaussian rows: nothing else may pass for them
    if getattr(model, "margins", None) is not None or bool(getattr(model.gaussian, "tail", False)):
        raise ValueError("normal must be a Gaussian model, such as PPCA, or the normal rows themselves.")
    return model


def in_user_units(model: FittedModel) -> "UnscaledModel":
    """The same model of rows as the user has them, so that functions of rows see the very numbers of the table."""
    g, scale = model.gaussian, model.scale
    gaussian = LatentGaussian(model.location, scale[:, None] * g.loadings, g.noise * scale**2)
    d = len(scale)
    sampled = None if model.sample_covariance is None else model.sample_covariance * np.outer(scale, scale)
    known = {name: getattr(model, name) for name in ("n_samples", "feature_names", "encoding", "shrinkage")}
    return UnscaledModel(gaussian, np.zeros(d), np.ones(d), sampled, **known)


class UnscaledModel(FittedModel):
    """A model that sees rows as they are: neither centred nor scaled."""

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
