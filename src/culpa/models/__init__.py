"""What normal looks like: Gaussian models with a few latent variables."""

from culpa.models.latent import LatentGaussian
from culpa.models.moments import Moments
from culpa.models.ppca import PPCA
from culpa.models.sources import Normal, as_normal

__all__ = ["PPCA", "LatentGaussian", "Moments", "Normal", "as_normal"]
