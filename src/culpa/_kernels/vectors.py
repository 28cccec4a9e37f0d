"""Several numbers at a time, for compiled kernels.

numba makes vector instructions of loops, but only of long ones: it cannot know that arrays do not overlap, and finding out
takes longer than a short loop. So kernels may say it: what `load` returns is `LANES` numbers on which + - * / work, one
by one, also with a plain number. This is what the functions do in Python; what numba makes of them is in
`culpa._kernels.numba_vectors`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

LANES = 4  # numbers of one AVX2 instruction
# Products may be fused into sums and sums reordered, but NaN and infinity keep their meaning.
FAST_MATH = frozenset({"reassoc", "contract", "arcp", "nsz"})


def lanes_of_zero() -> Any:
    """A vector of zeros."""
    return np.zeros(LANES)


def width(like: Any) -> int:
    """How many numbers ``like`` has: 1 for a plain one."""
    return np.size(like)


def load(array: NDArray[np.float64], index: int, like: Any) -> Any:
    """As many numbers as ``like`` has, from there on."""
    return array[index : index + len(like)].copy() if np.ndim(like) else array[index]


def store(array: NDArray[np.float64], index: int, value: Any) -> None:
    """Write a number or a vector, from there on."""
    array[index : index + np.size(value)] = value


def gather(array: NDArray[np.float64], index: int, beyond: NDArray[np.int64], like: Any) -> Any:
    """One number for each of ``like``, that far beyond ``index``."""
    found = array[index + beyond[: np.size(like)]]
    return found if np.ndim(like) else found[0]
