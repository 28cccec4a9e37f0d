"""How the user's columns become a model's features, and back: as they are, lagged, smoothed, or through a Pipeline."""

from culpa.columns.columns import Arranged, Columns, Plain, Reading, View
from culpa.columns.lags import History, Lagged, Lags, lagged_names
from culpa.columns.smoothing import Smoother

__all__ = [
    "Arranged",
    "Columns",
    "History",
    "Lagged",
    "Lags",
    "Plain",
    "Reading",
    "Smoother",
    "View",
    "lagged_names",
]
