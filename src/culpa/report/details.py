"""What there is to say about single rows: a waterfall, and actual against expected values."""

from dataclasses import dataclass

import numpy as np

from culpa._core.types import Floats
from culpa.explainer import Explainer
from culpa.explanation import Explanation
from culpa.fitted import FittedDetector
from culpa.plots.content import Waterfall
from culpa.plots.content.blame import LEFT_OVER
from culpa.plots.text import TITLES
from culpa.report.detailed_rows import DetailedRows
from culpa.report.numbers import Number, number, numbers
from culpa.report.phrases import Label, Labels

_MOST_MEMBERS = 8  # features of a group that a table lists
_DIGITS = 10


@dataclass(frozen=True)
class Detail:
    """A row from the base value to its score, bar by bar.

    ``player`` is a position among the report's players, or a text for what is no player, such as "12 others". ``error``
    is the half width of a 95% interval, and is empty where values are exact. ``cells`` has the worst members of groups:
    position, actual, expected.
    """

    row: int
    label: Label
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
class Details:
    """Rows that can be looked at closely, and what their waterfalls share.

    ``base_value`` is ``None`` where features are given, so that rows differ in it. Every ``spacing``-th flagged row of the
    listed incidents is among the rows; with ``None``, only onsets and worst rows are sure to be. P-values come from
    ``n_held_out`` normal rows.
    """

    title: str
    base_value: float | None
    limit: float
    exact: bool
    spacing: int | None
    n_held_out: int | None
    rows: list[Detail]


def details(
    fitted: FittedDetector, explainer: Explainer, why: Explanation, chosen: DetailedRows, labels: Labels, bars: int
) -> Details:
    """Content for all explained rows."""
    scale = fitted.model.scale[[members[0] for members in explainer.columns.members]]
    held_out = fitted.limits.held_out(fitted.statistic)
    return Details(
        f"{TITLES[why.score_name]}: how much each {fitted.noun if why.groups is None else 'group'} adds",
        why.base_value if isinstance(why.base_value, float) else None,
        fitted.limit,
        why.exact,
        chosen.spacing,
        None if held_out is None else round(held_out.n),
        [_detail(why, k, row, labels, scale, bars) for k, row in enumerate(chosen.rows.tolist())],
    )


def _detail(why: Explanation, at: int, row: int, labels: Labels, scale: Floats, max_bars: int) -> Detail:
    """Content for the explanation's row ``at``, which is row ``row`` of the table."""
    fall = Waterfall.of(why, at, max_features=max_bars)
    position = {name: k for k, name in enumerate(why.player_names)}
    n_own = len(fall.names) - (fall.n_other > 0) - (fall.names[-1:] == (LEFT_OVER,))
    own = [position[name] for name in fall.names[:n_own]]
    fixed = [why.score_if_fixed[at, k] for k in own] + [np.nan] * (len(fall.names) - n_own)
    errors = numbers(fall.errors, 7)
    return Detail(
        row=labels.row(row),
        label=labels.text(row),
        base_value=number(fall.base_value),
        score=number(fall.score),
        player=[*own, *fall.names[n_own:]],
        value=numbers(fall.values, _DIGITS),
        error=errors if any(errors) else [],
        actual=numbers(fall.actual, _DIGITS),
        expected=numbers(fall.expected, _DIGITS),
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
