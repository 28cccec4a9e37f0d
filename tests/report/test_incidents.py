"""Incidents in the report: every number is the incident's own, and shown as the sentences show it."""

import re

import numpy as np
import pandas as pd
import pytest
from report_cases import NAMES, PLANT, content_of

from culpa import PCADetector
from culpa.monitoring.digits import amount, in_sd
from culpa.report import size_limits

COLUMNS = [*NAMES]


@pytest.fixture(scope="module", params=[{}, {"statistic": "spe", "limit": "formula", "n_components": 3}])
def case(request):
    """A detector, its incidents and the report on them."""
    detector = PCADetector(**request.param).fit(pd.DataFrame(PLANT.normal, columns=COLUMNS))
    new = pd.DataFrame(PLANT.new.copy(), columns=COLUMNS)
    return detector, new, detector.incidents(new, gap=2), content_of(detector.report(new, gap=2))


def check_point(content, point, moment):
    assert (point.row, point.n_outside) == (moment.row, moment.n_outside)
    assert point.score == pytest.approx(moment.score, rel=1e-6)
    assert point.p_value == (None if np.isnan(moment.p_value) else pytest.approx(moment.p_value, rel=1e-5))
    assert [content.players[at] for at, _ in point.to_fix] == list(moment.to_fix)
    assert [value for _, value in point.to_fix] == pytest.approx(list(moment.to_fix.values()), rel=1e-6)
    assert len(point.culprits) == len(moment.culprits)
    for told, culprit in zip(point.culprits, moment.culprits, strict=True):
        assert content.players[told.feature] == culprit.feature
        for name, digits in (("actual", 1e-6), ("expected", 1e-6), ("expected_sd", 1e-4), ("deviation", 1e-4)):
            assert getattr(told, name) == pytest.approx(getattr(culprit, name), rel=digits)
        assert told.probability == (None if np.isnan(culprit.probability) else pytest.approx(culprit.probability, 1e-4))
        assert (told.against, told.expected_was_seen) == (culprit.against, culprit.expected_was_seen)
        assert [content.players[k] for k in told.instead] == list(culprit.instead)
        assert [content.features[other.feature].name for other in told.disagrees_with] == [
            other.feature for other in culprit.disagrees_with
        ]
        for told_other, other in zip(told.disagrees_with, culprit.disagrees_with, strict=True):
            assert told_other.expected == pytest.approx(other.expected, rel=2e-6)
            assert told_other.deviation == pytest.approx(other.deviation, rel=2e-6)
            assert f"± {amount(other.expected_sd)}, {in_sd(other.deviation)}" in told_other.shown


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
        if story.extent != "features":
            continue
        several += len(story.onset.culprits) > 1
        for told in story.onset.culprits:
            actual, expected, off = told.shown
            assert re.search(rf"{content.players[told.feature]} [^.]*read {re.escape(actual)} where", story.sentence)
            assert f"imply {expected} ({off.rsplit(' ', 1)[0]}" in story.sentence
            assert off.endswith("below" if told.actual < told.expected else "above")
    assert several


def test_the_timeline_is_that_of_the_incident(case):
    _, _, found, content = case
    for story, incident in zip(content.incidents, found, strict=True):
        if story.first == story.last:
            assert story.timeline == []
            continue
        assert [(part.first, part.last) for part in story.timeline] == [(s.first, s.last) for s in incident.timeline]
        assert sum(part.n_flagged for part in story.timeline) == incident.n_flagged
        for part, stage in zip(story.timeline, incident.timeline, strict=True):
            assert {content.players[int(k)]: share for k, share in part.shares.items()} == pytest.approx(
                stage.shares, rel=2e-6
            )
            assert 0 < sum(part.shares.values()) < 1  # what is shown adds up to the scores, less what normal rows score


def test_what_does_not_fit_is_left_out_of_the_least_incidents_first(case, monkeypatch):
    detector, new, *_ = case
    monkeypatch.setattr(size_limits, "_SMALL", size_limits._SMALL._replace(courses=1000))
    content = content_of(detector.report(new, gap=2))
    kept = [bool(story.timeline) for story in content.incidents if story.first != story.last]
    scores = [story.score for story in content.incidents if story.first != story.last]
    assert 0 < sum(kept) < len(kept)
    assert min(s for s, k in zip(scores, kept, strict=True) if k) > max(
        s for s, k in zip(scores, kept, strict=True) if not k
    )
    assert f"is not kept for {len(kept) - sum(kept)} incidents" in "".join(content.overview.notes)


def test_the_incident_reached_as_many_as_the_sentence_says(case):
    _, _, found, content = case
    for story, incident in zip(content.incidents, found, strict=True):
        told = re.search(r"Later also off: (.*?)\. It was", incident.sentence)
        if told is None:
            continue
        more = re.search(r"and (\d+) more", told[1])
        names = [name for name in NAMES if name in told[1]]
        assert story.n_spread == len(names) + (int(more[1]) if more else 0)
        assert [NAMES[one.feature] for one in story.spread][: len(names)] == names
    assert all(abs(one.deviation) >= 2 for s in content.incidents for one in s.ranking)


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
