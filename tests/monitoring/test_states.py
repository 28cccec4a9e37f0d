"""What is remembered of earlier rows: through JSON after every few rows, incidents are those of one pass."""

import json

import numpy as np
import pandas as pd
import pytest

from culpa import PCADetector
from culpa.datasets import make_plant
from culpa.fitted import excess_of
from culpa.monitoring.finder import Batch, IncidentFinder
from culpa.monitoring.running import RowNames
from culpa.monitoring.states import from_plain, to_plain
from culpa.monitoring.when import Clock
from culpa.scores import ScoredRows
from culpa.scores.grouping import Rule


@pytest.fixture(scope="module")
def plant():
    return make_plant(seed=3)


@pytest.fixture(scope="module")
def detector(plant):
    return PCADetector().fit(pd.DataFrame(plant.normal, columns=list(plant.feature_names)))


def feed(detector, new, *, restart, live=False):
    """Events of rows in batches of seven, with another finder for each if it restarts."""
    fitted = detector.fitted
    explainer = fitted.explainer()

    def finder():
        rule, units = Rule.of(excess_of(fitted)), [""] * 12
        return IncidentFinder(fitted, explainer, Clock("time"), rule, units=units, live=live, unconfirmed=True)

    events, one, memory = [], finder(), None
    for start in range(0, len(new), 7):
        if restart and memory is not None:
            one = finder()
            one.memory = memory
        part = new[start : start + 7]
        rows = ScoredRows.of(fitted.read(detector._read(part)), fitted.model, fitted.statistic)
        positions = np.arange(start, start + len(rows))
        excess = excess_of(fitted).of_scores(rows.score, fitted.limit)
        batch = Batch(
            RowNames(positions, part.index, positions), rows, fitted.is_flagged(rows.score), excess, part.index
        )
        why = (
            explainer._one_pass.explain_scored(rows.choose(batch.flagged_at), "values") if batch.flagged.any() else None
        )
        events += one.add(batch, why)
        memory = one.memory
        assert len(memory) < 2_000_000
    return [(event.event, event.new, event.incident.sentence) for event in events + one.finish()]


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("live", [False, True])
def test_a_new_process_for_every_seven_rows(detector, plant, live, zone):
    times = pd.date_range("2024-03-31 01:00", periods=400, freq="30s", tz=zone)
    new = pd.DataFrame(plant.new, columns=list(plant.feature_names), index=times)
    whole = feed(detector, new, restart=False, live=live)
    assert len(whole) > 6
    assert any("froze" in sentence for *_, sentence in whole)
    assert feed(detector, new, restart=True, live=live) == whole


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


def test_memory_of_another_version_is_refused(detector, plant):
    fitted = detector.fitted
    finder = IncidentFinder(fitted, fitted.explainer(), Clock(None), Rule.of(excess_of(fitted)), units=[""] * 12)
    with pytest.raises(ValueError, match="before the first row"):
        _ = finder.memory
    with pytest.raises(ValueError, match="has version 99"):
        finder.memory = json.dumps(to_plain({"version": 99}))
