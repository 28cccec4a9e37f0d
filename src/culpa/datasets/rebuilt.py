"""Anomaly detection benchmarks that can be rebuilt from data shipped with scikit-learn, without any network."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Dataset(NamedTuple):
    """Rows, labels (1 = anomaly) and feature names."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    feature_names: tuple[str, ...]


# Rows of the first cultivar that ODDS (Rayana, 2016) kept as anomalies, in its order.
_WINE_OUTLIERS = (57, 16, 32, 7, 56, 48, 9, 37, 5, 53)


def load_wine_outliers() -> Dataset:
    """The ODDS wine data: chemical analyses of 119 normal wines and, first, 10 of another cultivar.

    >>> wine = load_wine_outliers()
    >>> wine.X.shape, int(wine.y.sum())
    ((129, 13), 10)
    """
    from sklearn.datasets import load_wine

    wine = load_wine()
    rows = [*_WINE_OUTLIERS, *range(59, 178)]
    y = np.zeros(len(rows), dtype=np.int64)
    y[: len(_WINE_OUTLIERS)] = 1
    names = tuple(name.replace("od280/od315_of_diluted_wines", "od280_od315") for name in wine.feature_names)
    return Dataset(wine.data[rows], y, names)
