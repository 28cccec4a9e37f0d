"""Model files: a fitted detector as safetensors (plain arrays) with a JSON header. Loading runs no code from the file.

The header says what the file is and what its arrays mean, and a checksum covers both (`culpa.io.model_container`).
Everything in a file is checked before it is used: types, sizes and shapes (`culpa.io.model_checks`), and whether the
numbers can be a model (`culpa.io.model_values`). A damaged or forged file is rejected with one sentence.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from culpa._core.files import write_whole
from culpa._core.json_values import to_json_value
from culpa._core.validation import default_names, feature_positions, frame_like
from culpa._core.version import __version__
from culpa.columns import Lagged
from culpa.columns.groups import named_groups
from culpa.columns.smoothing import clustering
from culpa.detector import PCADetector
from culpa.fitted import FittedDetector
from culpa.io.model_checks import (
    ABNORMAL_COLUMNS,
    BLOCK_ARRAYS,
    CELL_COLUMNS,
    MARGIN_ARRAYS,
    RANGE_ARRAYS,
    Arrays,
    ModelFileError,
    check_arrays,
    check_header,
    count_features,
    is_number,
    n_columns_of,
)
from culpa.io.model_container import FORMAT, pack, unpack
from culpa.io.model_modes import arrays_of_modes, check_modes, mixture_from, ranges_from, shapes_of_modes, units_from
from culpa.io.model_values import check_forms, check_values, check_working
from culpa.models import PPCA, FittedModel, LatentGaussian, MixturePPCA, StudentPPCA
from culpa.models.blocks import BlockMoments
from culpa.models.components import ComponentChoice
from culpa.models.context import Context
from culpa.models.margins import EmpiricalMargins
from culpa.models.normal_range import NormalRange
from culpa.models.scatter import Scatter
from culpa.modes import has_modes
from culpa.scores import HeldOutScores, score_by_name
from culpa.scores.limits import Limits, Tail
from culpa.shapley import QuadraticForms

_MOST_NUMBERS_IN_BLOCKS = 1 << 22  # 32 MB; larger blocks of training rows are not stored
_MOST_ABNORMAL = 10_000  # training rows that looked abnormal, the worst of them
_MOST_CELLS = 10_000  # suspicious cells of training rows, the worst of them


def save(fitted: FittedDetector, path: str | Path) -> None:
    """Write a fitted detector; the file appears under its name only when it is complete."""
    content = pack(_arrays(fitted), _header(fitted))
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
        return _detector(arrays, header), header
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None


def _arrays(fitted: FittedDetector) -> Arrays:
    arrays = {
        "mean": fitted.model.centre,
        "scale": fitted.model.scale,
        **_model_arrays(fitted),
    }
    for name, tail in fitted.limits.tails.items():
        arrays[f"limits.{name}"] = tail.largest
        if isinstance(tail, HeldOutScores):
            arrays[f"limits.{name}.block"] = tail.block.astype(np.float64)
            if tail.weights is not None:
                arrays[f"limits.{name}.weight"] = tail.weights
            if tail.dependence != 1:
                arrays[f"limits.{name}.dependence"] = np.array([tail.dependence])
    d = fitted.model.distribution.n_features
    if fitted.blocks is not None and len(fitted.blocks) * d * (d + 1) / 2 <= _MOST_NUMBERS_IN_BLOCKS:
        arrays |= {f"blocks.{name}": array for name, array in fitted.blocks.to_arrays().items()}
    arrays |= {f"range.{name}": array for name, array in fitted.normal_range.to_arrays().items()}
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
        arrays["abnormal"] = abnormal[list(ABNORMAL_COLUMNS)].to_numpy(dtype=np.float64)
    if (cells := fitted.suspicious_cells) is not None:
        numbers = cells[:_MOST_CELLS].assign(feature=cells["feature"].map(fitted.columns.names.index))
        arrays["suspicious"] = numbers[list(CELL_COLUMNS)].to_numpy(dtype=np.float64)
    forms = fitted.explainer().forms
    if forms is not None:
        arrays |= {f"forms.{name}": array for name, array in forms.to_arrays().items()}
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _model_arrays(fitted: FittedDetector) -> Arrays:
    ppca = fitted.ppca
    if isinstance(ppca, MixturePPCA):
        return arrays_of_modes(fitted, ppca)
    return {
        "model.mean": fitted.model.gaussian.mean,
        "model.loadings": fitted.model.gaussian.loadings,
        "model.axes": ppca.components_,
        "model.covariance" if ppca.sample_.factor is None else "model.factor": ppca.sample_.kept,
    }


def _header(fitted: FittedDetector) -> dict[str, Any]:
    names, abnormal, cells = fitted.columns.known_inputs, _abnormal(fitted), fitted.suspicious_cells
    return {
        "format": FORMAT,
        "culpa": __version__,
        "features": None if names is None else list(names),
        "units": dict(fitted.units),
        "reading": dict(fitted.reading),
        "parameters": to_json_value(dict(fitted.parameters)),
        "statistic": fitted.statistic.name,
        "limit": float(fitted.limit),
        "limits": {
            "kind": fitted.limits.kind,
            "source": fitted.limit_source,
            "rows": {name: _n_rows(tail) for name, tail in fitted.limits.tails.items()},
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


def _n_rows(tail: Tail | HeldOutScores) -> int | list[int]:
    """Of held-out scores, by block."""
    return tail.n_per_block.tolist() if isinstance(tail, HeldOutScores) else tail.n


def _abnormal(fitted: FittedDetector) -> Any:
    """The worst of the training rows that looked abnormal, if they are known."""
    table = fitted.abnormal_training_rows
    return None if table is None else table[:_MOST_ABNORMAL]


def _json_label(label: Any) -> Any:
    number = to_json_value(label)
    return number if is_number(number) else str(label)


def _detector(arrays: Arrays, header: dict[str, Any]) -> PCADetector:
    d = count_features(arrays)
    check_header(header, d)
    if ("modes.mean" in arrays) != has_modes(header["parameters"]):
        raise ModelFileError("the arrays of the model do not fit the parameter 'modes'.")
    if "modes.mean" in arrays:
        check_arrays(arrays, header, d, shapes_of_modes(arrays, d))
        check_modes(arrays)
    else:
        check_arrays(arrays, header, d)
    check_values(arrays, header["noise_variance"])
    try:
        fitted = _fitted_detector(arrays, header)
        check_working(fitted)
        if any(name.startswith("forms.") for name in arrays):
            forms = QuadraticForms.from_arrays(
                {name.removeprefix("forms."): array for name, array in arrays.items() if name.startswith("forms.")}
            )
            fitted.explainer().forms = forms
            check_forms(forms, fitted)
        detector = PCADetector.from_fitted(fitted)
    except ModelFileError:
        raise
    except (ValueError, TypeError, KeyError, OverflowError, np.linalg.LinAlgError) as error:
        raise ModelFileError(f"the parts of the file contradict each other: {error}") from None
    return detector


def _fitted_detector(arrays: Arrays, header: dict[str, Any]) -> FittedDetector:
    parameters, has_modes = header["parameters"], "modes.mean" in arrays
    ppca = mixture_from(arrays, header) if has_modes else _ppca(arrays, header)
    columns = _columns(header, len(arrays["mean"]))
    model = ppca.scaled(arrays["mean"], arrays["scale"], columns, _context(arrays, columns))
    if has_modes:
        model = replace(model, mode_units=units_from(arrays))
    if "margins.values" in arrays:
        model = replace(model, margins=_margins(arrays))
    if header["features"] is not None:
        ppca.feature_names_in_ = np.array(model.feature_names, dtype=object)
    tails = {name: _tail(arrays, name, n, columns.smooth) for name, n in header["limits"]["rows"].items()}
    confidence = parameters["confidence"]
    return FittedDetector(
        model,
        ppca,
        score_by_name(_statistic(header), model, confidence=confidence),
        confidence,
        Limits(model, _limit_kind(header), tails),
        float(header["limit"]),
        parameters,
        _normal_range(arrays, model),
        units=header["units"],
        reading=header.get("reading", {}),
        abnormal_training_rows=_abnormal_table(arrays, header),
        suspicious_cells=_cells_table(arrays, header, columns.names),
        blocks=_blocks(arrays),
        limit_source=str(header["limits"].get("source", "")),
        components=_choice(ppca, arrays),
        mode_ranges=ranges_from(arrays) if has_modes else (),
    )


def _choice(ppca: PPCA | MixturePPCA, arrays: Arrays) -> ComponentChoice | None:
    if "components" not in arrays or isinstance(ppca, MixturePPCA):
        return None
    return ComponentChoice(ppca.n_components_, arrays["components"])


def _normal_range(arrays: Arrays, model: FittedModel) -> NormalRange:
    """Files from before ranges were kept, and of models fitted from moments alone, have none."""
    if "range.features" not in arrays:
        return NormalRange.of_model(model)
    return NormalRange.from_arrays({name: arrays[f"range.{name}"] for name in RANGE_ARRAYS})


def _margins(arrays: Arrays) -> EmpiricalMargins:
    margins = EmpiricalMargins.from_arrays({name: arrays[f"margins.{name}"] for name in MARGIN_ARRAYS})
    if not margins.are_increasing:
        raise ModelFileError("the margins of the copula do not increase.")
    return margins


def _blocks(arrays: Arrays) -> BlockMoments | None:
    """Files from before blocks, and of models with very many features, have none."""
    if "blocks.n" not in arrays:
        return None
    return BlockMoments.from_arrays({name: arrays[f"blocks.{name}"] for name in BLOCK_ARRAYS})


def _statistic(header: dict[str, Any]) -> str:
    """Files from before "auto" existed name it among the parameters only."""
    return str(header.get("statistic", header["parameters"]["statistic"]))


def _limit_kind(header: dict[str, Any]) -> str:
    """In files from before held-out scores, "auto" was a formula."""
    kind = str(header["limits"]["kind"])
    return "formula" if kind == "auto" else kind


def _tail(arrays: Arrays, name: str, n: int | list[int], smooth: float | None) -> Tail | HeldOutScores:
    largest = arrays[f"limits.{name}"]
    if isinstance(n, int):
        return Tail(n, largest)
    block = arrays[f"limits.{name}.block"].astype(np.int64)
    return HeldOutScores(
        np.array(n, dtype=np.int64),
        largest,
        block,
        clustering(smooth),
        arrays.get(f"limits.{name}.weight"),
        float(arrays.get(f"limits.{name}.dependence", np.ones(1))[0]),
    )


def _abnormal_table(arrays: Arrays, header: dict[str, Any]) -> Any:
    if header["abnormal"] is None:
        return None
    columns = dict(zip(ABNORMAL_COLUMNS, arrays["abnormal"].T, strict=True))
    columns |= {name: columns[name].astype(kind) for name, kind in ABNORMAL_COLUMNS.items()}
    return frame_like(None, {"row": header["abnormal"], **columns})


def _columns(header: dict[str, Any], n_features: int) -> Lagged:
    parameters = header["parameters"]
    names = None if header["features"] is None else tuple(header["features"])
    smooth = parameters.get("smooth")
    n_columns = n_columns_of(parameters, n_features)
    given = feature_positions(parameters.get("given") or [], names or default_names(n_columns), "given")
    columns = Lagged(names, n_columns, parameters["lags"], given, None if smooth == 1 else smooth)
    named_groups(parameters.get("groups"), columns.inputs, columns.names)  # refuses what does not fit
    return columns


def _context(arrays: Arrays, columns: Lagged) -> Context | None:
    if not columns.given:
        return None
    given = columns.given_features
    others = np.setdiff1d(np.arange(len(given) + len(arrays["mean"])), given)
    parts = (arrays[f"context.{name}"] for name in ("coefficients", "centre", "covariance"))
    return Context(given, others, *parts)


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
    return frame_like(None, columns | dict(zip(CELL_COLUMNS[2:], others, strict=True)))


def _ppca(arrays: Arrays, header: dict[str, Any]) -> PPCA:
    parameters, training = header["parameters"], header["training"]
    n_components = parameters["n_components"] if parameters["n_components"] != "auto" else len(arrays["model.axes"])
    kind = StudentPPCA if parameters.get("model") == "student" else PPCA
    ppca = kind(n_components, noise=parameters["noise"], shrinkage=parameters["shrinkage"])
    ppca.n_features_in_ = len(arrays["mean"])
    ppca.n_samples_, ppca.n_iter_, ppca.converged_ = training["rows"], training["iterations"], training["converged"]
    heavy = header.get("degrees_of_freedom") if kind is StudentPPCA else None
    gaussian = LatentGaussian(
        arrays["model.mean"],
        arrays["model.loadings"],
        header["noise_variance"],
        degrees_of_freedom=math.inf if heavy is None else heavy,
    )
    thin = "model.factor" in arrays
    sample = Scatter.of_factor(arrays["model.factor"]) if thin else Scatter.of_matrix(arrays["model.covariance"])
    return ppca.restore(gaussian, arrays["model.axes"], sample)
