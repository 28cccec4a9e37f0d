"""Scores by the names that users type."""

from collections.abc import Sequence
from dataclasses import replace

from culpa._core.choices import QUADRATIC_NAMES, SCORE_NAMES, one_of
from culpa.models import FittedModel, LatentGaussian, LatentMixture
from culpa.scores.limits import control_limit
from culpa.scores.mixture import MixtureScore
from culpa.scores.quadratic import QuadraticScore, combined, mahalanobis, mse, of_features, spe, t2
from culpa.scores.score import Score

OF_A_MODE = {"spe": spe, "mse": mse, "t2": t2, "mahalanobis": mahalanobis}


def score_by_name(
    name: str | Score, model: FittedModel, features: Sequence[int] | None = None, confidence: float = 0.99
) -> Score:
    """Build a score by name, for a model with any number of modes."""
    if not isinstance(name, str):
        return name
    one_of(name, SCORE_NAMES, "score")
    standard = model.standard
    if name == "nll":
        if features is not None:
            raise ValueError(
                "features=... selects reconstruction errors, so it goes with score='spe' or 'mse', not 'nll'."
            )
        if standard.modes[0].tail:
            raise ValueError(
                "score='nll' is not available for a Student model: use 'mahalanobis', which orders rows alike."
            )
        return MixtureScore.nll(LatentMixture(standard.weights, standard.modes))
    units = model.mode_units.get(name)
    if standard.n_modes == 1:
        own = named_score(name, model, features, confidence)
        return own if units is None else own.divided_by(float(units[0]))
    if features is not None:
        raise ValueError("features=... is not available for a model with several modes.")
    if name not in OF_A_MODE:
        raise ValueError(f"score={name!r} is not available for a model with several modes: use 'mahalanobis'.")
    return MixtureScore.weighted(name, standard, OF_A_MODE[name], units)


def named_score(
    name: str, model: FittedModel, features: Sequence[int] | None = None, confidence: float = 0.99
) -> QuadraticScore:
    """Build a quadratic score by name, for a model with one mode; "combined" weighs SPE and T2 by their limits."""
    one_of(name, QUADRATIC_NAMES, "score")
    gaussian = model.gaussian
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
    return OF_A_MODE[name](gaussian)


def _of_whole_gaussian(name: str, gaussian: LatentGaussian) -> QuadraticScore:
    """Where all directions are components, T2 is the Mahalanobis distance."""
    if name not in ("t2", "mahalanobis"):
        raise ValueError(
            f"score={name!r} needs a reconstruction error, but the model keeps all {gaussian.n_features} components, so it "
            "reconstructs every row perfectly: use score='t2' or 'mahalanobis', or refit it with fewer components."
        )
    return replace(mahalanobis(gaussian), name=name)
