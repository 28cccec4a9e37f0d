"""Read a data file of any accepted kind, and check its content.

Accepted are the original ``.mat`` and fixed-width ``.dat.txt`` files, and the same numbers as ``.npz`` or ``.csv``.
"""

import csv
import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.datasets.dataset import DataFileError, Dataset
from culpa.datasets.registry import Source

Labels = NDArray[np.int64]

CARS_FEATURES = (
    "msrp",
    "dealer_cost",
    "eng_size",
    "ncyl",
    "horsepwr",
    "city_mpg",
    "hwy_mpg",
    "weight",
    "wheel_base",
    "length",
    "width",
)
_CARS_FLAGS = 7  # 0/1 columns for the type of car, between name and measurements


def read(path: Path, source: Source) -> Dataset:
    """The data set in ``path``, or a `DataFileError` that names the file and says what is wrong with it."""
    if path.stat().st_size == 0:
        raise DataFileError(f"{path} is empty: replace it with a fresh copy.")
    try:
        dataset = _READERS[path.suffix](path)
    except Exception as error:  # a damaged file can fail anywhere in the libraries that read it
        reason = " ".join(str(error).split())[:150] or type(error).__name__
        raise DataFileError(
            f"{path} cannot be read as a {path.suffix} file ({reason}): it may be damaged or cut short; "
            "replace it with a fresh copy."
        ) from error
    wrong = _difference(dataset, source)
    if wrong:
        raise DataFileError(f"{path} is not the data set {source.name!r}: {wrong}; replace it with a fresh copy.")
    return dataset


def fingerprint(X: Floats, y: Labels) -> str:
    """sha256 of the numbers, independent of the file format."""
    X = np.ascontiguousarray(X, dtype="<f8") + 0.0  # one zero, not two
    X[np.isnan(X)] = np.nan  # one NaN, whatever its bits
    return hashlib.sha256(X.tobytes() + np.ascontiguousarray(y, dtype="<i8").tobytes()).hexdigest()


def _difference(dataset: Dataset, source: Source) -> str | None:
    if dataset.X.shape != source.shape:
        found, wanted = (" x ".join(map(str, shape)) for shape in (dataset.X.shape, source.shape))
        return f"it has {found} numbers (rows x features) instead of {wanted}"
    if len(dataset.y) != len(dataset.X):
        return f"it has {len(dataset.y)} labels for {len(dataset.X)} rows"
    if fingerprint(dataset.X, dataset.y) != source.numbers:
        return "its numbers or labels differ from the published ones"
    return None


def _read_npz(path: Path) -> Dataset:
    # opened here, because numpy does not close a damaged file
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return _labelled(arrays["X"], arrays["y"])


def _read_mat(path: Path) -> Dataset:
    from scipy.io import loadmat

    arrays = loadmat(path, variable_names=["X", "y"])
    return _labelled(arrays["X"], arrays["y"])


def _labelled(X: NDArray[np.generic], y: NDArray[np.generic]) -> Dataset:
    rows = np.ascontiguousarray(X, dtype=np.float64)
    return Dataset(rows, y.ravel().astype(np.int64), tuple(f"x{i}" for i in range(rows.shape[1])))


def _read_csv(path: Path) -> Dataset:
    with path.open(newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    if tuple(header[1:]) != CARS_FEATURES:
        raise ValueError(f"its columns are {', '.join(header)[:60]}")
    return _cars([line[0] for line in lines], [line[1:] for line in lines], missing="")


def _read_fixed_width(path: Path) -> Dataset:
    lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    columns = _CARS_FLAGS + len(CARS_FEATURES)
    # names contain blanks and measurements do not: count from the right
    cells = [line.rsplit(maxsplit=columns) for line in lines]
    return _cars([cell[0] for cell in cells], [cell[1 + _CARS_FLAGS :] for cell in cells], missing="*")


def _cars(names: list[str], cells: list[list[str]], *, missing: str) -> Dataset:
    X = np.array([[np.nan if cell == missing else float(cell) for cell in line] for line in cells])
    return Dataset(X, np.zeros(len(X), dtype=np.int64), CARS_FEATURES, tuple(name.strip() for name in names))


_READERS = {
    ".npz": _read_npz,
    ".mat": _read_mat,
    ".csv": _read_csv,
    ".txt": _read_fixed_width,
    ".dat": _read_fixed_width,
}
