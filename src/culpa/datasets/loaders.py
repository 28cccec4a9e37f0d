"""Loaders of the data sets of the paper."""

import os

from culpa._core.choices import one_of
from culpa.datasets import fetch, files, registry
from culpa.datasets.dataset import Dataset

ODDS_NAMES = tuple(registry.ODDS)


def load_cars04(data: str | os.PathLike[str] | None = None) -> Dataset:
    """Specifications of 428 cars of 2004: 11 numbers each, some missing. There are no labels; ``row_names`` are the models.

    ``data`` is a folder that contains ``cars04.csv`` or the original ``04cars.dat.txt``.
    """
    return files.read(fetch.find(registry.CARS04, data), registry.CARS04)


def load_odds(name: str, data: str | os.PathLike[str] | None = None) -> Dataset:
    """One of the ten ODDS data sets that the paper used (Rayana, 2016), rows in the order of the source file.

    ``data`` is a folder that contains ``odds/<name>.npz`` or the original ``<name>.mat``. `ODDS_NAMES` lists the names.
    """
    source = registry.ODDS[one_of(name, registry.ODDS, "data set")]
    return files.read(fetch.find(source, data), source)
