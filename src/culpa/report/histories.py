"""What the culprits of incidents read around them, and what was to be expected of them jointly."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.columns import Reading
from culpa.explainer import Explainer
from culpa.explanation import Explanation
from culpa.monitoring import Culprit, Incident
from culpa.plots.content import RowAxis, thin
from culpa.report.numbers import Number, numbers
from culpa.report.phrases import Label, Labels, place

_MOST_SERIES = 3  # culprits of an incident whose history is kept
_AROUND = 15  # rows before and after an incident that its history shows at least
_DIGITS = 7
_FEWEST, _MOST = 31, 200  # points of a history


@dataclass(frozen=True)
class Series:
    """A feature over the rows of a history; ``feature`` is its position."""

    feature: int
    actual: list[Number]
    expected: list[Number]


@dataclass(frozen=True)
class History:
    """What culprits read around an incident, and what was to be expected; ``x`` is ``None`` if it is ``row``.

    ``against`` is that of the culprits.
    """

    against: str

    row: list[int]
    x: list[Label] | None
    span: tuple[Label, Label]
    series: list[Series]


def histories(
    explainer: Explainer, why: Explanation, reading: Reading, axis: RowAxis, incidents: Sequence[Incident], cap: int
) -> list[History | None]:
    """A history for each of the incidents, the worst ones if there is not room for all; ``why`` knows the players."""
    each = int(np.clip(cap // (2 * max(len(incidents), 1)), _FEWEST, _MOST))
    result: list[History | None] = [None] * len(incidents)
    labels = Labels(axis)
    for k in np.argsort([-incident.score for incident in incidents], kind="stable").tolist():
        incident = incidents[k]
        features = list(dict.fromkeys(feature_of(culprit, why) for culprit in incident.culprits))[:_MOST_SERIES]
        if not features:
            continue
        window = _window(incident, reading.cells[:, features[0]], each)
        cap -= len(window) * (1 + len(features))
        if cap < 0:
            break
        rows = reading.choose(window)
        expected = _expected(explainer, why, rows, incident)
        series = [Series(i, numbers(rows.cells[:, i], _DIGITS), numbers(expected[:, i], _DIGITS)) for i in features]
        start, end = axis.span(incident.first, incident.last)
        result[k] = History(
            incident.culprits[0].against, labels.rows(window), labels.places(window), (place(start), place(end)), series
        )
    return result


def _expected(explainer: Explainer, why: Explanation, rows: Reading, incident: Incident) -> NDArray[Any]:
    """What was to be expected of all culprits jointly, as the incident has it: from the others, or in normal rows."""
    model, columns = explainer.model, explainer.columns
    if incident.mode is not None:
        model = model.in_mode(incident.mode - 1)
    Z = model.standardise(rows.features)
    if incident.culprits[0].against == "normal":
        return np.asarray(model.to_cells(np.zeros_like(Z), rows, columns))
    players = [why.players[why.player_names.index(culprit.feature)] for culprit in incident.culprits]
    Z[:, columns.features_of([column for player in players for column in player])] = np.nan
    return np.asarray(model.to_cells(model.gaussian.impute(Z), rows, columns))


def feature_of(culprit: Culprit, why: Explanation) -> int:
    """Position of the feature whose numbers a culprit has."""
    if culprit.member:
        return why.feature_names.index(culprit.member)
    return why.players[why.player_names.index(culprit.feature)][0]


def _window(incident: Incident, values: Floats, most: int) -> NDArray[Any]:
    """Rows around an incident: as many before and after as it has, at least `_AROUND`; thinned."""
    margin = max(_AROUND, incident.last - incident.first + 1)
    first, last = max(incident.first - margin, 0), min(incident.last + margin, len(values) - 1)
    keep = np.zeros(last - first + 1, dtype=bool)
    keep[[incident.onset.row - first, incident.peak - first]] = True
    return first + thin(values[first : last + 1], keep, most)
