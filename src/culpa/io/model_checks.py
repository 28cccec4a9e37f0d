"""Checks of everything in a model file before it is used: types, sizes, shapes, ranges."""

import math
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from culpa._core.choices import LIMIT_KINDS, SCORE_NAMES
from culpa._core.parameters import DETECTOR
from culpa._core.validation import default_names
from culpa.columns import Columns
from culpa.io.reading import check_memory
from culpa.models.blocks import HELD
from culpa.models.normal_signals import N_FIELDS
from culpa.scores.consistency import LENGTHS

Arrays = dict[str, NDArray[Any]]

# parameters that files of this format may lack
_ADDED_LATER = {"noun", "given", "smooth", "robust", "groups", "model", "modes", "contamination"}
_MOST_FEATURES = 100_000
_MOST_KNOTS = 1 << 20
_MOST_DEGREES_OF_FREEDOM = 1e30  # with more, limits overflow
# what is known about these rows beside their labels
RANGE_ARRAYS = ("features", "rows")  # how far features went in training rows
CONSISTENCY_ARRAYS = ("columns", "rows")  # of stretches of normal rows
RECENT_ARRAYS = ("levels", "rows")  # of features after the last normal row
MARGIN_ARRAYS = ("values", "scores", "sizes", "tails")  # of a copula
BLOCK_ARRAYS = ("n", "mean", "scatter")  # what is known about blocks of training rows
ABNORMAL_COLUMNS: dict[str, Any] = {
    "position": np.int64,
    "spe": np.float64,
    "t2": np.float64,
    "times_limit": np.float64,
    "trimmed": np.bool_,
}
CELL_COLUMNS = ("position", "feature", "value", "expected", "residual")  # of suspicious cells; features by position


class ModelFileError(ValueError):
    """A file that is not a model file, is damaged, or comes from a newer version."""


def names_of_cells(columns: Columns) -> tuple[str, ...]:
    """The columns of suspicious cells, by the numbers that files have for them: those that are judged, then those given."""
    return (*columns.names, *(name for name in columns.inputs if name not in columns.names))


def count_features(arrays: Arrays) -> int:
    """Number of features of the model, if its loadings have a possible shape."""
    means = arrays.get("modes.mean")
    if means is not None:
        if means.ndim != 2 or not 1 < means.shape[1] <= _MOST_FEATURES:
            raise ModelFileError("the array 'modes.mean' has an impossible shape.")
        return int(means.shape[1])
    loadings = arrays.get("model.loadings", np.empty(0))
    if loadings.ndim != 2 or not 0 < loadings.shape[1] < loadings.shape[0] <= _MOST_FEATURES:
        raise ModelFileError("the array 'model.loadings' is missing or has an impossible shape.")
    return int(loadings.shape[0])


def _model_shapes(arrays: Arrays, d: int, p: int) -> dict[str, tuple[int, ...]]:
    """Of a model with one mode; the covariance of fewer rows than features is there as a factor."""
    factor = arrays.get("model.factor")
    covariance = {"model.covariance": (d, d)} if factor is None else {"model.factor": (min(factor.shape[0], d - 1), d)}
    return {"model.mean": (d,), "model.loadings": (d, p), "model.axes": (p, d), **covariance}


