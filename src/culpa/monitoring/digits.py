"""Numbers as sentences, tables and reports show them: one rule for all.

- A standard deviation has two significant digits.
- A reading has the decimals of its column, which do not change from sentence to sentence. They are those of the standard
  deviation that all other features leave to it: what is finer than that tells nothing. A reading that has fewer decimals
  in the table has no more here.
- An expected value has the decimals of the standard deviation beside it.

So readers can compute the number of standard deviations from what they read.
"""

import math
from collections.abc import Sequence

import numpy as np

from culpa._core.types import Floats
from culpa.columns import Columns
from culpa.fitted import FittedDetector
from culpa.models import LatentGaussian
from culpa.models.leaving_out import THIN

_MOST_DECIMALS = 12
_FINER_THAN_SPREAD = 2  # decimals that a column has at most beyond those of its own standard deviation
_SMALLEST, _LARGEST = 1e-3, 1e7  # numbers between these are written without an exponent
_JUST_ABOVE = 1.05  # times the limit


def decimals(size: float) -> int:
    """Decimals that show two significant digits of a positive number; negative for large numbers.

    >>> decimals(1.4), decimals(0.053), decimals(124.0), decimals(9.97)
    (1, 3, -1, 0)
    """
    return 1 - math.floor(math.log10(float(f"{size:.1e}")))


def amount(size: float) -> str:
    """A positive number with two significant digits or more.

    >>> amount(123.4), amount(12.34), amount(1.234), amount(0.01234), amount(9.97), amount(1.5e-7)
    ('123', '12', '1.2', '0.012', '10', '1.5e-07')
    """
    if not _SMALLEST <= size < _LARGEST:
        return f"{size:.2g}"
    return f"{size:.{max(decimals(size), 0)}f}"


def change(after: float, before: float) -> str:
    """A difference with its sign.

    >>> change(12.3, 10.0), change(10.0, 123.4)
    ('+2.3', '-113')
    """
    return f"{'-' if after < before else '+'}{amount(abs(after - before))}"


def compared(actual: float, expected: float, sd: float, of_column: int) -> tuple[str, str]:
    """A reading, and what was expected of it with its standard deviation; ``of_column`` are the column's decimals.

    >>> compared(82.39, 92.61, 1.404, 1), compared(82.39, 92.61, 12.0, 1), compared(82.0, 92.61, 1.404, 1)
    (('82.4', '92.6 ± 1.4'), ('82.4', '93 ± 12'), ('82', '92.6 ± 1.4'))
    >>> compared(1270.0, 520.6, 124.2, -1), compared(2.5e-7, 1.1e-7, 3e-8, 9), compared(90.1, -0.2, 30.0, 0)
    (('1270', '521 ± 124'), ('2.50e-07', '1.10e-07 ± 3e-08'), ('90', '0 ± 30'))
    """
    apart, largest = abs(actual - expected), max(abs(actual), abs(expected))
    needed = decimals(apart) if apart > 0 else -_MOST_DECIMALS  # to tell the two apart
    own = max(of_column, needed)
    beside = max(min(decimals(sd), own), needed) if 0 < sd < math.inf else own
    fine = min(max(math.floor(math.log10(largest or 1.0)) + min(own, needed + 3), 1), 15)  # digits before an exponent
    tiny = 0 < largest < _SMALLEST
    texts = (
        f"{actual:.{fine}e}" if tiny or abs(actual) >= _LARGEST else reading(actual, own),
        f"{expected:.{fine}e}" if tiny or abs(expected) >= _LARGEST else _fixed(expected, beside),
    )
    return texts[0], f"{texts[1]} ± {amount(sd)}"


def reading(value: float, of_column: int) -> str:
    """A reading with the decimals of its column, but with no more than it has.

    >>> reading(140.7812, 3), reading(140.8, 3), reading(140.0, 3), reading(-0.01, 1)
    ('140.781', '140.8', '140', '0.0')
    """
    texts = (_fixed(value, places) for places in range(max(of_column, 0)))
    return next((text for text in texts if float(text) == value), _fixed(value, of_column))


def _fixed(value: float, places: int) -> str:
    return f"{value:z.{min(max(places, 0), _MOST_DECIMALS)}f}"  # z: no minus zero


def in_sd(deviation: float) -> str:
    """A number of standard deviations.

    >>> in_sd(-2.345), in_sd(18.4), in_sd(1e5)
    ('2.3 sd', '18 sd', 'more than 1,000 sd')
    """
    size = abs(deviation)
    return "more than 1,000 sd" if size > 1000 else f"{size:.1f} sd" if size < 10 else f"{size:.0f} sd"


def times_the_limit(score: float, limit: float) -> str:
    """How far a score is from the limit.

    >>> [times_the_limit(score, 10.0) for score in (10.49, 12.34, 123.4, 123456.0)], times_the_limit(1.0, 0.0)
    (['just above the limit', '1.23 times the limit', '12.3 times the limit', '12,300 times the limit'], 'above 0')
    >>> times_the_limit(3.0, 10.0), times_the_limit(9.9, 10.0)
    ('0.3 times the limit', 'just below the limit')
    """
    if not limit > 0 or not math.isfinite(score / limit):
        return "above 0"
    times = score / limit
    if 1 / _JUST_ABOVE < times < _JUST_ABOVE:
        return f"just {'above' if times > 1 else 'below'} the limit"
    return f"{float(f'{times:.3g}'):,.12g} times the limit"


def decimals_of_columns(fitted: FittedDetector, columns: Columns) -> tuple[int, ...]:
    """Decimals of the readings of every column: the most that any mode needs."""
    inflation = math.sqrt(fitted.normal_range.inflation)
    of_modes = []
    for mode in range(fitted.n_modes or 1):
        model = fitted.in_mode(mode).model
        wider = inflation if fitted.usual_errors is None else fitted.usual_errors
        left = wider * np.sqrt(_variances_given_others(model.gaussian))
        fine, coarse = (
            columns.decode(model.to_user_units(np.outer([-1.0, 1.0], sd))) for sd in (left, inflation * model.spread)
        )
        of_modes.append([_of_column(*pair) for pair in zip(_halves(fine), _halves(coarse), strict=True)])
    return tuple(max(column) for column in zip(*of_modes, strict=True))


def _variances_given_others(gaussian: LatentGaussian) -> Floats:
    """Of each feature, given all other features, (d,)."""
    root = gaussian.posteriors.of(np.arange(gaussian.n_features))[1]
    left = 1 - ((gaussian.loadings @ root) ** 2).sum(axis=1) / gaussian.noise  # share of the noise that others leave
    return np.asarray(np.minimum(gaussian.noise / np.maximum(left, THIN), gaussian.variances))


def _halves(cells: Floats) -> Sequence[float]:
    """Half of what two rows span in every column; NaN in columns that are no numbers."""
    try:
        low, high = np.asarray(cells, dtype=np.float64)
    except ValueError:
        return [math.nan] * cells.shape[1]
    return [float(half) for half in np.abs(high - low) / 2]


def _of_column(fine: float, coarse: float) -> int:
    """From what others leave of a column's standard deviation, and from that itself."""
    if not (0 < fine < math.inf and 0 < coarse < math.inf):
        return _FINER_THAN_SPREAD
    return min(decimals(fine), decimals(coarse) + _FINER_THAN_SPREAD)
