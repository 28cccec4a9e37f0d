"""Coordinates in which quadratic forms keep their digits where noise is tiny.

A form x^T F x in the rows' own coordinates takes differences of numbers as large as x^2 / noise, which are small for normal
rows. With noise of 1e-12 of the largest eigenvalue, nothing would be left of most scores. So rows are written as

    x = sum of u_a (principal axis a) + sum of u_j e_j

with the p principal axes of the model and d - p features j that the axes leave to the noise. u_j is how far feature j is
from what the p other features, the pivots, imply for it. Three things keep the digits:

- A row as it should be has small u_j, so that nothing large has to cancel.
- A feature that alone is off has a single large u_j, unless it is a pivot. Any other basis of the noise, such as that of an
  SVD, would spread the deviation over axes along which scores are far steeper.
- Every axis is long enough for its end to score about as much as normal rows do. T2 hardly changes along e_j. Were e_j as
  short as the noise, rounding would hide that it does change, and rows far out would lose all digits.

What is left of rounding is about 2e-16 |x| / sqrt(noise), because that is how exactly the row itself says where it is
between the model's planes. Walks of coalitions round as much.
"""

import numpy as np
from scipy import linalg

from culpa.games.bases import Quadratic
from culpa.games.game import Axes


def axes_of(score: Quadratic) -> Axes:
    """The coordinates u above, for a score under its own Gaussian."""
    gaussian = score.gaussian
    unit = np.sqrt(gaussian.noise)
    plane, sizes, _ = np.linalg.svd(gaussian.loadings / unit[:, None], full_matrices=False)
    pivots = linalg.qr((unit[:, None] * plane).T, mode="r", pivoting=True)[1]
    basis = np.concatenate([plane.T, np.eye(len(unit))[np.sort(pivots[len(sizes) :])]])
    variance = np.concatenate([1 + sizes**2, np.ones(len(unit) - len(sizes))])
    steepness = ((score.root @ (basis * unit).T) ** 2).sum(axis=0)  # score per squared length
    typical = (steepness * variance).max()
    length = np.sqrt(np.maximum(variance, typical / (steepness.max() or 1.0)))
    return Axes(basis * unit * length[:, None], np.linalg.inv(basis) / unit[:, None] / length)
