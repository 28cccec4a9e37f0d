"""The tail of a distribution beyond the largest of its scores: which level is exceeded once in so many rows?"""

import math
from collections.abc import Callable

import numpy as np

from culpa._core.types import Floats

Levels = Callable[[Floats], Floats]  # of rates

_PARETO_WEIGHT = 0.25  # of the Pareto tail against the exponential one
_GENERALISED_FROM = 100  # scores in the tail from which a generalised Pareto distribution is fitted
_PRIOR_SHAPE, _PRIOR_WEIGHT = 0.25, 10  # towards which, and by how many scores, its shape is shrunk
_SMALLEST_RATE = 1e-12


def levels_beyond(threshold: float, top: Floats, share: float, alone: float) -> Levels:
    """Levels beyond the largest of the ``top`` scores, which lie above a threshold that a share of the rows exceeds.

    ``alone`` of these scores say something new.
    """
    largest = float(top[-1]) if len(top) else threshold
    if threshold <= 0 or not len(top):  # nothing to extrapolate from
        return lambda rates: np.full(np.shape(rates), largest)
    if alone >= _GENERALISED_FROM:
        shape, scale = _generalised_pareto(np.maximum(top - threshold, 1e-12 * largest))
        return lambda rates: np.maximum(threshold + scale / shape * ((rates / share) ** -shape - 1), largest)
    # the predictive exponential distribution, not the one with a known mean
    return lambda rates: np.maximum(_blended(threshold, top, alone * ((rates / share) ** (-1 / alone) - 1)), largest)


def rates_of(levels: Floats, levels_of: Levels, most: float) -> Floats:
    """The rates of levels, at most ``most``: `levels_beyond` inverted."""
    low, high = np.full(np.shape(levels), math.log(_SMALLEST_RATE)), np.full(np.shape(levels), math.log(most))
    for _ in range(60):
        middle = (low + high) / 2
        rarer = levels_of(np.exp(middle)) < levels
        low, high = np.where(rarer, low, middle), np.where(rarer, middle, high)
    return np.asarray(np.exp(low))


def _blended(threshold: float, top: Floats, steps: Floats) -> Floats:
    """Geometric mean of an exponential and a Pareto tail, ``steps`` mean excesses above the threshold."""
    exponential = np.log(threshold + float((top - threshold).mean()) * steps)
    pareto = math.log(threshold) + float(np.log(top / threshold).mean()) * steps
    return np.asarray(np.exp((1 - _PARETO_WEIGHT) * exponential + _PARETO_WEIGHT * pareto))


def _generalised_pareto(excess: Floats) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution, the shape shrunk towards a moderately heavy tail."""
    y = np.sort(excess)
    n = len(y)
    grid = 30 + int(math.sqrt(n))
    quarter = y[int(n / 4 + 0.5) - 1]
    theta = 1 / y[-1] + (1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3 * quarter)
    shapes = np.log1p(-theta[:, None] * y).mean(axis=1)
    likelihood = n * (np.log(-theta / shapes) - shapes - 1)
    weight = np.exp(likelihood - likelihood.max())
    estimate = float((theta * weight).sum() / weight.sum())
    shape = float(np.log1p(-estimate * y).mean())
    shape = (n * shape + _PRIOR_WEIGHT * _PRIOR_SHAPE) / (n + _PRIOR_WEIGHT)
    if abs(shape) < 1e-6:
        shape = 1e-6
    scales = float(y.mean()) * np.exp(np.linspace(-1.5, 1.0, 120))
    scales = scales[scales > -shape * y[-1] * 1.0001] if shape < 0 else scales
    if not len(scales):
        return shape, -shape * float(y[-1]) * 1.001
    cost = [n * math.log(s) + (1 + 1 / shape) * float(np.log1p(shape * y / s).sum()) for s in scales]
    return shape, float(scales[int(np.argmin(cost))])
