"""Normal rows in several modes, as one immutable object.

A plant has operating modes, a building has weekdays and weekends. See `culpa.models.distribution`.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from culpa._core.border import entered
from culpa._core.types import Floats
from culpa.models.distribution import Distribution
from culpa.models.latent import LatentGaussian


@entered
@dataclass(frozen=True, eq=False)
class LatentMixture(Distribution):
    """Normal rows in several modes.

    Attributes
    ----------
    weights : ndarray of shape (modes,)
        Probability of each mode.
    modes : tuple of LatentGaussian
        The distribution of the rows of each mode.

    Examples
    --------
    >>> left, right = (LatentGaussian([mean, 0.0], [[1.0], [1.0]], 0.1) for mean in (-5.0, 5.0))
    >>> mixture = LatentMixture([0.5, 0.5], (left, right))
    >>> mixture.responsibilities([[-4.0, 1.0], [0.0, 0.0]]).round(3)
    array([[1. , 0. ],
           [0.5, 0.5]])
    """

    weights: Floats
    modes: tuple[LatentGaussian, ...]

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float64)
        if not len(self.modes) or weights.shape != (len(self.modes),):
            raise ValueError(f"{len(self.modes)} modes need as many weights, got an array of shape {weights.shape}.")
        if not (np.isfinite(weights).all() and (weights > 0).all() and abs(weights.sum() - 1) < 1e-6):
            raise ValueError("weights must be positive and add up to 1.")
        if len({mode.n_features for mode in self.modes}) > 1:
            raise ValueError("all modes must have the same number of features.")
        if any(mode.tail for mode in self.modes):
            raise ValueError("modes with Student-t tails have no exact explanation: use Gaussian modes.")
        weights = weights / weights.sum()
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "modes", tuple(self.modes))

    @cached_property
    def mean(self) -> Floats:
        """Mean of the rows of all modes, (d,)."""
        return np.asarray(self.weights @ np.array([mode.mean for mode in self.modes]))

    def mapped(self, shift: Floats, scale: Floats | float = 1.0) -> Self:
        """The distribution of the rows shift + scale x.

        Parameters
        ----------
        shift
            One number per feature.
        scale
            One number per feature, or one for all.

        Returns
        -------
        Distribution
            Of the same kind.
        """
        return replace(self, modes=tuple(mode.mapped(shift, scale) for mode in self.modes))
