"""Flagged rows become stretches: against a rule written down row by row, and on rows where the faults are known."""

import json

import numpy as np
import pandas as pd
import pytest

import culpa
from culpa import PCADetector
from culpa.datasets import make_plant
from culpa.fitted import excess_of
from culpa.monitoring.states import from_plain, to_plain
from culpa.scores.excess import NormalExcess
from culpa.scores.grouping import Grouping, Rule


def witness(places, excess, profiles, rule):
    """The rule in words, on lists of rows: returns the rows of each stretch that is an incident, in order."""
    stretches = []  # lists of rows

    def profile(rows):
        return sum(excess[k] * profiles[k] for k in rows)

    def likeness(a, b):
        return a @ b / np.sqrt((a @ a) * (b @ b))

    for k, place in enumerate(places):
        near = [rows for rows in stretches if place - places[max(rows)] <= rule.reach]
        latest = max(near, key=max, default=None)
        if latest is not None and place - places[max(latest)] <= rule.width:
            here = latest
        else:
            here = max(near, key=lambda rows: likeness(profile(rows), profiles[k]), default=None)
            if here is None or likeness(profile(here), profiles[k]) < 0.8:
                here = []
                stretches.append(here)
        here.append(k)
        for other in [rows for rows in near if rows is not here]:
            close = places[min(here)] - places[max(other)] <= rule.reach
            if close and likeness(profile(other), profile(here)) >= 0.8:
                kept, lost = sorted([here, other], key=min)
                kept += lost
                stretches[:] = [rows for rows in stretches if rows is not lost]
                here = kept
    confirmed = [rows for rows in stretches if sum(excess[k] for k in rows) > rule.bound and len(rows) >= rule.fewest]
    return sorted(sorted(rows) for rows in confirmed)


def grouped(places, excess, profiles, rule, restart=False):
    grouping, rows, announced = Grouping(rule), {}, set()
    for k, (place, y, profile) in enumerate(zip(places, excess, profiles, strict=True)):
        step = grouping.add(place, y, profile)
        for key in step.same:
            rows[step.key] = rows.get(step.key, []) + rows.pop(key)
        rows.setdefault(step.key, []).append(k)
        announced |= {step.key} if step.announced else set()
        if restart:
            state = json.loads(json.dumps(to_plain(grouping.memory)))
            grouping = Grouping(rule)
            grouping.memory = from_plain(state)
    return sorted(sorted(at) for key, at in rows.items() if key in announced)


@pytest.mark.parametrize("seed", range(20))
def test_stretches_against_the_rule_in_words(seed):
    rng = np.random.default_rng(seed)
    n = 120
    places = np.cumsum(rng.choice([1, 1, 2, 4, 9, 20, 40], n)).tolist()
    kinds = np.array([[0.9, 0.1, 0.0, 0.0], [0.0, 0.1, 0.9, 0.0], [0.4, 0.2, 0.4, 0.0], [0.0, 0.0, 0.1, 0.9]])
    profiles = kinds[rng.integers(4, size=n)] + 0.2 * rng.random((n, 4))
    excess = rng.exponential(0.3, n).tolist()
    for rule in (Rule(4, 25, 0.8), Rule(4, 4, 0.8), Rule(2, 60, 0.3, 3), Rule.given(3, 2)):
        expected = witness(places, excess, profiles, rule)
        assert grouped(places, excess, profiles, rule) == expected
        assert grouped(places, excess, profiles, rule, restart=True) == expected


def test_what_is_expected_by_chance():
    """Stretches with exponential evidence: as many exceed the bound as were asked for."""
    rng = np.random.default_rng(0)
    evidence = rng.exponential(0.2, 2000)
    normal = NormalExcess.of(1.0, 5, evidence, 100_000, 0.01)
    for per_row in (0.001, 0.0003):
        bound = normal.bound(per_row)
        assert normal.false_incidents(bound) == pytest.approx(per_row)
        assert (evidence > bound).sum() / 100_000 == pytest.approx(per_row, rel=0.15)
    assert normal.bound(1.0) == 0
    wide = NormalExcess.of(5.0, 5, evidence, 100_000, 0.01)
    assert wide.bound(1e-9) < np.log(10) / 5  # one row at ten times the limit


@pytest.mark.parametrize("seed", [0, 3, 17])
def test_a_plant_with_six_faults_has_six_incidents(seed):
    plant = make_plant(seed=seed)
    found = PCADetector().fit(plant.normal).incidents(plant.new)
    of_faults = [one for one in found if plant.culprits[one.first : one.last + 1].any()]
    assert sum(one.n_flagged > 0 for one in of_faults) == 6  # and one sensor that stood still
    assert len(found) <= len(of_faults) + 1  # of 400 rows, at 1.5 false incidents per 1,000
    flagged = sum(one.n_flagged for one in (*found, *found.unconfirmed))
    assert flagged == found.n_flagged


