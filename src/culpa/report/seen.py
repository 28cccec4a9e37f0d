"""Rows as the views that judge rows in order of time see them, so that the page explains rows as incidents do."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from culpa._core.parameters import BlameOptions
from culpa._core.types import Floats, Positions
from culpa.columns import Reading
from culpa.explaining.explanation import Explanation
from culpa.fitted import FittedDetector
from culpa.models import FittedModel
from culpa.monitoring import Incident
from culpa.scores.following import VIEWS, Follower, reference

_ROWS_PER_CHUNK = 1 << 14  # judged at a time, so that memory does not grow with their number


class Course(NamedTuple):
    """How rows were judged: the view that flagged each (-1 for none), and the limit, recent level and row before it."""

    view: NDArray[np.int64]
    theta: Floats
    average: Floats
    before: Floats

    def some(self, at: Positions) -> Self:
        """Some of the rows."""
        return type(self)(self.view[at], self.theta[at], self.average[at], self.before[at])

    def reference(self, view: int) -> Floats:
        """What rows are compared with in a view."""
        return reference(view, self.average, self.before)


@dataclass(frozen=True, eq=False)
class SeenRows:
    """Some rows of a table in order, and how they were judged; ``None`` where a fixed limit judges all of them."""

    fitted: FittedDetector
    reading: Reading  # of the whole table
    rows: Positions
    judged: Course | None

    @classmethod
    def of(cls, fitted: FittedDetector, reading: Reading, missing: Floats | None, rows: Positions) -> Self:
        """``missing`` are missing before each row of the table; ``rows`` increase."""
        if fitted.views is None:
            return cls(fitted, reading, rows, None)
        follower, X = Follower(fitted.views), reading.features
        gaps = np.zeros(len(X)) if missing is None else missing
        before = np.where((rows > 0) & (gaps[rows] == 0), X[rows - 1].T, np.nan).T
        course = Course(np.full(len(rows), -1), np.zeros(len(rows)), np.empty(before.shape), before)
        for start in range(0, len(X), _ROWS_PER_CHUNK):
            chunk, here = slice(start, start + _ROWS_PER_CHUNK), rows // _ROWS_PER_CHUNK == start // _ROWS_PER_CHUNK
            averages, at = np.empty(X[chunk].shape), rows[here] - start
            judged = follower.add(X[chunk], gaps[chunk], averages)
            course.view[here], course.theta[here], course.average[here] = (
                judged.view[at],
                judged.theta[at],
                averages[at],
            )
        return cls(fitted, reading, rows, course)

    def explained(self, rows: Positions, **options: Unpack[BlameOptions]) -> Explanation:
        """Each row in the view that flagged it, beside its limit, and others by the detector's own model."""
        if self.judged is None:
            return self.fitted.explain(self.reading, rows, **options)
        own, judged = self.fitted, self.judged.some(np.searchsorted(self.rows, rows))
        assert own.views is not None
        parts, places = [], []
        for number in np.unique(judged.view).tolist() or [-1]:
            here = np.flatnonzero(judged.view == number)
            reading, fitted, limit = self.reading.choose(rows[here]), own, np.full(len(here), own.limit)
            if number >= 0:
                reading = reading.against(judged.some(here).reference(number))
                fitted, limit = own.in_view(number), own.views.all[number].limit(judged.theta[here])
            parts.append(_beside(limit, fitted.explain(reading, **options)))
            places.append(here)
        return Explanation.concatenate(parts)[np.argsort(np.concatenate(places))]

    def in_view_of(self, incident: Incident, rows: Positions) -> tuple[FittedModel, Reading]:
        """Rows as the view of an incident's culprits sees them, and its model."""
        reading, fitted = self.reading.choose(rows), self.fitted
        if self.judged is None or not incident.n_flagged:
            return (fitted.model if incident.mode is None else fitted.in_mode(incident.mode - 1).model), reading
        number = VIEWS.index(incident.culprits[0].view)
        judged = self.judged.some(np.searchsorted(self.rows, rows))
        return fitted.in_view(number).model, reading.against(judged.reference(number))


def _beside(limit: Floats, why: Explanation) -> Explanation:
    """The same in units of the limit of each row."""
    column = limit[:, None]
    return replace(
        why,
        values=why.values / column,
        std_error=why.std_error / column,
        score=why.score / limit,
        base_value=why.base_value / limit,
        score_if_fixed=why.score_if_fixed / column,
        score_name="mahalanobis",
        origin=None,
    )
