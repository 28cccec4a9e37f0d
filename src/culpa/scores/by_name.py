"""Scores by the names that users type."""

from collections.abc import Sequence
from dataclasses import replace

from culpa._core.choices import SCORE_NAMES, one_of
from culpa.models import FittedModel, LatentGaussian
from culpa.scores.limits import control_limit
from culpa.scores.quadratic import QuadraticScore, combined, mahalanobis, mse, of_features, spe, t2


def named_score(
    name: str | QuadraticScore, model: FittedModel, features: Sequence[int] | None = None, confidence: float = 0.99
) -> QuadraticScore:
    """Build a score by name; "combined" weighs SPE and T2 by their limits."""
    if isinstance(name, QuadraticScore):
        return name
    one_of(name, SCORE_NAMES, "score")
    gaussian = model.centred
    if model.no_residuals and (features is None or name in ("spe", "mse")):
        return _of_whole_gaussian(name, gaussian)
    if features is not None:
        if name not in ("spe", "mse"):
            raise ValueError(
                f"features=... selects reconstruction errors, so it needs score='spe' or 'mse', not {name!r}."
            )
        if not len(features):
            raise ValueError("features must name at least one feature.")
        return of_features(gaussian, features, mean=name == "mse")
    if name == "combined":
        parts = (spe(gaussian), t2(gaussian))
        return combined(gaussian, *(control_limit(part, model, confidence) or 1.0 for part in parts))
    build = {"spe": spe, "mse": mse, "t2": t2, "mahalanobis": mahalanobis}[name]
    return build(gaussian)


def _of_whole_gaussian(name: str, gaussian: LatentGaussian) -> QuadraticScore:
    """Where all directions are components, T2 is the Mahalanobis distance."""
    if name not in ("t2", "mahalanobis"):
        raise ValueError(
            f"score={name!r} needs a reconstruction error, but the model keeps all {gaussian.n_features} components, so it "
            "reconstructs every row perfectly: use score='t2' or 'mahalanobis', or refit it with fewer components."
        )
    return replace(mahalanobis(gaussian), name=name)
