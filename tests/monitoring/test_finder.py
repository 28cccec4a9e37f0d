"""Rows become incidents: ties, upsets, baselines, known stretches, events, and memory that does not grow."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from culpa import PCADetector
from culpa.explaining.explainer import Explainer
from culpa.monitoring.finder import Batch, IncidentFinder
from culpa.monitoring.judged import Blamer
from culpa.monitoring.running import RowNames
from culpa.monitoring.when import Clock
from culpa.scores import ScoredRows
from culpa.scores.grouping import Rule


def rows_of(n, seed=0, d=8, p=2, noise=0.5):
    fixed, rng = np.random.default_rng(42), np.random.default_rng(seed)
    return rng.normal(size=(n, p)) @ fixed.normal(size=(p, d)) + noise * rng.normal(size=(n, d))


@pytest.fixture(scope="module")
def detector():
    return PCADetector().fit(rows_of(1000))


def feed(detector, X, size, *, live=True, gap=0, min_length=1):
    """Events of rows that come in batches."""
    fitted = detector.fitted
    explainer: Explainer = fitted.explainer()
    units = [""] * X.shape[1]
    finder = IncidentFinder(fitted, explainer, Clock(None), Rule.given(gap, min_length), units=units, live=live)
    events = []
    for start in range(0, len(X), size):
        rows = ScoredRows.of(explainer.columns.read(X[start : start + size]), fitted.model, fitted.statistic)
        positions = np.arange(start, start + len(rows))
        batch = Batch(RowNames(positions, positions, positions), rows, finder.judge.judge(rows))
        blamer = Blamer(finder.judge, lambda explainer: partial(explainer._one_pass.explain_scored, parts="values"))
        events += [(positions[-1], event) for event in finder.add(batch, blamer.blame(batch.judged.seen))]
    return events + [(None, event) for event in finder.finish()]


@pytest.fixture(scope="module")
def fixed(detector):
    """The same detector, whose limit does not follow."""
    result = PCADetector()
    result.fit(rows_of(1000)).fitted = replace(detector.fitted, views=None)
    return result


def test_ties_are_named_as_ties():
    """Two columns that nothing else is related to, and imply each other: either may be at fault."""
    rng = np.random.default_rng(0)
    X = rows_of(2000, d=6)
    twin = rng.normal(size=2000)
    table = pd.DataFrame(np.column_stack([X, twin, twin + 0.1 * rng.normal(size=2000)]), columns=list("abcdefgh"))
    detector = PCADetector().fit(table[:1500])
    new = table[1500:1520].reset_index(drop=True)
    new.loc[5, "g"] += 0.8  # eight standard deviations of the difference, one of the column
    (incident,) = [one for one in detector.incidents(new) if one.first == 5]
    [culprit] = incident.culprits
    assert {culprit.feature, *culprit.instead} == {"g", "h"}
    assert 0.3 < culprit.probability < 0.7
    assert f"{culprit.instead[0]} instead of {culprit.feature} would explain it as well" in incident.sentence
    assert culprit.disagrees_with[0].feature == culprit.instead[0]


def test_a_process_that_moved_as_a_whole_is_an_upset():
    detector = PCADetector().fit(rows_of(1000, d=24))
    X = rows_of(200, seed=1, d=24)
    X[100:160] += np.random.default_rng(5).choice([-1.0, 1.0], 24) * np.linspace(0.5, 3, 60)[:, None]
    incident = max(detector.incidents(X, gap=3), key=lambda one: one.n_flagged)
    assert incident.extent == "upset"
    assert incident.explained < 0.75
    assert incident.kind == "process"
    assert "The process moved: no single reading explains these rows." in incident.sentence
    assert all(np.isnan(culprit.probability) for culprit in incident.onset.culprits)
    assert all(culprit.against == "normal" for culprit in incident.onset.culprits)


def test_whoever_is_compared_with_normal_rows_has_no_probability():
    """At the onset and in the worst row, which are judged apart."""
    detector, kinds = PCADetector().fit(rows_of(1000, d=24)), set()
    for seed in range(6):
        X = rows_of(200, seed=seed, d=24)
        X[100:160] += np.random.default_rng(seed).choice([-1.0, 1.0], 24) * np.linspace(0.5, 3, 60)[:, None]
        X[150, seed] += 100
        for one in detector.incidents(X, gap=3):
            assert one.extent != "upset" or all(culprit.against == "normal" for culprit in one.onset.culprits)
            for culprit in (*one.onset.culprits, *one.worst.culprits):
                assert np.isnan(culprit.probability) == (culprit.against == "normal")
            kinds |= {(one.extent, culprit.against) for culprit in one.worst.culprits}
    assert {("upset", "others"), ("features", "others")} <= kinds


def test_nobody_below_two_standard_deviations_is_a_culprit(detector):
    X = rows_of(5000, seed=2)
    found = detector.incidents(X, gap=0)
    assert len(found) > 20
    moments = [moment for one in found for moment in (one.onset, one.worst)]
    assert all(abs(culprit.deviation) >= 2 for moment in moments for culprit in moment.culprits)


def test_probabilities_mean_what_they_say(detector):
    """Single faults of 2 to 6 standard deviations: among culprits with a probability of 90% and more, few are wrong."""
    rng, right = np.random.default_rng(3), []
    X = rows_of(1200, seed=4)
    faulty = rng.integers(8, size=1200)
    X[np.arange(1200), faulty] += rng.uniform(2, 6, 1200) * rng.choice([-1, 1], 1200)
    for incident in detector.incidents(X, stretches=[(k, k) for k in range(1200)]):
        right += [
            culprit.feature == f"x{faulty[incident.first]}"
            for culprit in incident.onset.culprits
            if culprit.probability >= 0.9
        ]
    assert len(right) > 400
    assert np.mean(right) > 0.9


def test_ranking_follows_a_drift(detector):
    """Everything has drifted; then one feature jumps. Only against the rows before does it stand out in the ranking."""
    X = rows_of(600, seed=6)
    X[:, :6] += np.linspace(0, 1.2, 600)[:, None] * [3, -3, 3, -3, 3, -3]
    X[500:530, 7] += 4
    stretch = [(500, 529)]
    for options in ({}, {"baseline": 100}):
        assert detector.incidents(X, stretches=stretch, **options)[0].ranking[0].feature == "x7"
    assert detector.incidents(X[500:530], stretches=[(0, 29)])[0].ranking[0].feature != "x7"
    assert detector.incidents(X[500:530], baseline=100)  # where there are no rows before, it is off


@pytest.mark.parametrize("size", [1, 7, 64])
def test_a_baseline_does_not_depend_on_batches(detector, monkeypatch, size):
    X = rows_of(400, seed=11)
    X[100:110, 2] += 9
    X[150:160, 5] += 9
    whole = detector.incidents(X, gap=3, baseline=80)
    monkeypatch.setattr("culpa.monitoring.incidents._ROWS_PER_CHUNK", size)
    pieces = detector.incidents(X, gap=3, baseline=80)
    assert len(whole) == len(pieces) > 1
    for one, other in zip(whole, pieces, strict=True):
        assert one.sentence == other.sentence
        assert [m.evidence for m in one.ranking] == pytest.approx([m.evidence for m in other.ranking])


def test_an_incident_right_after_a_hole_is_measured_as_if_nothing_came_before(detector):
    """Everything had drifted before the hole, and its first row after the hole is flagged."""
    X = rows_of(700, seed=6)
    X[:499] += 0.8 * np.sin(np.arange(8))
    X[499] = 0.0
    X[500:505, 7] += 9
    times = pd.date_range("2024-01-01", periods=1000, freq="min")[np.r_[:500, 800:1000]]
    after = detector.incidents(X[500:], time=times[500:])
    whole = [one for one in detector.incidents(X, time=times) if one.first >= 500]
    assert whole[0].first == 500
    for one, other in zip(after, whole, strict=True):
        assert [m.evidence for m in one.ranking] == [m.evidence for m in other.ranking]


def test_known_stretches(detector):
    X = rows_of(100, seed=7)
    found = detector.incidents(X, stretches=[(10, 19), (20, 24), (90, 99)])
    assert [(one.first, one.last, one.n_flagged) for one in found] == [(10, 19, 10), (20, 24, 5), (90, 99, 10)]
    for wrong in ([(5, 3)], [(0, 100)], [(-1, 3)]):
        with pytest.raises(ValueError, match="0 to 99"):
            detector.incidents(X, stretches=wrong)
    with pytest.raises(TypeError, match="you cannot pass 'ranking'"):
        detector.incidents(X, ranking="rbc")
    with pytest.raises(ValueError, match="baseline must be a whole number"):
        detector.incidents(X, baseline=-1)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_events(detector, size):
    X = rows_of(60, seed=8)
    X[20:40, 2] += 9
    X[30:40, 5] += 9
    events = feed(detector, X, size, gap=2, min_length=2)
    kinds = [event.event for _, event in events if event.incident.first == 20]
    assert kinds[0] == "opened"
    assert kinds[-1] == "closed"
    assert kinds.count("opened") == kinds.count("closed") == 1
    if size == 1:
        when = {event.event: row for row, event in events if event.incident.first == 20}
        assert when["opened"] == 21  # with the second flagged row
        assert when["closed"] == 43  # with the first row past the gap: the way back is a jump
        grown = [event.new for _, event in events if event.event == "grew"]
        assert ("x5",) in grown
    for _, event in events:
        assert ("Still open" in event.incident.sentence) == (event.event != "closed")
    quiet = feed(detector, X, size, gap=2, min_length=2, live=False)
    assert [event.event for _, event in quiet] == ["closed"] * len(quiet)


def test_a_long_incident_keeps_little(fixed):
    """Running sums, 20 first rows and 32 stages, however long it lasts."""
    X = rows_of(20_000, seed=9)
    X[1000:] += [0, 0, 9, 0, 0, 0, 0, 0]
    (incident,) = [one for one in fixed.incidents(X, gap=50) if one.n_flagged > 10_000]
    assert len(incident.timeline) <= 32
    assert sum(stage.n_flagged for stage in incident.timeline) == incident.n_flagged
    assert all(stage.most_blamed(1) == ["x2"] for stage in incident.timeline)


def test_a_level_that_stays_off_is_shown_until_it_ends(detector):
    """Its rows are not flagged any more, and other faults are incidents of their own."""
    X = rows_of(6000, seed=9)
    X[1000:4000] += [0, 0, 9, 0, 0, 0, 0, 0]
    X[3000:3010, 5] += 9
    found = [one for one in detector.incidents(X) if one.n_flagged >= 9]
    shift, other = found
    assert (shift.first, shift.status, shift.shifted) == (1000, "over", False)
    assert 3999 <= shift.last <= 4012  # ten rows at the old level end it
    assert 500 < shift.n_flagged < 520
    assert shift.stayed_off == ("x2",)
    assert other.first == 3000
    assert next(iter(other.blamed_first)) == "x5"
    (cut,) = [one for one in detector.incidents(X[:2500]) if one.n_flagged > 400]
    assert (cut.last, cut.status, cut.shifted) == (2499, "open", True)
    assert "Still open: off its usual level since row 1000." in cut.sentence
    assert detector.incidents(X).course.flagged[4002:].mean() < 0.03


def test_what_would_have_cleared_the_alarm_with_missing_cells(fixed):
    X = rows_of(30, seed=10)
    X[10, 2] += 12
    X[10, [4, 6]] = np.nan
    (incident,) = [one for one in fixed.incidents(X) if one.first == 10]
    assert list(incident.onset.to_fix) == ["x2"]
    fix = fixed.fix(X[10:11], ["x2"])
    assert incident.onset.score_if_fixed == pytest.approx(fix.score_if_fixed[0])
    assert incident.onset.to_fix["x2"] == pytest.approx(fix.expected[0, 0])


def test_known_stretches_in_any_order_and_overlapping(detector):
    X = rows_of(100, seed=7)
    X[30:40, 2] += 9
    wanted = [(30, 39), (5, 9), (8, 20), (35, 60), (3, 3)]
    found = detector.incidents(X, stretches=wanted, baseline=20)
    assert [(one.first, one.last) for one in found] == wanted
    for one, stretch in zip(found, wanted, strict=True):
        (alone,) = detector.incidents(X, stretches=[stretch])
        assert (one.n_flagged, one.score) == (alone.n_flagged, alone.score)
        assert not alone.explained > 1
    assert "just above" not in found[1].sentence
    assert "times the limit" in found[1].sentence


@pytest.mark.parametrize("seed", range(3))
def test_explained_is_a_share(detector, seed):
    X = rows_of(100, seed=seed)
    shares = np.array([one.explained for one in detector.incidents(X, stretches=[(k, k + 1) for k in range(0, 99, 2)])])
    assert (shares[~np.isnan(shares)] <= 1).all()


def test_stages_have_shares_from_one_percent_on(fixed):
    """Against the mean Shapley values of the rows of a stage."""
    X = rows_of(40, seed=12)
    X[20:26, 2] += 30
    (incident,) = [one for one in fixed.incidents(X) if one.n_flagged == 6]
    for stage in incident.timeline:
        why = fixed.explain(X[stage.first : stage.last + 1])
        shares = why.values.sum(axis=0) / why.score.sum()
        assert (np.abs(shares) < 0.01).any()
        expected = {f"x{k}": share for k, share in enumerate(shares) if abs(share) >= 0.01}
        assert stage.shares == pytest.approx(expected)


def test_a_baseline_takes_ten_rows_at_least(detector):
    X = rows_of(40, seed=12)
    X[20:26, 2] += 30

    def evidence(rows, **options):
        incident = max(detector.incidents(rows, **options), key=lambda one: one.n_flagged)
        return [moved.evidence for moved in incident.ranking]

    assert (detector.predict(X[8:20]) == 1).all()
    assert evidence(X[11:], baseline=50) == evidence(X[11:], baseline=9)  # nine rows before
    assert evidence(X[10:], baseline=50) != evidence(X[10:], baseline=9)
