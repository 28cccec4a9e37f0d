"""Models that other people fitted, read as a `FittedModel`."""

import sys
from dataclasses import replace
from typing import Any

import numpy as np

from culpa._core.native import with_names
from culpa._core.types import Floats
from culpa._core.words import kind_of
from culpa.models.distribution import Distribution
from culpa.models.estimator import Estimator
from culpa.models.fitted_model import FittedModel, OwnChoices
from culpa.models.gaussians import covariance_estimator, from_all_components, from_covariance_estimator
from culpa.models.latent import LatentGaussian
from culpa.models.mixture import LatentMixture

_SIZES = np.array([-1e9, -1e3, -1.0, 0.0, 0.1, 1.0, 1e3, 1e9])  # of scaled numbers


def is_detector(model: Any) -> bool:
    """Whether a model is a detector of culpa's own, whose fitted core knows what it decides by."""
    return isinstance(getattr(type(model), "fitted", None), property)


def as_fitted_model(model: Any) -> FittedModel:
    """Read a culpa model, a fitted scikit-learn PCA, IncrementalPCA, FactorAnalysis or covariance, or a Pipeline of one.

    Of a detector it is the model together with what the detector decides by.
    """
    if isinstance(model, FittedModel):
        return model
    if isinstance(model, Distribution):
        return FittedModel.of(model)
    if is_detector(model):
        decides: FittedModel = model.fitted.deciding_model
        return decides
    if isinstance(model, Estimator):
        return _from_estimator(model)
    return _from_sklearn(model)


def _from_estimator(model: Estimator) -> FittedModel:
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    about: dict[str, Any] = {"sample": model.sample_, "shrinkage": model.shrinkage, "n_samples": model.n_samples_}
    return FittedModel.of(model.distribution_, feature_names=_names(model), **about)


def _from_sklearn(model: Any) -> FittedModel:
    from sklearn.utils.validation import check_is_fitted

    if isinstance(model, _if_loaded("sklearn.pipeline", "Pipeline")):
        return _from_pipeline(model)
    estimator = covariance_estimator(model)
    if estimator is not None:
        return from_covariance_estimator(estimator, feature_names=_names(model))
    mixtures = _if_loaded("sklearn.mixture", "GaussianMixture")
    factors = _if_loaded("sklearn.decomposition", "FactorAnalysis")
    others = _if_loaded("sklearn.decomposition", "PCA", "IncrementalPCA")
    readable: Any = (*mixtures, *factors, *others)
    if not isinstance(model, readable):
        raise TypeError(_not_a_model(model))
    check_is_fitted(model)
    known: dict[str, Any] = {"n_samples": getattr(model, "n_samples_", None), "feature_names": _names(model)}
    if isinstance(model, mixtures):
        return FittedModel.of(_from_gaussian_mixture(model), own=OwnChoices(score="nll"), **known)
    if isinstance(model, factors):
        return FittedModel.of(LatentGaussian(model.mean_, model.components_.T, model.noise_variance_), **known)
    if len(model.components_) == model.components_.shape[1]:
        return from_all_components(model, **known)
    return FittedModel.of(_from_pca(model), **known)


def _if_loaded(module: str, *names: str) -> tuple[Any, ...]:
    """Classes of a module, none if it is not loaded: then nothing can be one of theirs, and loading it takes long."""
    loaded = sys.modules.get(module)
    return tuple(getattr(loaded, name) for name in names if hasattr(loaded, name))


def _not_a_model(model: Any) -> str:
    """Why a model cannot be read, and what can be done instead."""
    if type(model).__module__ == "pyod.models.pca":
        return (
            "PyOD's PCA adds up distances to its components, not their squares, so its score has no exact explanation. "
            "Pass normal=... (rows, or a culpa model of them) for a sampled one."
        )
    return (
        f"model is {kind_of(model)}; expected a culpa model, a fitted scikit-learn PCA, IncrementalPCA, FactorAnalysis or "
        f"covariance estimator, or a Pipeline that ends in one. To explain another detector, also pass normal=..., "
        "the normal rows or a culpa model of them."
    )


