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
    "Calibration": "culpa.calibration.choice",
    "Comparison": "culpa.monitoring",
    "Counterfactual": "culpa.explaining.counterfactual",
    "Culprit": "culpa.monitoring",
    "Drift": "culpa.monitoring",
    "Explainer": "culpa.explaining.explainer",
    "Explanation": "culpa.explaining.explanation",
    "FitWarning": "culpa._core.warning",
    "Incident": "culpa.monitoring",
    "Incidents": "culpa.monitoring",
    "Interactions": "culpa.explaining.interactions",
    "JointFix": "culpa.explaining.joint_fix",
    "Lags": "culpa.columns",
    "LatentGaussian": "culpa.models",
    "LatentMixture": "culpa.models",
    "MixturePPCA": "culpa.models",
    "Moment": "culpa.monitoring",
    "PCADetector": "culpa.detecting.detector",
    "PPCA": "culpa.models",
    "PipelineDetector": "culpa.detecting.piping",
    "Report": "culpa.report",
    "Shortest": "culpa.explaining.shortest",
    "StudentPPCA": "culpa.models",
    "calibrate": "culpa.calibration.choice",
    "load": "culpa.io.model_file",
}

__all__ = [
    "PPCA",
    "Calibration",
    "Comparison",
    "Counterfactual",
    "Culprit",
    "Drift",
    "Explainer",
    "Explanation",
    "FitWarning",
    "Incident",
    "Incidents",
    "Interactions",
    "JointFix",
    "Lags",
    "LatentGaussian",
    "LatentMixture",
    "MixturePPCA",
    "Moment",
    "PCADetector",
    "PipelineDetector",
    "Report",
    "Shortest",
    "StudentPPCA",
    "__version__",
    "calibrate",
    "load",
]

if TYPE_CHECKING:
    from culpa._core.warning import FitWarning
    from culpa.calibration.choice import Calibration, calibrate
    from culpa.columns import Lags
    from culpa.detecting.detector import PCADetector
    from culpa.detecting.piping import PipelineDetector
    from culpa.explaining.counterfactual import Counterfactual
    from culpa.explaining.explainer import Explainer
    from culpa.explaining.explanation import Explanation
    from culpa.explaining.interactions import Interactions
    from culpa.explaining.joint_fix import JointFix
    from culpa.explaining.shortest import Shortest
    from culpa.io.model_file import load
    from culpa.models import PPCA, LatentGaussian, LatentMixture, MixturePPCA, StudentPPCA
    from culpa.monitoring import Comparison, Culprit, Drift, Incident, Incidents, Moment
    from culpa.report import Report
else:  # a type checker must see the names above, and that there are no others
    __getattr__ = lazy(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
