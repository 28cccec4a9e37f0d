"""What a model file says of a fitted detector: arrays, and a header that says what they mean."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from culpa._core.json_values import to_json_value
from culpa._core.types import Floats
from culpa._core.version import __version__
from culpa.fitted import FittedDetector
from culpa.io.model_checks import ABNORMAL_COLUMNS, CELL_COLUMNS, Arrays, is_number, names_of_cells
from culpa.io.model_container import FORMAT
from culpa.io.model_modes import arrays_of_modes
from culpa.models import PPCA, MixturePPCA
from culpa.models.margins import EmpiricalMargins

_MOST_NUMBERS_IN_BLOCKS = 1 << 22  # 32 MB; larger blocks of training rows are not stored
_MOST_ABNORMAL = 10_000  # training rows that looked abnormal, the worst of them
_MOST_CELLS = 10_000  # suspicious cells of training rows, the worst of them


def arrays_of(fitted: FittedDetector) -> Arrays:
    """All numbers of a detector, by name."""
    arrays = {
        "mean": fitted.model.centre - fitted.model.scale * fitted.ppca.mean_,
        "scale": fitted.model.scale,
        **_model_arrays(fitted),
    }
    for name, tail in fitted.limits.tails.items():
        arrays[f"limits.{name}"] = tail.largest
        arrays[f"limits.{name}.block"] = tail.block.astype(np.float64)
        if tail.weights is not None:
            arrays[f"limits.{name}.weight"] = tail.weights
        if tail.dependence != 1:
            arrays[f"limits.{name}.dependence"] = np.array([tail.dependence])
    d = fitted.model.standard.n_features
    if fitted.blocks is not None and len(fitted.blocks) * d * (d + 1) / 2 <= _MOST_NUMBERS_IN_BLOCKS:
        arrays |= {f"blocks.{name}": array for name, array in fitted.blocks.to_arrays().items()}
    if fitted.gathered is not None:
        gathered = {f"gathered.{name}": array for name, array in fitted.gathered.to_arrays().items()}
        arrays |= gathered if sum(array.size for array in gathered.values()) <= _MOST_NUMBERS_IN_BLOCKS else {}
    arrays |= {f"range.{name}": array for name, array in fitted.normal_range.to_arrays().items()}
    if fitted.signals is not None:
        arrays["signals"] = fitted.signals.to_array()
    if fitted.consistency is not None:
        arrays |= {f"consistency.{name}": array for name, array in fitted.consistency.to_arrays().items()}
    if fitted.recent is not None:
        arrays |= {f"recent.{name}": array for name, array in fitted.recent.to_arrays().items()}
    if fitted.components is not None:
        arrays["components"] = fitted.components.log_likelihood
    context = fitted.model.context
    if context is not None:
        names = ("coefficients", "centre", "covariance")
        arrays |= {f"context.{name}": vars(context)[name] for name in names}
    if isinstance(fitted.model.margins, EmpiricalMargins):
        arrays |= {f"margins.{name}": array for name, array in fitted.model.margins.to_arrays().items()}
    abnormal = _abnormal(fitted)
    if abnormal is not None:
        arrays["abnormal"] = _numbers(abnormal[name] for name in ABNORMAL_COLUMNS)
    if (cells := fitted.suspicious_cells) is not None:
        columns = {name: np.asarray(cells[name])[:_MOST_CELLS] for name in CELL_COLUMNS}
        known = names_of_cells(fitted.columns)
        columns["feature"] = np.array([known.index(name) for name in columns["feature"]], dtype=np.float64)
        arrays["suspicious"] = _numbers(columns.values())
    forms = fitted.explainer().forms
    if forms is not None:
        arrays |= {f"forms.{name}": array for name, array in forms.to_arrays().items()}
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _model_arrays(fitted: FittedDetector) -> Arrays:
    ppca = fitted.ppca
    if isinstance(ppca, MixturePPCA):
        return arrays_of_modes(fitted, ppca)
    return {
        "model.mean": ppca.mean_,
        "model.loadings": ppca.gaussian_.loadings,
        "model.axes": ppca.components_,
        "model.covariance" if ppca.sample_.factor is None else "model.factor": ppca.sample_.kept,
    }


def header_of(fitted: FittedDetector) -> dict[str, Any]:
    """Names, parameters and single numbers, as JSON can hold them."""
    names, abnormal, cells = fitted.columns.known_inputs, _abnormal(fitted), fitted.suspicious_cells
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
            "kind": fitted.limits.kind,
            "source": fitted.limit_source,
            "rows": {name: tail.n_per_block.tolist() for name, tail in fitted.limits.tails.items()},
        },
        "abnormal": None if abnormal is None else [_json_label(label) for label in abnormal["row"]],
        "suspicious": None if cells is None else [_json_label(label) for label in cells["row"][:_MOST_CELLS]],
        "noise_variance": _noise_variance(fitted.ppca),
        "degrees_of_freedom": fitted.degrees_of_freedom,
        "training": {
            "rows": to_json_value(fitted.ppca.n_samples_),
            "iterations": int(fitted.ppca.n_iter_),
            "converged": bool(fitted.ppca.converged_),
        },
    }


def _noise_variance(ppca: PPCA | MixturePPCA) -> float:
    """With modes, the mean of theirs, which is only shown."""
    return float(ppca.noise_variances_.mean() if isinstance(ppca, MixturePPCA) else ppca.noise_variance_)


def _numbers(columns: Iterable[Any]) -> Floats:
    return np.column_stack([np.asarray(cells, dtype=np.float64) for cells in columns])


def _abnormal(fitted: FittedDetector) -> Any:
    """The worst of the training rows that looked abnormal, if they are known."""
    table = fitted.abnormal_training_rows
    return None if table is None else table[:_MOST_ABNORMAL]


def _json_label(label: Any) -> Any:
    number = to_json_value(label)
    return number if is_number(number) else str(label)
