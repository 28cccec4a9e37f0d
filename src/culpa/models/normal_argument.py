"""What the argument ``normal`` of `culpa.Explainer` means: a model of normal rows, or rows to fit PPCA to."""

from dataclasses import replace
from typing import Any

import numpy as np

from culpa._core.types import Floats
from culpa._core.validation import read_table
from culpa.columns import Columns
from culpa.models.adapters import as_fitted_model
from culpa.models.blocks import BlockMoments
from culpa.models.components import choose_components
from culpa.models.distribution import Distribution
from culpa.models.fitted_model import FittedModel, OwnChoices
from culpa.models.moments import mean_and_spread
from culpa.models.ppca import PPCA

_STILL = 1e-9  # of a number, by which a column that never varied is taken to vary


def model_of(normal: Any, columns: Columns | None = None) -> FittedModel:
    """A model of normal rows: ``normal`` itself, if it is one, or a PPCA of the rows that it holds.

    ``columns`` say how a Pipeline makes features of the rows; without them, rows hold the features. The number of
    components is the one with the highest held-out likelihood.
    """
    if isinstance(normal, (FittedModel, Distribution)) or hasattr(normal, "fit"):
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
    return FittedModel.of(ppca.gaussian_, centre, scale, sample=ppca.sample_, n_samples=len(rows), feature_names=names)


def _checked(normal: Any, columns: Columns | None) -> FittedModel:
    """A model whose features are the columns of the rows to explain."""
    model = as_fitted_model(normal)
    if columns is not None or model.encoding is not None or model.context is not None:
        raise ValueError(
            "normal is a model of other features than the score has: with a Pipeline, lags, smoothing or given columns, "
            "pass the normal rows themselves."
        )
    return model


def in_user_units(model: FittedModel) -> FittedModel:
    """The same model of rows as the user has them, so that functions of rows see the very numbers of the table.

    If the model has margins, its distribution is that of normal scores.
    """
    d = len(model.scale)
    return replace(
        model,
        standard=model.standard.mapped(model.centre, model.scale),
        centre=np.zeros(d),
        scale=np.ones(d),
        sample=None if model.sample is None else model.sample.over(1 / model.scale),
        margins=None,
        own=OwnChoices(),
    )
