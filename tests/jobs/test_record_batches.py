import numpy as np
import pyarrow as pa
import pytest
from partitions import NAMES, plant

from culpa import PCADetector
from culpa.jobs import RecordBatchExplainer, RecordBatchScorer
from culpa.jobs.record_batches import in_larger_batches


@pytest.fixture(scope="module")
def frame():
    frame = plant(200)
    frame.loc[3, "power"] += 3
    frame.loc[7, list(NAMES)] = np.nan
    frame.loc[8, "heat"] = np.nan
    return frame


@pytest.fixture(scope="module")
def detector(frame):
    return PCADetector().fit(plant(400, centre=1e6)[list(NAMES)])


@pytest.fixture(scope="module")
def batch(frame):
    return pa.RecordBatch.from_pandas(frame, preserve_index=False)


def test_scores_stand_beside_all_columns(detector, frame, batch):
    score = RecordBatchScorer(detector.fitted, batch.schema)
    answer = score(batch)
    assert answer.schema == score.schema
    assert answer.schema.names == [*frame.columns, "score_", "limit", "anomaly", "p_value"]
    with pytest.warns(UserWarning, match="no observed feature"):
        expected = detector.fitted.score(frame[list(NAMES)])
    found = answer.column("score_")
    np.testing.assert_array_equal(found.to_numpy(zero_copy_only=False), expected)
    assert found[7].as_py() is None  # a row without numbers has no score, rather than NaN
    assert answer.column("anomaly")[3].as_py()
    assert answer.column("machine").equals(batch.column("machine"))


def test_explanations_in_two_forms(detector, frame, batch):
    wide = RecordBatchExplainer(detector.fitted, batch.schema)
    answer = wide(batch)
    assert answer.schema.names == ["time", "machine", "score", "score_", "limit", "anomaly", *NAMES]
    seen = frame[list(NAMES)].drop(index=7)
    why = detector.explain(seen)
    found = answer.select(list(NAMES)).to_pandas().drop(index=7)
    np.testing.assert_allclose(found, why.values, rtol=1e-12, atol=1e-12)

    long = RecordBatchExplainer(detector.fitted, batch.schema, top=2, flagged_only=True)
    lines = long(batch)
    assert lines.schema == long.schema
    flagged = wide(batch).filter(pa.array(answer.column("anomaly")))
    assert lines.num_rows == 2 * flagged.num_rows > 0
    first = next(line for line in lines.to_pylist() if line["score"] == "label 3")
    top = detector.explain(frame[list(NAMES)][3:4]).top(1).iloc[0]
    assert (first["feature"], first["rank"]) == (top["feature"], 1)
    assert first["value"] == pytest.approx(top["value"], rel=1e-12)


def test_batches_without_rows_and_tables_without_other_columns(detector, batch):
    for answers in (RecordBatchScorer, RecordBatchExplainer):
        answer = answers(detector.fitted, batch.schema)
        assert answer(batch.slice(0, 0)).schema == answer.schema
    alone = batch.select(list(NAMES))
    assert RecordBatchExplainer(detector.fitted, alone.schema)(alone).schema.names == [
        "score",
        "limit",
        "anomaly",
        *NAMES,
    ]


def test_what_is_wrong_is_said_in_a_sentence(detector, batch):
    score = RecordBatchScorer(detector.fitted, batch.schema)
    cells = batch.column("power").to_pylist()
    for bad, what in ((np.inf, "infinity"), (1e200, "1e\\+200")):
        broken = batch.set_column(1, "power", pa.array([*cells[:-1], bad]))
        with pytest.raises(ValueError, match=f"column 'power' of the table contains {what}"):
            score(broken)
    texts = batch.set_column(1, "power", pa.array(list(map(str, cells))))
    with pytest.raises(ValueError, match="column 'power' of the table contains string, not numbers"):
        RecordBatchScorer(detector.fitted, texts.schema)
    with pytest.raises(ValueError, match="there is no column 'power'"):
        RecordBatchScorer(detector.fitted, batch.drop_columns(["power"]).schema)
    lagged = PCADetector(lags=1).fit(plant(100)[list(NAMES)])
    with pytest.raises(ValueError, match="fitted with lags, so it judges each row by earlier rows"):
        RecordBatchScorer(lagged.fitted, batch.schema)


def test_modes_get_a_column(batch):
    detector = PCADetector(modes=2).fit(plant(300)[list(NAMES)])
    answer = RecordBatchScorer(detector.fitted, batch.schema)(batch)
    assert answer.schema.names[-1] == "mode"
    assert set(answer.column("mode").to_pylist()) <= {1, 2}


def test_small_batches_are_put_together(batch):
    parts = [batch.slice(start, 30) for start in range(0, 200, 30)]
    found = list(in_larger_batches(parts, 50))
    assert [len(one) for one in found] == [60, 60, 60, 20]
    assert pa.Table.from_batches(found).equals(pa.Table.from_batches([batch]))
    assert list(in_larger_batches([])) == []


def test_flags_are_numbers(frame):
    table = frame[list(NAMES)].assign(on=np.arange(len(frame)) % 3 == 0)
    rows = pa.RecordBatch.from_pandas(table, preserve_index=False)
    detector = PCADetector().fit(table)
    score, explain = (answers(detector.fitted, rows.schema) for answers in (RecordBatchScorer, RecordBatchExplainer))
    np.testing.assert_allclose(score(rows).column("score").to_numpy(), detector.fitted.score(table), rtol=1e-12)
    np.testing.assert_allclose(explain(rows).column("on").to_numpy(), detector.explain(table).values[:, -1], atol=1e-9)
