"""A detector from the arrays and the header of a model file, which are checked before they are used."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from culpa._core.parameters import DetectorSettings
from culpa._core.validation import default_names, feature_positions, frame_like
from culpa.columns import Lagged
from culpa.columns.groups import named_groups
from culpa.columns.smoothing import clustering
from culpa.detecting.detector import PCADetector
from culpa.fitted import FittedDetector
from culpa.io.model_checks import (
    ABNORMAL_COLUMNS,
    BLOCK_ARRAYS,
    CELL_COLUMNS,
    CONSISTENCY_ARRAYS,
    MARGIN_ARRAYS,
    RANGE_ARRAYS,
    RECENT_ARRAYS,
    Arrays,
    ModelFileError,
    check_arrays,
    check_header,
    count_features,
    n_columns_of,
    names_of_cells,
)
from culpa.io.model_modes import check_modes, mixture_from, ranges_from, shapes_of_modes, units_from
from culpa.io.model_values import check_forms, check_values, check_working
from culpa.models import PPCA, FittedModel, LatentGaussian, MixturePPCA, StudentPPCA
from culpa.models.blocks import BlockGatherer, BlockMoments
from culpa.models.components import ComponentChoice
from culpa.models.context import Context
from culpa.models.margins import EmpiricalMargins
from culpa.models.normal_range import NormalRange
from culpa.models.normal_signals import NormalSignals
from culpa.models.scatter import Scatter
from culpa.ranking.recent import Recent
from culpa.scores import HeldOutScores, score_by_name
from culpa.scores.consistency import Consistency
from culpa.scores.limits import Limits
from culpa.shapley import QuadraticForms


def detector_from(arrays: Arrays, header: dict[str, Any]) -> PCADetector:
    """The detector, or a `ModelFileError`."""
    d = count_features(arrays)
    check_header(header, d)
    if ("modes.mean" in arrays) != (header["parameters"].get("modes") is not None):
        raise ModelFileError("the arrays of the model do not fit the parameter 'modes'.")
    if "modes.mean" in arrays:
        check_arrays(arrays, header, d, shapes_of_modes(arrays, d))
    else:
        check_arrays(arrays, header, d)
    check_values(arrays, header["noise_variance"])
    if "modes.mean" in arrays:
        check_modes(arrays)
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
    settings, has_modes = DetectorSettings(**header["parameters"]), "modes.mean" in arrays
    ppca = mixture_from(arrays, header) if has_modes else _ppca(arrays, header)
    columns = _columns(header, len(arrays["mean"]))
    centre, scale = arrays["mean"] + arrays["scale"] * ppca.mean_, arrays["scale"]
    model = ppca.scaled(centre, scale, columns, _context(arrays, columns))
    if has_modes:
        model = replace(model, mode_units=units_from(arrays))
    if "margins.values" in arrays:
        model = replace(model, margins=_margins(arrays))
    if header["features"] is not None:
        ppca.feature_names_in_ = np.array(model.feature_names, dtype=object)
    tails = {name: _tail(arrays, name, n, columns.smooth) for name, n in header["limits"]["rows"].items()}
    confidence = settings.confidence
    return FittedDetector(
        model,
        ppca,
        score_by_name(_statistic(header), model, confidence=confidence),
        confidence,
        Limits(model, _limit_kind(header), tails),
        float(header["limit"]),
        settings,
        _normal_range(arrays, model),
        units=header["units"],
        reading=header.get("reading", {}),
        abnormal_training_rows=_abnormal_table(arrays, header),
        suspicious_cells=_cells_table(arrays, header, names_of_cells(columns)),
        blocks=_blocks(arrays),
        gathered=_gathered(arrays),
        limit_source=str(header["limits"].get("source", "")),
        components=_choice(ppca, arrays),
        signals=NormalSignals.from_array(arrays["signals"]) if "signals" in arrays else None,
        consistency=_consistency(arrays),
        recent=_recent(arrays),
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


def _consistency(arrays: Arrays) -> Consistency | None:
    if "consistency.rows" not in arrays:
        return None
    return Consistency.from_arrays({name: arrays[f"consistency.{name}"] for name in CONSISTENCY_ARRAYS})


def _recent(arrays: Arrays) -> Recent | None:
    if "recent.rows" not in arrays:
        return None
    return Recent.from_arrays({name: arrays[f"recent.{name}"] for name in RECENT_ARRAYS})


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


def _gathered(arrays: Arrays) -> BlockGatherer | None:
    head = "gathered."
    found = {name.removeprefix(head): array for name, array in arrays.items() if name.startswith(head)}
    return BlockGatherer.from_arrays(found) if found else None


def _statistic(header: dict[str, Any]) -> str:
    """Files from before "auto" existed name it among the parameters only."""
    return str(header.get("statistic", header["parameters"]["statistic"]))


def _limit_kind(header: dict[str, Any]) -> str:
    """In files from before held-out scores, "auto" was a formula."""
    kind = str(header["limits"]["kind"])
    return "formula" if kind == "auto" else kind


def _tail(arrays: Arrays, name: str, n: list[int], smooth: float | None) -> HeldOutScores:
    return HeldOutScores(
        np.array(n, dtype=np.int64),
        arrays[f"limits.{name}"],
        arrays[f"limits.{name}.block"].astype(np.int64),
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
