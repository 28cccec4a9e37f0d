"""Anomaly detection benchmarks rebuilt from data that ship with scikit-learn, so they need no network."""

import numpy as np

from culpa.datasets.files import Dataset

# Rows of the first cultivar, and malignant rows, that ODDS (Rayana, 2016) kept as anomalies, in its order.
_WINE_OUTLIERS = (57, 16, 32, 7, 56, 48, 9, 37, 5, 53)
_WBC_OUTLIERS = (41, 369, 414, 22, 239, 162, 214, 236, 91, 468, 105, 9, 536, 28, 182, 30, 26, 41, 108, 0, 501)


def load_wine_outliers() -> Dataset:
    """The ODDS wine data: 10 wines of another cultivar, followed by 119 normal wines, 13 chemical measurements each.

    Returns
    -------
    Dataset
        Made from scikit-learn's copy of the wines.

    Examples
    --------
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


def load_wbc() -> Dataset:
    """The ODDS breast cancer data: 357 benign tumours, followed by 21 malignant ones, with columns scaled to [0, 1].

    Returns
    -------
    Dataset
        Made from scikit-learn's copy of the tumours.

    Examples
    --------
    >>> tumours = load_wbc()
    >>> tumours.X.shape, int(tumours.y.sum())
    ((378, 30), 21)
    """
    from sklearn.datasets import load_breast_cancer

    cancer = load_breast_cancer()
    low, high = cancer.data.min(axis=0), cancer.data.max(axis=0)
    benign = np.flatnonzero(cancer.target == 1)
    rows = [*benign.tolist(), *_WBC_OUTLIERS]
    y = np.zeros(len(rows), dtype=np.int64)
    y[len(benign) :] = 1
    names = tuple(str(name).replace(" ", "_") for name in cancer.feature_names)
    return Dataset(((cancer.data - low) / (high - low))[rows], y, names)
