"""What normal looks like: Gaussian models with a few latent variables."""

from culpa.models.adapters import as_fitted_model
from culpa.models.fitted_model import FittedModel, OwnChoices
from culpa.models.latent import LatentGaussian
from culpa.models.moments import Moments
from culpa.models.ppca import PPCA

__all__ = ["PPCA", "FittedModel", "LatentGaussian", "Moments", "OwnChoices", "as_fitted_model"]
