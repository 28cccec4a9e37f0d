"""Gaussians that other packages fitted to normal rows: a mean and a whole covariance, without latent variables.

They score a row by its squared Mahalanobis distance:

| model | its own score |
| --- | --- |
| EmpiricalCovariance, ShrunkCovariance, LedoitWolf, OAS, GraphicalLasso, GraphicalLassoCV, MinCovDet | ``mahalanobis(X)`` |
| EllipticEnvelope | ``-score_samples(X)``, which is ``-offset_ - decision_function(X)`` |
| PyOD's MCD | ``decision_function(X)`` |

The distance does not depend on the units of features, so they are divided by their standard deviations first: then
features of very different sizes cost no digits.
"""

from typing import Any, NoReturn

import numpy as np
from scipy import linalg

from culpa._core.types import Floats
from culpa.models.fitted_model import FittedModel, OwnChoices
from culpa.models.latent import RELATIVE_FLOOR, LatentGaussian


def covariance_estimator(model: Any) -> Any | None:
    """The scikit-learn estimator of a covariance behind a model; ``None`` if there is none."""
    from sklearn.covariance import EmpiricalCovariance

    if isinstance(model, EmpiricalCovariance):  # the base class of all of them
        return model
    if type(model).__module__ == "pyod.models.mcd":
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model, "detector_")
        return model.detector_
    return None


def from_covariance_estimator(estimator: Any, **known: Any) -> FittedModel:
    """The Gaussian whose squared Mahalanobis distance the estimator computes."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator, "covariance_")
    covariance = _covariance(estimator)
    scale = np.sqrt(np.diag(covariance))
    variances, axes = linalg.eigh(covariance / np.outer(scale, scale))
    try:
        gaussian = _saturated(axes.T, variances)
    except ValueError:
        _refuse_singular(estimator, len(scale), int((variances > RELATIVE_FLOOR * variances[-1]).sum()))
    location = np.asarray(estimator.location_, dtype=np.float64)
    return FittedModel.of(gaussian, location, scale, own=OwnChoices(score="mahalanobis"), no_residuals=True, **known)


def from_all_components(pca: Any, **known: Any) -> FittedModel:
    """A PCA that keeps all components: T2 is the Mahalanobis distance, and nothing is left to reconstruct."""
    variances = np.asarray(pca.explained_variance_, dtype=np.float64)
    rounding = 10 * len(variances) * np.finfo(np.float64).eps * variances.max()
    # what rounding left of a direction without variance would pass for one
    root = pca.components_.T * np.sqrt(np.where(variances > rounding, variances, 0.0))
    scale = np.linalg.norm(root, axis=1)
    # singular values of the root rather than eigenvalues of the covariance, which would lose half of the digits
    axes, sizes, _ = np.linalg.svd(root / np.where(scale > 0, scale, 1.0)[:, None])
    try:
        gaussian = _saturated(axes.T, sizes**2)
    except ValueError:
        raise ValueError(
            f"model keeps all {len(scale)} components, and there is no variance along some of them: refit it with fewer."
        ) from None
    return FittedModel.of(gaussian, np.asarray(pca.mean_, dtype=np.float64), scale, no_residuals=True, **known)


def _saturated(axes: Floats, variances: Floats) -> LatentGaussian:
    """Any Gaussian around 0, from all its principal axes (d, d) and the variances along them.

    The smallest variance is the noise, so C = W W^T + noise holds exactly, with d - 1 latent variables or fewer.
    """
    noise = float(variances.min())
    if noise <= RELATIVE_FLOOR * variances.max():
        raise ValueError("the covariance is singular.")
    above = variances > noise
    return LatentGaussian(np.zeros(len(axes)), axes[above].T * np.sqrt(variances[above] - noise), noise)


def _covariance(estimator: Any) -> Floats:
    """The inverse of the precision that scores use: the covariance itself, unless the two were estimated apart."""
    from sklearn.covariance import GraphicalLasso, GraphicalLassoCV

    covariance = np.asarray(estimator.covariance_, dtype=np.float64)
    precision = np.asarray(estimator.get_precision(), dtype=np.float64)
    d = len(covariance)
    # a pseudo-inverse ignores the directions in which rows did not vary; this is the number of the others
    rank = round(float(np.trace(precision @ covariance)))
    if rank < d or (np.diag(covariance) <= 0).any():
        _refuse_singular(estimator, d, rank)
    if isinstance(estimator, (GraphicalLasso, GraphicalLassoCV)):  # which stops before they are each other's inverse
        return np.asarray(linalg.inv((precision + precision.T) / 2))
    return covariance


def _refuse_singular(estimator: Any, d: int, rank: int) -> NoReturn:
    raise ValueError(
        f"the covariance of this {type(estimator).__name__} is singular: it has {rank} directions and {d} features. Its "
        "Mahalanobis distance ignores the other directions, so no exact explanation exists. Fit it to more rows than "
        "features, leave out columns that follow from others, scale columns of very different size, or fit LedoitWolf or "
        "culpa.PPCA."
    )
