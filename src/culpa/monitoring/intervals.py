"""Confidence intervals of differences of two periods, from the means of consecutive stretches (batch means)."""

from typing import NamedTuple

import numpy as np

from culpa._core import probability as stats
from culpa._core.types import Floats

CONFIDENCE = 0.95  # of intervals


class Interval(NamedTuple):
    """A number with a confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.3g} ({self.low:.3g} to {self.high:.3g})"

    @property
    def excludes_zero(self) -> bool:
        """Whether the number is clearly not 0."""
        return self.low > 0 or self.high < 0


def batch_variance(n: Floats, means: Floats) -> tuple[Floats, int]:
    """Variance of the weighted mean of batch means, and its degrees of freedom; NaN for a single batch."""
    B = len(n)
    if B < 2:
        return np.full(means.shape[1], np.nan), 1
    weights = n / n.sum()
    return weights**2 @ (means - weights @ means) ** 2 * (B / (B - 1)), B - 1


def margin_of(
    before: tuple[Floats, int], after: tuple[Floats, int], sampled: Floats | float, level: float = 1 - CONFIDENCE
) -> Floats:
    """Half the width of the interval of a difference, with Welch's degrees of freedom."""
    variance, freedom = welch(before, after)
    return np.asarray(stats.t.isf(level / 2, freedom) * np.sqrt(variance + np.square(sampled)))


def welch(before: tuple[Floats, int], after: tuple[Floats, int]) -> tuple[Floats, Floats]:
    """Variance of a difference, and Welch's degrees of freedom."""
    (v1, f1), (v2, f2) = before, after
    total = v1 + v2
    return total, np.divide(total**2, v1**2 / f1 + v2**2 / f2, out=np.full_like(total, f1 + f2), where=total > 0)
