import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from partitions import NAMES, plant

from culpa import PCADetector
from culpa.io.model_file import detector_from_bytes
from culpa.jobs.incident_stream import incident_schema
from culpa.jobs.machines import by_machine, machine_fits, machine_incidents, machine_scores
from culpa.monitoring.incidents import as_columns


def stream(frame, size=50):
    return pa.Table.from_pandas(frame.sort_values(["machine", "time"]), preserve_index=False).to_batches(size)


def faulty():
    frame = plant(300)
    frame.loc[100:110, "heat"] += 4
    return frame


def test_machines_follow_each_other_whatever_the_batches():
    frame = plant(100)
    frame.loc[frame["machine"] == "m1", "machine"] = None
    for size in (1, 7, 1000):
        sizes = {
            key: sum(len(batch) for batch in group) for key, _, group in by_machine(stream(frame, size), ["machine"])
        }
        assert sizes == {("m0",): 34, ("m2",): 33, (None,): 33}


def test_incidents_of_each_machine_are_the_librarys():
    frame, detector = faulty(), PCADetector().fit(plant(400)[list(NAMES)])
    batches = list(machine_incidents(detector.fitted, stream(frame), ["machine"], "time", gap="10min"))
    assert batches[0].schema.names == ["machine", *incident_schema(pa.timestamp("us"), modes=False).names]
    found = pa.Table.from_batches(batches).to_pandas()
    for machine, rows in frame.groupby("machine"):
        expected = detector.incidents(rows[[*NAMES, "time"]], time="time", gap="10min")
        mine = found[found["machine"] == machine]
        assert list(mine["start"]) == [pd.Timestamp(one.start) for one in expected]
        assert list(mine["culprit"]) == [one.culprits[0].feature if one.culprits else "" for one in expected]
        np.testing.assert_allclose(mine["score"], [one.score for one in expected], rtol=1e-12)
    assert "heat" in set(found["culprit"])


def test_the_declared_columns_of_incidents_are_those_that_come():
    assert list(incident_schema(pa.int64(), modes=False).names) == list(as_columns([]))
    assert incident_schema(pa.int64(), modes=True).names[-1] == "mode"


def test_a_model_for_each_machine_and_scores_by_it():
    frame = plant(300)
    frame = pd.concat([frame, frame[:1].assign(machine="m9")])
    models = pa.Table.from_batches(list(machine_fits(stream(frame), ["machine"], NAMES, {}))).to_pylist()
    assert [(line["machine"], line["rows"]) for line in models] == [("m0", 100), ("m1", 100), ("m2", 100), ("m9", 1)]
    assert models[3]["model"] is None
    assert models[3]["error"] == "at least 2 rows are needed to learn from, got 1."
    expected = PCADetector().fit(frame[frame["machine"] == "m1"][list(NAMES)])
    found = detector_from_bytes(models[1]["model"])
    assert found.limit_ == models[1]["limit"] == pytest.approx(expected.limit_, rel=1e-12)

    heads = [{"machine": line["machine"], "model": line["model"]} for line in models[1:3]]
    second = pd.DataFrame([{"machine": "m1", "model": models[2]["model"]}])  # does not count
    rows = pd.concat(
        [pd.DataFrame(heads), frame[:150].assign(model=None), second, frame[150:].assign(model=None)]
    ).sort_values("machine", kind="stable")
    table = pa.Table.from_pandas(rows[["machine", *NAMES, "model"]], preserve_index=False)
    scores = pa.Table.from_batches(list(machine_scores(table.to_batches(64), ["machine"], "model"))).to_pandas()
    assert list(scores.columns) == ["machine", *NAMES, "score", "limit", "anomaly", "p_value"]
    assert len(scores) == 301
    assert scores[scores["machine"].isin(["m0", "m9"])]["score"].isna().all()
    mine = scores[scores["machine"] == "m1"]
    np.testing.assert_allclose(mine["score"], expected.fitted.score(mine[list(NAMES)]), rtol=1e-12)
