"""Signals against a reading of the rule row by row, and against themselves in pieces."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from culpa.datasets import make_plant
from culpa.models.normal_signals import NormalSignals, SignalsLearner
from culpa.monitoring.signals import Finding, Signals
from culpa.monitoring.states import from_plain, to_plain


def learned(normal, **units):
    """The columns of normal rows, with units by position: x2="%"."""
    return Signals(NormalSignals.of(normal), [units.get(f"x{j}", "") for j in range(normal.shape[1])])


def server_like(rng, n, d=6):
    """Columns that change at different paces, with coarse values and cells that are missing."""
    X = np.empty((n, d))
    for j, pace in enumerate((1.0, 0.9, 0.6, 0.3, 0.05, 0.0)[:d]):
        steps = rng.random(n) < pace
        X[:, j] = np.round(np.cumsum(steps * rng.normal(size=n)), 1)
    X[:, 1] = np.clip(X[:, 1], -1, 1)  # rests at both ends
    X[rng.random(X.shape) < 0.02] = np.nan
    return X


def runs_of(cells):
    """(value, place of each cell) of every run, of cells that are known."""
    found = []
    for place, value in enumerate(cells):
        if math.isnan(value):
            continue
        if found and found[-1][0] == value:
            found[-1][1].append(place)
        else:
            found.append((value, [place]))
    return found


def brute_force(normal, X):
    """(kind, column, since, row, until) of frozen columns, from the definition: one column and one run after the other."""
    d = X.shape[1]
    before = [runs_of(normal[:, j]) for j in range(d)]
    longest = [max(len(places) for _, places in runs) for runs in before]
    usual = [sum(len(places) for _, places in runs) / len(runs) for runs in before]
    judged = [longest[j] <= 15 * usual[j] and len(before[j]) >= 50 for j in range(d)]
    moving = [j for j in range(d) if judged[j] and usual[j] <= 3]
    seen = [runs_of(X[:, j]) for j in range(d)]

    def size_at(j, row):
        before = [places for _, places in seen[j] if places[0] <= row]
        return sum(place <= row for place in before[-1]) if before else 0

    found = set()
    for j in range(d):
        low, high = np.nanmin(normal[:, j]), np.nanmax(normal[:, j])
        rests = {
            end
            for end in (low, high)
            if len(at := [places for value, places in before[j] if value == end]) >= 3 and max(map(len, at)) > 1
        }
        changes = [places[0] for _, places in seen[j][1:]]
        for number, (value, places) in enumerate(seen[j]):
            if not judged[j] or value in rests:
                continue
            start, pace = places[0], 1 / usual[j]
            for width in (30, 100):
                steps = min(start, width)
                if steps >= 19:
                    pace = min(pace, sum(start - steps < place <= start for place in changes) / steps)
            if pace == 0:
                continue
            need = max(math.ceil(1.25 * longest[j]) + 2, math.ceil(1 + 18.4 / -math.log1p(-min(pace, 0.999))))
            until = seen[j][number + 1][1][0] if number + 1 < len(seen[j]) else None
            others = [k for k in moving if k != j]
            for size in range(need, len(places) + 1, need):
                row = places[size - 1]
                still = np.mean([size_at(k, row) > need // 2 for k in others]) if others else 0.0
                if still < 1 / 3 or len(others) < 2:
                    found.add(("frozen" if low < value < high else "limit", j, start, row, until))
                    break
    return found


def test_stops_in_pieces():
    signals, new = plant_rows(1)
    new[60:90], new[150:180], new[250:] = new[59], new[149], new[249]
    whole = signals.look(signals.start(), new)[1]
    assert [(one.kind, one.since, one.until) for one in whole] == [
        ("stopped", 59, None),
        ("stopped", 59, 90),
        ("stopped", 149, None),
        ("stopped", 149, 180),
        ("stopped", 249, None),
    ]
    state, pieces = signals.start(), []
    for row in new:
        state, found = signals.look(state, row[None])
        pieces += found
    assert [repr(one) for one in pieces] == [repr(one) for one in whole]


def told(findings):
    """The same of findings: those that ended take the place of those that began."""
    ended = {(one.column, one.since): one.until for one in findings if one.until is not None}
    return {
        (one.kind, one.column, one.since, one.row, ended.get((one.column, one.since)))
        for one in findings
        if one.until is None and one.kind in ("frozen", "limit")
    }


@pytest.mark.parametrize("seed", range(12))
def test_frozen_columns_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    normal, X = server_like(rng, 900), server_like(rng, 500)
    for _ in range(4):
        j, start, n = rng.integers(6), rng.integers(150, 400), rng.integers(5, 120)
        X[start : start + n, j] = X[start, j]
    if seed % 3 == 0:
        X[300:380] = X[300]  # everything stands still
    signals = learned(normal)
    found = signals.look(signals.start(), X)[1]
    assert told(found) == brute_force(normal, X)


def test_definition_finds_something_in_these_rows():
    rng = np.random.default_rng(0)
    normal, X = server_like(rng, 900), server_like(rng, 500)
    X[200:300, 0] = X[199, 0]
    assert any(one[1] == 0 and one[2] == 199 for one in brute_force(normal, X))


@pytest.mark.parametrize("seed", range(6))
def test_pieces_and_restarts_change_nothing(seed):
    rng = np.random.default_rng(100 + seed)
    normal, X = server_like(rng, 700), server_like(rng, 400)
    normal[:, 2] = np.abs(normal[:, 2])
    X[120:220, 0], X[250:300, 2] = X[119, 0], -1e6
    X[320:390] = np.nan_to_num(X[320], nan=0.7)
    signals = learned(normal, x2="kg")
    whole_state, whole = signals.look(signals.start(), X)
    assert {one.kind for one in whole} >= {"frozen", "range"}
    state, pieces = signals.start(), []
    for rows in np.split(X, np.sort(rng.integers(0, len(X), 40))):
        again = Signals(NormalSignals.from_array(signals.normal.to_array()), ["", "", "kg", "", "", ""])
        state, found = again.look(state, rows)
        state = from_plain(json.loads(json.dumps(to_plain(state), allow_nan=False)))
        pieces += found
    as_text = [[repr(one) for one in each] for each in (whole, pieces)]
    assert as_text[0] == as_text[1]
    assert json.dumps(to_plain(state)) == json.dumps(to_plain(whole_state))


@pytest.mark.parametrize("cuts", [[], [1, 2, 17, 100, 101, 400]])
def test_learned_runs_are_those_of_the_definition(cuts):
    X = server_like(np.random.default_rng(3), 500)
    learner = SignalsLearner(X.shape[1])
    for piece in np.split(X, cuts):
        learner.add(piece)
    normal = learner.finish()
    for j in range(X.shape[1]):
        runs = runs_of(X[:, j])
        assert normal.longest[j] == max(len(places) for _, places in runs)
        assert (normal.n_runs[j], normal.n_cells[j]) == (len(runs), (~np.isnan(X[:, j])).sum())
        assert (normal.low[j], normal.high[j]) == (np.nanmin(X[:, j]), np.nanmax(X[:, j]))


def test_later_rows_join_what_was_learned():
    X = server_like(np.random.default_rng(4), 600)
    X[299], X[300] = 100.0, 200.0  # no run goes over the border, and each part has ends of its own
    both = NormalSignals.of(X[:300]).then(NormalSignals.of(X[300:]))
    assert (both.to_array() == NormalSignals.of(X).to_array()).all()


def plant_rows(seed=0):
    plant = make_plant(n_new=300, faults=(), seed=seed)
    return learned(plant.normal), plant.new.copy()


def frozen_plant():
    signals, new = plant_rows()
    new[100:, 3] = new[100, 3]
    return signals, new


def test_frozen_sensor_of_the_plant_is_found_at_once():
    signals, new = frozen_plant()
    [found] = signals.look(signals.start(), new)[1]
    assert (found.kind, found.column, found.since, found.until) == ("frozen", 3, 100, None)
    assert found.row <= 105
    assert (found.usual, found.value) == (1, new[100, 3])


def test_end_of_a_frozen_stretch_is_told_with_its_first_row():
    signals, new = frozen_plant()
    new[150:, 3] += np.random.default_rng(0).normal(size=150)
    began, ended = signals.look(signals.start(), new)[1]
    assert (began.until, ended) == (None, began._replace(until=150))


def test_run_hardly_longer_than_the_longest_normal_one_is_not_frozen():
    """Chance alone would call five equal cells of these columns too long."""
    rng = np.random.default_rng(0)
    normal, new = rng.normal(size=(500, 4)), rng.normal(size=(200, 4))
    normal[100:112, 1] = normal[100, 1]
    signals = learned(normal)
    for n, found in ((16, []), (17, [("frozen", 1, 50, 66)])):  # 1.25 * 12 + 2
        new[50:70] = rng.normal(size=(20, 4))
        new[50 : 50 + n, 1] = new[50, 1]
        seen = signals.look(signals.start(), new)[1]
        assert [(one.kind, one.column, one.since, one.row) for one in seen if one.until is None] == found


def test_value_beyond_the_normal_range_is_stuck_at_a_limit():
    signals, new = frozen_plant()
    new[100:, 3] = signals.normal.high[3] + 1
    assert [one.kind for one in signals.look(signals.start(), new)[1]] == ["limit"]


def test_valve_that_rests_shut_in_normal_rows_is_not_frozen():
    rng = np.random.default_rng(0)
    valve = np.maximum(rng.normal(size=3000), 0) * (np.arange(3000) // 3 % 2)
    others = rng.normal(size=(3000, 4))
    rows = np.column_stack([valve, others])
    signals = learned(rows[:2000])
    new = rows[2000:].copy()
    new[500:, 0] = 0.0
    assert signals.normal.rests_low[0]
    assert not signals.look(signals.start(), new)[1]


def test_stopped_recording_is_one_finding():
    signals, new = plant_rows()
    new[120:160] = new[119]
    began, ended = signals.look(signals.start(), new)[1]
    assert (began.kind, began.column, began.since) == ("stopped", -1, 119)
    assert (ended.kind, ended.since, ended.until) == ("stopped", 119, 160)


def test_sensor_that_stays_frozen_after_a_quiet_time_is_found():
    signals, new = plant_rows()
    new[100:150, :7] = new[99, :7]  # more than a third of the columns stand still
    new[150:, 0] = new[99, 0]
    found = signals.look(signals.start(), new)[1]
    assert [(one.kind, one.column, one.since) for one in found] == [("frozen", 0, 99)]
    assert found[0].row >= 150


def percent_rows():
    """Six columns; the third is a valve, in percent."""
    rng = np.random.default_rng(0)
    normal, new = rng.normal(size=(500, 6)), rng.normal(size=(200, 6))
    normal[:, 2], new[:, 2] = rng.uniform(20, 80, 500), rng.uniform(20, 80, 200)
    return normal, new


def test_values_beyond_the_physical_range():
    normal, new = percent_rows()
    margin = 0.05 * np.ptp(normal[:, 2])
    new[50:60, 2] = 100 + np.linspace(0.8, 0.9, 10) * margin  # hardly beyond
    new[70:75, 2] = -1.1 * margin - np.arange(5)
    new[72, 2] = np.nan
    signals = learned(normal, x2="%")
    began, ended = signals.look(signals.start(), new)[1]
    assert began == Finding("range", 2, 70, 70, None, new[70, 2], 0.0)
    assert ended == began._replace(until=75, value=new[74, 2])


def test_column_that_was_beyond_its_physical_range_in_normal_rows_is_not_judged():
    normal, new = percent_rows()
    normal[3, 2], new[50, 2] = 101.0, 150.0
    signals = learned(normal, x2="%")
    assert not signals.look(signals.start(), new)[1]


@pytest.mark.skipif(not os.environ.get("CULPA_DATA"), reason="needs the folder that CULPA_DATA names")
def test_tennessee_eastman_fault_21_is_a_frozen_valve():
    runs = np.load(Path(os.environ["CULPA_DATA"]) / "tep" / "tep.npz")
    signals = learned(runs["normal"])
    names = runs["names"].tolist()
    [found] = signals.look(signals.start(), runs["fault21"])[1]
    assert (found.kind, names[found.column]) == ("frozen", "XMV04")
    assert 159 <= found.since <= found.row <= 163
    assert not signals.look(signals.start(), runs["normal_later"])[1]
