"""How many samples are needed until values are accurate enough."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from culpa._core.warning import warn
from culpa.shapley.shares import Progress, Shares


class Effort(NamedTuple):
    """The sizes of a sample to try, from the first one on."""

    first: int
    largest: int
    larger: Callable[[int, float], int]  # the next size, from a size and its error in units of the tolerance


def size_for_tolerance(
    estimate: Callable[[int], Shares],
    effort: Effort,
    tolerance: float,
    progress: Progress | None,
    warning: Callable[[int], tuple[str, str]] | None,
) -> int:
    """The first size with which the median row meets the tolerance, or the largest one.

    A row meets it if the norm of its standard errors is at most ``tolerance`` times the norm of its values. ``warning``
    says what a size took and what else could be done, for a warning if the largest size does not meet the tolerance.
    """
    if progress is not None:
        progress(0.0, None)
    size = effort.first
    while True:
        shares = estimate(size)
        errors, sizes = (np.linalg.norm(array, axis=1) for array in (shares.std_error, shares.values))
        error = float(np.median(np.divide(errors, sizes, out=np.zeros_like(errors), where=errors > 0)))
        if progress is not None:
            progress(min(1.0, (tolerance / error) ** 2) if error > tolerance else 1.0, error)
        if error <= tolerance:
            return size
        if size >= effort.largest:
            if warning is not None:
                taken, remedy = warning(size)
                warn(
                    f"the tolerance {tolerance:g} was not reached with {taken} (error {error:.2g}). {remedy} std_error "
                    "shows the error of each value.",
                    UserWarning,
                )
            return size
        size = min(effort.largest, effort.larger(size, error / tolerance))
