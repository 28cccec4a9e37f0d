"""How the user's columns become a model's features, and back: as they are, lagged, or through a Pipeline."""

from culpa.columns.columns import Columns, Opened, Plain, Reading
from culpa.columns.lags import History, Lagged, Lags, lagged_names

__all__ = ["Columns", "History", "Lagged", "Lags", "Opened", "Plain", "Reading", "lagged_names"]
