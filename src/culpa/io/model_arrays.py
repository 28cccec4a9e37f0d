"""The arrays of a model file: what each of them must be, and the checks that follow from it.

| array | content |
| --- | --- |
| mean, scale | of the features of rows, before anything else |
| model.* | a model with one mode; the covariance of fewer rows than features is there as a factor |
| modes.* | a model with several: loadings with zeros beyond a mode's number of components, units of scores by name |
| context.*, margins.* | of given features, and of a copula |
| limits.NAME.* | the largest scores of normal rows, and the block of each |
| views.* | what judges rows in order of time: departures, jumps, and the level if it serves |
| range.*, signals, recent.*, consistency.*, excess, errors | what normal rows showed of features, columns and stretches |
| time.* | how alike successive training rows are, and stretches of them, judged by fits to the rows before them |
| blocks.*, gathered.* | moments of blocks of training rows, and what `partial_fit` goes on from |
| components | held-out likelihood by number of components |
| abnormal, suspicious | training rows and cells that looked abnormal |
| forms.* | compiled Shapley values |

A checksum shows that a file is undamaged, not that a fit wrote it. Numbers that no fit produces would turn into NaN or into
nonsense much later, when rows are scored or explained.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.choices import QUADRATIC_NAMES
from culpa._core.types import Floats
from culpa.io.model_container import Arrays, ModelFileError
from culpa.io.model_header import n_columns_of
from culpa.models.blocks import HELD
from culpa.models.normal_signals import N_FIELDS
from culpa.scores import excess
from culpa.scores.consistency import LENGTHS
from culpa.scores.following import MOST_STRIDE

_LARGEST = 1e100  # cells of tables are not larger, and squares must not overflow
_LARGEST_SQUARE = 1e250  # sums of squares of cells
_SMALLEST = 1e-100  # scales
_MOST_FEATURES = 100_000
_MOST_MODES = 1000
_MOST_KNOTS = (1 << 20) - 1  # of a margin
_WIDE = 1000  # features from which eigenvalues take too long
_MOST_ROWS = 1 << 53  # positions of rows are whole numbers up to here
_ROUNDING = 1e-4  # relative; models of float32 data have seven digits
_LEAST_NOISE = 1e-15  # of a mode, of the largest squares; learning keeps far above it
_SHARES = 1e-6  # by which weights of modes may fail to add up to 1
_TINY = math.ulp(0.0)  # the least number that is positive

# columns of tables of training rows, beside their labels, and the types of their cells
TABLES: dict[str, dict[str, Any]] = {
    "abnormal": {"position": np.int64, "spe": float, "t2": float, "times_limit": float, "trimmed": bool},
    "suspicious": {"position": np.int64, "feature": np.int64, "value": float, "expected": float, "residual": float},
}


@dataclass(frozen=True)
class _Spec:
    """What an array must be: its shape, the range of its numbers, or of those from an index on, and whether they are whole.

    A shape has numbers, and words for sizes: ``d`` features, ``n`` columns, of them ``c`` that are not given, ``g`` given
    features, ``w`` features with these, ``s`` numbers in a symmetric matrix of them, ``p`` components, ``k`` modes. Other
    words are sizes that the first array with them settles.
    """

    shape: str
    least: float = -_LARGEST
    most: float = _LARGEST
    from_: int = 0
    whole: bool = False

    def check(self, name: str, array: NDArray[Any], sizes: dict[str, int]) -> None:
        """Refuse an array that is something else; sizes that are not yet known are those that it has."""
        words = self.shape.split()
        wanted = tuple(int(word) if word.isdigit() else sizes.get(word) for word in words)
        if array.ndim != len(words) or any(n not in (None, m) for n, m in zip(wanted, array.shape, strict=True)):
            shown = ", ".join("any" if n is None else str(n) for n in wanted)
            raise ModelFileError(f"array {name!r} has shape {array.shape} instead of ({shown}).")
        sizes |= dict(zip(words, array.shape, strict=True))
        part = array[self.from_ :]
        for is_wrong, what in (
            (not np.isfinite(array).all(), "not finite"),
            ((np.abs(array) > max(self.most, _LARGEST)).any() or (part > self.most).any(), "too large"),
            ((part < self.least).any(), "too small" if self.least else "negative"),
            (self.whole and (array != np.rint(array)).any(), "not whole"),
        ):
            if is_wrong:
                raise ModelFileError(f"array {name!r} contains a number that is {what}.")


_BLOCKS = {"mean": _Spec("blocks w", most=_LARGEST_SQUARE), "scatter": _Spec("blocks s", most=_LARGEST_SQUARE)}
_SPECS = {
    "mean": _Spec("d"),
    "scale": _Spec("d", _SMALLEST),
    "model.mean": _Spec("d"),
    "model.loadings": _Spec("d p"),
    "model.axes": _Spec("p d"),
    "model.covariance": _Spec("d d"),
    "model.factor": _Spec("rank d"),
    "modes.weights": _Spec("k", _TINY),
    "modes.noise": _Spec("k", _TINY),
    "modes.components": _Spec("k", 1, whole=True),
    "modes.mean": _Spec("k d"),
    "modes.loadings": _Spec("k d p"),
    "modes.covariance": _Spec("k d d"),
    "modes.range.features": _Spec("k 3 d"),
    "modes.range.rows": _Spec("k 3", 0),
    **{f"modes.units.{name}": _Spec("k", _TINY) for name in QUADRATIC_NAMES},
    "context.coefficients": _Spec("d g"),
    "context.centre": _Spec("g"),
    "context.covariance": _Spec("g g"),
    "margins.values": _Spec("knots"),
    "margins.scores": _Spec("knots"),
    "margins.sizes": _Spec("w", 1, _MOST_KNOTS, whole=True),
    "margins.tails": _Spec("w 4"),
    "range.features": _Spec("3 d", 0, from_=2),
    "range.rows": _Spec("3", _TINY),
    "signals": _Spec(f"{N_FIELDS} n", 0, from_=2),
    "excess": _Spec(f"{excess.N_FIELDS}", _TINY),
    "errors": _Spec("d", _TINY),
    "views.centre": _Spec("views d"),
    "views.scale": _Spec("views d", _SMALLEST),
    "views.covariance": _Spec("views d d"),
    "views.range.features": _Spec("views 3 d"),
    "views.range.rows": _Spec("views 3", _TINY),
    "views.quantile": _Spec("views"),
    "views.unit": _Spec("views", _TINY),
    "views.average": _Spec("d"),
    "views.theta": _Spec("1"),
    "views.rule": _Spec("2", _TINY),
    "recent.levels": _Spec("4 d", 0, from_=2),
    "recent.rows": _Spec("1", 0),
    "consistency.columns": _Spec(f"3 {len(LENGTHS)} c", 0),
    "consistency.rows": _Spec(f"{len(LENGTHS) + 1}", 0),
    "time.stretches": _Spec("2 stretches", 0),
    "time.rows": _Spec("2", 1),
    "blocks.n": _Spec("blocks", _TINY, _LARGEST_SQUARE),
    **{f"blocks.{name}": spec for name, spec in _BLOCKS.items()},
    "gathered.n": _Spec("pieces", _TINY, _LARGEST_SQUARE, whole=True),
    "gathered.mean": _Spec("pieces w"),
    "gathered.scatter": _Spec("pieces s", most=_LARGEST_SQUARE),
    "gathered.rows": _Spec("held w"),
    "components": _Spec("curve", -_LARGEST_SQUARE, _LARGEST_SQUARE),
    **{name: _Spec(f"{name} {len(columns)}") for name, columns in TABLES.items()},
    "forms.coefficients": _Spec("replicates players products"),
    "forms.constants": _Spec("replicates players"),
    "forms.sizes": _Spec("2", 0, whole=True),
    "forms.coordinates": _Spec("side side"),
}
# whole parts
_OPTIONAL = (
    "signals",
    "excess",
    "errors",
    "recent",
    "consistency",
    "time",
    "views",
    "blocks",
    "gathered",
    "components",
    "forms",
)
_MAY_LACK = ("forms.coordinates", *(f"modes.units.{name}" for name in QUADRATIC_NAMES))


def part_of(arrays: Mapping[str, Any], part: str) -> dict[str, Any]:
    """The arrays of a part, without its name."""
    return {name.removeprefix(f"{part}."): each for name, each in arrays.items() if name.startswith(f"{part}.")}


def count_features(arrays: Arrays) -> int:
    """Number of features of the model, if its loadings have a possible shape."""
    name = "modes.loadings" if "modes.mean" in arrays else "model.loadings"
    shape = arrays.get(name, np.empty(0)).shape[-2:]
    if len(shape) < 2 or not 0 < shape[1] < shape[0] <= _MOST_FEATURES:
        raise ModelFileError(f"the array {name!r} is missing or has an impossible shape.")
    return int(shape[0])


def check_arrays(arrays: Arrays, header: Mapping[str, Any], d: int) -> None:
    """Refuse arrays that are missing or unknown, that do not fit each other or the header, or that no fit produces."""
    parameters = header["parameters"]
    n = n_columns_of(parameters, d)
    g = n * (parameters["lags"] + 1) - d
    w = d + g
    sizes = {"d": d, "n": n, "c": d // (parameters["lags"] + 1), "g": g, "w": w, "s": w * (w + 1) // 2}
    sizes |= {name: len(header[name] or ()) for name in TABLES}
    specs = dict(_expected(arrays, header, has_given=g > 0))
    if odd := sorted({*arrays} ^ {*specs}):
        raise ModelFileError(f"the array {odd[0]!r} is missing or unknown.")
    for name, spec in specs.items():
        spec.check(name, arrays[name], sizes)
    for name, rows in header["limits"]["rows"].items():
        _check_scores(name, rows, arrays[f"limits.{name}"], arrays[f"limits.{name}.block"])
    for name, is_wrong, what in _contradictions(arrays, sizes):
        if is_wrong:
            raise ModelFileError(f"array {name!r} {what}.")


def _expected(arrays: Arrays, header: Mapping[str, Any], *, has_given: bool) -> Iterator[tuple[str, _Spec]]:
    """The arrays that a file has, by what it says of itself."""
    parameters, parts = header["parameters"], {name.partition(".")[0] for name in arrays}
    wanted = {"mean", "scale", "range", "model" if parameters["modes"] is None else "modes"}
    wanted |= {part for part in _OPTIONAL if part in parts} | {name for name in TABLES if header[name] is not None}
    wanted |= {"context"} if has_given else set()
    wanted |= {"margins"} if parameters["model"] == "copula" else set()
    left_out = {name for name in _MAY_LACK if name not in arrays}
    left_out.add("model.covariance" if "model.factor" in arrays else "model.factor")
    left_out |= {"gathered.n", "gathered.mean", "gathered.scatter"} if "gathered.rows" in arrays else {"gathered.rows"}
    yield from (
        (name, spec) for name, spec in _SPECS.items() if name.partition(".")[0] in wanted and name not in left_out
    )
    for name, rows in header["limits"]["rows"].items():
        head = f"limits.{name}"
        yield head, _Spec(head)
        yield f"{head}.block", _Spec(head, 0, len(rows) - 1, whole=True)
        if f"{head}.weight" in arrays:
            yield f"{head}.weight", _Spec(f"{len(rows)}", 0, 1)
        if f"{head}.dependence" in arrays:
            yield f"{head}.dependence", _Spec("1", 1, 100)


def _check_scores(name: str, rows: list[int], largest: Floats, block: Floats) -> None:
    """The largest scores of so many rows per block, and the block of each."""
    if len(largest) > sum(rows) or (np.diff(largest) < 0).any():
        raise ModelFileError(f"array 'limits.{name}' does not contain sorted scores, at most {sum(rows)} of them.")
    if not len(block) or (np.bincount(block.astype(np.int64), minlength=len(rows)) > rows).any():
        raise ModelFileError(f"array 'limits.{name}.block' has no scores, or more in a block than the block has rows.")


def _contradictions(arrays: Arrays, sizes: Mapping[str, int]) -> Iterator[tuple[str, Any, str]]:
    """What arrays may be beside their shapes and ranges, one by one, in the order of the checks."""
    for name in ("model.covariance", "modes.covariance", "context.covariance", "views.covariance"):
        yield name, name in arrays and not _are_covariances(arrays[name]), "is not a covariance matrix"
    if "model.axes" in arrays:
        axes, loadings = arrays["model.axes"], arrays["model.loadings"]
        orthonormal = np.allclose(axes @ axes.T, np.eye(len(axes)), rtol=0, atol=_ROUNDING)
        yield "model.axes", not orthonormal, "is not orthonormal"
        outside = np.abs(loadings - axes.T @ (axes @ loadings)) > _ROUNDING * np.abs(loadings).max()
        empty = (np.abs(loadings) < _SMALLEST).all(axis=0)
        yield "model.loadings", bool(outside.any() or empty.any()), "does not fit array 'model.axes'"
    if "model.factor" in arrays:
        yield "model.factor", sizes["rank"] >= sizes["d"], "has as many rows as features, or more"
    if "modes.weights" in arrays:
        yield (
            "modes.weights",
            sizes["k"] > _MOST_MODES or abs(arrays["modes.weights"].sum() - 1) > _SHARES,
            "is no share",
        )
        largest = max(float(np.square(arrays[name]).max()) for name in ("modes.loadings", "modes.mean"))
        yield (
            "modes.noise",
            (arrays["modes.noise"] <= _LEAST_NOISE * largest).any(),
            "contains a number that is too small",
        )
        yield "modes.components", (arrays["modes.components"] > sizes["p"]).any(), "counts more than there are"
        yield "modes.range.features", (arrays["modes.range.features"][:, -1] < 0).any(), "contains a negative number"
    if "views.rule" in arrays:
        yield "views.centre", sizes["views"] not in (2, 3), "has neither two nor three views"
        alpha, stride = arrays["views.rule"].tolist()
        yield "views.rule", not (alpha < 1 <= stride <= MOST_STRIDE and stride == int(stride)), "is no rule"
        yield "views.range.features", (arrays["views.range.features"][:, -1] < 0).any(), "contains a negative number"
        sharp = np.linalg.eigvalsh(arrays["views.covariance"])[:, 0] if sizes["d"] <= _WIDE else np.ones(1)
        yield "views.covariance", (sharp <= 0).any(), "is not a covariance matrix"
    if "margins.sizes" in arrays:
        yield "margins.sizes", arrays["margins.sizes"].sum() != sizes["knots"], "does not count the knots"
    if "blocks.n" in arrays:
        yield (
            "blocks.n",
            not sizes["blocks"] or arrays["blocks.n"].sum() >= _MOST_ROWS,
            "counts more rows than are possible",
        )
    if "time.stretches" in arrays:
        n, flagged = arrays["time.stretches"]
        yield "time.stretches", bool((n < 1).any() or (flagged > n).any()), "counts more rows than there are"
    yield "gathered.n", sizes.get("pieces") == 0, "is empty"
    yield "gathered.rows", not 0 < sizes.get("held", 1) <= HELD, f"does not contain 1 to {HELD} rows"
    if "components" in arrays and "model.axes" in arrays:
        few = sizes["curve"] < sizes["p"]
        yield "components", few, "does not contain a value for each possible number of components"
    for name, columns in TABLES.items():
        for column in ("position", "feature"):
            if name in arrays and column in columns:
                found = arrays[name][:, [*columns].index(column)]
                least, most = 0, _MOST_ROWS if column == "position" else sizes["n"]
                whole = ((found >= least) & (found < most) & (found == np.rint(found))).all()
                yield name, not whole, f"contains a {column} that is not a whole number, or not possible"


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
