"""Incidents in the report: every number is the incident's own, and shown as the sentences show it."""

import re

import numpy as np
import pandas as pd
import pytest
from report_cases import NAMES, PLANT

from culpa import PCADetector

COLUMNS = [*NAMES]


@pytest.fixture(scope="module", params=[{}, {"statistic": "spe", "limit": "formula", "n_components": 3}])
def case(request):
    """A detector, its incidents and the report on them."""
    detector = PCADetector(**request.param).fit(pd.DataFrame(PLANT.normal, columns=COLUMNS))
    new = pd.DataFrame(PLANT.new.copy(), columns=COLUMNS)
    return detector, new, detector.incidents(new, gap=2), detector.report(new, gap=2).content


def check_point(content, point, moment):
    assert (point.row, point.n_outside) == (moment.row, moment.n_outside)
    assert point.score == pytest.approx(moment.score, rel=1e-9)
    assert point.p_value == (None if np.isnan(moment.p_value) else pytest.approx(moment.p_value, rel=1e-5))
    assert {content.features[at].name: value for at, value in point.to_fix} == pytest.approx(moment.to_fix, rel=1e-6)
    assert len(point.culprits) == len(moment.culprits)
    for told, culprit in zip(point.culprits, moment.culprits, strict=True):
        assert content.players[told.player] == culprit.feature
        for name, digits in (("actual", 1e-7), ("expected", 1e-7), ("expected_sd", 1e-4), ("deviation", 1e-4)):
            assert getattr(told, name) == pytest.approx(getattr(culprit, name), rel=digits)
        assert told.probability == (None if np.isnan(culprit.probability) else pytest.approx(culprit.probability, 1e-4))
        assert (told.against, told.expected_was_seen) == (culprit.against, culprit.expected_was_seen)
        assert [content.players[k] for k in told.instead] == list(culprit.instead)
        assert [content.features[other[0]].name for other in told.disagrees_with] == [
            other.feature for other in culprit.disagrees_with
        ]
        for told_other, other in zip(told.disagrees_with, culprit.disagrees_with, strict=True):
            assert told_other[1:4] == pytest.approx((other.expected, other.expected_sd, other.deviation), rel=1e-3)


def test_points_are_the_moments_of_the_incidents(case):
    _, _, found, content = case
    assert len(content.incidents) == len(found) > 3
    for story, incident in zip(content.incidents, found, strict=True):
        assert (story.first, story.last, story.peak) == (incident.first, incident.last, incident.peak)
        assert (story.sentence, story.kind, story.n_flagged) == (incident.sentence, incident.kind, incident.n_flagged)
        check_point(content, story.onset, incident.onset)
        assert (story.worst is None) == (incident.peak == incident.onset.row)
        if story.worst is not None:
            check_point(content, story.worst, incident.worst)


def test_numbers_are_shown_as_the_sentence_shows_them(case):
    *_, content = case
    several = 0
    for story in content.incidents:
        if story.kind != "features":
            continue
        several += len(story.onset.culprits) > 1
        for told in story.onset.culprits:
            actual, expected, off = told.shown
            assert f"{content.players[told.player]} read {actual} where" in story.sentence
            assert f"imply {expected} ({off.rsplit(' ', 1)[0]}" in story.sentence
            assert off.endswith("below" if told.actual < told.expected else "above")
    assert several


def test_blame_over_time_is_the_timeline_with_the_most_blamed_first(case):
    _, _, found, content = case
    for story, incident in zip(content.incidents, found, strict=True):
        assert (story.course is None) == (incident.first == incident.last)
        if story.course is None:
            continue
        blame = story.course.blame
        assert blame.first == [stage.first for stage in incident.timeline]
        assert sum(blame.n_flagged) == incident.n_flagged
        assert sorted(blame.player) == list(range(12))
        for player, line in zip(blame.player, blame.share, strict=True):
            assert line == pytest.approx(
                [s.shares.get(NAMES[player], 0) for s in incident.timeline], rel=1e-2, abs=1e-9
            )
        largest = [max(line) for line in blame.share]
        assert largest == sorted(largest, reverse=True)
        for k in range(len(blame.first)):  # what is shown adds up to the scores, less what normal rows score
            assert 0 < sum(line[k] for line in blame.share) < 1


def test_many_players_share_a_line():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(700, 3)) @ rng.normal(size=(3, 40)) + 0.3 * rng.normal(size=(700, 40))
    new = rows[500:].copy()
    new[60:90, 7] += 4
    detector = PCADetector(3).fit(rows[:500])
    incident = max(detector.incidents(new, gap=3, n_orders=96), key=lambda one: one.n_flagged)
    story = next(s for s in detector.report(new, gap=3, n_orders=96).content.incidents if s.first == incident.first)
    blame = story.course.blame
    assert blame.player[0] == 7
    assert blame.player[-1] == "25 others"
    for k, stage in enumerate(incident.timeline):
        total = sum(line[k] for line in blame.share)
        assert total == pytest.approx(sum(stage.shares.values()), abs=0.02)


def test_the_incident_reached_as_many_as_the_sentence_says(case):
    _, _, found, content = case
    for story, incident in zip(content.incidents, found, strict=True):
        told = re.search(r"It spread to (.*?)\. It was", incident.sentence)
        if told is None:
            continue
        more = re.search(r"and (\d+) more", told[1])
        names = [name for name in NAMES if name in told[1]]
        assert story.course.n_reached == len(names) + (int(more[1]) if more else 0)
        assert [NAMES[feature] for feature, *_ in story.course.reached][: len(names)] == names
    assert all(abs(off) >= 2 for s in content.incidents if s.course for _, off, _ in s.course.moved)


def test_history_expects_what_the_onset_expects(case):
    """Culprits are fixed jointly, so that the line passes through the expected value in the sentence."""
    _, _, _, content = case
    joint = 0
    for story in content.incidents:
        if not story.onset.culprits:
            continue
        at = story.history.row.index(story.onset.row)
        for told in story.onset.culprits[:3]:
            series = next(one for one in story.history.series if one.feature == told.feature)
            assert series.expected[at] == pytest.approx(told.expected, rel=1e-4)
            assert series.actual[at] == pytest.approx(told.actual, rel=1e-4)
        joint += len(story.onset.culprits) > 1
    assert joint