@pytest.fixture(scope="module")
def detector():
    return PCADetector().fit(make_plant(seed=1).normal)


def quiet(detector, n=200):
    """Normal rows, none of them flagged."""
    rows = make_plant(seed=1, n_new=4 * n, faults=()).new
    return rows[detector.predict(rows) == 1][:n]


def test_faults_of_different_features_are_two_incidents(detector):
    for columns, n in (((2, 7), 2), ((2, 2), 1)):
        new = quiet(detector)
        for start, column in zip((50, 75), columns, strict=True):
            new[start : start + 10, column] += 8 * new[:, column].std()
        assert len(detector.incidents(new)) == n


def test_missing_rows_end_an_incident(detector):
    new = quiet(detector)
    new[50:60, 2] += 8 * new[:, 2].std()
    new[63:70, 2] += 8 * new[:, 2].std()
    times = pd.date_range("2024-03-05", periods=200, freq="1min")
    assert len(detector.incidents(new, time=times)) == 1
    later = times.where(np.arange(200) < 61, times + pd.Timedelta("3h"))
    assert len(detector.incidents(new, time=later)) == 2


def test_open_or_over(detector):
    new = quiet(detector)
    new[190:, 2] += 8 * new[:, 2].std()
    new[20, 2] += 30 * new[:, 2].std()
    first, last = detector.incidents(new)
    assert (first.status, last.status) == ("over", "open")
    assert "Over since row 20." not in first.sentence  # it was one row
    assert "Still open: flagged last in row 199." in last.sentence
    (cut,) = detector.incidents(new[:24])  # the end of the rows ends nothing
    assert cut.status == "open"
    assert [one.status for one in detector.incidents(new, stretches=[(20, 22), (190, 199)])] == ["over", "open"]


def test_how_many_false_incidents_one_accepts(detector):
    new = make_plant(seed=1, n_new=4000, faults=()).new
    times = pd.date_range("2024-03-05", periods=4000, freq="1min")
    default, few, many = (
        len(detector.incidents(new, time=times, **options))
        for options in ({}, {"false_incidents": "1 per week"}, {"false_incidents": "6 per 1,000 rows"})
    )
    assert few <= default < many
    assert "2.2 false incidents per day (1.5 per 1,000 normal rows)" in detector.incidents(new, time=times).expected
    rare = detector.incidents(new, time=times, false_incidents="1 per week").expected
    assert "0.14 false incidents per day" in rare
    with pytest.raises(ValueError, match="needs the times of the rows"):
        detector.incidents(new, false_incidents="1 per week")
    for wrong in ("often", 3, "0 per day", "1 per 1.5 rows", "1,5 per week", "1 per 0 rows", "1 per , rows"):
        with pytest.raises(ValueError, match="must be a text such as '1 per week'"):
            detector.incidents(new, time=times, false_incidents=wrong)
    with pytest.raises(ValueError, match="Leave it out"):
        detector.incidents(new, gap=3, false_incidents="1 per week")


def test_model_files_know_how_rows_are_grouped(detector, tmp_path):
    detector.save(tmp_path / "plant.culpa")
    assert culpa.load(tmp_path / "plant.culpa").fitted.normal_excess == detector.fitted.normal_excess


def test_without_normal_rows_flagged_rows_are_taken_to_come_by_chance(detector):
    from dataclasses import replace

    fitted = replace(detector.fitted, normal_excess=None)
    assert excess_of(fitted).gap == 5
    assert excess_of(fitted).unit == pytest.approx(detector.fitted.normal_excess.unit, rel=0.2)


@pytest.mark.parametrize("seed", range(3))
def test_batches_and_stretches_that_join(detector, monkeypatch, seed):
    """Faults of the same and of other features, near each other: the same incidents in batches of any size."""
    rng, new = np.random.default_rng(seed), quiet(detector)
    for start in range(20, 190, 12):
        new[start : start + rng.integers(1, 5), rng.choice([2, 5, 7])] += rng.choice([3, 12])
    whole = detector.incidents(new).to_dict()
    assert whole["incidents"]
    for size in (1, 7, 50):
        monkeypatch.setattr("culpa.monitoring.incidents._ROWS_PER_CHUNK", size)
        pieces = detector.incidents(new).to_dict()
        assert [one["sentence"] for one in pieces["incidents"]] == [one["sentence"] for one in whole["incidents"]]
        keys = ("first", "last", "n_flagged", "status", "peak")
        for one, other in zip(
            pieces["incidents"] + pieces["unconfirmed"], whole["incidents"] + whole["unconfirmed"], strict=True
        ):
            assert [one[key] for key in keys] == [other[key] for key in keys]
            assert [(stage["first"], stage["last"], stage["n_flagged"]) for stage in one["timeline"]] == [
                (stage["first"], stage["last"], stage["n_flagged"]) for stage in other["timeline"]
            ]
