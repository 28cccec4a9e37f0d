"""What a loader returns, and what it raises."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Dataset(NamedTuple):
    """Rows (NaN where a cell is missing), labels (1 = anomaly, 0 everywhere if none are known) and names."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    feature_names: tuple[str, ...]
    row_names: tuple[str, ...] | None = None


class DataFileError(ValueError):
    """A data file is missing, out of reach, or not what it should be."""
