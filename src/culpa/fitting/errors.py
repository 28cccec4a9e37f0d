"""How far normal readings are from what the other columns imply, by models that did not see them.

The model's own standard deviation of what the others leave is too small where few rows taught it, and too large for columns
that hardly ever move. So each fifth of the rows is judged by the model of the others, and half of the distance that 95% of
the readings stay within is what texts state as one standard deviation.
"""

import numpy as np

from culpa._core.types import Floats
from culpa.models import FittedModel
from culpa.models.latent import LatentGaussian, shrunk
from culpa.scores.quadratic import mahalanobis

_FOLDS = 5
_WITHIN, _SD = 0.95, 2.0  # 95% of readings are within two standard deviations
_LEAST = 0.05  # of what the model states
_FEWEST_ROWS = 100


def usual_errors(model: FittedModel, Z: Floats, noise: float = 1.0) -> Floats | None:
    """Of each feature of standardised rows in order, over the model's standard deviation given all others.

    Models have ``noise`` times the most likely noise variance. ``None`` where rows are few, or the model is not Gaussian.
    """
    if model.n_modes > 1 or model.gaussian.tail or len(Z) < _FEWEST_ROWS or Z.shape[1] < 2:
        return None
    full = model.gaussian.impute(Z)
    errors, p = np.empty_like(full), model.gaussian.n_components
    for here in np.array_split(np.arange(len(Z)), _FOLDS):
        others = np.delete(full, here, axis=0)
        covariance = shrunk(np.cov(others.T), model.shrinkage)
        score = mahalanobis(LatentGaussian.from_covariance(covariance, p, noise=noise))
        errors[here] = np.abs(score.response(full[here] - others.mean(axis=0)) / score.diagonal)
    own = 1 / np.sqrt(mahalanobis(model.gaussian).diagonal)
    if (hidden := np.isnan(Z)).any():
        errors[hidden] = np.nan
        found = np.nan_to_num(np.nanquantile(errors, _WITHIN, axis=0))
    else:
        found = np.quantile(errors, _WITHIN, axis=0)
    return np.asarray(np.maximum(found / _SD / own, _LEAST))
