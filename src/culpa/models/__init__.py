"""What normal looks like: Gaussian models with a few latent variables."""

from culpa.models.adapters import as_fitted_model
from culpa.models.fitted_model import FittedModel
from culpa.models.latent import LatentGaussian
from culpa.models.moments import Moments
from culpa.models.ppca import PPCA
from culpa.models.student import StudentPPCA

__all__ = ["PPCA", "FittedModel", "LatentGaussian", "Moments", "StudentPPCA", "as_fitted_model"]
