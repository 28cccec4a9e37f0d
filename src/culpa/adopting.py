"""A detector around a PCA that was fitted before: its model stays as it is, and normal rows give the limits."""

from typing import Any

import numpy as np

from culpa._core.types import Floats
from culpa._core.validation import Table
from culpa._core.words import kind_of
from culpa.fitted import FittedDetector
from culpa.learning import Recipe
from culpa.models import PPCA, FittedModel, Moments, as_fitted_model
from culpa.models.blocks import BlockMoments
from culpa.monitoring.trimming import abnormal_rows
from culpa.scores import Limits, named_score
from culpa.training_scores import Judge, limits_from_rows, range_of
from culpa.weighting import limits_by_blocks

# of PCADetector: the others say how a model is fitted, and here it is fitted already
PARAMETERS = ("statistic", "confidence", "limit", "contamination", "groups", "game", "ranking", "noun")
_SAME = 1e-6  # of a standard deviation, up to which a mean is that of the same rows


def read_pca(pca: Any) -> tuple[Any, FittedModel]:
    """The PCA itself, and its model in the units of the rows; it may follow a StandardScaler in a Pipeline."""
    from sklearn.decomposition import PCA, IncrementalPCA
    from sklearn.pipeline import Pipeline

    steps = [step for _, step in pca.steps] if isinstance(pca, Pipeline) else [pca]
    scalers = [type(step).__name__ for step in steps[:-1]]
    if not isinstance(steps[-1], (PCA, IncrementalPCA)) or scalers not in ([], ["StandardScaler"]):
        raise TypeError(
            f"from_pca takes a fitted scikit-learn PCA or IncrementalPCA, or a Pipeline of a StandardScaler and one of "
            f"them, but got {kind_of(pca)}. For other steps, fit a Pipeline that ends in a PCADetector."
        )
    return steps[-1], as_fitted_model(pca)


def adopt(recipe: Recipe, pca: Any, model: FittedModel, table: Table) -> FittedDetector:
    """The fitted detector: the model of the PCA, and limits from complete normal rows.

    If these are the rows that the PCA was fitted to, each block of them is scored by a PCA of the others. Otherwise all of
    them are new to the PCA, which scores them itself.
    """
    X, p = table.array, model.gaussian.n_components
    moments = Moments.of(X).scaled(model.centre, model.scale)
    ppca = _estimator(pca, model, moments)
    own = ppca.scaled(model.centre, model.scale, recipe.columns)
    statistic = named_score(recipe.statistic, own, confidence=recipe.parameters["confidence"])
    blocks, trained = BlockMoments.of(X), _was_fitted_to(pca, model, X)

    def judge(k: int) -> Judge:
        return recipe.judge(recipe.learn_moments(blocks.without(k), p=p).model if trained else own)

    limits = None
    if recipe.limit_kind == "auto":
        limits = limits_by_blocks(own, X, judge)
    elif recipe.limit_kind in ("empirical", "conformal"):
        limits = limits_from_rows(own, statistic, recipe.limit_kind, [X])
    kind = "formula" if recipe.limit_kind == "auto" else recipe.limit_kind
    return recipe.limited(
        FittedDetector(
            own,
            ppca,
            statistic,
            recipe.parameters["confidence"],
            limits or Limits(own, kind),
            0.0,
            recipe.parameters,
            normal_range=range_of(own, X),
            abnormal_training_rows=abnormal_rows(
                own, X, np.ones(len(X), dtype=bool), table.row_labels(), recipe.parameters["confidence"]
            ),
            blocks=blocks,
        ),
        X,
    )


def _estimator(pca: Any, model: FittedModel, moments: Moments) -> PPCA:
    """The model as culpa's own estimator; the covariance is that of the normal rows."""
    ppca = PPCA(model.gaussian.n_components)
    ppca.n_features_in_, ppca.n_samples_ = model.gaussian.n_features, moments.n
    ppca.n_iter_, ppca.converged_ = 1, True
    return ppca.restore(model.gaussian, np.asarray(pca.components_, dtype=np.float64), moments.sample)


def _was_fitted_to(pca: Any, model: FittedModel, X: Floats) -> bool:
    """Whether these are the rows that the PCA knows."""
    n = getattr(pca, "n_samples_seen_", getattr(pca, "n_samples_", None))
    away = np.abs(X.mean(axis=0) - model.location) / np.maximum(X.std(axis=0), np.finfo(float).tiny)
    return n is not None and int(n) == len(X) and bool((away < _SAME).all())