def check_arrays(
    arrays: Arrays, header: dict[str, Any], d: int, model: dict[str, tuple[int, ...]] | None = None
) -> None:
    """All arrays are there, all shapes agree and all numbers are finite; ``model`` has the shapes of the model's arrays."""
    p = arrays["model.loadings"].shape[1] if model is None else 0
    shapes: dict[str, tuple[int, ...]] = {"mean": (d,), "scale": (d,)}
    shapes |= model or _model_shapes(arrays, d, p)
    n_given = _n_given(header["parameters"]) * (header["parameters"]["lags"] + 1)
    if n_given:
        shapes |= {
            "context.coefficients": (d, n_given),
            "context.centre": (n_given,),
            "context.covariance": (n_given, n_given),
        }
    forms = {"forms.coefficients", "forms.constants", "forms.sizes"}
    rows = header["limits"]["rows"]
    expected = set(shapes) | {f"limits.{name}" for name in rows} | ({"components", "signals"} & set(arrays))
    expected |= {f"limits.{name}.block" for name in rows}
    expected |= {f"limits.{name}.{what}" for name in rows for what in ("weight", "dependence")} & set(arrays)
    expected |= {f"blocks.{name}" for name in BLOCK_ARRAYS} if "blocks.n" in arrays else set()
    expected |= (
        {f"gathered.{name}" for name in BLOCK_ARRAYS} if "gathered.n" in arrays else {"gathered.rows"} & set(arrays)
    )
    expected |= {f"range.{name}" for name in RANGE_ARRAYS} if "range.features" in arrays else set()
    expected |= {f"consistency.{name}" for name in CONSISTENCY_ARRAYS} if "consistency.rows" in arrays else set()
    expected |= {f"recent.{name}" for name in RECENT_ARRAYS} if "recent.rows" in arrays else set()
    expected |= {f"margins.{name}" for name in MARGIN_ARRAYS} if _model(header) == "copula" else set()
    expected |= set() if header["abnormal"] is None else {"abnormal"}
    expected |= set() if header.get("suspicious") is None else {"suspicious"}
    expected |= (forms | {"forms.coordinates"} & set(arrays)) if forms & set(arrays) else set()
    if odd := sorted(set(arrays) ^ expected):
        raise ModelFileError(f"the array {odd[0]!r} is missing or unknown.")
    if header["abnormal"] is not None:
        shapes["abnormal"] = (len(header["abnormal"]), len(ABNORMAL_COLUMNS))
    if header.get("suspicious") is not None:
        shapes["suspicious"] = (len(header["suspicious"]), len(CELL_COLUMNS))
    for name, n in rows.items():
        _check_scores(arrays, name, n)
    if "components" in arrays and (arrays["components"].ndim != 1 or len(arrays["components"]) < p):
        raise ModelFileError("array 'components' does not contain a value for each possible number of components.")
    shapes |= _normal_rows_shapes(arrays, header["parameters"], d)
    if "range.features" in arrays:
        shapes |= {"range.features": (3, d), "range.rows": (3,)}
        if (arrays["range.features"][-1:] < 0).any() or (arrays["range.rows"] <= 0).any():
            raise ModelFileError("array 'range.features' or 'range.rows' contains a negative number.")
    shapes |= _block_shapes(arrays, header["parameters"], d)
    if _model(header) == "copula":
        shapes |= _margin_shapes(arrays, header["parameters"], d)
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ModelFileError(f"array {name!r} has shape {arrays[name].shape} instead of {shape}.")
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ModelFileError(f"array {name!r} contains a number that is not finite.")
    if (arrays["scale"] <= 0).any():
        raise ModelFileError("array 'scale' contains a number that is not positive.")
    if "forms.sizes" in arrays and (arrays["forms.sizes"].shape != (2,) or (arrays["forms.sizes"] < 0).any()):
        raise ModelFileError("array 'forms.sizes' does not contain two counts.")


