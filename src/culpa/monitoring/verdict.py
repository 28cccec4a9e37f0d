"""Is it a sensor or the process? Judged by the first rows of an incident.

If one sensor is wrong, its column disagrees with the others, and without it the rows are normal. If the process moved, no
single column explains the rows. The verdict is that of the first rows from the onset on, and is kept: rows from the middle
of a disturbance may look like a wrong sensor. Everything is measured in what stretches of normal rows show
(`culpa.scores.consistency`). In this order:

| the rows | verdict |
| --- | --- |
| are normal without column j, which disagrees clearly, but another column does so, too | process |
| the same, but at most one row is far off, and not by much | undecided |
| are normal without column j, which disagrees clearly | sensor |
| are normal without column j, or nearly | undecided |
| are few, and not far off | undecided |
| are far off, and no column disagrees clearly | process |
| without column j agree with each other, but moved: a control loop may do that | undecided |
| are normal without column j and the next one, which are not neighbours | undecided |
| none of these | process |

The output of a controller moves whenever something else does, so a column that users declare as one is no wrong sensor.
"""

from collections.abc import Collection
from typing import Literal, NamedTuple

import numpy as np

from culpa._core.types import Floats
from culpa.models.latent import LatentGaussian
from culpa.scores.consistency import LENGTHS, Consistency, Residuals
from culpa.scores.quadratic import mahalanobis

Kind = Literal["sensor", "process", "undecided", "unit"]
Why = Literal["early", "alone", "output", "unclear", "brief", "agree", "loop", "pair", "several", "unknown", "unit"]

ROWS = LENGTHS[-1]  # from the onset on that are judged
_NORMAL, _ABNORMAL = 1.25, 1.4  # times what normal rows show: up to here the rest is normal, from here on it is not
_CLEAR = 4.0  # times its own: from here on a column disagrees with the others
_BEYOND_DOUBT = 20.0  # times its own: from here on one row is enough
_NEIGHBOURS = 0.3  # partial correlation from which two columns are neighbours in the process
_FEW, _FAR = 10, 2.0  # fewer rows above the limit than this, and below this many limits, are no process upset
_LEAST, _TINY = 1e-9, 1e-12
_INSTEAD, _AS_WELL = 3, 1.1  # columns that may stand in for j, and times what j leaves that they may leave


class Verdict(NamedTuple):
    """Whether a sensor is wrong or the process moved, and why.

    ``columns`` is the sensor, or those that may be wrong; ``instead`` would explain the rows as well as the first of them.
    ``explained`` is the share of its variance that the other columns predict: where it is low, a wrong sensor and a process
    that moved look alike. NaN without columns.
    """

    kind: Kind
    why: Why
    columns: tuple[int, ...] = ()
    instead: tuple[int, ...] = ()
    explained: float = np.nan
    unit_change: str = ""  # from which unit to which


UNKNOWN = Verdict("undecided", "unknown")


