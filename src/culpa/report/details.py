"""What there is to say about single rows and incidents: waterfalls, actual against expected, history of culprits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa._core.validation import Table
from culpa.explainer import Explainer
from culpa.explanation import Explanation
from culpa.monitoring import Culprit, Incident
from culpa.plots.content import RowAxis, Waterfall, thin
from culpa.plots.content.blame import LEFT_OVER
from culpa.report.numbers import Number, number, numbers
from culpa.report.phrases import Labels, place

_MOST_MEMBERS = 8  # features of a group that a table lists
_MOST_SERIES = 3  # culprits of an incident whose history is kept
_AROUND = 15  # rows before and after an incident that its history shows at least
_FEWEST, _MOST = 31, 200  # points of a history


@dataclass(frozen=True)
class Detail:
    """A row from the base value to its score, bar by bar.

    ``player`` is a position among the report's players, or a text for what is no player, such as "12 others". ``error``
    is the half width of a 95% interval. ``cells`` has the worst members of groups: position, actual, expected.
    """

    row: int
    label: str | int | float
    base_value: Number
    score: Number
    player: list[int | str]
    value: list[Number]
    error: list[Number]
    actual: list[Number]
    expected: list[Number]
    score_if_fixed: list[Number]
    missing: list[int]
    cells: dict[str, list[tuple[int, Number, Number]]]


@dataclass(frozen=True)
class Series:
    """A feature over the rows of a history; ``feature`` is its position."""

    feature: int
    actual: list[Number]
    expected: list[Number]


@dataclass(frozen=True)
class History:
    """What culprits read around an incident, and what the other features implied; ``x`` is ``None`` if it is ``row``."""

    row: list[int]
    x: list[str | int | float] | None
    span: tuple[str | int | float, str | int | float]
    series: list[Series]


def detail(why: Explanation, at: int, row: int, labels: Labels, scale: Floats, max_bars: int) -> Detail:
    """Content for the explanation's row ``at``, which is row ``row`` of the table."""
    fall = Waterfall.of(why, at, max_features=max_bars)
    position = {name: k for k, name in enumerate(why.player_names)}
    n_own = len(fall.names) - (fall.n_other > 0) - (fall.names[-1:] == (LEFT_OVER,))
    own = [position[name] for name in fall.names[:n_own]]
    fixed = [why.score_if_fixed[at, k] for k in own] + [np.nan] * (len(fall.names) - n_own)
    return Detail(
        row=row,
        label=labels.text(row),
        base_value=number(fall.base_value),
        score=number(fall.score),
        player=[*own, *fall.names[n_own:]],
        value=numbers(fall.values),
        error=numbers(fall.errors, 7),
        actual=numbers(fall.actual),
        expected=numbers(fall.expected),
        score_if_fixed=numbers(fixed, 10),
        missing=[position[name] for name in fall.missing],
        cells={str(k): _members(why, at, k, scale) for k in own if len(why.players[k]) > 1},
    )


def _members(why: Explanation, at: int, player: int, scale: Floats) -> list[tuple[int, Number, Number]]:
    """Features of a group, those furthest off first."""
    members = np.array(why.players[player])
    actual, expected = why.data[at, members], why.expected[at, members]
    off = np.nan_to_num(np.abs(actual - expected) / scale[members], nan=-1.0)
    worst = np.argsort(-off, kind="stable")[:_MOST_MEMBERS]
    return [(int(members[k]), number(actual[k]), number(expected[k])) for k in worst]


def main_culprits(incident: Incident) -> tuple[Culprit, ...]:
    """Those whose fix would clear the alarm, but not more than a few."""
    return incident.culprits[: min(incident.n_to_fix or _MOST_SERIES, _MOST_SERIES)]


def histories(
    explainer: Explainer, why: Explanation, table: Table, axis: RowAxis, incidents: Sequence[Incident], cap: int
) -> list[History | None]:
    """A history for each of the incidents, the worst ones if there is not room for all; ``why`` knows the players."""
    X = explainer.columns.read(table).cells
    each = int(np.clip(cap // (2 * max(len(incidents), 1)), _FEWEST, _MOST))
    windows = {}
    for k in np.argsort([-incident.score for incident in incidents], kind="stable").tolist():
        features = _culprit_features(incidents[k], why)
        window = _window(incidents[k], X[:, features[0]], each)
        cap -= len(window) * (1 + len(features))
        if cap < 0:
            break
        windows[k] = features, window
    rows = np.unique(np.concatenate([window for _, window in windows.values()])) if windows else np.empty(0, dtype=int)
    expected = explainer.expected(table, rows)
    labels = Labels(axis)
    result: list[History | None] = [None] * len(incidents)
    for k, (features, window) in windows.items():
        at = np.searchsorted(rows, window)
        series = [Series(i, numbers(X[window, i], 5), numbers(expected[at, i], 5)) for i in features]
        start, end = axis.span(incidents[k].first, incidents[k].last)
        result[k] = History(window.tolist(), labels.places(window), (place(start), place(end)), series)
    return result


def _culprit_features(incident: Incident, why: Explanation) -> list[int]:
    """Positions of the features behind the culprits, as many as there is room for."""
    players = [why.players[why.player_names.index(culprit.feature)] for culprit in main_culprits(incident)]
    return [i for player in players for i in player][:_MOST_SERIES]


def _window(incident: Incident, values: Floats, most: int) -> NDArray[Any]:
    """Rows around an incident: as many before and after as it has, at least `_AROUND`; thinned."""
    margin = max(_AROUND, incident.last - incident.first + 1)
    first, last = max(incident.first - margin, 0), min(incident.last + margin, len(values) - 1)
    keep = np.zeros(last - first + 1, dtype=bool)
    keep[incident.peak - first] = True
    return first + thin(values[first : last + 1], keep, most)
