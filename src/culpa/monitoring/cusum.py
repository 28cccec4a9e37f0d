"""Cumulative sums of a statistic, for faults that are too small for the limit but last.

Scores are skewed, so they are first turned into normal scores by their rank among held-out scores of normal rows: those of
new normal rows then follow the standard normal distribution, whatever the distribution of the statistic. The sum

    S_t = max(0, S_(t-1) + z_t - k)

stays small as long as rows are normal, and grows by shift - k a row once normal scores shift upwards. The decision interval
h is the level that S exceeds once in so many normal rows, on average (the average run length in control).

References
----------
Page (1954), "Continuous inspection schemes". Siegmund (1985), "Sequential analysis".
"""

import math
from dataclasses import dataclass

import numpy as np

from culpa._core import probability as stats
from culpa._core.kinds import number
from culpa._core.types import Floats
from culpa.fitted import FittedDetector
from culpa.scores import HeldOutScores

REFERENCE = 0.25  # k: best for normal scores that shift by half a standard deviation, as small faults make them
_OVERSHOOT = 1.166  # Siegmund's correction for steps that jump over the level


@dataclass(frozen=True, eq=False)
class Cusum:
    """Cumulative sum of each row; rows above ``interval`` are flagged.

    ``run_length`` is the mean number of normal rows, if they are independent, until one is.
    """

    values: Floats
    interval: float
    reference: float
    run_length: float


def cusum(
    fitted: FittedDetector, score: Floats, run_length: float | None = None, missing: Floats | None = None
) -> Cusum:
    """The cumulative sum of a detector's own statistic over rows in order; a row without a score adds nothing.

    It starts anew where rows are ``missing`` (their number before each row).

    Without ``run_length``, false alarms are as far apart as those of the limit for single rows: 100 rows at 99%.
    """
    run_length = 1 / (1 - fitted.confidence) if run_length is None else run_length
    held_out = fitted.limits.held_out(fitted.statistic)
    if held_out is None:
        raise ValueError("a CUSUM needs held-out scores, but this limit does not have them. Fit with limit='auto'.")
    if fitted.columns.smooth is not None:
        raise ValueError(
            "a CUSUM does not work with smooth, because smoothed rows already accumulate small faults. Fit without smooth."
        )
    number(at_least=10).check(run_length, "cusum")
    steps = normal_scores(held_out, score) - REFERENCE
    sums, level = np.empty(len(score)), 0.0
    holes = np.zeros(len(score), dtype=bool) if missing is None else missing > 0
    for t, (step, hole) in enumerate(zip(steps.tolist(), holes.tolist(), strict=True)):
        level = 0.0 if hole else level
        level = level if math.isnan(step) else max(0.0, level + step)
        sums[t] = level
    return Cusum(sums, decision_interval(run_length), REFERENCE, run_length)


def normal_scores(held_out: HeldOutScores, score: Floats) -> Floats:
    """Scores as quantiles of the standard normal distribution, by their rank among held-out scores."""
    above, kept, n = held_out.above(score), held_out.n_kept, held_out.n
    result = stats.norm.isf((above + 0.5) / (n + 1))
    if kept < n * (1 - 1e-9):  # of lower scores only the number is known: they get the mean of their normal scores
        cut = stats.norm.isf(kept / n)
        result = np.where(above == kept, -stats.norm.pdf(cut) / stats.norm.cdf(cut), result)
    return np.where(np.isnan(score), np.nan, result)


def average_run_length(interval: float, reference: float = REFERENCE, shift: float = 0.0) -> float:
    """Mean number of rows until the sum exceeds the interval, for normal scores that shifted (Siegmund's formula).

    >>> round(average_run_length(5.0, 0.5)), round(average_run_length(5.0, 0.5, shift=1.0), 1)
    (938, 10.3)
    """
    drift, reach = shift - reference, interval + _OVERSHOOT
    if drift == 0:
        return reach**2
    return (math.exp(-2 * drift * reach) + 2 * drift * reach - 1) / (2 * drift**2)


def decision_interval(run_length: float, reference: float = REFERENCE) -> float:
    """The interval with this average run length in control."""
    from scipy import optimize

    return float(optimize.brentq(lambda h: math.log(average_run_length(h, reference) / run_length), 0.0, 100.0))
