"""Incidents as the report tells them: how they began, when they were worst, and who was to blame at each point.

All numbers are the incident's own. Texts have them with the digits that the sentences have.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from culpa.explanation import Explanation
from culpa.monitoring import Culprit, Incident, Moment
from culpa.monitoring.digits import compared
from culpa.monitoring.incident import Disagreement
from culpa.report.courses import Course
from culpa.report.histories import History, feature_of
from culpa.report.numbers import Number, number
from culpa.report.phrases import Label, Labels, in_sd

_DIGITS = 8

Broken = tuple[int, Number, Number, Number, str]  # feature, expected, its standard deviation, deviation, all in words


@dataclass(frozen=True)
class Blamed:
    """A culprit of a moment; ``player`` is a position among the report's players, ``feature`` the one with the numbers.

    ``shown`` has actual and expected value and deviation as sentences do. ``disagrees_with`` has the features whose
    relation to this one broke, and what each of them alone implies for it.
    """

    player: int
    feature: int
    probability: Number
    share: Number
    actual: Number
    expected: Number
    expected_sd: Number
    deviation: Number
    against: str
    expected_was_seen: bool
    shown: tuple[str, str, str]
    instead: list[int]
    disagrees_with: list[Broken]


@dataclass(frozen=True)
class Point:
    """One row of an incident with its culprits; ``to_fix`` has features and the values that would clear the alarm."""

    row: int
    label: Label
    score: Number
    p_value: Number
    culprits: list[Blamed]
    n_outside: int
    to_fix: list[tuple[int, Number]]
    score_if_fixed: Number


@dataclass(frozen=True)
class Story:
    """An incident; ``worst`` is ``None`` where the onset is the worst row, ``course`` where nothing is kept of it."""

    first: int
    last: int
    peak: int
    start: Label
    end: Label
    peak_label: Label
    n_flagged: int
    score: Number
    p_value: Number
    kind: str
    explained: Number
    onset: Point
    worst: Point | None
    sentence: str
    course: Course | None
    history: History | None


def stories(
    why: Explanation,
    listed: Sequence[Incident],
    courses: Sequence[Course | None],
    histories: Sequence[History | None],
    labels: Labels,
) -> list[Story]:
    """The listed incidents; ``why`` knows features and players."""
    told = _Teller(why, labels)
    return [
        Story(
            labels.row(incident.first),
            labels.row(incident.last),
            labels.row(incident.peak),
            labels.text(incident.first),
            labels.text(incident.last),
            labels.text(incident.peak),
            incident.n_flagged,
            number(incident.score),
            number(incident.p_value, 6),
            incident.kind,
            number(incident.explained, 4),
            told.point(incident.onset),
            None if incident.peak == incident.onset.row else told.point(incident.worst),
            incident.sentence,
            course,
            history,
        )
        for incident, course, history in zip(listed, courses, histories, strict=True)
    ]


class _Teller:
    def __init__(self, why: Explanation, labels: Labels) -> None:
        self.why, self.labels = why, labels
        self.player = {name: k for k, name in enumerate(why.player_names)}
        self.feature = {name: k for k, name in enumerate(why.feature_names)}

    def point(self, moment: Moment) -> Point:
        return Point(
            self.labels.row(moment.row),
            self.labels.text(moment.row),
            number(moment.score, 10),
            number(moment.p_value, 6),
            [self._blamed(culprit) for culprit in moment.culprits],
            moment.n_outside,
            [(self.feature[name], number(value, _DIGITS)) for name, value in moment.to_fix.items()],
            number(moment.score_if_fixed, _DIGITS),
        )

    def _blamed(self, culprit: Culprit) -> Blamed:
        return Blamed(
            self.player[culprit.feature],
            feature_of(culprit, self.why),
            number(culprit.probability, 5),
            number(culprit.share, 5),
            number(culprit.actual, _DIGITS),
            number(culprit.expected, _DIGITS),
            number(culprit.expected_sd, 5),
            number(culprit.deviation, 5),
            culprit.against,
            culprit.expected_was_seen,
            (*culprit.shown, in_sd(culprit.deviation)),
            [self.player[name] for name in culprit.instead],
            self._broken(culprit),
        )

    def _broken(self, culprit: Culprit) -> list[Broken]:
        return [
            (
                self.feature[other.feature],
                number(other.expected, 6),
                number(other.expected_sd, 4),
                number(other.deviation, 4),
                f"{_implied(culprit, other)}, {in_sd(other.deviation)}",
            )
            for other in culprit.disagrees_with
        ]


def _implied(culprit: Culprit, other: Disagreement) -> str:
    """What another feature alone implies for a culprit."""
    return compared(culprit.actual, other.expected, other.expected_sd, culprit.decimals)[1]
