"""Model files: a fitted detector as safetensors (plain arrays) with a JSON header. Loading runs no code from the file.

The header says what the file is and what its arrays mean, and a checksum covers both (`culpa.io.model_container`).
`culpa.io.model_parts` turns a detector into header and arrays and back. Everything in a file is checked before it is used:
each field of the header (`culpa.io.model_header`), and each array by its description (`culpa.io.model_arrays`). A damaged
or forged file is rejected with one sentence.
"""

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from culpa._core.files import write_whole
from culpa.fitted import FittedDetector
from culpa.io.model_container import ModelFileError, pack, read, unpack
from culpa.io.model_header import header_of
from culpa.io.model_parts import arrays_of, detector_from

_KEPT = 4  # detectors that a process keeps, because it gets many partitions of one job

if TYPE_CHECKING:
    from culpa.detecting.detector import PCADetector


def save(fitted: FittedDetector, path: str | Path) -> None:
    """Write a fitted detector, if `load` can read it; the file appears under its name only when it is complete."""
    content = detector_to_bytes(fitted)
    with write_whole(Path(path), force=True) as file:
        file.write(content)


def load(path: str | Path) -> "PCADetector":
    """Read a detector from a model file.

    Parameters
    ----------
    path
        A file that `PCADetector.save` or ``culpa fit`` has written.

    Returns
    -------
    PCADetector
        It judges and explains as the one that was saved.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np
    >>> from culpa import PCADetector
    >>> detector = PCADetector().fit(np.random.default_rng(0).normal(size=(50, 3)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     detector.save(pathlib.Path(folder, "plant.culpa"))
    ...     again = load(pathlib.Path(folder, "plant.culpa"))
    >>> again.limit_ == detector.limit_
    True
    """
    from culpa.detecting.pieces import of_fitted  # loads scikit-learn

    return of_fitted(load_fitted(path))


def load_fitted(path: str | Path) -> FittedDetector:
    """The fitted detector in a model file, without its scikit-learn interface."""
    return open_model(path)[0]


def open_model(path: str | Path) -> tuple[FittedDetector, dict[str, Any]]:
    """The fitted detector in a model file, and the checked header that describes it."""
    try:
        arrays, header = unpack(read(Path(path)))
        return detector_from(arrays, header), header
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None


def detector_to_bytes(fitted: FittedDetector) -> bytes:
    """The content of the model file of a detector, with the explainer that it has compiled."""
    arrays, header = arrays_of(fitted), header_of(fitted)
    try:
        detector_from(arrays, json.loads(json.dumps(header)))
    except ModelFileError as error:
        raise ValueError(f"the detector cannot be saved, because nobody could load the file: {error}") from None
    return pack(arrays, header)


def fitted_from_bytes(content: bytes) -> FittedDetector:
    """The fitted detector in a model file; like `culpa.load`, it runs no code from the file."""
    return detector_from(*unpack(content))


def detector_from_bytes(content: bytes) -> "PCADetector":
    """The same with its scikit-learn interface."""
    from culpa.detecting.pieces import of_fitted

    return of_fitted(fitted_from_bytes(content))


@lru_cache(maxsize=_KEPT)
def kept_detector(content: bytes) -> FittedDetector:
    """The fitted detector, read once for each process; engines send this function to processes by its name."""
    return fitted_from_bytes(content)
