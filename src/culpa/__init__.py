"""culpa: whose fault is this anomaly?

Learn what normal rows look like with probabilistic PCA, score new rows by how badly they are reconstructed,
and split each row's score fairly among its features with Shapley values that respect correlations.

>>> from culpa.datasets import load_wine_outliers
>>> from culpa import PCADetector
>>> wine = load_wine_outliers()
>>> detector = PCADetector().fit(wine.X[wine.y == 0])
>>> why = detector.explain(wine.X[wine.y == 1])
>>> bool(abs(why.values.sum(axis=1) + why.base_value - why.score).max() < 1e-9)
True
"""

from typing import TYPE_CHECKING

from culpa._core.lazy import lazy
from culpa._core.version import __version__

# Public names and the modules that hold them. They are loaded on first use (PEP 562), so that `culpa --help`
# does not pay for importing scikit-learn.
_HOMES = {
    "Explainer": "culpa.explainer",
    "Explanation": "culpa.explanation",
    "FitWarning": "culpa._core.fit_warning",
    "Lags": "culpa.columns",
    "LatentGaussian": "culpa.models",
    "LatentMixture": "culpa.models",
    "MixturePPCA": "culpa.models",
    "PCADetector": "culpa.detector",
    "PPCA": "culpa.models",
    "PipelineDetector": "culpa.piping",
    "StudentPPCA": "culpa.models",
    "calibrate": "culpa.calibration.choice",
    "load": "culpa.io.model_file",
}

__all__ = [
    "PPCA",
    "Explainer",
    "Explanation",
    "FitWarning",
    "Lags",
    "LatentGaussian",
    "LatentMixture",
    "MixturePPCA",
    "PCADetector",
    "PipelineDetector",
    "StudentPPCA",
    "__version__",
    "calibrate",
    "load",
]

if TYPE_CHECKING:
    from culpa._core.fit_warning import FitWarning
    from culpa.calibration.choice import calibrate
    from culpa.columns import Lags
    from culpa.detector import PCADetector
    from culpa.explainer import Explainer
    from culpa.explanation import Explanation
    from culpa.io.model_file import load
    from culpa.models import PPCA, LatentGaussian, LatentMixture, MixturePPCA, StudentPPCA
    from culpa.piping import PipelineDetector
else:  # a type checker must see the names above, and that there are no others
    __getattr__ = lazy(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
