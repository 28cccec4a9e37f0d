"""Numbers that are equal but for rounding: the same calculation in another order, such as for more rows at once.

A score is compared with a limit, and values are ranked, so that what rounding leaves of equal numbers decides nothing.
"""

import numpy as np
from numpy.typing import ArrayLike

from culpa._core.types import Floats, Mask, Positions

ROUNDING = 1e-9  # of a limit, or of the largest value of a row, by which equal numbers may differ


def exceeds(score: ArrayLike, limit: Floats | float) -> Mask:
    """Which scores lie above the limit by more than rounding; a missing score does not.

    >>> exceeds([2.0, 2.0 * (1 + 1e-12), 2.1], 2.0)
    array([False, False,  True])
    """
    return np.asarray(np.asarray(score) > limit + ROUNDING * np.abs(limit))


def ranked(values: Floats) -> Positions:
    """Positions of the values of each row (..., k), the largest first, equal ones by position, NaN last.

    >>> import numpy as np
    >>> ranked(np.array([1.0, 3.0, 3.0 + 1e-15, np.nan]))
    array([1, 2, 0, 3])
    """
    values = np.where(np.isnan(values), -np.inf, values)
    order = np.argsort(-values, axis=-1, kind="stable")
    largest = np.abs(np.where(np.isfinite(values), values, 0.0)).max(axis=-1, keepdims=True, initial=0.0)
    down = np.take_along_axis(values, order, axis=-1)
    with np.errstate(invalid="ignore"):  # infinity less infinity
        apart = down[..., :-1] - down[..., 1:] > ROUNDING * largest
    if apart.all():
        return order
    place = np.cumsum(np.concatenate([np.zeros_like(order[..., :1], dtype=bool), apart], axis=-1), axis=-1)
    return np.take_along_axis(order, np.lexsort((order, place), axis=-1), axis=-1)
