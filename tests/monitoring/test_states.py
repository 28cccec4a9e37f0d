"""The same rows in any batches, with restarts in between, give the same incidents in the same order, in the same words."""

import json
from dataclasses import asdict
from functools import partial

import numpy as np
import pandas as pd
import pytest

from culpa import PCADetector
from culpa._core.json_values import to_json_value
from culpa.datasets import make_plant
from culpa.fitted import excess_of
from culpa.monitoring.finder import Batch, IncidentFinder
from culpa.monitoring.incidents import units_of
from culpa.monitoring.judged import Blamer
from culpa.monitoring.running import RowNames
from culpa.monitoring.states import from_plain, to_plain
from culpa.monitoring.when import Clock
from culpa.scores import ScoredRows
from culpa.scores.grouping import Rule

PLANT = make_plant(seed=3)
NAMES = list(PLANT.feature_names)
KINDS = {
    "plain": {},
    "modes": {"modes": 2},
    "lags": {"lags": 1},
    "groups": {"groups": {"a": NAMES[:2], "b": NAMES[2:4]}},
}


@pytest.fixture(scope="module", params=KINDS)
def detector(request):
    detector = PCADetector(**KINDS[request.param]).fit(pd.DataFrame(PLANT.normal, columns=NAMES))
    detector.units_ = dict.fromkeys(NAMES, "%")
    return detector


def random_rows(rng, n):
    """Rows with faults of every kind, holes, and rows that were left out: cells, missing rows, and cuts."""
    start, (_, d) = int(rng.integers(len(PLANT.normal) - n)), PLANT.normal.shape
    X, sd = PLANT.normal[start : start + n].copy(), PLANT.normal.std(axis=0)
    for _ in range(rng.integers(1, 6)):
        a, j = int(rng.integers(n)), int(rng.integers(d))
        rows = slice(a, min(n, a + int(rng.integers(1, 60))))
        kind = rng.integers(7)
        if kind == 0:
            X[rows, j] = X[a, j]
        elif kind == 1:
            X[rows] = X[a]
        elif kind == 2:
            X[rows, j] += 6 * rng.normal() * sd[j]
        elif kind == 3:
            X[rows] += 3 * rng.normal(size=d) * sd
        elif kind == 4:
            X[rows, j] = 1.8 * X[rows, j] + 32
        elif kind == 5:
            X[rows, j] = -50
        else:
            X[rows, rng.random(d) < 0.5] = np.nan
    if rng.random() < 0.5:
        X[rng.random(X.shape) < rng.choice([0.01, 0.2])] = np.nan
    missing, cut = np.zeros(n), np.zeros(n, dtype=bool)
    missing[rng.integers(1, n, 3)] = rng.choice([1, 20, 299, 300, np.inf], 3)
    cut[rng.integers(1, n, rng.integers(2))] = True
    missing[cut] = np.inf
    return X, missing, cut


def events(detector, rows, sizes, *, restarts=None, **options):
    """Events of rows in batches of these sizes, now and then with another finder that goes on."""
    (X, missing, cut), fitted = rows, detector.fitted
    explainer = fitted.explainer()
    times = pd.date_range("2024-10-26 22:00", periods=len(X), freq="61s", tz="Europe/Berlin")

    def finder():
        rule, clock = Rule.of(excess_of(fitted)), Clock("time", dated=True)
        return IncidentFinder(fitted, explainer, clock, rule, units=units_of(fitted), unconfirmed=True, **options)

    whole = ScoredRows.of(fitted.read(detector._read(pd.DataFrame(X, columns=NAMES))), fitted.model, fitted.statistic)
    one, found, start = finder(), [], 0
    for size in sizes:
        at = np.arange(start, min(start + size, len(X)))
        if not len(at):
            break
        part = whole.choose(at)
        names, judged = RowNames(at, times[at], at), one.judge.judge(part, missing[at])
        blamer = Blamer(one.judge, lambda explainer: partial(explainer._one_pass.explain_scored, parts="values"))
        found += one.add(Batch(names, part, judged, times[at], cut[at], missing[at]), blamer.blame(judged.seen))
        start += size
        if restarts is not None and restarts.random() < 0.3:
            one, memory = finder(), one.memory
            one.memory = json.loads(json.dumps(memory))
    return [(event.event, event.new, to_json_value(asdict(event.incident))) for event in found + one.finish()]


