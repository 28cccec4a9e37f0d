"""Data sets to try culpa on: those of the paper, two that ship with scikit-learn, two simulated plants.

Loaders look for a file in the folder ``data``, then in the folder named by the environment variable ``CULPA_DATA``, then
among earlier downloads. If the file is in none of them, they download it and verify its checksum.
"""

from culpa.datasets.files import ODDS_NAMES, DataFileError, Dataset, load_cars04, load_odds
from culpa.datasets.modes import ModesPlant, make_modes_plant
from culpa.datasets.plant import Fault, Plant, make_plant
from culpa.datasets.rebuilt import load_wbc, load_wine_outliers

__all__ = [
    "ODDS_NAMES",
    "DataFileError",
    "Dataset",
    "Fault",
    "ModesPlant",
    "Plant",
    "load_cars04",
    "load_odds",
    "load_wbc",
    "load_wine_outliers",
    "make_modes_plant",
    "make_plant",
]
