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
from culpa.models.latent import LatentGaussian

_INVERSE = 1e-7  # how far covariance times precision may be from the identity, to be each other's inverse


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
        gaussian = LatentGaussian.saturated(np.zeros(len(scale)), axes.T, variances)
    except ValueError:
        _refuse_singular(estimator, len(scale), int((variances > 1e-12 * variances[-1]).sum()))
    return FittedModel(
        gaussian,
        np.asarray(estimator.location_, dtype=np.float64),
        scale,
        own=OwnChoices(score="mahalanobis"),
        no_residuals=True,
        **known,
    )


def _covariance(estimator: Any) -> Floats:
    """The inverse of the precision that scores use: the covariance itself, unless the two were estimated apart."""
    covariance = np.asarray(estimator.covariance_, dtype=np.float64)
    precision = np.asarray(estimator.get_precision(), dtype=np.float64)
    d = len(covariance)
    product = precision @ covariance
    # a pseudo-inverse ignores the directions in which rows did not vary; then this is the number of the others
    rank = round(float(np.trace(product)))
    if rank < d or (np.diag(covariance) <= 0).any():
        _refuse_singular(estimator, d, rank)
    if np.abs(product - np.eye(d)).max() <= _INVERSE:
        return covariance
    return np.asarray(linalg.inv((precision + precision.T) / 2))  # GraphicalLasso stops before they are


def _refuse_singular(estimator: Any, d: int, rank: int) -> NoReturn:
    raise ValueError(
        f"the covariance of this {type(estimator).__name__} is singular: its rows varied in {rank} directions only, and "
        f"have {d} features. Its Mahalanobis distance ignores the other directions, so no exact explanation exists. "
        "Pass more rows than features, leave out columns that follow from others, or fit LedoitWolf or culpa.PPCA."
    )
