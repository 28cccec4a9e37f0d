"""While rows drift, the sentence of an incident, the heat map, row details and histories tell the same."""

import numpy as np
import pandas as pd
import pytest
from report_cases import content_of

from culpa import PCADetector
from culpa.scores.following import VIEWS, Follower

NAMES = [f"c{i:02}" for i in range(10)]
N_TRAIN, N_NEW = 1200, 900


def drifting(seed):
    """Rows of three common causes and a slow random walk of every column, and the new ones with faults of a few columns."""
    rng = np.random.default_rng(seed)
    n, d = N_TRAIN + N_NEW, len(NAMES)
    rows = rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + 0.4 * rng.normal(size=(n, d))
    if seed == 2:  # so smooth that a fault is a jump before it is a departure
        for t in range(1, n):
            rows[t] = 0.95 * rows[t - 1] + 0.3 * rows[t]
    rows += 0.06 * rng.normal(size=(n, d)).cumsum(axis=0) + 50
    for start in range(N_TRAIN + 20, n - 20, 45):
        columns = rng.choice(d, size=rng.integers(1, 4), replace=False)
        rows[start : start + rng.integers(1, 7), columns] += (
            rng.choice([-1, 1]) * rng.uniform(4, 12, len(columns)) / (1 + (seed == 2))
        )
    return pd.DataFrame(rows[:N_TRAIN], columns=NAMES), pd.DataFrame(rows[N_TRAIN:], columns=NAMES).reset_index(
        drop=True
    )


@pytest.fixture(scope="module", params=range(3))
def case(request):
    """A detector, new rows, the incidents that rows were flagged for, and the report on all of them."""
    train, new = drifting(request.param)
    detector = PCADetector().fit(train)
    found, content = detector.incidents(new), content_of(detector.report(new))
    assert [one.sentence for one in found] == [one.sentence for one in content.incidents]
    flagged = [k for k, one in enumerate(found) if one.n_flagged]
    views = {found[k].onset.culprits[0].view for k in flagged if found[k].onset.culprits}
    assert views >= ({"jump"} if request.param == 2 else {"departure"})
    return detector, new, found, content, flagged


def blame_of(content, row):
    """Shares of the score by name, highest first, from the details of a row."""
    detail = next(one for one in content.details.rows if one.row == row)
    shares = {
        content.players[player]: value / detail.score for player, value in zip(detail.player, detail.value, strict=True)
    }
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def test_the_sentence_begins_with_whom_the_first_flagged_rows_and_the_heat_map_blame(case):
    _, _, found, content, flagged = case
    explained = {one.row for one in content.details.rows}
    single = 0
    for k in flagged:
        incident, sentence = found[k], content.incidents[k].sentence.split(".")[0]
        rows = incident.first + np.flatnonzero(found.course.flagged[incident.first : incident.last + 1])[:3]
        if not incident.blamed_first or not explained >= set(rows.tolist()):
            continue
        of_rows = pd.DataFrame([blame_of(content, row) for row in rows.tolist()])
        score = np.array([next(one.score for one in content.details.rows if one.row == row) for row in rows.tolist()])
        together = of_rows.mul(score, axis=0).sum() / score.sum()
        shares = np.maximum(together, of_rows.max()).sort_values(ascending=False)
        assert incident.blamed_first == pytest.approx(shares[shares > 0.25][:3].to_dict())
        assert all(name in sentence for name in incident.blamed_first)
        assert any(next(iter(blame_of(content, row))) in incident.blamed_first for row in rows.tolist())
        if len(incident.blamed_first) == 1 and incident.peak in rows:
            [name] = incident.blamed_first
            column = content.heatmap.incidents.index(k)
            largest = np.argmax([line[column] for line in content.heatmap.share])
            assert content.heatmap.players[int(largest)] == name == next(iter(blame_of(content, incident.peak)))
            single += 1
    assert single > 2


def test_heat_map_and_details_have_the_blame_of_the_incidents(case):
    *_, found, content, flagged = case
    for k in flagged:
        story, incident = content.incidents[k], found[k]
        for moment in (incident.onset, incident.worst):
            shares = blame_of(content, moment.row)
            for culprit in moment.culprits:
                assert shares[culprit.feature] == pytest.approx(culprit.share)
        if k in content.heatmap.incidents:
            column, shares = content.heatmap.incidents.index(k), blame_of(content, story.peak)
            for player, line in zip(content.heatmap.players, content.heatmap.share, strict=True):
                assert line[column] == pytest.approx(shares[player], abs=1e-3)


def test_scores_are_those_of_incidents_and_chart(case):
    *_, found, content, flagged = case
    own = dict(zip(content.chart.row or range(N_NEW), content.chart.statistics[0].value, strict=True))
    assert content.details.limit == content.chart.statistics[0].alarm == 1.0
    for one in content.details.rows:
        if found.course.flagged[one.row]:
            assert one.score == pytest.approx(own[one.row], rel=1e-5)
    for k in flagged:
        onset = content.incidents[k].onset
        assert onset.score == pytest.approx(next(one.score for one in content.details.rows if one.row == onset.row))


def test_histories_expect_what_the_others_imply_beyond_what_rows_are_compared_with(case):
    detector, new, found, content, flagged = case
    fitted = detector.fitted
    X = new.to_numpy()
    average, before = np.empty(X.shape), np.vstack([np.full(X.shape[1], np.nan), X[:-1]])
    Follower(fitted.views).add(X, None, average)
    seen = set()
    for k in flagged:
        story, incident = content.incidents[k], found[k]
        if story.history is None:
            continue
        onset, rows = story.onset, story.history.row
        view = fitted.views.all[VIEWS.index(incident.onset.culprits[0].view)]
        at = {"level": 0 * X, "departure": average, "jump": before}[onset.culprits[0].view][rows]
        off = view.model.standardise(new.to_numpy()[rows] - at)
        blamed = [NAMES.index(culprit.feature) for culprit in incident.onset.culprits]
        others = np.setdiff1d(np.arange(len(NAMES)), blamed)
        C = view.model.gaussian.covariance
        implied = off[:, others] @ np.linalg.solve(C[np.ix_(others, others)], C[np.ix_(others, blamed)])
        for told in onset.culprits[:3]:
            series = next(one for one in story.history.series if one.feature == told.feature)
            assert series.expected[rows.index(onset.row)] == pytest.approx(told.expected, rel=1e-5)
            if told.against == "others":
                i = told.feature
                z = implied[:, blamed.index(i)] * view.model.scale[i] + view.model.centre[i] + at[:, i]
                known = ~np.isnan(at).any(axis=1)
                assert np.array(series.expected)[known].astype(float) == pytest.approx(z[known], rel=1e-5)
                seen.add(told.view)
    assert seen & {"departure", "jump"}


def test_rows_that_no_view_flags_have_no_details(case):
    detector, new, found, content, _ = case
    of_signals = {one.onset.row for one in found if not one.n_flagged}
    assert {one.row for one in content.details.rows} <= {*np.flatnonzero(found.course.flagged).tolist(), *of_signals}
    calm = content_of(detector.report(new.iloc[:15]))
    assert (calm.overview.flagged, calm.details.rows, calm.heatmap.incidents) == (0, [], [])
    assert calm.overview.notes == ["Details are kept for 0 rows: only flagged rows have them."]
