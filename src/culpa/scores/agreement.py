"""Models that somebody else fitted are asked for their own score of the rows at hand, and culpa's must be the same.

What culpa reads from an estimator may not be what the estimator does: a scaler may clip, a subclass may do something else,
and it may have been fitted again since it was read. Its own score tells, whatever the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from culpa._core.native import with_names
from culpa._core.types import Floats
from culpa._core.words import kind_of
from culpa.models import Distribution, Estimator, FittedModel, as_fitted_model
from culpa.models.adapters import is_detector
from culpa.scores.by_name import score_by_name
from culpa.scores.score import Score

_OWN = (FittedModel, Distribution, Estimator)
_EPS = float(np.finfo(np.float64).eps)
_SAME = 1e-4  # relative difference of two scores that are computed in different ways
_ROUNDING = 256  # times the last digit of a number, which ways to compute a score may differ by
_TIMES = 30  # what such differences of all numbers do to a score, in one direction, to be safe in all


def refuse_difference(
    estimator: Any, own: Floats, ours: Floats, slack: Callable[[], Floats], labels: NDArray[Any]
) -> None:
    """Raise an error if culpa's scores of rows are not those of the estimator; ``slack`` is what rounding may do."""
    both = np.isnan(own) & np.isnan(ours)
    apart = np.where(both, 0.0, np.abs(own - ours) - _SAME * np.maximum(np.abs(own), np.abs(ours)))
    if not (apart <= 0).all() and not ((apart := apart - slack()) <= 0).all():
        row = int(np.argmax(np.where(np.isnan(apart) & ~both, np.inf, apart)))
        raise ValueError(
            f"row {labels[row]} has the score {own[row]:.6g} by {kind_of(estimator)} itself, but {ours[row]:.6g} by what "
            "culpa read from it. If it was fitted again, start again from it. Otherwise, explain its score as a function "
            "(score=... and normal=...)."
        )


def rounding(score: Callable[[Floats], Floats], rows: Floats, at: Floats, last_digit: float = _EPS) -> Floats:
    """About how far rounding may move the scores of rows, which are ``at``."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=rows.shape[1])
    return _TIMES * np.abs(score(rows + _ROUNDING * last_digit * signs * np.abs(rows)) - at)


@dataclass(frozen=True, eq=False)
class Witness:
    """An estimator, the model that was read from it, and the score by which the two are compared."""

    estimator: Any
    model: FittedModel
    score: Score

    @classmethod
    def of(cls, estimator: Any, model: FittedModel, score: Score | None = None) -> Self | None:
        """The witness of a model; ``None`` if culpa made it, or if it has no score to compare. ``score`` is its error."""
        own = _own_score(_parts(estimator)[1])
        return None if own is None else cls(estimator, model, score_by_name(own[0], model) if score is None else score)

    def ask(self, rows: Floats) -> Floats:
        """The estimator's own score of rows of the model's features."""
        steps, last = _parts(self.estimator)
        own = _own_score(last)
        assert own is not None
        copied = rows.copy()  # a step may work in place
        if steps is None or self.model.encoding is not None:  # which applies the steps itself
            return own[1](with_names(last, copied))
        first = next((step for _, step in steps.steps if step not in (None, "passthrough")), last)
        return own[1](steps.transform(with_names(first, copied)))

    def check(self, features: Floats, labels: NDArray[Any]) -> None:
        """Raise an error if the estimator scores some complete row differently."""
        complete = ~np.isnan(features).any(axis=1)
        rows = features[complete]
        if not len(rows):
            return
        ours = self.score(self.model.standardise(rows))
        last = _parts(self.estimator)[1]

        def slack() -> Floats:
            eps = _last_digit(last)
            moved = rounding(lambda moved: self.score(self.model.standardise(moved)), rows, ours, eps)
            return moved + _TIMES * eps * _condition(last) * np.abs(ours)

        refuse_difference(self.estimator, np.asarray(self.ask(rows)), ours, slack, labels[complete])


@dataclass(frozen=True, eq=False)
class Unchanged:
    """A Pipeline that ends in a model of culpa's own, which is replaced whenever it is fitted."""

    estimator: Any
    model: FittedModel

    def check(self, features: Floats, labels: NDArray[Any]) -> None:
        """Raise an error if the Pipeline was fitted again."""
        if as_fitted_model(_parts(self.estimator)[1]).sample is not self.model.sample:
            raise ValueError(f"{kind_of(self.estimator)} was fitted again: make a new Explainer of it.")


