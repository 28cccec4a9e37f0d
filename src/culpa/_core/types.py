"""Array types that every room uses."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]
Mask = NDArray[np.bool_]
Array = Any  # an array of any library that follows the array API standard, which defines no type for it yet
