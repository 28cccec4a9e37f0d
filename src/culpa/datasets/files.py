"""Data files of the paper's data sets: where they come from, how they are found, read and recognised.

The home pages of the data sets no longer serve the files, so each one comes from a public repository at a fixed commit.
``sha256`` is the checksum of that file. ``numbers`` is the checksum of the numbers in it, which also recognises the same
data in another file format. Accepted are the original ``.mat`` and fixed-width ``.dat.txt`` files, and the same numbers as
``.npz`` or ``.csv``.
"""

import csv
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.choices import one_of
from culpa._core.types import Floats

BASE_URL = "https://raw.githubusercontent.com"
FOLDER_VARIABLE = "CULPA_DATA"
CARS_FEATURES = tuple(
    "msrp dealer_cost eng_size ncyl horsepwr city_mpg hwy_mpg weight wheel_base length width".split(" ")  # noqa: SIM905
)
_CARS_FLAGS = 7  # 0/1 columns for the type of car, between name and measurements

Folder = str | os.PathLike[str]
Labels = NDArray[np.int64]


class Dataset(NamedTuple):
    """Rows of a data set with their labels and names.

    Attributes
    ----------
    X : ndarray of shape (rows, features)
        The rows; NaN for a missing cell.
    y : ndarray of shape (rows,)
        1 for an anomaly, 0 for a normal row; all 0 if there are no labels.
    feature_names : tuple of str
        Names of the columns of ``X``.
    row_names : tuple of str or None
        Names of the rows, if they have any.

    Examples
    --------
    >>> from culpa.datasets import load_wine_outliers
    >>> wine = load_wine_outliers()
    >>> wine.feature_names[0], wine.row_names is None
    ('alcohol', True)
    """

    X: Floats
    y: Labels
    feature_names: tuple[str, ...]
    row_names: tuple[str, ...] | None = None


class DataFileError(ValueError):
    r"""A data file is missing, cannot be downloaded, or has the wrong content.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(f"{folder}/cars04.csv", "w") as file:
    ...         _ = file.write("car\n")
    ...     try:
    ...         load_cars04(folder)
    ...     except DataFileError:
    ...         print("not that file")
    not that file
    """


@dataclass(frozen=True)
class Source:
    """One data set: its file, its checksums, its shape, and the names that the file may have in a folder."""

    name: str
    repository: str
    commit: str
    path: str
    sha256: str
    numbers: str
    shape: tuple[int, int]
    home: str
    local_names: tuple[str, ...]

    @property
    def file_name(self) -> str:
        """Name of the original file."""
        return self.path.rsplit("/", 1)[-1]

    def url(self, base: str) -> str:
        """Address of the original file on a server of raw repository files."""
        return f"{base}/{self.repository}/{self.commit}/{self.path}"


def _sources() -> dict[str, Source]:
    listed = json.loads(resources.files("culpa.datasets").joinpath("registry.json").read_text(encoding="utf-8"))
    lists = ("shape", "local_names")
    return {each["name"]: Source(**each | {name: tuple(each[name]) for name in lists}) for each in listed}


ODDS = _sources()
CARS04 = ODDS.pop("cars04")
ODDS_NAMES = tuple(ODDS)


def load_cars04(data: str | os.PathLike[str] | None = None) -> Dataset:
    """Specifications of 428 cars of 2004: 11 numbers each, some missing. There are no labels; ``row_names`` are the models.

    Parameters
    ----------
    data
        A folder that contains ``cars04.csv`` or the original ``04cars.dat.txt``, before other folders.

    Returns
    -------
    Dataset
        From the file, which is downloaded if it is in no folder.

    Examples
    --------
    >>> load_cars04().X.shape
    (428, 11)
    """
    return read(find(CARS04, data), CARS04)


