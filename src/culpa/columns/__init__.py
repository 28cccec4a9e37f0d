"""How the user's columns become a model's features, and back: as they are, lagged, or through a Pipeline."""

from culpa.columns.columns import Columns, Opened, Plain, Reading
from culpa.columns.lags import History, Lagged, Lags, check_lags, lagged_names

__all__ = ["Columns", "History", "Lagged", "Lags", "Opened", "Plain", "Reading", "check_lags", "lagged_names"]