def _from_pca(pca: Any) -> LatentGaussian:
    p, d = pca.components_.shape
    # scikit-learn's own noise_variance_ divides by min(n, d) - p, and IncrementalPCA's can be far off
    kept = pca.explained_variance_.sum()
    noise = kept * (1 / pca.explained_variance_ratio_.sum() - 1) / (d - p)
    return LatentGaussian.from_eigen(pca.mean_, pca.components_, pca.explained_variance_, noise)


def _from_gaussian_mixture(model: Any) -> LatentMixture:
    """Each mode with as many latent variables as its covariance needs to be exact: all but one, or none."""
    d, modes = model.means_.shape[1], []
    for k, mean in enumerate(model.means_):
        if model.covariance_type in ("diag", "spherical"):
            modes.append(LatentGaussian(mean, np.zeros((d, 0)), model.covariances_[k]))
            continue
        covariance = model.covariances_ if model.covariance_type == "tied" else model.covariances_[k]
        if d == 1:
            modes.append(LatentGaussian(mean, np.zeros((1, 0)), float(covariance[0, 0])))
        else:
            modes.append(LatentGaussian.from_covariance(covariance, d - 1, mean))
    return LatentMixture(model.weights_, tuple(modes))


def _from_pipeline(pipeline: Any) -> FittedModel:
    inner = as_fitted_model(pipeline[-1])
    if inner.encoding is not None or inner.margins is not None:
        return _traced(pipeline, inner)
    centre, scale = np.zeros(len(inner.centre)), np.ones(len(inner.centre))
    for _, step in pipeline.steps[:-1]:
        scaling = _scaling(step, len(inner.centre))
        if scaling is None:
            return _traced(pipeline, inner)
        shift, stretch = scaling
        # (x - centre) / scale goes into this step
        centre, scale = centre + scale * shift, scale * stretch
    return replace(
        inner,
        centre=centre + scale * inner.centre,
        scale=scale * inner.scale,
        feature_names=_names(pipeline) or inner.feature_names,
    )


def _traced(pipeline: Any, inner: FittedModel) -> FittedModel:
    """A Pipeline whose steps do more than scale: its columns are not the model's features."""
    from culpa.columns.pipelines import Traced

    encoding = Traced(pipeline, inner.columns)
    names = inner.feature_names if inner.encoding else encoding.outputs or inner.feature_names
    return replace(inner, encoding=encoding, feature_names=names)


def _scaling(step: Any, d: int) -> tuple[Floats, Floats] | None:
    """``(shift, stretch)`` of a step that maps each column x to (x - shift) / stretch; ``None`` if it does anything else.

    What it does to numbers of any size decides, not its type: a scaler may clip, and may leave out one of the two.
    """
    zero, one = np.zeros(d), np.ones(d)
    if step in (None, "passthrough"):
        return zero, one
    known = {name: getattr(step, name, None) for name in ("mean_", "center_", "min_", "scale_")}
    mean, median, low, scale = (None if value is None else np.asarray(value) for value in known.values())
    pairs = [(-low / scale, 1 / scale)] if low is not None and scale is not None else []
    pairs += [
        (shift, stretch)
        for shift in (mean, median, zero)
        for stretch in (scale, one)
        if shift is not None and stretch is not None and (shift is not zero or stretch is not one)
    ]
    return next((pair for pair in pairs if _scales(step, d, *pair)), None)


def _scales(step: Any, d: int, shift: Floats, stretch: Floats) -> bool:
    """Whether a step shifts and stretches so, wherever a number is."""
    if shift.shape != (d,) or stretch.shape != (d,):
        return False
    wanted = _SIZES[:, None] * np.random.default_rng(0).uniform(0.5, 1.0, size=(len(_SIZES), d))
    try:
        found = np.asarray(step.transform(with_names(step, shift + stretch * wanted)), dtype=np.float64)
    except (AttributeError, TypeError, ValueError):
        return False
    rounding = 1e-9 * np.abs(wanted) + 1e-12 * (1 + np.abs(shift / stretch))
    return found.shape == wanted.shape and bool((np.abs(found - wanted) <= rounding).all())


def _names(model: Any) -> tuple[str, ...] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))
