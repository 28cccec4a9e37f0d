"""Names and kinds of columns, looked at once however many there are."""

import numpy as np
import pandas as pd
import pytest

from culpa.io.tables import Options, Selection, TableError, columns, csv_table, open_table
from culpa.io.tables.columnar import ColumnarTable


@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx"])
def test_columns_are_looked_at_once_and_not_once_each(tmp_path, monkeypatch, kind):
    frame = pd.DataFrame(np.arange(120.0).reshape(2, 60), columns=[f"c{i}" for i in range(60)])
    path = tmp_path / f"wide.{kind}"
    {"csv": frame.to_csv, "parquet": frame.to_parquet, "xlsx": frame.to_excel}[kind](path, index=False)
    calls, real = [], ColumnarTable.columns
    monkeypatch.setattr(ColumnarTable, "columns", lambda self: (calls.append(1), real(self))[1])
    monkeypatch.setattr(columns, "find", lambda *args: calls.append(1))
    table = open_table([str(path)], Options(), Selection(), print)
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


def test_csv_files_check_their_names_once(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    calls, real = [], csv_table.check_each
    monkeypatch.setattr(csv_table, "check_each", lambda *args: (calls.append(1), real(*args))[1])
    table = open_table([str(path)], Options(), Selection(), print)
    assert [list(table.columns()) for _ in range(3)] == 3 * [["a", "b"]]
    assert len(calls) == 1
