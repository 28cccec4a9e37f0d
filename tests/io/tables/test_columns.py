"""Names and kinds of columns, looked at once however many there are."""

import numpy as np
import pandas as pd
import pytest
from command_line import run

from culpa.io.tables import Options, TableError, columns, open_table, text_table
from culpa.io.tables.columnar import ColumnarTable

TAGS = ["TI101", "TI102", "TI103"]


@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx"])
def test_columns_are_looked_at_once_and_not_once_each(tmp_path, monkeypatch, kind):
    frame = pd.DataFrame(np.arange(120.0).reshape(2, 60), columns=[f"c{i}" for i in range(60)])
    path = tmp_path / f"wide.{kind}"
    {"csv": frame.to_csv, "parquet": frame.to_parquet, "xlsx": frame.to_excel}[kind](path, index=False)
    calls, real = [], ColumnarTable.columns
    monkeypatch.setattr(ColumnarTable, "columns", lambda self: (calls.append(1), real(self))[1])
    monkeypatch.setattr(columns, "find", lambda *args: calls.append(1))
    table = open_table([str(path)], Options(), print)
    assert table.time is None
    (batch,) = table.batches(list(frame), ())
    np.testing.assert_array_equal(batch.X, frame)
    assert len(calls) < 10


def test_names_that_are_there_twice_or_not_at_all():
    columns.check_each(["a", "b"], ["b", "a", "c", "c"], "t")
    with pytest.raises(TableError, match="t: 2 columns are called 'c'"):
        columns.check_each(["a", "c"], ["b", "a", "c", "c"], "t")
    with pytest.raises(TableError, match="t: there is no column 'd'"):
        columns.find_all(["a", "d"], ["b", "a"], "t")


def test_many_missing_names_are_one_sentence():
    known, names = [f"T{i}" for i in range(9)], ["flow", "pressure", "density"]
    with pytest.raises(TableError) as error:
        columns.find_all(names, known, "t", "columns of the model")
    shown = "'T0', 'T1', 'T2', 'T3', 'T4', 'T5', 'T6', 'T7', ..."
    assert str(error.value) == f"none of the 3 columns of the model is in t; available: {shown}."
    with pytest.raises(TableError) as error:
        columns.find_all([*names, "T0"], known, "t")
    assert str(error.value) == f"t: 3 of the 4 columns are missing: 'flow', 'pressure', 'density'; available: {shown}."
    with pytest.raises(TableError) as error:
        columns.find_all([*names, "T0", "t1"], known, "t")
    assert str(error.value).startswith("t has 2 problems: there is no column 't1'; did you mean 'T1'?; 3 of the 5")
    assert str(error.value).count("available") == 1


@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx", "long.csv"])
def test_a_model_of_another_table(tmp_path, kind):
    rng, path = np.random.default_rng(0), tmp_path / f"other.{kind}"
    normal, other = (pd.DataFrame(rng.normal(size=(50, 3)), columns=names) for names in (["flow", "p", "level"], TAGS))
    normal.to_csv(tmp_path / "normal.csv", index=False)
    run("fit", tmp_path / "normal.csv", "-o", tmp_path / "m")
    options = []
    if kind == "long.csv":
        other = other.set_axis(pd.date_range("2024-03-01", periods=50, freq="1min")).stack().reset_index()
        options = ["--long", "level_1,level_0,0"]
    {"parquet": other.to_parquet, "xlsx": other.to_excel}.get(kind, other.to_csv)(path, index=False)
    told = run("score", path, "-m", tmp_path / "m", *options, "-q", code=2).stderr
    assert told == f"Error: none of the 3 columns of the model is in {path}; available: 'TI101', 'TI102', 'TI103'.\n"


def test_csv_files_check_their_names_once(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    calls, real = [], text_table.check_each
    monkeypatch.setattr(text_table, "check_each", lambda *args: (calls.append(1), real(*args))[1])
    table = open_table([str(path)], Options(), print)
    assert [list(table.columns()) for _ in range(3)] == 3 * [["a", "b"]]
    assert len(calls) == 1
