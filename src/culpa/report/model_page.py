"""The model page: everything it takes to make the same report again."""

import hashlib
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.version import __version__
from culpa._core.words import share
from culpa.fitted import FittedDetector
from culpa.jobs.describing import describe_detector, facts
from culpa.plots.content import Components, Loadings, Statistic
from culpa.plots.text import TITLES
from culpa.report.phrases import numbers

_COMPONENTS, _FEATURES = 20, 40  # that the picture of loadings shows at most
_PARTS = ("numpy", "scipy", "scikit-learn", "pandas", "narwhals", "numba", "plotly", "jinja2")


def model_page(
    fitted: FittedDetector, statistics: Sequence[Statistic], units: Sequence[str], settings: Mapping[str, str]
) -> dict[str, Any]:
    """What the model is and where the report comes from; ``settings`` are those of the report.

    ``likelihood`` is that of held-out rows for 1, 2, ... components, less the highest; empty if not known.
    """
    about = describe_detector(fitted)
    shown = Loadings.of(fitted.model.in_mode(0), n_components=_COMPONENTS, max_features=_FEATURES)
    loadings = [fitted.model.in_mode(mode).gaussian.loadings for mode in range(fitted.model.n_modes)]
    likelihood = Components.of_fitted(fitted)
    left_out = [] if about["modes"] is None else ["mode 1"]
    if about["components"] > _COMPONENTS:
        left_out.append(f"first {_COMPONENTS} of {about['components']} components")
    if shown.n_other:
        left_out.append(f"{len(shown.names)} of {len(about['features'])} features, those that vary most with them")
    own = facts(about) | {
        "noise variance": f"{about['noise_variance']:.6g}",
        "columns scaled": "to standard deviation 1" if about["scaled"] else "no",
        "statistic": f"{TITLES[about['statistic']]}, flagged above {about['limit']:.6g}",
        "limit": _limit_in_words(fitted),
        "parameters": ", ".join(f"{name}={value!r}" for name, value in vars(fitted.settings).items()),
        "fingerprint of the model": fingerprint(fitted.model.centre, fitted.model.scale, *loadings),
    }
    return {
        "features": [feature | {"unit": unit} for feature, unit in zip(about["features"], units, strict=True)],
        "n_components": about["components"],
        "explained_variance_ratio": numbers(_explained(fitted)),
        "likelihood": [] if likelihood is None else numbers(likelihood.log_likelihood, 6),
        "loadings": [numbers(line, 5) for line in shown.values],
        "loadings_of": list(shown.names),
        "loadings_note": f"Shown: {' and '.join(left_out)}." if left_out else "",
        "limits": limits(fitted, statistics),
        "settings": [fact(name, value) for name, value in {**own, **settings}.items()],
        "warnings": about["warnings"],
        "versions": {"culpa": __version__, "Python": platform.python_version()}
        | {name: version(name) for name in _PARTS},
    }


def fact(name: str, value: str, note: str = "") -> dict[str, str]:
    """A name, what it is, and perhaps a remark."""
    return {"name": name, "value": value, "note": note}


def _explained(fitted: FittedDetector) -> NDArray[np.float64]:
    """Share of the variance along each component; with modes, in the first mode."""
    if fitted.n_modes is not None:
        return Loadings.of(fitted.model.in_mode(0), max_features=None).explained
    return np.asarray(fitted.ppca.explained_variance_ratio_)


def _limit_in_words(fitted: FittedDetector) -> str:
    if fitted.limit_source == "given":
        return "a number that was given"
    if fitted.limit_source and fitted.settings.contamination is not None:
        return f"set so that {share(fitted.settings.contamination)} of the training rows exceed it"
    return f"{fitted.limit_kind}, {share(fitted.confidence)} of normal rows stay below"


def limits(fitted: FittedDetector, statistics: Sequence[Statistic]) -> list[dict[str, Any]]:
    """Limits of all statistics at all confidences; the one that ``decides`` is the detector's own."""
    return [
        {
            "name": statistic.name,
            "title": TITLES[statistic.name],
            "confidence": confidence,
            "value": value,
            "decides": statistic.name == fitted.statistic.name and confidence == fitted.confidence,
        }
        for statistic in statistics
        for confidence, value in statistic.limits.items()
    ]


def fingerprint(*arrays: NDArray[np.float64]) -> str:
    """Beginning of the SHA-256 of numbers: two reports on the same numbers show the same."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.shape}".encode())
        digest.update(np.ascontiguousarray(array, dtype="<f8").data)
    return digest.hexdigest()[:16]
