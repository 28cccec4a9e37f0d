"""Sinks write everything, or raise an error."""

import datetime as dt
import io
import json
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from culpa.io.tables import TableError, open_sink
from culpa.io.tables.sink import CsvLine
from culpa.io.tables.table import JsonCells

COLUMNS = {"row": np.arange(500), "score": np.linspace(0, 1, 500)}


class Parts(io.RawIOBase):
    """Standard output without a buffer, which takes up to 1,000 bytes at a time."""

    def __init__(self):
        self.got = b""

    def writable(self):
        return True

    def write(self, data):
        part = bytes(data)[:1000]
        self.got += part
        return len(part)


def written(kind, file, monkeypatch):
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=file, isatty=lambda: False))
    with open_sink(None, kind) as sink:
        sink.write(COLUMNS)
        sink.write(COLUMNS)
    return file.got if isinstance(file, Parts) else file.getvalue()


@pytest.mark.parametrize("kind", ["csv", "ndjson", "arrow", "parquet"])
def test_a_file_that_takes_parts_gets_everything(kind, monkeypatch):
    whole = written(kind, io.BytesIO(), monkeypatch)
    assert len(whole) > 2000
    assert written(kind, Parts(), monkeypatch) == whole


def saved(path, *batches, schema=None, escape=False):
    with open_sink(path, path.suffix[1:], force=True, escape=escape) as sink:
        if schema is not None:
            sink.declare(schema)
        for batch in batches:
            sink.write(batch)
    return path


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_declared_schema_does_not_depend_on_the_first_batch(tmp_path, ending):
    schema = pa.schema({"start": pa.timestamp("us"), "first": pa.int64(), "p": pa.float64(), "mode": pa.int64()})
    read = pa.parquet.read_table if ending == "parquet" else pa.feather.read_table
    full = {"start": ["2024-03-05 12:00:00.5"], "first": [3], "p": [0.25], "mode": [1]}
    for first in ({"start": [], "first": [], "p": []}, {"start": [None], "first": [1], "p": [None]}, full):
        table = read(saved(tmp_path / f"t.{ending}", first, full, schema=schema))
        assert table.schema == schema
        assert table.to_pylist()[-1] == {
            "start": dt.datetime(2024, 3, 5, 12, 0, 0, 500_000),
            "first": 3,
            "p": 0.25,
            "mode": 1,
        }


def test_columns_that_appear_or_change_later_are_not_lost_silently(tmp_path):
    path = tmp_path / "t.parquet"
    with pytest.raises(TableError, match="'b' is not in the first rows"):
        saved(path, {"a": [1]}, {"a": [2], "b": [3]})
    with pytest.raises(TableError, match="'a' changes its type from unknown"):
        saved(path, {"a": [None]}, {"a": [2]})
    assert pa.parquet.read_table(saved(path, {"a": [1], "b": [2]}, {"a": [3]})).to_pylist()[1] == {"a": 3, "b": None}
    assert pa.parquet.read_table(saved(path, {"a": [None]}, {"a": ["x"]})).column("a").to_pylist() == [None, "x"]


def test_numbers_are_no_formulas(tmp_path):
    cells = ["-5", "+4.5", "-1e-3", "-.5", "=1+1", "-1+cmd", "@x", "+a", "-", "7"]
    text = saved(tmp_path / "t.csv", {"id": pa.array(cells)}, escape=True).read_text()
    assert text.split() == ['"id"', *(f'"{"" if k < 4 or k == 9 else chr(39)}{cell}"' for k, cell in enumerate(cells))]


SCHEMA = pa.schema([("row", pa.int64()), ("time", pa.string()), ("score", pa.float64()), ("anomaly", pa.bool_())])


def by_arrow(columns):
    file = io.BytesIO()
    arrays = [pa.array(columns[field.name], field.type, from_pandas=True) for field in SCHEMA]
    pa_csv.write_csv(
        pa.Table.from_arrays(arrays, schema=SCHEMA), file, write_options=pa_csv.WriteOptions(include_header=False)
    )
    return file.getvalue()


@pytest.mark.parametrize(
    "score", [1.0, -0.0, 0.1, 1e-5, 1e-7, 1e15, 123456789.125, 5e-324, 1e100, np.nan, np.inf, 2 / 3]
)
@pytest.mark.parametrize("text", ["10:00", "", None, 'a "b"', "a,b\nc", "Übermaß"])
def test_a_line_is_what_arrow_writes(score, text):
    columns = {"row": np.array([-7]), "time": [text], "score": np.array([score]), "anomaly": np.array([score > 1])}
    assert CsvLine(SCHEMA)(columns) == by_arrow(columns)
    assert CsvLine(SCHEMA)(columns | {"time": pa.array([text], pa.string())}) == by_arrow(columns)


@pytest.mark.parametrize(
    "other",
    [
        {
            "score": np.array([1.0, 2.0]),
            "row": np.array([1, 2]),
            "time": ["a", "b"],
            "anomaly": np.array([True, False]),
        },
        {"score": np.array([1])},
        {"row": np.array([1.5])},
        {"time": [5]},
    ],
)
def test_other_tables_are_left_to_arrow(other):
    columns = {"row": np.array([1]), "time": ["a"], "score": np.array([0.5]), "anomaly": np.array([True])}
    assert CsvLine(SCHEMA)(columns) is not None
    assert CsvLine(SCHEMA)(columns | other) is None
    assert CsvLine(pa.schema([("at", pa.timestamp("s"))]))({"at": np.array([0])}) is None


@pytest.mark.parametrize("first", [7, None, "b", 1.5, True, {"a": [1]}])
@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_values_from_json_are_texts_whatever_comes_first(tmp_path, ending, first):
    path = tmp_path / f"t.{ending}"
    saved(
        path, {"id": JsonCells([first])}, {"id": JsonCells([8, "c"])}, {"id": JsonCells([None])}, {"id": JsonCells([9])}
    )
    read = {"parquet": pa.parquet.read_table, "arrow": pa.feather.read_table, "csv": read_texts}[ending]
    text = {None: None, True: "true"}.get(first if not isinstance(first, dict) else 0, str(first).replace("'", '"'))
    assert read(path).column("id").to_pylist() == [text, "8", "c", None, "9"]
    assert read(path).schema.field("id").type == pa.string()
    saved(tmp_path / "t.ndjson", {"id": JsonCells([first, 8])})
    assert [json.loads(line)["id"] for line in (tmp_path / "t.ndjson").read_text().splitlines()] == [first, 8]


def read_texts(path):
    options = pa_csv.ConvertOptions(
        column_types={"id": pa.string()}, strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    lines = pa_csv.ParseOptions(ignore_empty_lines=False)
    return pa_csv.read_csv(path, convert_options=options, parse_options=lines)
