"""The result of a loader, and the error it raises."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Dataset(NamedTuple):
    """Rows (NaN for a missing cell), labels (1 for an anomaly; all 0 if there are no labels) and names."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    feature_names: tuple[str, ...]
    row_names: tuple[str, ...] | None = None


class DataFileError(ValueError):
    """A data file is missing, cannot be downloaded, or has the wrong content."""
