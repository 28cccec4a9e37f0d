"""SIMD lanes for compiled kernels: several numbers that go through the same operations at once.

numba vectorises long loops by itself, but not short ones: it cannot know that arrays do not overlap, and checking takes
longer than a short loop. So kernels ask for vectors explicitly. `load` returns `LANES` numbers on which + - * / work lane
by lane, also together with a plain number. This file says what the functions do in plain Python;
`culpa._kernels.numba_vectors` says which machine instructions numba makes of them.

| name | meaning |
| --- | --- |
| ``like`` | a vector or a plain number, as a template: it decides whether `load` returns `LANES` numbers or one |
| ``offset`` | position in an array of doubles |
| ``width`` | doubles that one number takes up: `LANES` for a vector, 1 for a plain number |
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


def width_of(like: Any) -> int:
    """How many numbers ``like`` holds: 1 for a plain number."""
    return np.size(like)


def load(array: NDArray[np.float64], offset: int, like: Any) -> Any:
    """As many consecutive numbers as ``like`` holds, from ``offset`` on."""
    return array[offset : offset + len(like)].copy() if np.ndim(like) else array[offset]


def store(array: NDArray[np.float64], offset: int, value: Any) -> None:
    """Write a number or a vector to ``offset`` and the places after it."""
    array[offset : offset + np.size(value)] = value
