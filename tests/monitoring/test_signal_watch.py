"""Signals that are wrong by themselves are incidents of their own kind: when they began, how they are told."""

import numpy as np
import pandas as pd
import pytest

from culpa import PCADetector
from culpa.datasets import make_plant


@pytest.fixture(scope="module")
def plant():
    return make_plant(seed=2, n_new=300, faults=())


@pytest.fixture(scope="module")
def detector(plant):
    return PCADetector(noun="sensor").fit(pd.DataFrame(plant.normal, columns=list(plant.feature_names)))


def own(found):
    """Incidents of signals, in short."""
    kinds = ("frozen", "limit", "stopped", "range")
    return [(one.kind, one.suspects, one.first, one.last, one.status) for one in found if one.kind in kinds]


def frame(plant, X, start="2024-03-05 10:00"):
    return pd.DataFrame(X, columns=list(plant.feature_names), index=pd.date_range(start, periods=len(X), freq="1min"))


def test_frozen_and_stopped(detector, plant):
    new = plant.new.copy()
    new[100:140, 3] = new[99, 3]
    new[250:] = new[249]
    found = detector.incidents(frame(plant, new))
    name = plant.feature_names[3]
    assert own(found) == [("frozen", (name,), 99, 139, "over"), ("stopped", (), 249, 299, "open")]
    first, last = (one for one in found if own([one]))
    assert first.sentence.startswith(f"{name} froze at 11:39: it reads ")
    assert first.sentence.endswith("and normally never repeats a value. Over since 12:19.")
    assert last.sentence.startswith("The recording stopped at 14:09: nearly all sensors repeat their values.")
    assert first.culprits[0].actual == new[99, 3]
    assert first.n_flagged == 0
    assert sum(one.n_flagged for one in (*found, *found.unconfirmed)) == found.n_flagged
    assert not own(detector.incidents(frame(plant, plant.new)))


def test_batches_do_not_matter(detector, plant, monkeypatch):
    new = plant.new.copy()
    new[60:90, 3], new[80:120, 7] = new[59, 3], new[79, 7]
    new[250:] = new[249]
    whole = detector.incidents(frame(plant, new))
    assert len(own(whole)) == 3
    for size in (1, 7, 64):
        monkeypatch.setattr("culpa.monitoring.incidents._ROWS_PER_CHUNK", size)
        pieces = detector.incidents(frame(plant, new))
        assert [one.sentence for one in pieces] == [one.sentence for one in whole]
        assert own(pieces) == own(whole)


def test_missing_rows_are_no_frozen_ones(detector, plant):
    """After a hole of days, nobody knows what a sensor read in between."""
    new = plant.new.copy()
    new[100:103, 3] = new[99, 3]
    table = frame(plant, new)
    assert own(detector.incidents(table))
    table.index = table.index.where(np.arange(300) < 101, table.index + pd.Timedelta("10D"))
    assert not own(detector.incidents(table))


def test_own_definitions_and_known_stretches_are_about_flagged_rows(detector, plant):
    new = plant.new.copy()
    new[100:140, 3] = new[99, 3]
    assert not own(detector.incidents(frame(plant, new), gap=3))
    assert not own(detector.incidents(frame(plant, new), stretches=[(100, 139)]))


def test_a_value_that_cannot_be(plant):
    names = list(plant.feature_names)
    normal, new = np.abs(plant.normal), np.abs(plant.new)
    detector = PCADetector().fit(pd.DataFrame(normal, columns=names))
    detector.units_ = {names[0]: "%"}
    normal_high = normal[:, 0].max()
    if normal_high > 100:
        normal, new = normal * 50 / normal_high, new * 50 / normal_high
        detector = PCADetector().fit(pd.DataFrame(normal, columns=names))
        detector.units_ = {names[0]: "%"}
    new[40:45, 0] = -20.0
    (found,) = [one for one in detector.incidents(pd.DataFrame(new, columns=names)) if one.kind == "range"]
    assert (found.first, found.last, found.status) == (40, 44, "over")
    assert "left its physical range in row 40: it read -20" in found.sentence


def test_past_values_and_pipelines(plant):
    """With lags, only present values are signals; in a Pipeline, the columns of the table are."""
    new = plant.new.copy()
    new[100:140, 3] = new[99, 3]
    lagged = PCADetector(lags=1).fit(plant.normal)
    assert own(lagged.incidents(new)) == [("frozen", ("x3",), 99, 139, "over")]
    assert own(PCADetector(given=[0]).fit(plant.normal).incidents(new)) == [("frozen", ("x3",), 99, 139, "over")]


def test_a_report_shows_them(detector, plant):
    new = plant.new.copy()
    new[100:140, 3] = new[99, 3]
    new[250:] = new[249]
    content = detector.report(frame(plant, new)).content
    assert [one["kind"] for one in content["incidents"] if one["kind"] in ("frozen", "stopped")] == [
        "frozen",
        "stopped",
    ]


@pytest.mark.parametrize(("factor", "offset", "told"), [(1.8, 32.0, "°C to °F"), (100.0, 0.0, "fractions to percent")])
def test_a_unit_that_changed(detector, plant, factor, offset, told):
    new = plant.new.copy()
    new[200:, 8] = factor * new[200:, 8] + offset
    last = detector.incidents(frame(plant, new))[-1]
    assert (last.kind, last.suspects[0], last.unit_change) == ("unit", plant.feature_names[8], told)
    assert f"may have changed from {told}" in last.sentence
    new[200:, 8] = plant.new[200:, 8] + 3 * plant.new[:, 8].std()
    assert detector.incidents(frame(plant, new))[-1].kind == "sensor"
