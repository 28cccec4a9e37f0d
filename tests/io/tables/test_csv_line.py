"""Single lines of CSV are the same bytes as those that pyarrow writes."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from culpa.io.tables.csv_line import CsvLine

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
