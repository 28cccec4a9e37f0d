"""The header of a model file: names, parameters and single numbers, as JSON can hold them, and the check of each field."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from culpa._core.choices import LIMIT_KINDS, SCORE_NAMES
from culpa._core.continuity import Step
from culpa._core.json_values import to_json_value
from culpa._core.parameters import DETECTOR
from culpa._core.validation import default_names
from culpa._core.version import __version__
from culpa.fitted import FittedDetector
from culpa.io.model_container import FORMAT, ModelFileError
from culpa.io.reading import check_memory

_KINDS = (*(kind for kind in LIMIT_KINDS if kind != "auto"), "held-out")
_SMALLEST, _LARGEST = 1e-100, 1e100  # variances
_MOST_DEGREES_OF_FREEDOM = 1e30  # with more, limits overflow
MOST_ROWS = 10_000  # of a table of training rows in a file, the worst of them


def header_of(fitted: FittedDetector) -> dict[str, Any]:
    """The header for a detector."""
    names, ppca, limits = fitted.columns.known_inputs, fitted.ppca, fitted.limits
    noise = np.mean([mode.noise_variance for mode in fitted.model.standard.modes])
    return {
        "format": FORMAT,
        "culpa": __version__,
        "features": None if names is None else list(names),
        "units": dict(fitted.units),
        "reading": dict(fitted.reading),
        "parameters": to_json_value(vars(fitted.settings)),
        "statistic": fitted.statistic.name,
        "limit": float(fitted.limit),
        "limits": {
            "kind": limits.kind,
            "source": fitted.limit_source,
            "rows": {name: tail.n_per_block.tolist() for name, tail in limits.tails.items()},
        },
        "abnormal": _labels(fitted.abnormal_training_rows),
        "suspicious": _labels(fitted.suspicious_cells),
        "noise_variance": float(noise),  # with modes, the mean of theirs, which is only shown
        "degrees_of_freedom": fitted.degrees_of_freedom,
        "step": None if fitted.columns.step is None else fitted.columns.step._asdict(),
        "training": {
            "rows": to_json_value(ppca.n_samples_),
            "iterations": int(ppca.n_iter_),
            "converged": bool(ppca.converged_),
        },
    }


def _labels(table: Any) -> list[Any] | None:
    """The labels of rows, as numbers or texts."""
    if table is None:
        return None
    labels = [(label, to_json_value(label)) for label in table["row"][:MOST_ROWS]]
    return [number if _is_number(number) else str(label) for label, number in labels]


def check_header(header: Mapping[str, Any], d: int) -> None:
    """Refuse a field that is missing, or that a model of ``d`` features cannot have."""
    _check_parameters(header.get("parameters"), d)
    parameters, names = header["parameters"], header.get("features")
    n = n_columns_of(parameters, d)

    def are_units(units: Any) -> bool:
        known = {*(names or default_names(n))}
        return isinstance(units, dict) and {*units} <= known and all(isinstance(unit, str) for unit in units.values())

    checks: dict[str, Callable[[Any], bool]] = {
        "features": lambda names: names is None or (_is_list(names, _is_text) and len(names) == len({*names}) == n),
        "units": are_units,
        "culpa": _is_text,
        "statistic": lambda name: name in SCORE_NAMES,
        "limit": lambda limit: _is_number(limit) and limit >= 0,
        "limits": _are_limits,
        "abnormal": _are_labels,
        "suspicious": _are_labels,
        "noise_variance": lambda noise: _is_number(noise) and noise > 0,
        "degrees_of_freedom": lambda df: (
            parameters["model"] != "student" or (_is_number(df) and 2 < df <= _MOST_DEGREES_OF_FREEDOM)
        ),
        "step": _is_step,
        "training": _is_training,
    }
    for field, holds in checks.items():
        if not holds(header.get(field, ...)):
            raise ModelFileError(f"the header's field {field!r} is missing or not valid.")
    if not _SMALLEST <= header["noise_variance"] <= _LARGEST:
        raise ModelFileError("the header's field 'noise_variance' is too small or too large.")
    try:
        check_memory(header.get("reading"))
    except ValueError as error:
        raise ModelFileError(f"the header's field 'reading' is missing or not valid: {error}") from None


def _check_parameters(parameters: Any, d: int) -> None:
    """The detector's parameters, all of them."""
    wrong = "the header's field 'parameters' is missing or not valid"
    if not isinstance(parameters, dict):
        raise ModelFileError(f"{wrong}.")
    if odd := sorted({*DETECTOR} ^ {*parameters}):
        raise ModelFileError(f"{wrong}: {odd[0]!r} is missing or unknown.")
    try:
        DETECTOR.check(parameters)
    except ValueError as error:
        raise ModelFileError(f"{wrong}: {error}") from None
    if d % (parameters["lags"] + 1):
        raise ModelFileError(f"{wrong}: {parameters['lags']} lags do not fit {d} features.")


def n_columns_of(parameters: Mapping[str, Any], d: int) -> int:
    """Number of columns behind ``d`` features, with those that are given."""
    given = parameters["given"]
    return int(d // (parameters["lags"] + 1)) + (1 if isinstance(given, str) else len({*(given or ())}))


def _are_limits(limits: Any) -> bool:
    return (
        isinstance(limits, dict)
        and limits.get("kind") in _KINDS
        and limits.get("source") in ("", "given", "contamination")
        and isinstance(rows := limits.get("rows"), dict)
        and {*rows} <= {*SCORE_NAMES}
        and all(_is_list(n, _is_count) and len(n) <= 1000 and sum(n) > 0 for n in rows.values())
    )


def _is_training(training: Any) -> bool:
    return (
        isinstance(training, dict)
        and _is_number(training.get("rows"))
        and 0 <= training["rows"] < 1 << 62
        and _is_count(training.get("iterations"))
        and isinstance(training.get("converged"), bool)
    )


def _is_step(step: Any) -> bool:
    """How far apart rows with lags are, if they had times or numbers."""
    if step is None:
        return True
    known = isinstance(step, dict) and {*step} == {*Step._fields}
    return known and _is_number(step["size"]) and step["size"] > 0 and isinstance(step["timed"], bool)


def _is_number(value: Any) -> bool:
    """Whether JSON had a finite number that NumPy can hold."""
    if isinstance(value, int):
        return not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63
    return isinstance(value, float) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_labels(labels: Any) -> bool:
    return labels is None or _is_list(labels, lambda label: _is_text(label) or _is_number(label))


def _is_list(values: Any, holds: Callable[[Any], bool]) -> bool:
    return isinstance(values, list) and all(map(holds, values))
