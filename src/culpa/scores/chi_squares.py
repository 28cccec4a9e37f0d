"""The exact distribution of Q, a sum of chi-squares with one degree of freedom each and weights w_i.

Imhof (1961) has P(Q > x) as an integral of the characteristic function: it oscillates, and decays slowly where few weights
matter. The same integral may follow another path in the complex plane, best that of steepest descent (Helstrom, 1996):

    P(Q > x) = 1/pi  integral of exp(phi(s)) dy   along   s = a(y) + i y,   on which
    phi(s)   = -1/2 sum_i log(1 - 2 w_i s) - x s - log s   is real.

There the integrand is positive and falls, so that nothing cancels, however far in the tail. Im phi grows with a: for every
y between 0 and pi n / (2 x) the path has one point, beyond none. It starts at the saddle point, where phi' = 0.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from culpa._core.types import Floats

Complexes = NDArray[np.complex128]

_POINTS = (32, 64, 128, 256, 512, 1024, 2048)
_CHANGE = 1e-8  # of the probability by the last doubling of the points; what is left is far less
_STEPS = 100


@lru_cache(maxsize=256)  # charts ask for the same limits again and again
def quantile(weights: tuple[float, ...], confidence: float) -> float:
    """The value that Q stays below with probability ``confidence``.

    >>> round(quantile((1.0, 1.0), 0.99), 4)  # chi-square with 2 degrees of freedom: -2 log(.01)
    9.2103
    """
    largest = max(weights, default=0.0)
    if largest <= 0:
        return 0.0
    # what is less than a rounding error of the largest is itself nothing else
    kept = np.array([weight / largest for weight in weights if weight > np.finfo(float).eps * largest])
    target = float(stats.norm.ppf(confidence))

    def excess(root: float) -> float:
        return float(-special.ndtri_exp(min(log_tail(kept, root**3), -1e-16)) - target)

    # in units of the largest weight, chi2_1 <= Q <= chi2_n; roots, for these are almost normal (Wilson and Hilferty, 1931)
    low, high = (float(stats.chi2.ppf(confidence, n)) ** (1 / 3) for n in (1, len(kept)))
    return float(largest * optimize.brentq(excess, 0.9 * low, 1.1 * high, xtol=1e-12 * low, rtol=1e-12) ** 3)


def log_tail(weights: Floats, x: float) -> float:
    """log P(Q > x) for positive weights, the largest of them 1."""
    saddle = _saddle(weights, x)
    top = _phi(weights, x, np.array([saddle + 0j]))[0].real[0]
    width = ((2 * (weights / (1 - 2 * weights * saddle)) ** 2).sum() + saddle**-2) ** -0.5  # phi''(saddle)^-1/2
    # y = width sinh(t): the integrand may be much wider than at the saddle, but not narrower
    reach = math.asinh(_end(weights, x) / width)
    for points in _POINTS:
        t = np.linspace(0, reach, points, endpoint=False)[1:]
        heights = np.exp(_on_path(weights, x, width * np.sinh(t)) - top)
        # trapezoids: the function of t is smooth, even and vanishes at the end, so that their error falls exponentially
        areas = t[0] * width * np.cosh(t) * heights
        fine, coarse = (step * width * t[0] / 2 + step * areas[step - 1 :: step].sum() for step in (1, 2))
        if abs(fine - coarse) <= _CHANGE * fine:
            return float(top + math.log(fine / math.pi))
        reach = min(t[heights < 1e-20], default=reach)  # what follows is less still
    raise _did_not_converge(weights, x)


def _saddle(weights: Floats, x: float) -> float:
    def slope(s: float) -> float:
        return float((weights / (1 - 2 * weights * s)).sum() - x - 1 / s)

    # here the slope cannot but be negative, and there positive
    return float(optimize.brentq(slope, 1 / (len(weights) + 2), 0.5 - 0.5 / (x + 4), xtol=1e-15))


def _on_path(weights: Floats, x: float, y: Floats) -> Floats:
    """phi where the path has the imaginary part y: Newton's steps to Im phi = 0, halving where they do not get on.

    Steps are in v with a = 1/2 + y sinh(v), as a may be of any size.
    """
    result, at = np.empty_like(y), np.arange(len(y))  # at: the points on their way
    low, high, last = np.full_like(y, -100.0), np.full_like(y, 100.0), np.full_like(y, np.inf)
    v = np.arcsinh(-1 / np.tan(math.pi * y / _end(weights, x)))  # right if all weights agreed and log s were not there
    for _ in range(_STEPS):
        phi, slope = _phi(weights, x, 0.5 + y * np.sinh(v) + 1j * y)
        result[at] = phi.real
        low, high = np.where(phi.imag < 0, v, low), np.where(phi.imag > 0, v, high)
        step = -phi.imag / (slope.imag * y * np.cosh(v))
        gets_on = (low < v + step) & (v + step < high) & (abs(step) <= last / 2)
        step = np.where(gets_on, step, (low + high) / 2 - v)
        far = (abs(phi.imag) > 1e-13 * (1 + x * y)) & (high - low > 1e-13)
        if not far.any():
            return result
        at = at[far]
        y, low, high, v, last = (values[far] for values in (y, low, high, v + step, abs(step)))
    raise _did_not_converge(weights, x)


def _end(weights: Floats, x: float) -> float:
    """The imaginary part that the path tends to."""
    return math.pi * len(weights) / (2 * x)


def _phi(weights: Floats, x: float, s: Complexes) -> tuple[Complexes, Complexes]:
    """phi and its derivative."""
    inside = 1 - 2 * np.multiply.outer(s, weights)
    return -np.log(inside).sum(axis=-1) / 2 - x * s - np.log(s), (weights / inside).sum(axis=-1) - x - 1 / s


def _did_not_converge(weights: Floats, x: float) -> ValueError:
    return ValueError(
        f"the exact distribution of a sum of {len(weights):,} chi-squares did not converge at {x:g} times the "
        "largest weight. Use another limit, such as 'box'."
    )
