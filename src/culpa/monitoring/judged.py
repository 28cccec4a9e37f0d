"""Which rows of a table in order are flagged, by how much, and how each of them looks in the view that flagged it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats, Mask
from culpa.explaining.explainer import Explainer
from culpa.explaining.explanation import Explanation
from culpa.fitted import FittedDetector, excess_of
from culpa.scores import ScoredRows
from culpa.scores.following import LEVEL, Follower

_MUCH = 1.5  # times, from which the movement of a limit is mentioned


class Seen(NamedTuple):
    """Flagged rows, each as its view sees it: features are distances from what it is compared with.

    With a limit that follows, scores are shown in units of the ``limit``, else as they are: they are divided by ``scale``.
    """

    rows: ScoredRows
    view: NDArray[np.int64]
    limit: Floats
    scale: Floats

    @classmethod
    def fixed(cls, rows: ScoredRows, limit: float) -> Self:
        """As the detector's own statistic sees rows."""
        return cls(rows, np.full(len(rows), LEVEL), np.full(len(rows), limit), np.ones(len(rows)))


class Blame(NamedTuple):
    """Shapley values of flagged rows, and their standard errors."""

    values: Floats
    std_error: Floats


class Course(NamedTuple):
    """Rows beside the limit: which are flagged, and where the level has been another one for long.

    Scores are in units of the limit, which is ``limit`` times that after the training rows; NaN where nothing was observed.
    """

    flagged: Mask
    score: Floats
    limit: Floats
    shifted: Mask

    @classmethod
    def of(cls, pieces: "Sequence[Course]") -> Self:
        """Of rows in pieces."""
        none = cls(np.zeros(0, dtype=bool), np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool))
        flagged, score, limit, shifted = (np.concatenate(part) for part in zip(none, *pieces, strict=True))
        return cls(flagged, score, limit, shifted)


class Judged(NamedTuple):
    """How rows were judged, and by how much they exceed the limit."""

    course: Course
    excess: Floats
    seen: Seen

    @property
    def flagged(self) -> Mask:
        """Which rows are flagged."""
        return self.course.flagged

    @property
    def shifted(self) -> Mask:
        """Where the level has been another one for long."""
        return self.course.shifted


def known(rows: ScoredRows, flagged: Mask, fitted: FittedDetector) -> Judged:
    """Rows of which somebody else says which are flagged."""
    limit, chosen = fitted.limit, rows.choose(np.flatnonzero(flagged))
    none, excess = np.zeros(len(rows), dtype=bool), excess_of(fitted).of_scores(rows.score, limit)
    return Judged(Course(flagged, rows.score / limit, np.ones(len(rows)), none), excess, Seen.fixed(chosen, limit))


def about_movement(factor: float) -> str:
    """What to say where the limit has moved by more than a factor."""
    if 1 / _MUCH <= factor <= _MUCH:
        return ""
    why = "rows were flagged often" if factor > 1 else "rows were flagged rarely"
    return f"The limit is {factor:.2g} times that of the training rows now, because {why}."


class RowJudge:
    """Judges rows in order, in any number of batches: by the limit that follows, where the detector has one."""

    def __init__(self, fitted: FittedDetector, *, follows: bool = True) -> None:
        self.fitted = fitted
        self.follower = Follower(fitted.views) if fitted.views is not None and follows else None

    def judge(self, rows: ScoredRows, missing: Floats | None = None) -> Judged:
        """The next rows; ``missing`` are missing before each."""
        if self.follower is None:
            return known(rows, self.fitted.is_flagged(rows.score), self.fitted)
        judged = self.follower.add(rows.reading.features, missing)
        views, at = self.follower.views, np.flatnonzero(judged.flagged)
        reading, view, theta = rows.reading.choose(at).against(judged.reference), judged.view[at], judged.theta[at]
        standard, (score, limit) = np.empty(reading.features.shape), np.empty((2, len(at)))
        for number, each in views.all.items():
            here = view == number
            standard[here] = each.model.standardise(reading.features[here])
            score[here], limit[here] = each.score(standard[here]), each.limit(theta[here])
        seen = Seen(ScoredRows(reading, standard, score, rows.statistic), view, limit, limit)
        shown = np.exp(views.largest_unit * judged.excess)
        shown[at], shown[np.isnan(rows.score)] = score / limit, np.nan
        course = Course(judged.flagged, shown, self._factor(judged.theta), judged.shifted)
        return Judged(course, judged.excess, seen)

    def _factor(self, theta: Any) -> Any:
        """By which a limit differs from that after the training rows."""
        assert self.follower is not None
        views = self.follower.views
        return np.exp(views.largest_unit * (theta - views.theta))

    @property
    def memory(self) -> tuple[Any, ...] | None:
        """What matters of earlier rows; set it to go on from there."""
        return None if self.follower is None else self.follower.memory

    @memory.setter
    def memory(self, memory: tuple[Any, ...] | None) -> None:
        if self.follower is not None and memory is not None:
            self.follower.memory = memory

    @property
    def moved(self) -> float:
        """The factor by which the limit has moved since the training rows."""
        return 1.0 if self.follower is None else float(self._factor(self.follower.theta))

    @property
    def in_views(self) -> dict[int, FittedDetector]:
        """The detector as each view that judges rows sees them."""
        if self.follower is None:
            return {LEVEL: self.fitted}
        return {number: self.fitted.in_view(number) for number in self.follower.views.all}


class Blamer:
    """Explains flagged rows, each in its view."""

    def __init__(
        self, judge: RowJudge, explain: Callable[[Explainer], Callable[[ScoredRows], Explanation]], **options: Any
    ) -> None:
        """``explain`` makes a function that explains rows by an explainer, whose ``options`` these are."""
        self.explainers = {number: fitted.explainer(**options) for number, fitted in judge.in_views.items()}
        self._explain = {number: explain(explainer) for number, explainer in self.explainers.items()}

    def blame(self, seen: Seen) -> Blame:
        """Of all of them."""
        result: Blame | None = None
        for number in np.unique(seen.view).tolist():
            here = np.flatnonzero(seen.view == number)
            rows = replace(seen.rows.choose(here), statistic=self.explainers[number].score)
            why = self._explain[number](rows)
            if result is None:
                result = Blame(*np.zeros((2, len(seen.view), why.values.shape[1])))
            result.values[here], result.std_error[here] = why.values, why.std_error
        return Blame(*np.zeros((2, 0, 0))) if result is None else result
