"""Scores by the names that users type."""

from collections.abc import Sequence

from culpa._core.choices import SCORE_NAMES, one_of
from culpa.models import FittedModel
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