def alike(one, other):
    """Whether both are the same but for rounding in numbers."""
    if isinstance(one, dict):
        return list(one) == list(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=1e-7, abs=1e-7)
    return one == other


@pytest.mark.parametrize("seed", range(12))
def test_batches_and_restarts_do_not_matter(detector, seed):
    rng = np.random.default_rng([7, seed])
    rows = random_rows(rng, n := int(rng.integers(60, 220)))
    whole = events(detector, rows, [n])
    assert alike(whole, events(detector, rows, [1] * n))
    assert alike(whole, events(detector, rows, rng.integers(1, 40, n), restarts=rng))
    assert [one["first"] for *_, one in whole] == sorted(one["first"] for *_, one in whole)


@pytest.mark.parametrize("seed", range(12))
def test_events_as_they_happen_end_like_those_of_the_whole_table(detector, seed):
    """Row by row: whatever opens also ends or joins another one, and what grows names the features that it reached."""
    rng = np.random.default_rng([8, seed])
    rows = random_rows(rng, n := int(rng.integers(60, 220)))
    live = events(detector, rows, [1] * n, live=True)
    assert live == events(detector, rows, [1] * n, live=True, restarts=rng)
    ended = [one["sentence"] for event, _, one in live if event in ("closed", "open", "unconfirmed")]
    assert sorted(ended) == sorted(one["sentence"] for *_, one in events(detector, rows, [n]))
    for event, new, one in live:
        reached = {each["feature"] for each in one["spread"]}
        assert set(new) <= reached
        assert bool(new) == (event == "grew")


def test_a_long_run_is_told_before_what_began_after_it(detector):
    """An incident that is over waits for a run that began before it, which may turn out to be too long."""
    X = PLANT.normal[:200].copy()
    X[20:60, 3] = X[20, 3]
    X[22, 8] += 30
    rows = X, np.zeros(200), np.zeros(200, dtype=bool)
    whole = events(detector, rows, [200])
    assert ["frozen" in one["kind"] for *_, one in whole if one["first"] in (20, 22)][:1] == [True]
    assert alike(whole, events(detector, rows, [1] * 200))


def test_a_recording_that_stops_among_missing_cells_begins_where_it_began(detector):
    X = PLANT.normal[:120].copy()
    X[60:] = X[60]
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    rows = X, np.zeros(120), np.zeros(120, dtype=bool)
    for sizes in ([120], [1] * 120):
        (stopped,) = [one for *_, one in events(detector, rows, sizes) if one["kind"] == "stopped"]
        assert 60 <= stopped["first"] <= 62


def test_what_comes_back_is_the_same():
    times = (
        pd.Timestamp("2024-03-31 02:30:00.000000001", tz="UTC"),
        pd.Timedelta("1ns"),
        np.datetime64("2024-01-01T00:00"),
    )
    values = {
        "a": [1, (2.5, float("nan")), None],
        (1, "b"): np.array([[0.1, -np.inf]]),
        3: np.array(["x", 2.5], dtype=object),
    }
    plain = json.loads(json.dumps(to_plain([values, *times]), allow_nan=False))
    again = from_plain(plain)
    assert to_plain(again) == plain
    assert again[1:] == list(times)
    assert again[0][(1, "b")].dtype == np.float64
    with pytest.raises(TypeError, match="cannot be kept"):
        to_plain(object())


def test_memory_of_another_version_is_refused(detector):
    fitted = detector.fitted
    finder = IncidentFinder(fitted, fitted.explainer(), Clock(None), Rule.of(excess_of(fitted)), units=[""] * 12)
    with pytest.raises(ValueError, match="before the first row"):
        _ = finder.memory
    with pytest.raises(ValueError, match="has version 99"):
        finder.memory = json.dumps(to_plain({"version": 99}))
