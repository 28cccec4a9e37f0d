"""The part of a model file that describes operating modes.

| array | shape | content |
| --- | --- | --- |
| modes.weights, modes.noise, modes.components | (modes,) | share of the rows, noise variance, number of components |
| modes.mean | (modes, d) | means of scaled rows |
| modes.loadings | (modes, d, p) | with zeros beyond a mode's number of components |
| modes.covariance | (modes, d, d) | covariance of each mode's rows |
| modes.units.NAME | (modes,) | what scores are measured in, by the name of the score |
| modes.range.features, modes.range.rows | (modes, 3, d), (modes, 3) | how far features went |
"""

from typing import Any

import numpy as np

from culpa._core.choices import QUADRATIC_NAMES
from culpa.fitted import FittedDetector
from culpa.io.model_checks import Arrays, ModelFileError
from culpa.models import LatentGaussian, LatentMixture, MixturePPCA
from culpa.models.normal_range import NormalRange

_MOST_MODES = 1000
_LEAST_NOISE = 1e-15  # of the largest squares; learning keeps far above it, and below it values lose their digits
_SHARES = 1e-6  # by which weights may fail to add up to 1


def arrays_of_modes(fitted: FittedDetector, ppca: MixturePPCA) -> Arrays:
    """What a file keeps of the modes."""
    modes, p = ppca.mixture_.modes, ppca.mixture_.n_components
    padded = [np.pad(mode.loadings, ((0, 0), (0, p - mode.n_components))) for mode in modes]
    ranges = [one.to_arrays() for one in fitted.mode_ranges]
    return {
        "modes.weights": ppca.weights_,
        "modes.noise": ppca.noise_variances_,
        "modes.components": np.array(ppca.n_components_, dtype=np.float64),
        "modes.mean": ppca.means_,
        "modes.loadings": np.array(padded),
        "modes.covariance": ppca.mode_covariances_,
        **{f"modes.range.{name}": np.array([one[name] for one in ranges]) for name in ("features", "rows")},
        **{f"modes.units.{name}": units for name, units in fitted.model.mode_units.items()},
    }


def shapes_of_modes(arrays: Arrays, d: int) -> dict[str, tuple[int, ...]]:
    """The shapes that the arrays of modes must have; anything impossible about them is refused."""
    k = len(arrays["modes.mean"])
    loadings = arrays.get("modes.loadings", np.empty(0))
    if loadings.ndim != 3 or not 0 < loadings.shape[2] < d or not 0 < k <= _MOST_MODES:
        raise ModelFileError("the array 'modes.loadings' is missing or has an impossible shape.")
    p = loadings.shape[2]
    units = [name for name in arrays if name.startswith("modes.units.")]
    if any(name.removeprefix("modes.units.") not in QUADRATIC_NAMES for name in units):
        raise ModelFileError(f"the array {units[0]!r} is missing or unknown.")
    return {
        **dict.fromkeys(("modes.weights", "modes.noise", "modes.components", *units), (k,)),
        "modes.mean": (k, d),
        "modes.loadings": (k, d, p),
        "modes.covariance": (k, d, d),
        "modes.range.features": (k, 3, d),
        "modes.range.rows": (k, 3),
    }


def check_modes(arrays: Arrays) -> None:
    """Ranges of numbers, once shapes are known and nothing is too large."""
    p, numbers = arrays["modes.loadings"].shape[2], arrays["modes.components"]
    largest = max(float(np.square(arrays[name]).max()) for name in ("modes.loadings", "modes.mean"))
    wrong = {
        "modes.weights": (arrays["modes.weights"] <= 0).any() or abs(arrays["modes.weights"].sum() - 1) > _SHARES,
        "modes.noise": (arrays["modes.noise"] <= _LEAST_NOISE * largest).any(),
        "modes.components": not np.isin(numbers, np.arange(1, p + 1)).all(),
        "modes.range.features": (arrays["modes.range.features"][:, -1] < 0).any(),
        "modes.range.rows": (arrays["modes.range.rows"] < 0).any(),
    }
    wrong |= {name: (array <= 0).any() for name, array in arrays.items() if name.startswith("modes.units.")}
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise ModelFileError(f"array {name!r} contains a number that is not possible.")


def mixture_from(arrays: Arrays, header: dict[str, Any]) -> MixturePPCA:
    """The fitted estimator."""
    parameters, training = header["parameters"], header["training"]
    numbers = [int(p) for p in arrays["modes.components"]]
    modes = tuple(
        LatentGaussian(arrays["modes.mean"][k], arrays["modes.loadings"][k][:, :p], float(arrays["modes.noise"][k]))
        for k, p in enumerate(numbers)
    )
    ppca = MixturePPCA(len(numbers), numbers, noise=parameters["noise"], shrinkage=parameters["shrinkage"])
    ppca.n_features_in_ = len(arrays["mean"])
    ppca.n_samples_, ppca.n_iter_, ppca.converged_ = training["rows"], training["iterations"], training["converged"]
    return ppca.restore(LatentMixture(arrays["modes.weights"], modes), arrays["modes.covariance"])


def units_from(arrays: Arrays) -> dict[str, Any]:
    """What scores of each mode are measured in."""
    head = "modes.units."
    return {name.removeprefix(head): array for name, array in arrays.items() if name.startswith(head)}


def ranges_from(arrays: Arrays) -> tuple[NormalRange, ...]:
    """How far features went in each mode."""
    both = zip(arrays["modes.range.features"], arrays["modes.range.rows"], strict=True)
    return tuple(NormalRange.from_arrays({"features": features, "rows": rows}) for features, rows in both)