class Verdicts:
    """Judges incidents by the distribution of normal standardised rows, and by stretches of them.

    ``outputs`` are columns that controllers set.
    """

    def __init__(self, gaussian: LatentGaussian, normal: Consistency, outputs: Collection[int] = ()) -> None:
        self.normal, self.outputs, self._score = normal, frozenset(outputs), mahalanobis(gaussian)
        self._diagonal = self._score.diagonal
        self.explained = np.maximum(1 - 1 / (self._diagonal * gaussian.variances), 0.0)

    def judge(self, Z: Floats, *, over: bool = False) -> Verdict:
        """Judge an incident by its first complete rows from the onset on; only the first `ROWS` count.

        While there are fewer, and the incident is not ``over``, it is too early. ``Z`` are distances from what is usual
        right before the incident.
        """
        if len(Z) < ROWS and not over:
            return Verdict("undecided", "early")
        found = self._found(Z[:ROWS])
        j, k, instead = found.first, found.second, found.instead
        if found.own >= _CLEAR and (found.rest <= _NORMAL or (found.rest < _ABNORMAL and found.others <= 1)):
            if found.also >= _CLEAR:
                return Verdict("process", "several")
            if found.n_far <= 1 and found.own < _BEYOND_DOUBT:
                return self._verdict("undecided", "brief", (j,))
            output = self.outputs & {j, *instead}
            return self._verdict("undecided" if output else "sensor", "output" if output else "alone", (j,), instead)
        if found.rest < _ABNORMAL:
            return self._verdict("undecided", "unclear", (j,) if found.own >= _CLEAR else ())
        if found.n_far < _FEW and found.highest < _FAR:
            return Verdict("undecided", "brief")
        if found.own < _CLEAR:
            return Verdict("process", "agree")
        if found.others <= _NORMAL:
            return self._verdict("undecided", "loop", (j,), instead)
        if found.rest_of_both <= _NORMAL and not found.neighbours:
            return self._verdict("undecided", "pair", (j, k))
        return Verdict("process", "several")

    def implied(self, Z: Floats, j: int) -> tuple[Floats, float]:
        """What the others imply for column j in each row, and how far its readings are usually from there."""
        at, response = Consistency.at(len(Z)), self._score.response(Z)[:, j]
        return Z[:, j] - response / self._diagonal[j], float(np.sqrt(self.normal.own[at, j] / self._diagonal[j]))

    def _verdict(self, kind: Kind, why: Why, columns: tuple[int, ...], instead: tuple[int, ...] = ()) -> Verdict:
        return Verdict(kind, why, columns, instead, float(self.explained[columns[0]]) if columns else np.nan)

    def _found(self, Z: Floats) -> "_Found":
        normal, at, score = self.normal, Consistency.at(len(Z)), self._score
        seen = Residuals.of(score, Z)
        means, left = seen.squares.mean(axis=0), seen.rest.mean(axis=0)
        j, *next_ones = np.argsort(-means, kind="stable")[: _INSTEAD + 1].tolist()
        # without column j, the residuals of the others given each other
        coupling = score.root.T @ score.root[:, j]
        share = coupling / self._diagonal[j]
        response = score.response(Z)
        precision = self._diagonal - coupling * share
        squares = (response - response[:, [j]] * share) ** 2 / np.maximum(precision, _TINY * self._diagonal)
        squares[:, j] = 0.0
        k = int(squares.mean(axis=0).argmax())
        rest, both = seen.rest[:, j], seen.rest[:, j] - squares[:, k]
        usual = np.maximum(normal.own[at] * normal.spread[at], _LEAST)

        def abnormality(rows: Floats) -> float:
            return float(max(rows.mean() / normal.rest[at, j], rows.max() / normal.highest[at, j]))

        return _Found(
            j,
            k,
            tuple(other for other in next_ones if left[other] <= _AS_WELL * left[j]),
            own=float(means[j] / max(normal.own[at, j], _LEAST)),
            rest=abnormality(rest),
            others=float((squares.mean(axis=0) / usual).max()),
            also=float((squares.mean(axis=0) / np.maximum(usual, 1.0)).max()),
            rest_of_both=abnormality(both),
            neighbours=bool(abs(coupling[k]) >= _NEIGHBOURS * np.sqrt(self._diagonal[j] * self._diagonal[k])),
            n_far=int((seen.distance > normal.limit).sum()),
            highest=float(seen.distance.max() / normal.limit),
        )


class _Found(NamedTuple):
    """Of a stretch of rows, in units of what normal stretches show.

    ``own`` is how much the ``first`` column disagrees with the others, ``rest`` how far the others are from normal, and
    ``others`` how much the ``second`` column disagrees with the rest of them; ``also`` is the same,
    but counts no noise as less than the model knows. ``rest_of_both`` is without both.
    """

    first: int
    second: int
    instead: tuple[int, ...]
    own: float
    rest: float
    others: float
    also: float
    rest_of_both: float
    neighbours: bool
    n_far: int
    highest: float
