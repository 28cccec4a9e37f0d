"""Incidents as the report has them: their dictionaries, with names as positions and rows as the user calls them.

Beside them stand texts with the digits that sentences have, what the culprits read around the incident, and the heat map.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.json_values import to_json_value
from culpa._core.types import Floats, Positions
from culpa.columns import Columns, Reading
from culpa.explaining.explanation import Explanation
from culpa.monitoring import Incident
from culpa.monitoring.digits import compared
from culpa.monitoring.incident import Culprit, Moment
from culpa.monitoring.moments import FEWEST_SD, Names
from culpa.plots.content import Heatmap, RowAxis, thin
from culpa.report.phrases import Labels, in_sd, number, numbers, place
from culpa.report.seen import SeenRows

_DIGITS = 7
_LABELS = {"row": "label", "first": "start", "last": "end", "peak": "peak_label"}  # of rows
_NAMES = ("feature", "member", "instead", "shares")  # what holds names of players and features
# what the page shows elsewhere, or never
_ELSEWHERE = ("limit", "unit", "decimals", "value", "std_error", "evidence")
_IN_WORDS = ("suspects", "predicted", "blamed_first", "stayed_off", "came_back", "unit_change")  # by the sentence
_MOST_REACHED, _MOST_MOVED = 60, 8
_COLUMNS, _ROWS = 60, 25  # of the heat map
_MOST_SERIES = 3  # culprits of an incident whose history is kept
_AROUND = 15  # rows before and after an incident that its history shows at least
_HISTORY_DIGITS = 7
_FEWEST, _MOST = 31, 200  # points of a history


def worst(incidents: Sequence[Incident], most: int) -> list[Incident]:
    """The incidents with the highest scores, in the order of the table."""
    ranked = sorted(incidents, key=lambda incident: -incident.score)[:most]
    return sorted(ranked, key=lambda incident: incident.first)


def incident_dicts(
    why: Explanation, listed: Sequence[Incident], histories: Sequence[Any], labels: Labels, cap: int
) -> list[dict[str, Any]]:
    """The listed incidents; how they went on (``spread``, ``timeline``, ``ranking``) while there is room for so many cells.

    ``worst`` is ``None`` where the onset is the worst row.
    """
    # players come first: the position of a player is also that among the report's players
    positions = {name: k for k, name in enumerate(dict.fromkeys((*why.player_names, *why.feature_names)))}
    result = [
        _incident(why, one, labels, positions) | {"history": of} for one, of in zip(listed, histories, strict=True)
    ]
    for one in sorted(result, key=lambda one: -float(one["score"])):
        if one["first"] != one["last"]:
            cap -= len(one["timeline"]) * (min(len(positions), 15) + 8) + 3 * (len(one["spread"]) + len(one["ranking"]))
        if cap < 0 or one["first"] == one["last"]:
            one |= {"spread": [], "timeline": [], "ranking": []}
    return result


def _incident(why: Explanation, incident: Incident, labels: Labels, positions: Mapping[str, int]) -> dict[str, Any]:
    told: dict[str, Any] = _told(to_json_value(incident), labels, positions)
    players = [why.players[why.player_names.index(one.feature)] for one in incident.onset.culprits]
    named = {positions[why.feature_names[k]] for player in players for k in player}
    began = labels.row(incident.onset.row)
    reached = [one for one in told["spread"] if one["row"] > began and one["feature"] not in named]
    moved = [one for one in told["ranking"][:_MOST_MOVED] if abs(one["deviation"] or 0.0) >= FEWEST_SD]
    worst_row = _moment(incident.worst, told["worst"], positions)
    return told | {
        "score": number(incident.score),
        "onset": _moment(incident.onset, told["onset"], positions),
        "worst": None if incident.peak == incident.onset.row else worst_row,
        "spread": reached[:_MOST_REACHED],
        "n_spread": len(reached),
        "ranking": moved,
    }


def _told(part: Any, labels: Labels, positions: Mapping[str, int], *, named: bool = False) -> Any:
    """A part of an incident's dictionary: names are positions, rows have their labels, numbers have few digits."""
    if isinstance(part, dict):
        rows = {name: part[name] for name in _LABELS if name in part}
        places = {name: labels.row(row) for name, row in rows.items()} | {
            _LABELS[name]: labels.text(row) for name, row in rows.items()
        }
        return {
            positions[name] if named else name: places.get(name, _told(cell, labels, positions, named=name in _NAMES))
            for name, cell in part.items()
            if name not in (*_ELSEWHERE, *_IN_WORDS) or named
        }
    if isinstance(part, list):
        return [_told(cell, labels, positions, named=named) for cell in part]
    if isinstance(part, float):
        return number(part, _DIGITS)
    return positions.get(part, part) if named and isinstance(part, str) else part


