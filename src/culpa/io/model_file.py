"""Model files: a fitted detector as safetensors (plain arrays) with a JSON header. Loading runs no code from the file.

The header says what the file is and what its arrays mean; a checksum covers both. Whatever a file claims is checked
before it is used: types, sizes, shapes, finite numbers. A file that is damaged or made up is refused in one sentence.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from culpa._core.choices import LIMIT_KINDS, SCORE_NAMES
from culpa._core.files import write_whole
from culpa._core.json_values import to_json_value
from culpa._core.parameters import DETECTOR
from culpa._core.validation import default_names, frame_like
from culpa._core.version import __version__
from culpa.columns import Lagged
from culpa.detector import PCADetector
from culpa.fitted import FittedDetector
from culpa.models import PPCA, LatentGaussian
from culpa.scores import named_score
from culpa.scores.limits import Limits, Tail
from culpa.shapley import QuadraticForms

FORMAT = 1

_ADDED_LATER = {"noun", "robust"}  # parameters that files of this format may lack

_LARGEST_HEADER = 1 << 24  # bytes
_MOST_FEATURES = 100_000
_MOST_ABNORMAL = 10_000  # training rows that looked abnormal, the worst of them
# what is known about these rows beside their labels
_ABNORMAL: dict[str, Any] = {
    "position": np.int64,
    "spe": np.float64,
    "t2": np.float64,
    "times_limit": np.float64,
    "trimmed": np.bool_,
}
_MOST_CELLS = 10_000  # suspicious cells of training rows, the worst of them
_CELLS = ("position", "feature", "value", "expected", "residual")  # what is known about them; features by position

Arrays = dict[str, NDArray[Any]]


class ModelFileError(ValueError):
    """A file that is not a model file, is damaged, or comes from a newer version."""


def save(fitted: FittedDetector, path: str | Path) -> None:
    """Write a fitted detector; the file appears under its name only when it is complete."""
    from safetensors.numpy import save as to_bytes

    arrays, header = _arrays(fitted), json.dumps(_header(fitted), ensure_ascii=True, sort_keys=True)
    content = to_bytes(arrays, {"culpa": header, "sha256": _checksum(arrays, header)})
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
        arrays, header = _read(Path(path))
        return _detector(arrays, header), header
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None


def _arrays(fitted: FittedDetector) -> Arrays:
    arrays = {
        "mean": fitted.model.centre,
        "scale": fitted.model.scale,
        "model.mean": fitted.model.gaussian.mean,
        "model.loadings": fitted.model.gaussian.loadings,
        "model.axes": fitted.ppca.components_,
        "model.covariance": fitted.ppca.covariance_,
    }
    arrays |= {f"limits.{name}": tail.largest for name, tail in fitted.limits.tails.items()}
    abnormal = _abnormal(fitted)
    if abnormal is not None:
        arrays["abnormal"] = abnormal[list(_ABNORMAL)].to_numpy(dtype=np.float64)
    if (cells := fitted.suspicious_cells) is not None:
        numbers = cells[:_MOST_CELLS].assign(feature=cells["feature"].map(fitted.columns.names.index))
        arrays["suspicious"] = numbers[list(_CELLS)].to_numpy(dtype=np.float64)
    forms = fitted.explainer().forms
    if forms is not None:
        arrays |= {f"forms.{name}": array for name, array in forms.to_arrays().items()}
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _header(fitted: FittedDetector) -> dict[str, Any]:
    names, abnormal, cells = fitted.columns.known_names, _abnormal(fitted), fitted.suspicious_cells
    return {
        "format": FORMAT,
        "culpa": __version__,
        "features": None if names is None else list(names),
        "units": dict(fitted.units),
        "parameters": to_json_value(dict(fitted.parameters)),
        "limit": float(fitted.limit),
        "limits": {
            "kind": fitted.limits.kind,
            "rows": {name: tail.n for name, tail in fitted.limits.tails.items()},
        },
        "abnormal": None if abnormal is None else [_json_label(label) for label in abnormal["row"]],
        "suspicious": None if cells is None else [_json_label(label) for label in cells["row"][:_MOST_CELLS]],
        "noise_variance": float(fitted.ppca.noise_variance_),
        "training": {
            "rows": to_json_value(fitted.ppca.n_samples_),
            "iterations": int(fitted.ppca.n_iter_),
            "converged": bool(fitted.ppca.converged_),
        },
    }


def _abnormal(fitted: FittedDetector) -> Any:
    """The worst of the training rows that looked abnormal, if they are known."""
    table = fitted.abnormal_training_rows
    return None if table is None else table[:_MOST_ABNORMAL]


def _json_label(label: Any) -> Any:
    number = to_json_value(label)
    return number if _is_number(number) else str(label)


def _checksum(arrays: Mapping[str, NDArray[Any]], header: str) -> str:
    """SHA-256 over the header and every array's name, type, shape and bytes."""
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _read(path: Path) -> tuple[Arrays, dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    with path.open("rb") as file:  # says clearly when there is no such file or it may not be read
        announced = int.from_bytes(file.read(8), "little")
    if announced > _LARGEST_HEADER:
        raise ModelFileError("not a culpa model file.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if set(metadata) != {"culpa", "sha256"}:
                raise ModelFileError("not a culpa model file, though it is one of another program.")
            arrays = {name: _array(file, name) for name in file.keys()}  # noqa: SIM118 - it is not a dict
    except SafetensorError:
        raise ModelFileError("not a culpa model file, or one that was cut short or damaged.") from None
    header = _parse(metadata["culpa"])
    if metadata["sha256"] != _checksum(arrays, metadata["culpa"]):
        raise ModelFileError("the checksum does not match, so the file is damaged: save the model again.")
    return arrays, header


def _array(file: Any, name: str) -> NDArray[Any]:
    expected = "I64" if name == "forms.sizes" else "F64"
    if file.get_slice(name).get_dtype() != expected:
        raise ModelFileError(f"array {name!r} does not hold {expected} numbers.")
    return np.array(file.get_tensor(name))


def _parse(text: str) -> dict[str, Any]:
    """The header, with its version checked first: a newer format may differ in everything else."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise ModelFileError("the header is not JSON, so the file is damaged.") from None
    if not isinstance(header, dict) or not _is_count(header.get("format")):
        raise ModelFileError("the header names no format version, so this is not a culpa model file.")
    if header["format"] != FORMAT:
        raise ModelFileError(
            f"the file has format {header['format']}, but culpa {__version__} reads format {FORMAT}: "
            "use the version of culpa that wrote it."
        )
    return header


def _detector(arrays: Arrays, header: dict[str, Any]) -> PCADetector:
    d = _count_features(arrays)
    _check_header(header, d)
    _check_arrays(arrays, header, d)
    try:
        fitted = _fitted_detector(arrays, header)
        if any(name.startswith("forms.") for name in arrays):
            fitted.explainer().forms = QuadraticForms.from_arrays(
                {name.removeprefix("forms."): array for name, array in arrays.items() if name.startswith("forms.")}
            )
        detector = PCADetector.from_fitted(fitted)
    except (ValueError, TypeError, KeyError, OverflowError, np.linalg.LinAlgError) as error:
        raise ModelFileError(f"the content does not fit together: {error}") from None
    return detector


def _fitted_detector(arrays: Arrays, header: dict[str, Any]) -> FittedDetector:
    parameters, ppca = header["parameters"], _ppca(arrays, header)
    lags, names = parameters["lags"], None if header["features"] is None else tuple(header["features"])
    columns = Lagged(names, len(arrays["mean"]) // (lags + 1), lags)
    model = ppca.scaled(arrays["mean"], arrays["scale"], columns)
    if names is not None:
        ppca.feature_names_in_ = np.array(model.feature_names, dtype=object)
    tails = {name: Tail(n, arrays[f"limits.{name}"]) for name, n in header["limits"]["rows"].items()}
    confidence = parameters["confidence"]
    return FittedDetector(
        model,
        ppca,
        named_score(parameters["statistic"], model, confidence=confidence),
        confidence,
        Limits(model, header["limits"]["kind"], tails),
        float(header["limit"]),
        parameters,
        units=header["units"],
        abnormal_training_rows=_abnormal_table(arrays, header),
        suspicious_cells=_cells_table(arrays, header, columns.names),
    )


def _abnormal_table(arrays: Arrays, header: dict[str, Any]) -> Any:
    if header["abnormal"] is None:
        return None
    columns = dict(zip(_ABNORMAL, arrays["abnormal"].T, strict=True))
    columns |= {name: columns[name].astype(kind) for name, kind in _ABNORMAL.items()}
    return frame_like(None, {"row": header["abnormal"], **columns})


def _cells_table(arrays: Arrays, header: dict[str, Any], names: tuple[str, ...]) -> Any:
    if header.get("suspicious") is None:
        return None
    position, feature, *others = arrays["suspicious"].T
    if not ((feature >= 0) & (feature < len(names))).all():
        raise ModelFileError("array 'suspicious' names a feature that does not exist.")
    columns = {
        "row": header["suspicious"],
        "position": position.astype(np.int64),
        "feature": np.array(names, dtype=object)[feature.astype(np.int64)],
    }
    return frame_like(None, columns | dict(zip(_CELLS[2:], others, strict=True)))


def _ppca(arrays: Arrays, header: dict[str, Any]) -> PPCA:
    parameters, training = header["parameters"], header["training"]
    ppca = PPCA(parameters["n_components"], noise=parameters["noise"], shrinkage=parameters["shrinkage"])
    ppca.n_features_in_ = len(arrays["mean"])
    ppca.n_samples_, ppca.n_iter_, ppca.converged_ = training["rows"], training["iterations"], training["converged"]
    gaussian = LatentGaussian(arrays["model.mean"], arrays["model.loadings"], header["noise_variance"])
    return ppca.restore(gaussian, arrays["model.axes"], arrays["model.covariance"])


def _count_features(arrays: Arrays) -> int:
    loadings = arrays.get("model.loadings", np.empty(0))
    if loadings.ndim != 2 or not 0 < loadings.shape[1] < loadings.shape[0] <= _MOST_FEATURES:
        raise ModelFileError("the array 'model.loadings' is missing or has an impossible shape.")
    return int(loadings.shape[0])


def _check_arrays(arrays: Arrays, header: dict[str, Any], d: int) -> None:
    """All arrays are there, all shapes agree and all numbers are finite."""
    p = arrays["model.loadings"].shape[1]
    shapes: dict[str, tuple[int, ...]] = {
        "mean": (d,),
        "scale": (d,),
        "model.mean": (d,),
        "model.loadings": (d, p),
        "model.axes": (p, d),
        "model.covariance": (d, d),
    }
    forms = {"forms.coefficients", "forms.constants", "forms.sizes"}
    expected = set(shapes) | {f"limits.{name}" for name in header["limits"]["rows"]}
    expected |= set() if header["abnormal"] is None else {"abnormal"}
    expected |= set() if header.get("suspicious") is None else {"suspicious"}
    expected |= (forms | {"forms.coordinates"} & set(arrays)) if forms & set(arrays) else set()
    if odd := sorted(set(arrays) ^ expected):
        raise ModelFileError(f"the array {odd[0]!r} is missing or unknown.")
    if header["abnormal"] is not None:
        shapes["abnormal"] = (len(header["abnormal"]), len(_ABNORMAL))
    if header.get("suspicious") is not None:
        shapes["suspicious"] = (len(header["suspicious"]), len(_CELLS))
    for name, n in header["limits"]["rows"].items():
        tail = arrays[f"limits.{name}"]
        if tail.ndim != 1 or len(tail) > n or (np.diff(tail) < 0).any():
            raise ModelFileError(f"array 'limits.{name}' does not hold the largest of {n} scores.")
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ModelFileError(f"array {name!r} has shape {arrays[name].shape} instead of {shape}.")
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ModelFileError(f"array {name!r} holds a number that is not finite.")
    if (arrays["scale"] <= 0).any():
        raise ModelFileError("array 'scale' holds a number that is not positive.")
    if "forms.sizes" in arrays and (arrays["forms.sizes"].shape != (2,) or (arrays["forms.sizes"] < 0).any()):
        raise ModelFileError("array 'forms.sizes' is not two counts.")


def _check_header(header: dict[str, Any], d: int) -> None:
    """Every field's type and range."""
    names, units = header.get("features"), header.get("units")
    training = header.get("training")
    _check_parameters(header.get("parameters"), d)
    n_columns = d // (header["parameters"]["lags"] + 1)
    checks = {
        "features": names is None or (_is_text_list(names) and len(names) == len(set(names)) == n_columns),
        "units": isinstance(units, dict)
        and all(isinstance(unit, str) for unit in units.values())
        and set(units) <= set(names or default_names(n_columns)),
        "culpa": isinstance(header.get("culpa"), str),
        "limit": _is_number(header.get("limit")) and cast(float, header["limit"]) >= 0,
        "limits": _are_limits(header.get("limits")),
        "abnormal": header.get("abnormal", ...) is None or _is_label_list(header.get("abnormal")),
        "suspicious": header.get("suspicious") is None or _is_label_list(header.get("suspicious")),
        "noise_variance": _is_number(header.get("noise_variance")) and cast(float, header["noise_variance"]) > 0,
        "training": isinstance(training, dict)
        and _is_number(training.get("rows"))
        and 0 <= training["rows"] < 1 << 62
        and _is_count(training.get("iterations"))
        and isinstance(training.get("converged"), bool),
    }
    for field, holds in checks.items():
        if not holds:
            raise ModelFileError(f"the header's field {field!r} is missing or not valid.")


def _are_limits(limits: Any) -> bool:
    return (
        isinstance(limits, dict)
        and limits.get("kind") in LIMIT_KINDS
        and isinstance(rows := limits.get("rows"), dict)
        and set(rows) <= set(SCORE_NAMES)
        and all(_is_count(n) for n in rows.values())
    )


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


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _is_label_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) or _is_number(item) for item in value)


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
