"""Loaders of recorded plants and servers with known incidents, from files in a folder of yours."""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats, Mask
from culpa.datasets.files import DataFileError

SERVERS = ("01", "03", "05", "07", "09", "11")


class TennesseeEastman(NamedTuple):
    """Runs of the Tennessee Eastman process, 52 features every three minutes; in ``faults`` the fault starts at row 160.

    References
    ----------
    Downs and Vogel (1993), "A plant-wide industrial process control problem".
    """

    normal: Floats
    normal_later: Floats
    faults: dict[str, Floats]
    feature_names: tuple[str, ...]


class Server(NamedTuple):
    """Metrics of an application server: normal rows, new rows, and the incidents among these with their culprits.

    References
    ----------
    Li et al. (2021), "Multivariate time series anomaly detection and interpretation using hierarchical inter-metric and
    temporal embedding".
    """

    normal: Floats
    new: Floats
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    culprits: Mask


def load_tennessee_eastman(data: str | os.PathLike[str] | None = None) -> TennesseeEastman:
    """The runs in ``tep/tep.npz`` of the folder ``data`` or of the folder that CULPA_DATA names."""
    arrays = _read("tep/tep.npz", data)
    faults = {name.removeprefix("fault"): _rows(arrays[name]) for name in sorted(arrays) if name.startswith("fault")}
    names = tuple(map(str, arrays["names"]))
    return TennesseeEastman(_rows(arrays["normal"]), _rows(arrays["normal_later"]), faults, names)


def load_server(name: str, data: str | os.PathLike[str] | None = None) -> Server:
    """One of the servers `SERVERS`, from ``asd/machineNN.npz`` in the folder ``data`` or that CULPA_DATA names."""
    return read_machine("asd", f"machine{name}", data)


def read_machine(folder: str, name: str, data: str | os.PathLike[str] | None = None) -> Server:
    """A server of the folder ``asd`` or ``smd``."""
    arrays = _read(f"{folder}/{name}.npz", data)
    start, stop = (np.asarray(arrays[key], dtype=np.int64) for key in ("start", "stop"))
    return Server(
        _rows(arrays["normal"]), _rows(arrays["new"]), start, stop, np.asarray(arrays["culprits"], dtype=np.bool_)
    )


def _rows(array: NDArray[np.generic]) -> Floats:
    return np.ascontiguousarray(array, dtype=np.float64)


def _read(name: str, data: str | os.PathLike[str] | None) -> dict[str, NDArray[np.generic]]:
    folder = data or os.environ.get("CULPA_DATA")
    if not folder:
        raise DataFileError(f"{name} cannot be downloaded: name the folder that contains it, in CULPA_DATA or data=...")
    path = Path(folder) / name
    if not path.is_file():
        raise DataFileError(f"there is no file {str(path)!r}: name the folder that contains {name}.")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except Exception as error:  # a damaged file can fail anywhere in the libraries that read it
        raise DataFileError(
            f"{path} cannot be read as an .npz file: replace it with a fresh copy ({error})."
        ) from error
