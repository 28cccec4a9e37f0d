"""Model files: a fitted detector as safetensors (plain arrays) with a JSON header. Loading runs no code from the file.

The header says what the file is and what its arrays mean, and a checksum covers both (`culpa.io.model_container`).
`culpa.io.model_writing` turns a detector into header and arrays, and `culpa.io.model_reading` does the reverse. Everything
in a file is checked before it is used: types, sizes and shapes (`culpa.io.model_checks`), and whether the numbers can be a
model (`culpa.io.model_values`). A damaged or forged file is rejected with one sentence.
"""

import json
from pathlib import Path
from typing import Any

from culpa._core.files import write_whole
from culpa.detecting.detector import PCADetector
from culpa.fitted import FittedDetector
from culpa.io.model_checks import ModelFileError
from culpa.io.model_container import pack, unpack
from culpa.io.model_reading import detector_from
from culpa.io.model_writing import arrays_of, header_of


def save(fitted: FittedDetector, path: str | Path) -> None:
    """Write a fitted detector, if `load` can read it; the file appears under its name only when it is complete."""
    arrays, header = arrays_of(fitted), header_of(fitted)
    try:
        detector_from(arrays, json.loads(json.dumps(header)))
    except ModelFileError as error:
        raise ValueError(f"the detector cannot be saved, because nobody could load the file: {error}") from None
    content = pack(arrays, header)
    with write_whole(Path(path), force=True) as file:
        file.write(content)


def load(path: str | Path) -> PCADetector:
    """Read a detector from a model file.

    >>> import tempfile, pathlib, numpy as np
    >>> detector = PCADetector().fit(np.random.default_rng(0).normal(size=(50, 3)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     detector.save(pathlib.Path(folder, "plant.culpa"))
    ...     again = load(pathlib.Path(folder, "plant.culpa"))
    >>> again.limit_ == detector.limit_
    True
    """
    return open_model(path)[0]


def open_model(path: str | Path) -> tuple[PCADetector, dict[str, Any]]:
    """The detector in a model file, and the checked header that describes it."""
    try:
        arrays, header = unpack(Path(path))
        return detector_from(arrays, header), header
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
