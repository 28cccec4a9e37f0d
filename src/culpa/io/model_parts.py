"""What a model file says of a fitted detector: its arrays, and the detector that they and the header describe."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from culpa._core.continuity import Step
from culpa._core.parameters import DetectorSettings
from culpa._core.types import Floats
from culpa._core.validation import default_names, feature_positions, frame_like
from culpa.columns import Columns, Lagged
from culpa.columns.groups import named_groups
from culpa.columns.smoothing import clustering
from culpa.fitted import FittedDetector, charted
from culpa.io.model_arrays import TABLES, check_arrays, count_features, part_of
from culpa.io.model_container import Arrays, ModelFileError
from culpa.io.model_header import MOST_ROWS, check_header, n_columns_of
from culpa.models import PPCA, Distribution, LatentGaussian, LatentMixture, MixturePPCA, StudentPPCA
from culpa.models.blocks import BlockGatherer, BlockMoments
from culpa.models.components import ComponentChoice
from culpa.models.context import Context
from culpa.models.margins import Margins
from culpa.models.normal_range import NormalRange
from culpa.models.normal_signals import NormalSignals
from culpa.models.scatter import Scatter
from culpa.ranking.recent import Recent
from culpa.scores import HeldOutScores, score_by_name
from culpa.scores.consistency import Consistency
from culpa.scores.excess import NormalExcess
from culpa.scores.following import Views
from culpa.scores.limits import Limits
from culpa.scores.stated import OverTime
from culpa.shapley import QuadraticForms

_MOST_NUMBERS = 1 << 22  # 32 MB; larger blocks of training rows are not stored
_ROUNDING = 1e-4  # relative; models of float32 data have seven digits
_N_PROBES, _N_NORMAL = 3, 32  # rows on which forms are compared with the score, and more that belong to the model
# fields of a detector that make arrays of themselves, by the part of the file
_PARTS: dict[str, tuple[str, Any]] = {
    "range": ("normal_range", NormalRange),
    "consistency": ("consistency", Consistency),
    "recent": ("recent", Recent),
    "time": ("over_time", OverTime),
    "blocks": ("blocks", BlockMoments),
    "gathered": ("gathered", BlockGatherer),
}
_CONTEXT = ("coefficients", "centre", "covariance")
_RANGE = ("features", "rows")
_TABLE_FIELDS = {"abnormal": "abnormal_training_rows", "suspicious": "suspicious_cells"}


def arrays_of(fitted: FittedDetector) -> Arrays:
    """All numbers of a detector, by name."""
    model, context, forms = fitted.model, fitted.model.context, fitted.explainer().forms
    parts = {part: getattr(fitted, field) for part, (field, _) in _PARTS.items()}
    kept = {part: each.to_arrays() for part, each in parts.items() if each is not None}
    for part in ("blocks", "gathered"):
        if sum(array.size for array in kept.get(part, {}).values()) > _MOST_NUMBERS:
            del kept[part]
    kept["model" if fitted.n_modes is None else "modes"] = fitted.ppca._to_arrays() | _mode_arrays(fitted)
    kept |= {f"limits.{name}": _arrays_of_scores(tail) for name, tail in fitted.limits.tails.items()}
    if context is not None:
        kept["context"] = {name: getattr(context, name) for name in _CONTEXT}
    if model.margins is not None:
        kept["margins"] = model.margins.to_arrays()
    if forms is not None:
        kept["forms"] = forms.to_arrays()
    if fitted.views is not None:
        kept["views"] = fitted.views.to_arrays()
    arrays = {f"{part}.{name}".rstrip("."): each for part, some in kept.items() for name, each in some.items()}
    arrays |= {"mean": model.centre - model.scale * fitted.ppca.mean_, "scale": model.scale}
    if fitted.signals is not None:
        arrays["signals"] = fitted.signals.to_array()
    if fitted.normal_excess is not None:
        arrays["excess"] = fitted.normal_excess.to_array()
    if fitted.usual_errors is not None:
        arrays["errors"] = fitted.usual_errors
    if fitted.components is not None:
        arrays["components"] = fitted.components.log_likelihood
    for name, field in _TABLE_FIELDS.items():
        if (table := getattr(fitted, field)) is not None:
            arrays[name] = _array_of_table(table, name, fitted.columns)
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _mode_arrays(fitted: FittedDetector) -> dict[str, Any]:
    """Of each mode, beside its distribution; nothing where the detector does not tell modes apart."""
    ranges, names = [one.to_arrays() for one in fitted.mode_ranges], _RANGE if fitted.mode_ranges else ()
    units = {f"units.{name}": units for name, units in fitted.model.mode_units.items()}
    return units | {f"range.{name}": np.array([one[name] for one in ranges]) for name in names}


def _arrays_of_scores(tail: HeldOutScores) -> dict[str, Any]:
    arrays = {"": tail.largest, "block": tail.block.astype(np.float64)}
    weights = {} if tail.weights is None else {"weight": tail.weights}
    return arrays | weights | ({} if tail.dependence == 1 else {"dependence": np.array([tail.dependence])})


def _array_of_table(table: Any, name: str, columns: Columns) -> Floats:
    """The worst rows; features by their position."""
    cells = {column: np.asarray(table[column])[:MOST_ROWS] for column in TABLES[name]}
    if "feature" in cells:
        cells["feature"] = np.array([_names_of_cells(columns).index(feature) for feature in cells["feature"]])
    return np.column_stack([column.astype(np.float64) for column in cells.values()])


def _names_of_cells(columns: Columns) -> tuple[str, ...]:
    """The columns of suspicious cells, by the numbers that files have for them: those that are judged, then those given."""
    return (*columns.names, *(name for name in columns.inputs if name not in columns.names))


def detector_from(arrays: Arrays, header: dict[str, Any]) -> FittedDetector:
    """The detector, or a `ModelFileError`."""
    d = count_features(arrays)
    check_header(header, d)
    check_arrays(arrays, header, d)
    try:
        fitted = _fitted_detector(arrays, header)
        _check_working(fitted)
        if part := part_of(arrays, "forms"):
            forms = fitted.explainer().forms = QuadraticForms.from_arrays(part)
            _check_forms(forms, fitted)
        return fitted
    except ModelFileError:
        raise
    except (ValueError, TypeError, KeyError, OverflowError, np.linalg.LinAlgError) as error:
        raise ModelFileError(f"the parts of the file contradict each other: {error}") from None


def _fitted_detector(arrays: Arrays, header: dict[str, Any]) -> FittedDetector:
    settings, modes = DetectorSettings(**header["parameters"]), part_of(arrays, "modes")
    ppca = _mixture(modes, header) if modes else _ppca(part_of(arrays, "model"), header)
    ppca.n_features_in_, training = len(arrays["mean"]), header["training"]
    ppca.n_samples_, ppca.n_iter_, ppca.converged_ = training["rows"], training["iterations"], training["converged"]
    columns = _columns(header, len(arrays["mean"]))
    centre, scale = arrays["mean"] + arrays["scale"] * ppca.mean_, arrays["scale"]
    model = ppca._scaled(centre, scale, columns, _context(part_of(arrays, "context"), columns, len(centre)))
    model = replace(model, mode_units=part_of(modes, "units")) if modes else model
    if of_margins := part_of(arrays, "margins"):
        margins = Margins.from_arrays(of_margins)
        if not margins.are_increasing:
            raise ModelFileError("the margins of the copula do not increase.")
        model = replace(model, margins=margins)
    if header["features"] is not None:
        ppca.feature_names_in_ = np.array(model.feature_names, dtype=object)
    rows = header["limits"]["rows"]
    tails = {name: _scores(arrays, f"limits.{name}", n, columns.smooth) for name, n in rows.items()}
    found = {field: (kind, part_of(arrays, part)) for part, (field, kind) in _PARTS.items()}
    kept = {field: kind.from_arrays(some) for field, (kind, some) in found.items() if some}
    ranges = zip(*(modes[f"range.{name}"] for name in _RANGE), strict=True) if modes else ()
    choice = None
    if "components" in arrays:
        choice = ComponentChoice(model.standard.n_components, arrays["components"])
    return FittedDetector(
        model,
        ppca,
        score_by_name(header["statistic"], model, confidence=settings.confidence),
        settings.confidence,
        Limits(model, header["limits"]["kind"], tails),
        float(header["limit"]),
        settings,
        units=header["units"],
        reading=header["reading"],
        limit_source=header["limits"]["source"],
        components=choice,
        signals=NormalSignals.from_array(arrays["signals"]) if "signals" in arrays else None,
        usual_errors=arrays.get("errors"),
        normal_excess=NormalExcess.from_array(arrays["excess"]) if "excess" in arrays else None,
        views=Views.from_arrays(views, model) if (views := part_of(arrays, "views")) else None,
        mode_ranges=tuple(NormalRange.from_arrays(dict(zip(_RANGE, each, strict=True))) for each in ranges),
        **{field: _table(arrays, header, name, columns) for name, field in _TABLE_FIELDS.items()},
        **kept,
    )


def _ppca(arrays: Arrays, header: dict[str, Any]) -> PPCA:
    parameters = header["parameters"]
    n_components = parameters["n_components"] if parameters["n_components"] != "auto" else len(arrays["axes"])
    kind = StudentPPCA if parameters["model"] == "student" else PPCA
    tails = header["degrees_of_freedom"] if kind is StudentPPCA else math.inf
    gaussian = LatentGaussian(
        arrays["mean"], arrays["loadings"], header["noise_variance"], degrees_of_freedom=tails or math.inf
    )
    thin = "factor" in arrays
    sample = Scatter.of_factor(arrays["factor"]) if thin else Scatter.of_matrix(arrays["covariance"])
    ppca = kind(n_components, noise=parameters["noise"], shrinkage=parameters["shrinkage"])
    return ppca._restore(gaussian, arrays["axes"], sample)


def _mixture(arrays: Arrays, header: dict[str, Any]) -> MixturePPCA:
    numbers = arrays["components"].astype(int).tolist()
    each = zip(arrays["mean"], arrays["loadings"], arrays["noise"].tolist(), numbers, strict=True)
    modes = tuple(LatentGaussian(mean, loadings[:, :p], noise) for mean, loadings, noise, p in each)
    parameters = header["parameters"]
    ppca = MixturePPCA(len(numbers), numbers, noise=parameters["noise"], shrinkage=parameters["shrinkage"])
    return ppca._restore(LatentMixture(arrays["weights"], modes), arrays["covariance"])


def _scores(arrays: Arrays, name: str, n: list[int], smooth: float | None) -> HeldOutScores:
    more = part_of(arrays, name)
    dependence = float(more.get("dependence", np.ones(1))[0])
    block = more["block"].astype(np.int64)
    return HeldOutScores(
        np.array(n, dtype=np.int64), arrays[name], block, clustering(smooth), more.get("weight"), dependence
    )


def _columns(header: dict[str, Any], n_features: int) -> Lagged:
    parameters, smooth = header["parameters"], header["parameters"]["smooth"]
    names = None if header["features"] is None else tuple(header["features"])
    n_columns = n_columns_of(parameters, n_features)
    given = feature_positions(parameters["given"] or [], names or default_names(n_columns), "given")
    step = None if header["step"] is None else Step(**header["step"])
    columns = Lagged(names, n_columns, parameters["lags"], given, None if smooth == 1 else smooth, step=step)
    named_groups(parameters["groups"], columns.inputs, columns.names)  # refuses what does not fit
    return columns


def _context(arrays: Arrays, columns: Lagged, d: int) -> Context | None:
    if not columns.given:
        return None
    given = columns.given_features
    return Context(given, np.setdiff1d(np.arange(len(given) + d), given), *(arrays[name] for name in _CONTEXT))


def _table(arrays: Arrays, header: Mapping[str, Any], name: str, columns: Columns) -> Any:
    """A table of training rows and their labels."""
    if header[name] is None:
        return None
    types = zip(TABLES[name].items(), arrays[name].T, strict=True)
    cells: dict[str, Any] = {column: found.astype(kind) for (column, kind), found in types}
    if "feature" in cells:
        cells["feature"] = np.array(_names_of_cells(columns), dtype=object)[cells["feature"]]
    return frame_like(None, {"row": header[name], **cells})


def _check_working(fitted: FittedDetector) -> None:
    """Refuse a model that gives no finite score to rows like its training rows, or no limit to its statistics."""
    with np.errstate(all="ignore"):
        if not np.isfinite(fitted.statistic(_probes(fitted.model.standard.n_features))).all():
            raise ModelFileError("the model gives scores that are not finite.")
    own = fitted.limits.tails.get(fitted.statistic.name)
    for name, score in {} if fitted.limit_source else charted(fitted.model, fitted.statistic).items():
        if fitted.limits.knows(score, fitted.confidence):
            continue
        # an update may keep fewer scores of other statistics, but always counts the same rows
        if name == fitted.statistic.name or own is None or fitted.limits.tails[name].n != own.n:
            raise ModelFileError(
                f"the header's field 'limits' counts more rows than the scores in array 'limits.{name}' can stand for."
            )


def _check_forms(forms: QuadraticForms, fitted: FittedDetector) -> None:
    """Compiled Shapley values and the base value add up to the score, in each replicate."""
    explainer = fitted.explainer()
    # the scores of normal rows are small, and show what is lost in the large scores of other rows
    normal = cast(Distribution, explainer.score.distribution).sample(_N_NORMAL, np.random.default_rng(0))
    game, probes = explainer.game, np.vstack([_probes(forms.n_features), normal])
    everybody = np.arange(game.n_features)
    with np.errstate(all="ignore"):
        base = game.base_values(probes) if game.base_varies else game.base_value
        meant = game.total(probes, everybody) - base
        points = probes if forms.coordinates is None else probes @ forms.coordinates
        first, second = np.triu_indices(forms.n_features)
        products = points[:, first] * points[:, second]
        coefficients, constants = forms.coefficients.sum(axis=1), forms.constants.sum(axis=1)
        found = products @ coefficients.T + constants
        size = np.abs(products) @ np.abs(forms.coefficients).sum(axis=1).T
        if not (np.abs(found - meant[:, None]) <= _ROUNDING * (np.abs(meant)[:, None] + 1e-6 * size)).all():
            raise ModelFileError("the compiled explainer does not add up to the score.")


def _probes(d: int) -> Floats:
    """Standardised rows without any symmetry, the same for every file."""
    return np.asarray(3.0 * np.cos(np.arange(1.0, _N_PROBES * d + 1) ** 2).reshape(_N_PROBES, d))
