"""Calibrate the detector at the end of a Pipeline, on what the steps before it make of normal rows."""

from collections.abc import Callable
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from culpa._core.words import kind_of
from culpa.detector import PCADetector


def calibrate_pipeline(X: Any, pipeline: Pipeline, choose: Callable[[Any, PCADetector], PCADetector]) -> Any:
    """The same steps with the detector that ``choose`` finds, fitted to ``X``; its last step has ``calibration_``."""
    name, detector = pipeline.steps[-1]
    if not isinstance(detector, PCADetector):
        raise TypeError(f"calibrate needs a Pipeline whose last step is a PCADetector, but got {kind_of(detector)}.")
    steps = clone(pipeline[:-1])
    best = choose(steps.fit_transform(X) if len(steps) else X, detector)
    result = Pipeline([*steps.steps, (name, clone(best))]).fit(X)
    result[-1].calibration_ = best.calibration_
    return result
