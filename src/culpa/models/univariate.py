"""Robust location and scale of single columns, and the wrapping that limits what an outlying cell can do."""

import numpy as np

from culpa._core import probability as stats
from culpa._core.types import Floats

_WINDOW = 0.6  # share of a column's cells that its first estimate uses: the others may be wrong
_REWEIGHTED = 0.975  # share of normal cells that its second estimate uses
_NO_SPREAD = 1e-10  # scale, relative to the location, that is rounding
# Raymaekers and Rousseeuw (2021): cells up to _LINEAR stay, cells beyond _ZERO count as 0
_LINEAR, _ZERO, _HEIGHT, _SLOPE = 1.5, 4.0, 1.540793, 0.8622731


def location_and_scale(X: Floats) -> tuple[Floats, Floats]:
    """Univariate minimum covariance determinant of every column, reweighted once; NaN cells are left out.

    The first estimate is mean and standard deviation of those 60% of the sorted cells, side by side, that spread least. The
    scale is 0 for columns whose cells are nearly all equal.

    >>> import numpy as np
    >>> X = np.r_[np.random.default_rng(0).normal(size=95), np.full(5, 100.0)][:, None]
    >>> location, scale = location_and_scale(X)
    >>> bool(abs(location[0]) < 0.2 and abs(scale[0] - 1) < 0.2)
    True

    References
    ----------
    Rousseeuw and Leroy (1987), "Robust regression and outlier detection", section 4.3.
    """
    found = [_of_column(np.sort(x[~np.isnan(x)])) for x in X.T]
    location, scale = np.array(found).reshape(-1, 2).T
    return location, scale


def wrap(Z: Floats) -> Floats:
    """Standardised cells, unchanged near 0, bent back towards 0 beyond 1.5, and 0 beyond 4 and where cells are missing.

    Correlations of wrapped cells are robust, and their matrix is positive semidefinite.
    """
    size = np.abs(np.nan_to_num(Z, nan=0.0))
    bent = _HEIGHT * np.tanh(_SLOPE * np.maximum(_ZERO - size, 0.0)) * np.sign(Z)
    return np.where(size <= _LINEAR, np.nan_to_num(Z, nan=0.0), np.where(size <= _ZERO, bent, 0.0))


def _of_column(x: Floats) -> tuple[float, float]:
    """Location and scale of sorted cells."""
    n = len(x)
    if not n:
        return 0.0, 0.0
    middle = float(x[n // 2])
    near = x - middle  # squares of cells with a large mean would lose digits
    h = int(np.ceil(_WINDOW * n))
    sums, squares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (near, near**2))
    means = (sums[h:] - sums[:-h]) / h
    variances = (squares[h:] - squares[:-h]) / h - means**2
    best = int(variances.argmin())
    location, scale = float(means[best]), float(np.sqrt(max(variances[best], 0.0) / _kept_variance(h / n)))
    rounding = _NO_SPREAD * max(abs(middle), np.finfo(np.float64).tiny)
    if scale <= rounding:
        tenth, ninetieth = np.quantile(near, [0.1, 0.9])
        scale = float(ninetieth - tenth) / (2 * stats.norm.ppf(0.9))
        return middle, scale if scale > rounding else 0.0
    kept = near[np.abs(near - location) <= stats.norm.ppf((1 + _REWEIGHTED) / 2) * scale]
    return middle + float(kept.mean()), float(np.sqrt(kept.var() / _kept_variance(_REWEIGHTED))) or scale


def _kept_variance(share: float) -> float:
    """Variance of a standard normal variable that is cut to its central share."""
    if share >= 1:
        return 1.0
    end = stats.norm.ppf((1 + share) / 2)
    return float(1 - 2 * end * stats.norm.pdf(end) / share)
