"""Control limits: how large may a score of a normal row be?

A quadratic score of Gaussian rows is a sum of chi-squares weighted by the eigenvalues of A S, with S the sample
covariance (the model's where the sample's is not known). theta_k below is the sum of their k-th powers.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from culpa._core import probability as stats
from culpa._core.choices import LIMIT_KINDS, one_of
from culpa._core.types import Floats
from culpa.models import FittedModel
from culpa.models.scatter import Scatter
from culpa.scores.held_out import HeldOutScores, conformal, empirical
from culpa.scores.score import Score

# limits from scores of rows; the others are formulas
_QUANTILES: dict[str, Callable[[HeldOutScores, float], float]] = {
    "held-out": lambda tail, confidence: tail.limit(confidence).value,
    "empirical": empirical,
    "conformal": conformal,
}
FROM_ROWS = tuple(_QUANTILES)


def jackson_mudholkar(eigenvalues: Floats, confidence: float) -> float:
    """Limit of the SPE after Jackson and Mudholkar (1979); Box's where their h0 is not positive.

    >>> import numpy as np
    >>> round(jackson_mudholkar(np.ones(100), 0.99), 1)  # close to the 99% point of chi-square, 135.8
    135.8
    """
    largest = float(eigenvalues.max(initial=0.0))  # in units of it, for powers must not overflow
    if largest == 0:
        return 0.0
    theta1, theta2, theta3 = (float(((eigenvalues / largest) ** k).sum()) for k in (1, 2, 3))
    h0 = 1 - 2 * theta1 * theta3 / (3 * theta2**2)
    if h0 <= 0:
        return box(eigenvalues, confidence)
    quantile = stats.norm.ppf(confidence)
    inner = 1 + quantile * np.sqrt(2 * theta2) * h0 / theta1 + theta2 * h0 * (h0 - 1) / theta1**2
    return float(largest * theta1 * max(inner, 0.0) ** (1 / h0))


def box(eigenvalues: Floats, confidence: float) -> float:
    """Limit g chi2_h with g and h from the first two moments (Box, 1954); exact when all eigenvalues agree."""
    theta1 = float(eigenvalues.sum())
    theta2 = float((eigenvalues / (theta1 or 1.0) * eigenvalues).sum())  # over theta1, or it might overflow
    return float(theta2 * stats.chi2.ppf(confidence, theta1 / theta2)) if theta2 else 0.0


def student_box(eigenvalues: Floats, degrees_of_freedom: float, confidence: float) -> float:
    """Box's limit for Student-t rows: exact when all eigenvalues agree, as for the Mahalanobis distance.

    With Gaussian rows the score is about g chi2_h; Student-t rows divide it by an independent chi2_nu / (nu - 2).
    """
    theta1 = float(eigenvalues.sum())
    theta2 = float((eigenvalues / (theta1 or 1.0) * eigenvalues).sum())
    nu = degrees_of_freedom
    return float(theta1 * (nu - 2) / nu * stats.f.ppf(confidence, theta1 / theta2, nu)) if theta2 else 0.0


_OF_EIGENVALUES = {"jackson-mudholkar": jackson_mudholkar, "box": box}


def f_limit(n_components: int, n_samples: float | None, confidence: float) -> float:
    """Limit of T2 for new rows, from the F distribution; chi-square where the number of training rows is unknown."""
    p, n = n_components, n_samples
    if n is None or n <= p:
        return float(stats.chi2.ppf(confidence, p))
    return float(p * (n**2 - 1) / (n * (n - p)) * stats.f.ppf(confidence, p, n - p))


def beta_limit(n_components: int, n_samples: float | None, confidence: float) -> float:
    """Limit of T2 for the training rows themselves, which pull the model towards them (Tracy, Young and Mason, 1992)."""
    p, n = n_components, n_samples
    if n is None or n <= p + 1:
        return f_limit(p, n, confidence)
    return float((n - 1) ** 2 / n * stats.beta.ppf(confidence, p / 2, (n - p - 1) / 2))


@dataclass(frozen=True, eq=False)
class Limits:
    """How the limits of a fitted model are found: by formulas, or from the scores of normal rows.

    ``tails`` has these scores by the name of the score, for the kinds "held-out", "empirical" and
    "conformal".
    """

    model: FittedModel
    kind: str = "formula"
    tails: Mapping[str, HeldOutScores] = field(default_factory=dict)

    def kind_of(self, score: Score, *, training: bool = False) -> str:
        """What the limit of a score really is: which formula, and not "f" unless the score is T2."""
        quadratic = score.as_quadratic
        by_formula = training and self.kind == "held-out" and quadratic is not None
        if self._has_rows(score) and not by_formula:
            return self.kind
        if self.kind in _OF_EIGENVALUES:
            return self.kind
        if quadratic is not None and quadratic.gaussian.tail:
            return "box"
        if score.name == "t2":
            return "beta" if training else "f"
        return "jackson-mudholkar" if score.name in ("spe", "mse") else "box"

    def __call__(self, score: Score, confidence: float, *, training: bool = False) -> float:
        """The limit of a score; ``training`` if it is for the rows that the model was fitted to."""
        kind = self.kind_of(score, training=training)
        if kind in FROM_ROWS:
            return _QUANTILES[kind](self.tails[score.name], confidence)
        return control_limit(score, self.model, confidence, kind)

    def knows(self, score: Score, confidence: float) -> bool:
        """Whether there is a limit: rows may be too few, or too few of their scores kept, for this confidence."""
        try:
            return bool(self.kind_of(score) not in FROM_ROWS or self(score, confidence) is not None)
        except ValueError:
            return False

    def held_out(self, score: Score) -> HeldOutScores | None:
        """The held-out scores behind the limit of a score, if there are such."""
        return self.tails[score.name] if self.kind == "held-out" and self._has_rows(score) else None

    def _has_rows(self, score: Score) -> bool:
        """Whether there are scores to take a limit from; held-out ones may still be too few after an update."""
        tail = self.tails.get(score.name)
        return tail is not None and (self.kind != "held-out" or tail.are_enough)

    @staticmethod
    def tails_of(statistics: Iterable[Score], batches: Iterable[Floats]) -> dict[str, HeldOutScores]:
        """Scores of standardised rows, for "empirical" and "conformal"."""
        by_name = {score.name: score for score in statistics}
        parts = [{name: score(rows) for name, score in by_name.items()} for rows in batches]
        empty = np.empty(0)
        return {name: HeldOutScores.of(np.concatenate([empty, *(part[name] for part in parts)])) for name in by_name}


def control_limit(score: Score, model: FittedModel, confidence: float, kind: str = "formula") -> float:
    """Limit that a share ``confidence`` of normal rows stays below, by a formula.

    "formula" means Jackson-Mudholkar for reconstruction errors, F for T2 and a moment-matched chi-square (Box) for the
    others. For Student-t rows it is Box's limit with the F distribution, and there is no other formula.
    """
    if (quadratic := score.as_quadratic) is None:
        raise ValueError(
            "limits by a formula assume one mode. With several modes, use limit='auto', 'empirical' or 'conformal'."
        )
    one_of(kind, [name for name in (*LIMIT_KINDS, "beta") if name not in ("auto", *FROM_ROWS)], "limit")
    if kind == "formula":
        kind = Limits(model).kind_of(score)
    eigenvalues = quadratic.spectrum(
        Scatter.of_matrix(quadratic.gaussian.covariance) if model.sample is None else model.sample
    )
    n = model.n_samples
    if n is not None and model.context is not None:
        q = len(model.context.given)
        eigenvalues = eigenvalues * _of_given(q, n, training=kind == "beta")
        n = n - q
    if kind in ("f", "beta"):
        if score.name != "t2":
            raise ValueError(f"limit={kind!r} is for score='t2', not {score.name!r}: use 'formula'.")
        formula, p = f_limit if kind == "f" else beta_limit, quadratic.gaussian.n_components
        # shrinkage and noise may make T2 divide by other variances than the sample's, which F and Beta take for granted
        stretch = box(eigenvalues, confidence) / stats.chi2.ppf(confidence, p)  # 1 where they are the same
        return float(formula(p, n, confidence) * stretch)
    if quadratic.gaussian.tail:
        return student_box(eigenvalues, quadratic.gaussian.degrees_of_freedom, confidence)
    return _OF_EIGENVALUES[kind](eigenvalues, confidence)


def _of_given(q: int, n: float, *, training: bool) -> float:
    """By how much rows vary more than the training rows seemed to, because the effect of q given features was learned too.

    What is left of n rows has n - 1 - q degrees of freedom instead of n - 1. New rows also have the error of that effect.
    """
    freedom = (n - 1) / max(n - 1 - q, 1)
    return freedom if training else freedom * (1 + q / max(n - q - 2, 1))
