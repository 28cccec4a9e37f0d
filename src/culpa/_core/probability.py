"""Distributions by special functions, under the names that they have in `scipy.stats`, which takes long to load.

>>> round(float(norm.ppf(0.975)), 4), round(float(chi2.ppf(0.99, 3)), 4)
(1.96, 11.3449)
"""

from typing import Any

import numpy as np
from scipy import special


class norm:
    """Standard normal distribution."""

    ppf, cdf = special.ndtri, special.ndtr

    @staticmethod
    def isf(q: Any) -> Any:
        """Upper quantile."""
        return -special.ndtri(q)

    @staticmethod
    def pdf(x: Any) -> Any:
        """Density of the standard normal distribution."""
        return np.exp(-np.square(x) / 2) / np.sqrt(2 * np.pi)


class t:
    """Student's t distribution."""

    @staticmethod
    def ppf(q: Any, df: Any) -> Any:
        """Quantile, below which lies a share q of the distribution."""
        return special.stdtrit(df, q)

    @staticmethod
    def isf(q: Any, df: Any) -> Any:
        """Upper quantile."""
        return -special.stdtrit(df, q)

    @staticmethod
    def sf(x: Any, df: Any) -> Any:
        """Upper tail."""
        return special.stdtr(df, -np.asarray(x))


def _of(inverse: Any) -> Any:
    return type("Distribution", (), {"ppf": staticmethod(inverse)})


chi2 = _of(lambda q, df: 2 * special.gammaincinv(np.divide(df, 2), q))
f = _of(lambda q, a, b: special.fdtri(a, b, q))
beta = _of(lambda q, a, b: special.betaincinv(a, b, q))
