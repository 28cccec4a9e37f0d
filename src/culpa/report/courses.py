"""How incidents went on: who was to blame when, whom they reached, and what moved most."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from culpa.explanation import Explanation
from culpa.monitoring import Incident
from culpa.monitoring.moments import FEWEST_SD
from culpa.report.numbers import Number, number, numbers
from culpa.report.phrases import Label, Labels

_MOST_PLAYERS = 15  # of a heat map; the others share a line
_MOST_REACHED = 60
_MOST_MOVED = 8


@dataclass(frozen=True)
class Blame:
    """Shares of the score by player (rows) and part of an incident (columns), the most blamed players first.

    ``first`` and ``last`` are positions of the first and last flagged row of each part, ``start`` and ``end`` their labels.
    ``player`` is a position, or a text for the sum of others.
    """

    first: list[int]
    last: list[int]
    start: list[Label]
    end: list[Label]
    n_flagged: list[int]
    score: list[Number]
    player: list[int | str]
    share: list[list[Number]]


@dataclass(frozen=True)
class Course:
    """How an incident went on.

    ``reached`` has features, rows and labels where features other than the onset's culprits went off later, the first ones
    of ``n_reached``. ``moved`` has the features with the most evidence, deviations in sd and labels.
    """

    blame: Blame
    reached: list[tuple[int, int, Label]]
    n_reached: int
    moved: list[tuple[int, Number, Label]]


def courses(why: Explanation, listed: Sequence[Incident], labels: Labels, cap: int) -> list[Course | None]:
    """The course of every incident of several rows, the worst ones if there is not room for all."""
    result: list[Course | None] = [None] * len(listed)
    for k in sorted(range(len(listed)), key=lambda k: -listed[k].score):
        if listed[k].first == listed[k].last:
            continue
        course = _course(why, listed[k], labels)
        cap -= _size(course)
        if cap < 0:
            break
        result[k] = course
    return result


def _course(why: Explanation, incident: Incident, labels: Labels) -> Course:
    feature = {name: k for k, name in enumerate(why.feature_names)}
    players = [why.players[why.player_names.index(one.feature)] for one in incident.onset.culprits]
    named = {why.feature_names[k] for player in players for k in player}
    reached = [
        (feature[one.feature], labels.row(one.row), labels.text(one.row))
        for one in incident.spread
        if one.row > incident.onset.row and one.feature not in named
    ]
    moved = [
        (feature[one.feature], number(one.deviation, 4), labels.text(one.row))
        for one in incident.ranking[:_MOST_MOVED]
        if abs(one.deviation) >= FEWEST_SD
    ]
    return Course(_blame(why, incident, labels), reached[:_MOST_REACHED], len(reached), moved)


def _blame(why: Explanation, incident: Incident, labels: Labels) -> Blame:
    """Players in the order of the largest share that they ever had: those of a short onset do not drown."""
    stages = incident.timeline
    shares = np.array([[stage.shares.get(name, 0.0) for name in why.player_names] for stage in stages])
    order = np.argsort(-shares.max(axis=0), kind="stable")
    shown, others = order[:_MOST_PLAYERS], order[_MOST_PLAYERS:]
    player: list[int | str] = [int(k) for k in shown]
    lines = [numbers(shares[:, k], 3) for k in shown]
    if len(others):
        player.append(f"{len(others)} others")
        lines.append(numbers(shares[:, others].sum(axis=1), 3))
    return Blame(
        labels.rows(stage.first for stage in stages),
        labels.rows(stage.last for stage in stages),
        [labels.text(stage.first) for stage in stages],
        [labels.text(stage.last) for stage in stages],
        [stage.n_flagged for stage in stages],
        [number(stage.score, 5) for stage in stages],
        player,
        lines,
    )


def _size(course: Course) -> int:
    """Roughly the number of cells."""
    n = len(course.blame.first)
    return n * (len(course.blame.player) + 8) + 3 * (len(course.reached) + len(course.moved))