def load_odds(name: str, data: str | os.PathLike[str] | None = None) -> Dataset:
    """One of the ten ODDS data sets that the paper used (Rayana, 2016), rows in the order of the source file.

    Parameters
    ----------
    name
        One of `ODDS_NAMES`.
    data
        A folder that contains ``odds/<name>.npz`` or the original ``<name>.mat``, before other folders.

    Returns
    -------
    Dataset
        From the file, which is downloaded if it is in no folder.

    Examples
    --------
    >>> load_odds("ionosphere").X.shape
    (351, 33)
    """
    source = ODDS[one_of(name, ODDS, "data set")]
    return read(find(source, data), source)


def find(source: Source, data: Folder | None = None) -> Path:
    """Path of the file of a data set; it is only downloaded if no folder has it."""
    searched = []
    for folder in _folders(data):
        for name in source.local_names:
            if (folder / name).is_file():
                return folder / name
        searched.append(folder)
    return download(source, searched)


def download(source: Source, searched: Sequence[Path] = ()) -> Path:
    """Path of the original file in the cache, downloaded if necessary; its sha256 is always checked."""
    places = " or ".join(map(str, searched))
    missing = f"{source.local_names[0]} is not in {places}, and " if places else ""
    names = " or ".join(source.local_names[:2])
    by_hand = f"put {names} into a folder and pass it with --data or {FOLDER_VARIABLE}"
    try:
        import pooch
    except ImportError:
        raise DataFileError(
            f"{missing}downloading {source.file_name} needs pooch: pip install 'culpa[reproduce]', or {by_hand}."
        ) from None
    url, cache = source.url(BASE_URL), pooch.os_cache("culpa")
    try:
        return Path(pooch.retrieve(url, known_hash=f"sha256:{source.sha256}", fname=source.file_name, path=cache))
    except (OSError, ValueError) as error:  # no network, no such file, no place to write; wrong checksum
        reason = f"the download does not have the expected sha256 {source.sha256[:12]}... and was deleted"
        if isinstance(error, OSError):
            reason = " ".join(str(error).split())[:200]
        raise DataFileError(
            f"{missing}cannot download {source.file_name} from {url} ({reason}): without a network, {by_hand}."
        ) from error


def _folders(data: Folder | None) -> Iterator[Path]:
    for folder, origin in ((data, "--data"), (os.environ.get(FOLDER_VARIABLE) or None, FOLDER_VARIABLE)):
        if folder is None:
            continue
        if not Path(folder).is_dir():
            raise DataFileError(f"the data folder {os.fspath(folder)!r} does not exist: correct {origin}.")
        yield Path(folder)


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
        return _labelled(arrays)


def _read_mat(path: Path) -> Dataset:
    from scipy.io import loadmat

    return _labelled(loadmat(path, variable_names=["X", "y"]))


def _labelled(arrays: Any) -> Dataset:
    rows = np.ascontiguousarray(arrays["X"], dtype=np.float64)
    return Dataset(rows, arrays["y"].ravel().astype(np.int64), tuple(f"x{i}" for i in range(rows.shape[1])))


def _read_csv(path: Path) -> Dataset:
    with path.open(newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    if tuple(header[1:]) != CARS_FEATURES:
        raise ValueError(f"its columns are {', '.join(header)[:60]}")
    return _cars(lines, 1, missing="")


def _read_fixed_width(path: Path) -> Dataset:
    lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    columns = _CARS_FLAGS + len(CARS_FEATURES)
    # names contain blanks and measurements do not: count from the right
    return _cars([line.rsplit(maxsplit=columns) for line in lines], 1 + _CARS_FLAGS, missing="*")


def _cars(lines: Sequence[Sequence[str]], first: int, *, missing: str) -> Dataset:
    """Names, and measurements from a position on."""
    X = np.array([[np.nan if cell == missing else float(cell) for cell in line[first:]] for line in lines])
    return Dataset(X, np.zeros(len(X), dtype=np.int64), CARS_FEATURES, tuple(line[0].strip() for line in lines))


_READERS = {
    ".npz": _read_npz,
    ".mat": _read_mat,
    ".csv": _read_csv,
    ".txt": _read_fixed_width,
    ".dat": _read_fixed_width,
}
