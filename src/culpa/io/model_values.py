"""Whether the numbers in a model file can be a model: sizes, variances, axes, and forms that reproduce the score.

A checksum shows that a file is undamaged, not that a fit wrote it. Numbers that no fit produces would turn into NaN or into
nonsense much later, when rows are scored or explained.
"""

from typing import cast

import numpy as np

from culpa._core.types import Floats
from culpa.fitted import FittedDetector
from culpa.io.model_checks import ABNORMAL_COLUMNS, CELL_COLUMNS, Arrays, ModelFileError
from culpa.models import Distribution
from culpa.shapley import QuadraticForms

_LARGEST = 1e100  # cells of tables are not larger, and squares must not overflow
_LARGEST_SQUARE = 1e250  # sums of squares of cells
_OF_SQUARES = ("blocks.", "gathered.s", "components")  # arrays of moments and of log-likelihoods
_SMALLEST = 1e-100  # scales and variances
_MOST_ROWS = 1 << 53  # positions of rows are whole numbers up to here
_ROUNDING = 1e-4  # relative; models of float32 data have seven digits
_COVARIANCES = ("model.covariance", "modes.covariance", "context.covariance")
_N_PROBES, _N_NORMAL = 3, 32  # rows on which forms are compared with the score, and more that belong to the model


def check_values(arrays: Arrays, noise_variance: float) -> None:
    """Refuse numbers that no fit produces, once shapes and finiteness are known."""
    for name, array in arrays.items():
        most = _LARGEST_SQUARE if name.startswith(_OF_SQUARES) else _LARGEST
        if array.dtype.kind == "f" and (np.abs(array) > most).any():
            raise ModelFileError(f"array {name!r} contains a number that is too large.")
    if (arrays["scale"] < _SMALLEST).any():
        raise ModelFileError("array 'scale' contains a number that is too small.")
    if not _SMALLEST <= noise_variance <= _LARGEST:
        raise ModelFileError("the header's field 'noise_variance' is too small or too large.")
    for name in _COVARIANCES:
        if name in arrays and not _are_covariances(arrays[name]):
            raise ModelFileError(f"array {name!r} is not a covariance matrix.")
    if "blocks.n" in arrays and arrays["blocks.n"].sum() >= _MOST_ROWS:
        raise ModelFileError("array 'blocks.n' counts more rows than are possible.")
    if "model.axes" in arrays:
        _check_axes(arrays["model.axes"], arrays["model.loadings"])
    for name, columns in (("abnormal", tuple(ABNORMAL_COLUMNS)), ("suspicious", CELL_COLUMNS)):
        if name in arrays:
            _check_rows(name, arrays[name][:, columns.index("position")])


def _are_covariances(matrices: Floats) -> bool:
    """Symmetric, variances not negative, no correlation beyond 1. Eigenvalues would take too long for wide models."""
    variances = np.diagonal(matrices, axis1=-2, axis2=-1)
    if (variances < 0).any():
        return False
    deviations = np.sqrt(variances)
    bound = (1 + _ROUNDING) * deviations[..., :, None] * deviations[..., None, :]
    slack = _ROUNDING**2 * bound.max(initial=0.0)
    asymmetry = np.abs(matrices - np.swapaxes(matrices, -2, -1))
    return bool((np.abs(matrices) <= bound + slack).all() and (asymmetry <= _ROUNDING * bound + slack).all())


def _check_axes(axes: Floats, loadings: Floats) -> None:
    """Principal axes are orthonormal, and the loadings lie along them."""
    if not np.allclose(axes @ axes.T, np.eye(len(axes)), rtol=0, atol=_ROUNDING):
        raise ModelFileError("array 'model.axes' is not orthonormal.")
    outside = loadings - axes.T @ (axes @ loadings)
    if (np.abs(outside) > _ROUNDING * np.abs(loadings).max()).any() or (np.abs(loadings) < _SMALLEST).all(axis=0).any():
        raise ModelFileError("array 'model.loadings' does not fit array 'model.axes'.")


def _check_rows(name: str, positions: Floats) -> None:
    if not ((positions >= 0) & (positions < _MOST_ROWS) & (positions == np.round(positions))).all():
        raise ModelFileError(f"array {name!r} contains a position that is not a whole number.")


def check_working(fitted: FittedDetector) -> None:
    """Refuse a model that gives no finite score to rows like its training rows, or no limit to its statistics."""
    probes = _probes(fitted.model.standard.n_features)
    with np.errstate(all="ignore"):
        if not np.isfinite(fitted.statistic(probes)).all():
            raise ModelFileError("the model gives scores that are not finite.")
    if not fitted.limit_source:
        _check_limits(fitted)


def _check_limits(fitted: FittedDetector) -> None:
    """As many scores were kept as the limits of charts need."""
    own = fitted.limits.tails.get(fitted.statistic.name)
    for name, score in fitted.charted.items():
        if fitted.limits.knows(score, fitted.confidence):
            continue
        # an update may keep fewer scores of other statistics, but always counts the same rows
        if name == fitted.statistic.name or own is None or fitted.limits.tails[name].n != own.n:
            raise ModelFileError(
                f"the header's field 'limits' counts more rows than the scores in array 'limits.{name}' can stand for."
            )


def check_forms(forms: QuadraticForms, fitted: FittedDetector) -> None:
    """Compiled Shapley values and the base value add up to the score, in each replicate."""
    explainer = fitted.explainer()
    # the scores of normal rows are small, and show what is lost in the large scores of other rows
    normal = cast(Distribution, explainer.score.distribution).sample(_N_NORMAL, np.random.default_rng(0))
    game, probes = explainer.game, np.vstack([_probes(forms.n_features), normal])
    everybody = np.arange(game.n_features)
    with np.errstate(all="ignore"):
        base = game.base_values(probes) if game.base_varies else game.base_value
        meant = game.total(probes, everybody) - base
        products = probes if forms.coordinates is None else probes @ forms.coordinates
        first, second = np.triu_indices(forms.n_features)
        coefficients, constants = forms.coefficients.sum(axis=1), forms.constants.sum(axis=1)
        found = (products[:, first] * products[:, second]) @ coefficients.T + constants
        size = np.abs(products[:, first] * products[:, second]) @ np.abs(forms.coefficients).sum(axis=1).T
        if not (np.abs(found - meant[:, None]) <= _ROUNDING * (np.abs(meant)[:, None] + 1e-6 * size)).all():
            raise ModelFileError("the compiled explainer does not add up to the score.")


def _probes(d: int) -> Floats:
    """Standardised rows without any symmetry, the same for every file."""
    return np.asarray(3.0 * np.cos(np.arange(1.0, _N_PROBES * d + 1) ** 2).reshape(_N_PROBES, d))
