"""Control limits: how large may a score of a normal row be?

A quadratic score of Gaussian rows is a sum of chi-squares weighted by the eigenvalues of A S, with S the sample
covariance (the model's where the sample's is not known). theta_k below is the sum of their k-th powers.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from culpa._core.choices import LIMIT_KINDS, one_of
from culpa._core.types import Floats
from culpa.models import FittedModel
from culpa.scores.held_out import FEWEST_ROWS, HeldOutScores
from culpa.scores.quadratic import QuadraticScore
from culpa.scores.score import Score

FROM_ROWS = ("held-out", "empirical", "conformal")  # from scores of rows; the others are formulas

# of the scores behind empirical and conformal limits, the largest are kept: all of a small table, an eighth of a huge one
_FEWEST_KEPT = 1 << 14
_SHARE_KEPT = 1 / 8


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
class Tail:
    """The scores of some normal rows, as far as limits need them: how many there were, and the largest, ascending.

    >>> import numpy as np
    >>> held_out = Tail.of(np.arange(1.0, 200.0))  # 199 rows
    >>> held_out.conformal(0.99), held_out.conformal(0.95)
    (198.0, 190.0)
    """

    n: int
    largest: Floats

    @classmethod
    def of(cls, values: Floats) -> "Tail":
        """Scores of rows; NaN, for rows without any number, does not count."""
        values = np.sort(values[~np.isnan(values)])
        return cls(len(values), values[len(values) - cls.n_kept(len(values)) :])

    @staticmethod
    def n_kept(n: int) -> int:
        """How many of n scores are kept."""
        return min(n, max(_FEWEST_KEPT, math.ceil(_SHARE_KEPT * n)))

    def empirical(self, confidence: float) -> float:
        """The quantile, by linear interpolation."""
        if not self.n:
            raise ValueError("no training row has a score: pass rows with observed cells.")
        place = confidence * (self.n - 1)
        below = self._at(math.floor(place))
        return below + (place - math.floor(place)) * (self._at(math.ceil(place)) - below)

    def conformal(self, confidence: float) -> float:
        """A limit that a new row exceeds with probability 1 - confidence at most, whatever the distribution.

        The ceil((n + 1) confidence)-th smallest score. It needs rows that the model was not fitted to, and new rows that
        come from where those came from (Vovk, Gammerman and Shafer, 2005).
        """
        rank = math.ceil((self.n + 1) * confidence - 1e-9)
        if rank > self.n:
            needed = math.ceil(confidence / (1 - confidence) - 1e-9)
            raise ValueError(
                f"a conformal limit with confidence={confidence:g} needs at least {needed:,} held-out rows, "
                f"got {self.n:,}. Pass more rows, hold out a larger share, or choose a lower confidence."
            )
        return self._at(rank - 1)

    def reaches(self, kind: str, confidence: float) -> bool:
        """Whether there are scores enough for that."""
        place = confidence * (self.n - 1) if kind == "empirical" else math.ceil((self.n + 1) * confidence - 1e-9) - 1
        return self.n - len(self.largest) <= math.floor(place) < self.n

    def _at(self, place: int) -> float:
        """The score with ``place`` scores below it."""
        dropped = self.n - len(self.largest)
        if place < dropped:
            raise ValueError(
                f"only the largest {len(self.largest):,} of {self.n:,} scores were kept. Choose a higher confidence."
            )
        return float(self.largest[place - dropped])


@dataclass(frozen=True, eq=False)
class Limits:
    """How the limits of a fitted model are found: by formulas, or from the scores of normal rows.

    ``tails`` has these scores by the name of the score, for the kinds "held-out", "empirical" and
    "conformal".
    """

    model: FittedModel
    kind: str = "formula"
    tails: Mapping[str, Tail | HeldOutScores] = field(default_factory=dict)

    def kind_of(self, score: Score, *, training: bool = False) -> str:
        """What the limit of a score really is: which formula, and not "f" unless the score is T2."""
        by_formula = training and self.kind == "held-out" and isinstance(score, QuadraticScore)
        if self._has_rows(score) and not by_formula:
            return self.kind
        if self.kind in _OF_EIGENVALUES:
            return self.kind
        if isinstance(score, QuadraticScore) and score.gaussian.tail:
            return "box"
        if score.name == "t2":
            return "beta" if training else "f"
        return "jackson-mudholkar" if score.name in ("spe", "mse") else "box"

    def __call__(self, score: Score, confidence: float, *, training: bool = False) -> float:
        """The limit of a score; ``training`` if it is for the rows that the model was fitted to."""
        kind = self.kind_of(score, training=training)
        if kind in FROM_ROWS:
            tail = self.tails[score.name]
            if isinstance(tail, HeldOutScores):
                return tail.limit(confidence).value
            return tail.empirical(confidence) if kind == "empirical" else tail.conformal(confidence)
        return control_limit(score, self.model, confidence, kind)

    def knows(self, score: Score, confidence: float) -> bool:
        """Whether there is a limit: rows may be too few for so much confidence."""
        kind = self.kind_of(score)
        if kind not in FROM_ROWS:
            return True
        tail = self.tails[score.name]
        return tail.reaches(confidence) if isinstance(tail, HeldOutScores) else tail.reaches(kind, confidence)

    def held_out(self, score: Score) -> HeldOutScores | None:
        """The held-out scores behind the limit of a score, if there are such."""
        tail = self.tails.get(score.name)
        return tail if isinstance(tail, HeldOutScores) and self._has_rows(score) else None

    def _has_rows(self, score: Score) -> bool:
        """Whether there are scores to take a limit from; held-out ones may still be too few after an update."""
        tail = self.tails.get(score.name)
        return tail is not None and (not isinstance(tail, HeldOutScores) or tail.n >= FEWEST_ROWS)

    @staticmethod
    def tails_of(statistics: Iterable[Score], batches: Iterable[Floats]) -> dict[str, Tail]:
        """Scores of standardised rows, for "empirical" and "conformal"."""
        by_name = {score.name: score for score in statistics}
        parts = [{name: score(rows) for name, score in by_name.items()} for rows in batches]
        empty = np.empty(0)
        return {name: Tail.of(np.concatenate([empty, *(part[name] for part in parts)])) for name in by_name}


def control_limit(score: Score, model: FittedModel, confidence: float, kind: str = "formula") -> float:
    """Limit that a share ``confidence`` of normal rows stays below, by a formula.

    "formula" means Jackson-Mudholkar for reconstruction errors, F for T2 and a moment-matched chi-square (Box) for the
    others. For Student-t rows it is Box's limit with the F distribution, and there is no other formula.
    """
    if not isinstance(score, QuadraticScore):
        raise ValueError(
            "limits by a formula assume one mode. With several modes, use limit='auto', 'empirical' or 'conformal'."
        )
    one_of(kind, [name for name in (*LIMIT_KINDS, "beta") if name not in ("auto", *FROM_ROWS)], "limit")
    if kind == "formula":
        kind = Limits(model).kind_of(score)
    eigenvalues = score.spectrum(score.gaussian.scatter if model.sample is None else model.sample)
    n = model.n_samples
    if n is not None and model.context is not None:
        q = len(model.context.given)
        eigenvalues = eigenvalues * _of_given(q, n, training=kind == "beta")
        n = n - q
    if kind in ("f", "beta"):
        if score.name != "t2":
            raise ValueError(f"limit={kind!r} is for score='t2', not {score.name!r}: use 'formula'.")
        formula, p = f_limit if kind == "f" else beta_limit, score.gaussian.n_components
        # shrinkage and noise may make T2 divide by other variances than the sample's, which F and Beta take for granted
        stretch = box(eigenvalues, confidence) / stats.chi2.ppf(confidence, p)  # 1 where they are the same
        return float(formula(p, n, confidence) * stretch)
    if score.gaussian.tail:
        return student_box(eigenvalues, score.gaussian.degrees_of_freedom, confidence)
    return _OF_EIGENVALUES[kind](eigenvalues, confidence)


def _of_given(q: int, n: float, *, training: bool) -> float:
    """By how much rows vary more than the training rows seemed to, because the effect of q given features was learned too.

    What is left of n rows has n - 1 - q degrees of freedom instead of n - 1. New rows also have the error of that effect.
    """
    freedom = (n - 1) / max(n - 1 - q, 1)
    return freedom if training else freedom * (1 + q / max(n - q - 2, 1))