def _moment(moment: Moment, told: dict[str, Any], positions: Mapping[str, int]) -> dict[str, Any]:
    """A moment with the numbers of its culprits in words, as sentences have them."""
    culprits = [
        line
        | {
            "shown": [*culprit.shown, in_sd(culprit.deviation)],
            "disagrees_with": [
                known | {"shown": _implied(culprit, other.expected, other.expected_sd, other.deviation)}
                for other, known in zip(culprit.disagrees_with, line["disagrees_with"], strict=True)
            ],
        }
        for culprit, line in zip(moment.culprits, told["culprits"], strict=True)
    ]
    return told | {"culprits": culprits, "to_fix": [[positions[name], value] for name, value in told["to_fix"].items()]}


def _implied(culprit: Culprit, expected: float, sd: float, deviation: float) -> str:
    """What another feature alone implies for a culprit."""
    return f"{compared(culprit.actual, expected, sd, culprit.decimals)[1]}, {in_sd(deviation)}"


def heat_map(why: Explanation, rows: Positions, listed: Sequence[Incident]) -> dict[str, Any]:
    """Share of the score of each incident's worst row (columns) by player (rows).

    Shares rather than values, so that one enormous incident does not bleach the others.
    """
    chosen = worst(listed, _COLUMNS)
    if not chosen:
        return {"incidents": [], "players": [], "share": [], "scale": 1.0}
    peaks = why[np.searchsorted(rows, [incident.peak for incident in chosen])]
    shares = replace(peaks, values=peaks.values / peaks.score[:, None])
    picture = Heatmap.of(shares, max_features=_ROWS, max_rows=None)
    position = {incident.first: k for k, incident in enumerate(listed)}
    return {
        "incidents": [position[incident.first] for incident in chosen],
        "players": list(picture.names),
        "share": [numbers(line, 4) for line in picture.values.T],
        "scale": picture.scale,
    }


def windows(names: Names, reading: Reading, incidents: Sequence[Incident], cap: int) -> dict[int, Positions]:
    """The rows that the history of an incident shows; the worst incidents have one if there is not room for all."""
    each = int(np.clip(cap // (2 * max(len(incidents), 1)), _FEWEST, _MOST))
    result: dict[int, Positions] = {}
    for k in np.argsort([-incident.score for incident in incidents], kind="stable").tolist():
        features = _features(incidents[k], names)
        if not features:
            continue
        window = _window(incidents[k], reading.cells[:, features[0]], each)
        cap -= len(window) * (1 + len(features))
        if cap < 0:
            break
        result[k] = window
    return result


def histories(
    seen: SeenRows,
    columns: Columns,
    names: Names,
    axis: RowAxis,
    incidents: Sequence[Incident],
    shown: Mapping[int, Positions],
) -> list[dict[str, Any] | None]:
    """What the culprits of each incident read in the rows ``shown``, and what was to be expected of them jointly.

    ``x`` is ``None`` if it is ``row``; ``against`` and ``view`` are those of the culprits.
    """
    result: list[dict[str, Any] | None] = [None] * len(incidents)
    labels = Labels(axis)
    for k, window in shown.items():
        incident = incidents[k]
        expected, cells = _expected(seen, columns, names, window, incident), seen.reading.cells[window]
        result[k] = {
            "against": incident.culprits[0].against,
            "view": incident.culprits[0].view,
            "row": labels.rows(window),
            "x": labels.places(window),
            "span": [place(end) for end in axis.span(incident.first, incident.last)],
            "series": [
                {
                    "feature": i,
                    "actual": numbers(cells[:, i], _HISTORY_DIGITS),
                    "expected": numbers(expected[:, i], _HISTORY_DIGITS),
                }
                for i in _features(incident, names)
            ],
        }
    return result


def _expected(seen: SeenRows, columns: Columns, names: Names, window: Positions, incident: Incident) -> NDArray[Any]:
    """What was to be expected of all culprits jointly, as the incident has it: from the others, or usually."""
    model, rows = seen.in_view_of(incident, window)
    Z = model.standardise(rows.features)
    if incident.culprits[0].against == "normal":
        return np.asarray(model.to_cells(np.zeros_like(Z), rows, columns))
    players = [names.columns[names.players.index(culprit.feature)] for culprit in incident.culprits]
    Z[:, columns.features_of([column for player in players for column in player])] = np.nan
    return np.asarray(model.to_cells(model.gaussian.impute(Z), rows, columns))


def _features(incident: Incident, names: Names) -> list[int]:
    """Positions of the features whose numbers the first culprits have."""
    at = [
        names.features.index(one.member) if one.member else names.columns[names.players.index(one.feature)][0]
        for one in incident.culprits
    ]
    return list(dict.fromkeys(at))[:_MOST_SERIES]


def _window(incident: Incident, values: Floats, most: int) -> NDArray[Any]:
    """Rows around an incident: as many before and after as it has, at least `_AROUND`; thinned."""
    margin = max(_AROUND, incident.last - incident.first + 1)
    first, last = max(incident.first - margin, 0), min(incident.last + margin, len(values) - 1)
    keep = np.zeros(last - first + 1, dtype=bool)
    keep[[incident.onset.row - first, incident.peak - first]] = True
    return first + thin(values[first : last + 1], keep, most)