@dataclass(frozen=True, eq=False)
class Learned:
    """A detector whose own score is explained, and what it had learned: it gets other attributes whenever it is fitted."""

    estimator: Any
    learned: dict[str, Any]

    @classmethod
    def of(cls, estimator: Any) -> Self:
        """Of a fitted detector as it is now."""
        return cls(estimator, {name: value for name, value in vars(estimator).items() if name.endswith("_")})

    def check(self, features: Floats, labels: NDArray[Any]) -> None:
        """Raise an error if the detector was fitted again: the mean score of normal rows is that of the one before."""
        now = vars(self.estimator)
        for name, value in self.learned.items():
            if now.get(name) is value or (isinstance(value, (int, float, str)) and now.get(name) == value):
                continue
            raise ValueError(f"{kind_of(self.estimator)} was fitted again: make a new Explainer of it.")


def witness_of(estimator: Any, model: FittedModel) -> Witness | Unchanged | None:
    """What tells whether a model still is what it was read from; ``None`` if it is culpa's own and stays as it is."""
    steps, last = _parts(estimator)
    if isinstance(last, _OWN) or is_detector(last):
        return None if steps is None else Unchanged(estimator, model)
    return Witness.of(estimator, model)


def _parts(estimator: Any) -> tuple[Any, Any]:
    """The steps of a Pipeline before its last one, ``None`` if there are none, and its last one."""
    steps = getattr(estimator, "steps", None)
    if steps is None:
        return None, estimator
    return (estimator[:-1] if len(steps) > 1 else None), steps[-1][1]


def _own_score(last: Any) -> tuple[str, Callable[[Any], Floats]] | None:
    """Name of a score of culpa, and the estimator's own function of rows that is the same."""
    if hasattr(last, "decision_scores_"):  # PyOD
        return "mahalanobis", last.decision_function
    if hasattr(last, "mahalanobis"):
        return "mahalanobis", last.mahalanobis
    if hasattr(last, "inverse_transform"):
        p, d = last.components_.shape
        return ("spe", lambda rows: _error(last, rows)) if p < d else ("t2", lambda rows: _distance(last, rows))
    if hasattr(last, "score_samples"):
        return "nll", lambda rows: -np.asarray(last.score_samples(rows))
    return None


def _error(last: Any, rows: Any) -> Floats:
    return np.asarray(((np.asarray(rows) - np.asarray(last.inverse_transform(last.transform(rows)))) ** 2).sum(axis=1))


def _distance(last: Any, rows: Any) -> Floats:
    components = np.asarray(last.transform(rows))
    return np.asarray((components**2 / (1.0 if last.whiten else last.explained_variance_)).sum(axis=1))


def _last_digit(last: Any) -> float:
    """Of the numbers that an estimator computes with, relative to them."""
    fitted = getattr(last, "detector_", last)
    learned = [getattr(fitted, name) for name in ("components_", "covariance_", "means_") if hasattr(fitted, name)]
    return float(np.finfo(np.result_type(np.float32, *learned)).eps)


def _condition(last: Any) -> float:
    """By how much the inverse of a covariance, which scikit-learn computes in the units of the columns, loses digits."""
    covariance = getattr(getattr(last, "detector_", last), "covariance_", None)
    return 1.0 if covariance is None else float(np.linalg.cond(covariance))
