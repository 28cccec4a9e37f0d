"""What normal looks like: Gaussian models with a few latent variables, and mixtures of them."""

from culpa.models.adapters import as_fitted_model
from culpa.models.distribution import Distribution
from culpa.models.estimator import Estimator
from culpa.models.fitted_model import FittedModel, OwnChoices
from culpa.models.latent import LatentGaussian
from culpa.models.mixture import LatentMixture
from culpa.models.mixture_ppca import MixturePPCA
from culpa.models.moments import Moments
from culpa.models.ppca import PPCA
from culpa.models.student import StudentPPCA

__all__ = [
    "PPCA",
    "Distribution",
    "Estimator",
    "FittedModel",
    "LatentGaussian",
    "LatentMixture",
    "MixturePPCA",
    "Moments",
    "OwnChoices",
    "StudentPPCA",
    "as_fitted_model",
]
