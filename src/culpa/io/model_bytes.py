"""Model files as bytes, which engines send to their processes and keep in tables."""

import tempfile
from functools import lru_cache
from pathlib import Path

from culpa.detecting.detector import PCADetector
from culpa.fitted import FittedDetector
from culpa.io.model_file import load, save

_KEPT = 4  # detectors that a process keeps, because it gets many partitions of one job


def detector_to_bytes(fitted: FittedDetector) -> bytes:
    """The content of the model file of a detector, with the explainer that it has compiled."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.culpa")
        save(fitted, path)
        return path.read_bytes()


def detector_from_bytes(content: bytes) -> PCADetector:
    """The detector in a model file; like `culpa.load`, it runs no code from the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.culpa")
        path.write_bytes(content)
        return load(path)


@lru_cache(maxsize=_KEPT)
def kept_detector(content: bytes) -> PCADetector:
    """The same, once for each process."""
    return detector_from_bytes(content)
