"""Data sets to try culpa on: the paper's own, two that ship with scikit-learn, and a simulated plant with known faults.

Files are looked for in the folder given as ``data``, then in the folder named by the environment variable
``CULPA_DATA``, then among those downloaded before; what is not found is downloaded and its checksum verified.
"""

from culpa.datasets.dataset import DataFileError, Dataset
from culpa.datasets.loaders import ODDS_NAMES, load_cars04, load_odds
from culpa.datasets.plant import Fault, Plant, make_plant
from culpa.datasets.rebuilt import load_wbc, load_wine_outliers

__all__ = [
    "ODDS_NAMES",
    "DataFileError",
    "Dataset",
    "Fault",
    "Plant",
    "load_cars04",
    "load_odds",
    "load_wbc",
    "load_wine_outliers",
    "make_plant",
]
