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
TILE = 2 * LANES  # numbers of two vectors, which go through a loop together and share what is read in it
# Products may be fused into sums and sums reordered, but NaN and infinity keep their meaning.
FAST_MATH = frozenset({"reassoc", "contract", "arcp", "nsz"})


def lanes_of_zero() -> Any:
    """A vector of zeros."""
    return np.zeros(LANES)


def tile_of_zero() -> Any:
    """Two vectors of zeros that are used as one."""
    return np.zeros(TILE)


def width_of(like: Any) -> int:
    """How many numbers ``like`` holds: 1 for a plain number."""
    return np.size(like)


def load(array: NDArray[np.float64], offset: int, like: Any) -> Any:
    """As many consecutive numbers as ``like`` holds, from ``offset`` on."""
    return array[offset : offset + len(like)].copy() if np.ndim(like) else array[offset]


def store(array: NDArray[np.float64], offset: int, value: Any) -> None:
    """Write a number or a vector to ``offset`` and the places after it."""
    array[offset : offset + np.size(value)] = value


def gather(array: NDArray[np.float64], offset: int, distances: NDArray[np.int64], like: Any) -> Any:
    """For each lane of ``like``, the number that lies that lane's distance after ``offset``."""
    found = array[offset + distances[: np.size(like)]]
    return found if np.ndim(like) else found[0]


def count_bits(word: Any) -> int:
    """How many bits of an unsigned integer are set."""
    return int(word).bit_count()


def aligned_zeros(size: int) -> NDArray[np.float64]:
    """An array that begins where a line of the cache does: a vector that lies across two lines takes twice as long."""
    room = np.zeros(size + TILE)
    start = -(room.ctypes.data // 8) % TILE
    return room[start : start + size]