def _normal_rows_shapes(arrays: Arrays, parameters: dict[str, Any], d: int) -> dict[str, tuple[int, ...]]:
    """Shapes of what normal rows showed of single columns and of stretches, where that is known; no number is negative."""
    shapes: dict[str, tuple[int, ...]] = {}
    if "signals" in arrays:
        shapes["signals"] = (N_FIELDS, n_columns_of(parameters, d))
        if (arrays["signals"][2:] < 0).any():
            raise ModelFileError("array 'signals' contains a negative count.")
    if "recent.rows" in arrays:
        shapes |= {"recent.levels": (4, d), "recent.rows": (1,)}
        if (arrays["recent.rows"] < 0).any() or (arrays["recent.levels"][2:] < 0).any():
            raise ModelFileError("array 'recent.levels' or 'recent.rows' contains a negative number.")
    if "consistency.rows" in arrays:
        n = len(LENGTHS)
        shapes |= {"consistency.columns": (3, n, d // (parameters["lags"] + 1)), "consistency.rows": (n + 1,)}
        if any((arrays[f"consistency.{name}"] < 0).any() for name in CONSISTENCY_ARRAYS):
            raise ModelFileError("array 'consistency.columns' or 'consistency.rows' contains a negative number.")
    return shapes


def _block_shapes(arrays: Arrays, parameters: dict[str, Any], d: int) -> dict[str, tuple[int, ...]]:
    """Shapes of blocks of rows, whose features include the given ones, and of what `partial_fit` goes on from."""
    whole = n_columns_of(parameters, d) * (parameters["lags"] + 1)
    shapes: dict[str, tuple[int, ...]] = {}
    for name in ("blocks", "gathered"):
        if (n := arrays.get(f"{name}.n")) is None:
            continue
        K = len(np.atleast_1d(n))
        shapes |= {f"{name}.n": (K,), f"{name}.mean": (K, whole), f"{name}.scatter": (K, whole * (whole + 1) // 2)}
        if not K or not (n > 0).all():
            raise ModelFileError(f"array '{name}.n' does not contain positive numbers of rows.")
        if name == "gathered" and (n != np.rint(n)).any():
            raise ModelFileError("array 'gathered.n' does not contain whole numbers of rows.")
    if "gathered.rows" in arrays:
        n_rows = len(np.atleast_1d(arrays["gathered.rows"]))
        if not 0 < n_rows <= HELD:
            raise ModelFileError(f"array 'gathered.rows' does not contain 1 to {HELD} rows.")
        shapes["gathered.rows"] = (n_rows, whole)
    return shapes


def _model(header: dict[str, Any]) -> str:
    return str(header["parameters"].get("model", "ppca"))


def _margin_shapes(arrays: Arrays, parameters: dict[str, Any], d: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the margins of all features, those that are given, too."""
    whole, sizes = n_columns_of(parameters, d) * (parameters["lags"] + 1), arrays["margins.sizes"]
    counts = np.isfinite(sizes).all() and (sizes >= 1).all() and (sizes < _MOST_KNOTS).all()
    if not counts or (sizes != np.round(sizes)).any():
        raise ModelFileError("array 'margins.sizes' does not contain counts.")
    n = int(sizes.sum())
    return {"margins.values": (n,), "margins.scores": (n,), "margins.sizes": (whole,), "margins.tails": (whole, 4)}


def _check_scores(arrays: Arrays, name: str, n: list[int]) -> None:
    """The largest scores of so many rows per block, and the block of each."""
    largest, block = arrays[f"limits.{name}"], arrays[f"limits.{name}.block"]
    if largest.ndim != 1 or len(largest) > sum(n) or (np.diff(largest) < 0).any():
        raise ModelFileError(f"array 'limits.{name}' does not contain sorted scores, at most {sum(n)} of them.")
    if block.shape != largest.shape or not len(block) or not np.isin(block, np.arange(len(n))).all():
        raise ModelFileError(f"array 'limits.{name}.block' does not contain the block of each score.")
    if (np.bincount(block.astype(np.int64), minlength=len(n)) > n).any():
        raise ModelFileError(f"array 'limits.{name}.block' has more scores in a block than the block has rows.")
    dependence = arrays.get(f"limits.{name}.dependence", np.ones(1))
    if dependence.shape != (1,) or not 1 <= dependence[0] < 100:
        raise ModelFileError(f"array 'limits.{name}.dependence' is not a number from 1 to 100.")
    weights = arrays.get(f"limits.{name}.weight")
    if weights is not None and (weights.shape != (len(n),) or not ((weights >= 0) & (weights <= 1)).all()):
        raise ModelFileError(f"array 'limits.{name}.weight' does not contain a weight from 0 to 1 for each block.")


def check_header(header: dict[str, Any], d: int) -> None:
    """Every field's type and range."""
    names, units = header.get("features"), header.get("units")
    training = header.get("training")
    _check_parameters(header.get("parameters"), d)
    n_columns = n_columns_of(header["parameters"], d)
    if not (names is None or (_is_text_list(names) and len(names) == len(set(names)) == n_columns)):
        raise _wrong_field("features")
    checks = {
        "units": isinstance(units, dict)
        and all(isinstance(unit, str) for unit in units.values())
        and set(units) <= set(names or default_names(n_columns)),
        "culpa": isinstance(header.get("culpa"), str),
        "statistic": header.get("statistic", header["parameters"]["statistic"]) in SCORE_NAMES,
        "limit": is_number(header.get("limit")) and cast(float, header["limit"]) >= 0,
        "limits": _are_limits(header.get("limits")),
        "abnormal": header.get("abnormal", ...) is None or _is_label_list(header.get("abnormal")),
        "suspicious": header.get("suspicious") is None or _is_label_list(header.get("suspicious")),
        "noise_variance": is_number(header.get("noise_variance")) and cast(float, header["noise_variance"]) > 0,
        "degrees_of_freedom": _model(header) != "student"
        or (
            is_number(header.get("degrees_of_freedom"))
            and 2 < cast(float, header["degrees_of_freedom"]) <= _MOST_DEGREES_OF_FREEDOM
        ),
        "training": isinstance(training, dict)
        and is_number(training.get("rows"))
        and 0 <= training["rows"] < 1 << 62
        and is_count(training.get("iterations"))
        and isinstance(training.get("converged"), bool),
    }
    for field, holds in checks.items():
        if not holds:
            raise _wrong_field(field)
    try:
        check_memory(header.get("reading"))
    except ValueError as error:
        raise ModelFileError(f"the header's field 'reading' is missing or not valid: {error}") from None


def _wrong_field(field: str) -> ModelFileError:
    return ModelFileError(f"the header's field {field!r} is missing or not valid.")


def n_columns_of(parameters: dict[str, Any], d: int) -> int:
    """Number of columns behind ``d`` features, with those that are given."""
    return int(d // (parameters["lags"] + 1)) + _n_given(parameters)


def _n_given(parameters: dict[str, Any]) -> int:
    given = parameters.get("given")
    return 1 if isinstance(given, str) else len(set(given or []))


def _are_limits(limits: Any) -> bool:
    return (
        isinstance(limits, dict)
        and limits.get("kind") in (*LIMIT_KINDS, "held-out")
        and limits.get("source", "") in ("", "given", "contamination")
        and isinstance(rows := limits.get("rows"), dict)
        and set(rows) <= set(SCORE_NAMES)
        and all(map(_are_counts, rows.values()))
    )


def _are_counts(value: Any) -> bool:
    return isinstance(value, list) and 0 < len(value) <= 1000 and all(map(is_count, value)) and sum(value) > 0


def _check_parameters(parameters: Any, n_features: int) -> None:
    """The detector's parameters, all of them: files from before a parameter existed may lack it."""
    wrong = "the header's field 'parameters' is missing or not valid"
    if not isinstance(parameters, dict):
        raise ModelFileError(f"{wrong}.")
    if odd := sorted((set(DETECTOR) ^ set(parameters)) - _ADDED_LATER):
        raise ModelFileError(f"{wrong}: {odd[0]!r} is missing or unknown.")
    try:
        DETECTOR.check(parameters)
    except ValueError as error:
        raise ModelFileError(f"{wrong}: {error}") from None
    if n_features % (parameters["lags"] + 1):
        raise ModelFileError(f"{wrong}: {parameters['lags']} lags do not fit {n_features} features.")


def is_number(value: Any) -> bool:
    """Whether JSON had a finite number that NumPy can hold."""
    if isinstance(value, bool):
        return False
    return (
        -(1 << 63) <= value < 1 << 63 if isinstance(value, int) else isinstance(value, float) and math.isfinite(value)
    )


def is_count(value: Any) -> bool:
    """Whether JSON had a whole number that can count something."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _is_label_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) or is_number(item) for item in value)


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
