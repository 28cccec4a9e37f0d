"""Single rows that can be looked at closely: which ones, with a waterfall, and actual against expected values."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from culpa._core.types import Floats, Mask, Positions
from culpa.explaining.explainer import Explainer
from culpa.explaining.explanation import Explanation
from culpa.fitted import FittedDetector
from culpa.monitoring import Incident
from culpa.plots.content import Waterfall
from culpa.plots.content.blame import LEFT_OVER
from culpa.plots.text import TITLES
from culpa.report.phrases import Labels, Number, number, numbers

_MOST_MEMBERS = 8  # features of a group that a table lists
_DIGITS = 10


class DetailedRows(NamedTuple):
    """Positions of rows with details; every ``spacing``-th flagged row of the listed incidents has some, if any do."""

    rows: Positions
    spacing: int | None


def first_to_explain(listed: Sequence[Incident]) -> Positions:
    """The rows that have details whatever it takes: the onset and the worst row of every incident."""
    rows = [row for incident in listed for row in (incident.onset.row, incident.peak)]
    return np.unique(np.array(rows, dtype=np.intp))


def rows_to_explain(listed: Sequence[Incident], score: Floats, flagged: Mask, most: int) -> DetailedRows:
    """Onsets and worst rows, flagged rows between at an even spacing, then the worst other rows, while there is room.

    Other rows without a ``score`` (NaN) have no details.
    """
    chosen = first_to_explain(listed)
    spacing = None
    if listed and len(chosen) < most:
        inside = [incident.first + np.flatnonzero(flagged[incident.first : incident.last + 1]) for incident in listed]
        spacing, chosen = _evenly(inside, chosen, most)
    rank = np.where(np.isnan(score), -np.inf, score)
    rank[chosen] = np.inf
    first = np.argsort(-rank, kind="stable")[: max(most, len(chosen))]
    return DetailedRows(np.sort(first[rank[first] > -np.inf]), spacing)


def _evenly(inside: Sequence[Positions], chosen: Positions, most: int) -> tuple[int | None, Positions]:
    """A spacing for which there is room, while the next smaller one has none.

    ``None`` where there is no room even for the first row of every incident.
    """
    spacings = range(1, max(map(len, inside)) + 1)
    at = bisect_left(spacings, True, key=lambda spacing: len(_with_spacing(inside, chosen, spacing)) <= most)
    return (spacings[at], _with_spacing(inside, chosen, spacings[at])) if at < len(spacings) else (None, chosen)


def _with_spacing(inside: Sequence[Positions], chosen: Positions, spacing: int) -> Positions:
    return np.union1d(chosen, np.concatenate([rows[::spacing] for rows in inside])).astype(np.intp)


def details(
    fitted: FittedDetector,
    explainer: Explainer,
    why: Explanation,
    chosen: DetailedRows,
    labels: Labels,
    bars: int,
    limit: float,
) -> dict[str, Any]:
    """Content for all explained rows, and what their waterfalls share.

    ``base_value`` is ``None`` where features are given, so that rows differ in it. Every ``spacing``-th flagged row of the
    listed incidents is among the rows; with ``None``, only onsets and worst rows are sure to be. P-values come from
    ``n_held_out`` normal rows. Scores and the ``limit`` are in the units that incidents and charts have.
    """
    scale = fitted.model.scale[[members[0] for members in explainer.columns.members]]
    held_out = fitted.limits.held_out(fitted.statistic)
    title = TITLES[why.score_name] + (" / limit" if fitted.views is not None else "")
    return {
        "title": f"{title}: how much each {fitted.settings.noun if why.groups is None else 'group'} adds",
        "base_value": why.base_value if isinstance(why.base_value, float) else None,
        "limit": limit,
        "exact": why.exact,
        "spacing": chosen.spacing,
        "n_held_out": None if held_out is None else round(held_out.n),
        "rows": [_detail(why, k, row, labels, scale, bars) for k, row in enumerate(chosen.rows.tolist())],
    }


def _detail(why: Explanation, at: int, row: int, labels: Labels, scale: Floats, max_bars: int) -> dict[str, Any]:
    """The explanation's row ``at``, which is row ``row`` of the table, from the base value to its score, bar by bar.

    ``player`` is a position among the report's players, or a text for what is no player, such as "12 others". ``error``
    is the half width of a 95% interval, and is empty where values are exact. ``cells`` has the worst members of groups:
    position, actual, expected.
    """
    fall = Waterfall.of(why, at, max_features=max_bars)
    position = {name: k for k, name in enumerate(why.player_names)}
    n_own = len(fall.names) - (fall.n_other > 0) - (fall.names[-1:] == (LEFT_OVER,))
    own = [position[name] for name in fall.names[:n_own]]
    fixed = [why.score_if_fixed[at, k] for k in own] + [np.nan] * (len(fall.names) - n_own)
    errors = numbers(fall.errors, 7)
    return {
        "row": labels.row(row),
        "label": labels.text(row),
        "base_value": number(fall.base_value),
        "score": number(fall.score),
        "player": [*own, *fall.names[n_own:]],
        "value": numbers(fall.values, _DIGITS),
        "error": errors if any(errors) else [],
        "actual": numbers(fall.actual, _DIGITS),
        "expected": numbers(fall.expected, _DIGITS),
        "score_if_fixed": numbers(fixed, 10),
        "missing": [position[name] for name in fall.missing],
        "cells": {str(k): _members(why, at, k, scale) for k in own if len(why.players[k]) > 1},
    }


def _members(why: Explanation, at: int, player: int, scale: Floats) -> list[tuple[int, Number, Number]]:
    """Features of a group, those furthest off first."""
    members = np.array(why.players[player])
    actual, expected = why.data[at, members], why.expected[at, members]
    off = np.nan_to_num(np.abs(actual - expected) / scale[members], nan=-1.0)
    worst = np.argsort(-off, kind="stable")[:_MOST_MEMBERS]
    return [(int(members[k]), number(actual[k]), number(expected[k])) for k in worst]
