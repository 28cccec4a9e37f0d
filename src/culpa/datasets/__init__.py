"""Data sets to try culpa on."""

from culpa.datasets.rebuilt import Dataset, load_wine_outliers

__all__ = ["Dataset", "load_wine_outliers"]
