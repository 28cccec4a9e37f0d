"""A detector around a PCA that was fitted before: its model stays as it is, and normal rows give the limits."""

from typing import Any

import numpy as np

from culpa._core.types import Floats
from culpa._core.validation import Table
from culpa._core.words import kind_of
from culpa.fitted import FittedDetector
from culpa.fitting.learning import Recipe
from culpa.fitting.limits import InOrder, Judge, in_blocks, limits_by_holding_out, range_of
from culpa.fitting.trimming import abnormal_rows
from culpa.models import PPCA, FittedModel, Moments, as_fitted_model
from culpa.models.blocks import BlockMoments
from culpa.models.moments import mean_and_spread
from culpa.scores import named_score
from culpa.scores.agreement import Witness

# of PCADetector: the others say how a model is fitted, and here it is fitted already
PARAMETERS = ("statistic", "confidence", "limit", "contamination", "groups", "game", "ranking", "noun")
ADOPTED = 0  # steps that culpa took to fit the model
_ROUNDING = 64  # times the last digit of a mean
_SAME = 1e-6  # of a standard deviation, up to which a mean is that of the same rows


def read_pca(pca: Any) -> tuple[Any, FittedModel]:
    """The PCA itself, and its model in the units of the rows; it may follow scalers in a Pipeline."""
    from sklearn.decomposition import PCA, IncrementalPCA
    from sklearn.pipeline import Pipeline

    last = pca[-1] if isinstance(pca, Pipeline) else pca
    model = as_fitted_model(pca) if isinstance(last, (PCA, IncrementalPCA)) else None
    if model is None or model.encoding is not None:
        raise TypeError(
            f"from_pca takes a fitted scikit-learn PCA or IncrementalPCA, or a Pipeline of scalers and one of them, but "
            f"got {kind_of(pca)}. For other steps, fit a Pipeline that ends in a PCADetector."
        )
    if model.no_residuals:
        raise ValueError(
            f"the PCA keeps all {model.gaussian.n_features} components, so it reconstructs every row: fit it with fewer."
        )
    return last, model


def adopt(recipe: Recipe, source: Any, pca: Any, model: FittedModel, table: Table) -> FittedDetector:
    """The fitted detector: the model of the PCA, which ``source`` ends in, and limits from complete normal rows.

    If these are the rows that the PCA was fitted to, each block of them is scored by a PCA of the others, scaled as they
    are. Otherwise all of them are new to the PCA, which scores them itself.
    """
    X, p = table.array, model.gaussian.n_components
    moments = Moments.of(X).scaled(model.centre, model.scale)
    ppca = _estimator(pca, model, moments)
    own = ppca._scaled(model.centre, model.scale, recipe.columns)
    witness = Witness.of(source, own)
    assert witness is not None  # a PCA reconstructs rows
    witness.check(X, table.row_labels())
    statistic = named_score(recipe.statistic, own, confidence=recipe.settings.confidence)
    blocks, trained = BlockMoments.of(X), _was_fitted_to(pca, model, X)

    def judge(k: int) -> Judge:
        if not trained:
            return recipe.judge(own)
        others = PPCA(p)._fit_moments(blocks.without(k).scaled(model.centre, model.scale))
        centre = model.centre + model.scale * others.mean_
        return recipe.judge(others._scaled(centre, model.scale, recipe.columns))

    if trained and recipe.limit_kind == "conformal":
        raise ValueError(
            "limit='conformal' needs rows that the PCA was not fitted to, and these are the rows that it was fitted to: "
            "pass others, or use limit='auto'."
        )
    portions = in_blocks([(InOrder(X), np.arange(len(X)))], blocks.sizes, recipe.columns)
    limits = recipe.limits(own, lambda: limits_by_holding_out(own, judge, blocks.sizes, portions), [InOrder(X)])
    return recipe.limited(
        FittedDetector(
            own,
            ppca,
            statistic,
            recipe.settings.confidence,
            limits,
            0.0,
            recipe.settings,
            normal_range=range_of(own, InOrder(X)),
            abnormal_training_rows=abnormal_rows(
                own, X, np.ones(len(X), dtype=bool), table.row_labels(), recipe.settings.confidence
            ),
            blocks=blocks,
        ),
        statistic(own.standardise(X)),
    )


def _estimator(pca: Any, model: FittedModel, moments: Moments) -> PPCA:
    """The model as culpa's own estimator; the covariance is that of the normal rows."""
    ppca = PPCA(model.gaussian.n_components)
    ppca.n_features_in_, ppca.n_samples_ = model.gaussian.n_features, moments.n
    ppca.n_iter_, ppca.converged_ = ADOPTED, True
    return ppca._restore(model.gaussian, np.asarray(pca.components_, dtype=np.float64), moments.sample)


def _was_fitted_to(pca: Any, model: FittedModel, X: Floats) -> bool:
    """Whether these are the rows that the PCA knows."""
    n = getattr(pca, "n_samples_seen_", getattr(pca, "n_samples_", None))
    mean, scale = mean_and_spread(X)
    rounding = _ROUNDING * np.finfo(np.asarray(pca.mean_).dtype).eps * (np.abs(mean) + np.abs(model.centre))
    away = np.abs(mean - model.centre)
    return n is not None and int(n) == len(X) and bool((away <= _SAME * scale + rounding).all())
