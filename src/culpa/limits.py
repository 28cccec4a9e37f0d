"""Control limits: how large may a score of a normal row be?

A quadratic score of Gaussian rows is a sum of chi-squares weighted by the eigenvalues of A S, with S the sample
covariance (the model's where the sample's is not known). theta_k below is the sum of their k-th powers.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from culpa import scores
from culpa._validation import one_of
from culpa.models import Normal

Floats = NDArray[np.float64]

KINDS = ("auto", "jackson-mudholkar", "box", "f", "empirical")


def jackson_mudholkar(eigenvalues: Floats, confidence: float) -> float:
    """Limit of the SPE after Jackson and Mudholkar (1979); Box's where their h0 is not positive.

    >>> import numpy as np
    >>> round(jackson_mudholkar(np.ones(100), 0.99), 1)  # close to the 99% point of chi-square, 135.8
    135.8
    """
    theta1, theta2, theta3 = (float((eigenvalues**k).sum()) for k in (1, 2, 3))
    if theta2 == 0:
        return 0.0
    h0 = 1 - 2 * theta1 * theta3 / (3 * theta2**2)
    if h0 <= 0:
        return box(eigenvalues, confidence)
    quantile = stats.norm.ppf(confidence)
    inner = 1 + quantile * np.sqrt(2 * theta2) * h0 / theta1 + theta2 * h0 * (h0 - 1) / theta1**2
    return float(theta1 * max(inner, 0.0) ** (1 / h0))


def box(eigenvalues: Floats, confidence: float) -> float:
    """Limit g chi2_h with g and h from the first two moments (Box, 1954); exact when all eigenvalues agree."""
    theta1, theta2 = float(eigenvalues.sum()), float((eigenvalues**2).sum())
    return float(theta2 / theta1 * stats.chi2.ppf(confidence, theta1**2 / theta2)) if theta2 else 0.0


def f_limit(n_components: int, n_samples: int | None, confidence: float) -> float:
    """Limit of T2 for new rows, from the F distribution; chi-square where the number of training rows is unknown."""
    p, n = n_components, n_samples
    if n is None or n <= p:
        return float(stats.chi2.ppf(confidence, p))
    return float(p * (n**2 - 1) / (n * (n - p)) * stats.f.ppf(confidence, p, n - p))


def control_limit(
    score: scores.QuadraticScore,
    normal: Normal,
    confidence: float,
    kind: str = "auto",
    training_scores: Floats | None = None,
) -> float:
    """Limit that a share ``confidence`` of normal rows stays below.

    "auto" means Jackson-Mudholkar for reconstruction errors, F for T2 and a moment-matched chi-square (Box) for the
    others; "empirical" is the quantile of the training rows' own scores.
    """
    one_of(kind, KINDS, "limit")
    if kind == "empirical":
        if training_scores is None:
            raise ValueError("limit='empirical' needs the training rows' scores.")
        return float(np.nanquantile(training_scores, confidence))
    if kind == "auto":
        kind = {"spe": "jackson-mudholkar", "mse": "jackson-mudholkar", "t2": "f"}.get(score.name, "box")
    if kind == "f":
        if score.name != "t2":
            raise ValueError(f"limit='f' is for score='t2', not {score.name!r}: use 'auto'.")
        return f_limit(score.gaussian.n_components, normal.n_samples, confidence)
    covariance = score.gaussian.covariance if normal.sample_covariance is None else normal.sample_covariance
    eigenvalues = score.spectrum(covariance)
    return jackson_mudholkar(eigenvalues, confidence) if kind == "jackson-mudholkar" else box(eigenvalues, confidence)


def named_score(
    name: str | scores.QuadraticScore, normal: Normal, features: Sequence[int] | None = None, confidence: float = 0.99
) -> scores.QuadraticScore:
    """Build a score by name. It lives here because "combined" weighs SPE and T2 by their limits."""
    if isinstance(name, scores.QuadraticScore):
        return name
    one_of(name, scores.NAMES, "score")
    gaussian = normal.centred
    if features is not None:
        if name not in ("spe", "mse"):
            raise ValueError(
                f"features=... selects reconstruction errors, so it goes with score='spe' or 'mse', not {name!r}."
            )
        if not len(features):
            raise ValueError("features must name at least one feature.")
        return scores.of_features(gaussian, features, mean=name == "mse")
    if name == "combined":
        parts = (scores.spe(gaussian), scores.t2(gaussian))
        return scores.combined(gaussian, *(control_limit(part, normal, confidence) or 1.0 for part in parts))
    build = {"spe": scores.spe, "mse": scores.mse, "t2": scores.t2, "mahalanobis": scores.mahalanobis}[name]
    return build(gaussian)
