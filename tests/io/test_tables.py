"""Reading tables: every format gives the same numbers, and what is wrong is said with file, column and row."""

import bz2
import copy
import datetime
import decimal
import gzip
import io
import json
import lzma
import os
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from culpa.io.tables import Options, TableError, format_of, open_sink, open_source
from culpa.io.tables.columns import choose_features, plain, split_names
from culpa.io.tables.table import Stage


def silent(text):
    raise AssertionError(text)


def read(path, features, carried=(), report=silent, **options):
    batches = list(open_source(path, Options(**options), report).batches(features, carried))
    X = np.concatenate([batch.X for batch in batches]) if batches else np.empty((0, len(features)))
    kept = {name: [cell for batch in batches for cell in pa.array(batch.carried[name]).to_pylist()] for name in carried}
    return X, kept, np.concatenate([batch.rows for batch in batches]).tolist() if batches else []


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(50, 3)) * [1, 1e-8, 1e8], columns=["a", "b", "c"])
    frame.loc[3, "b"] = np.nan
    frame["time"] = [f"0{i}:00" for i in range(50)]
    return frame


@pytest.mark.parametrize(
    "kind", ["csv", "german", "tsv", "gz", "utf-16", "parquet", "feather", "arrow", "stream", "ndjson"]
)
def test_all_formats_give_the_same_numbers(tmp_path, frame, kind):
    path = tmp_path / f"table.{ {'german': 'csv', 'utf-16': 'csv', 'gz': 'csv.gz', 'stream': 'arrow'}.get(kind, kind) }"
    options = {"encoding": "utf-16"} if kind == "utf-16" else {}
    table = pa.Table.from_pandas(frame)
    if kind == "german":
        frame.to_csv(path, index=False, sep=";", decimal=",")
    elif kind == "tsv":
        frame.to_csv(path, index=False, sep="\t")
    elif kind in ("csv", "gz", "utf-16"):
        frame.to_csv(path, index=False, encoding=options.get("encoding"))
    elif kind == "parquet":
        pq.write_table(table, path)
    elif kind == "feather":
        pyarrow.feather.write_feather(table, path)
    elif kind == "ndjson":
        records = [{n: None if v != v else v for n, v in row.items()} for row in frame.to_dict("records")]
        path.write_text("\n".join(map(json.dumps, records)))
    else:
        with (pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file)(path, table.schema) as out:
            out.write_table(table)
    X, kept, rows = read(path, ["c", "a", "b"], ["time"], **options)
    np.testing.assert_array_equal(X, frame[["c", "a", "b"]].to_numpy())
    assert kept["time"] == frame["time"].tolist()
    assert rows == list(range(50))


def test_typed_columns_become_numbers(tmp_path):
    table = pa.table(
        {
            "int": pa.array([1, None, 2**60], pa.int64()),
            "bool": [True, False, None],
            "decimal": [decimal.Decimal("1.25"), None, decimal.Decimal("-3.5")],
            "half": pa.array(np.array([1, 2, 3], dtype=np.float16)),
            "null": pa.nulls(3),
            "coded": pa.array([1.5, 2.5, 1.5]).dictionary_encode(),
        }
    )
    path = tmp_path / "t.arrow"
    with pa.ipc.new_file(path, table.schema) as out:
        out.write_table(table)
    X, _, _ = read(path, table.column_names)
    n = np.nan
    expected = [[1, 1, 1.25, 1, n, 1.5], [n, 0, n, 2, n, 2.5], [2**60, n, -3.5, 3, n, 1.5]]
    np.testing.assert_array_equal(X, expected)


def test_carried_columns_keep_their_types(tmp_path):
    times = [datetime.datetime(2024, 1, 1), None]
    pq.write_table(pa.table({"a": [1.0, 2.0], "time": times, "list": [[1], [2]]}), tmp_path / "t.parquet")
    _, kept, _ = read(tmp_path / "t.parquet", ["a"], ["time", "list"])
    assert kept == {"time": times, "list": [[1], [2]]}
    (tmp_path / "t.csv").write_text("id,a\n007,1\nNA,2\n,3\n")
    assert read(tmp_path / "t.csv", ["a"], ["id"])[1] == {"id": ["007", "NA", ""]}


CSV_ERRORS = {
    "absent": ("a,temp_3\n1,2\n", ["a", "temp3"], "no column 'temp3'; did you mean 'temp_3'?"),
    "case": ("a,B\n1,2\n", ["b"], "did you mean 'B'?"),
    "text": ("a,b\n1,red\n", ["a", "b"], "column 'b' contains text, for example 'red'"),
    "time": ("a,b\n1,2024-01-01\n", ["a", "b"], "column 'b' contains times"),
    "comma": ('a,b\n1,"1,234"\n', ["a", "b"], "may mean 1.234 or 1234"),
    "infinity": ("a,b\n1,2\n1,inf\n", ["a", "b"], "column 'b' contains infinity in row 1"),
    "too large": ("a,b\n1,1e999\n", ["a", "b"], "column 'b' contains infinity in row 0"),
    "huge": ("a,b\n1,-1e300\n", ["a", "b"], "column 'b' contains -1e+300 in row 0, which is too large"),
    "ragged": ("a,b\n1,2\n3\n", ["a", "b"], "row 1 has 1 cell(s), but the header has 2"),
    "twice": ("a,a\n1,2\n", ["a"], "2 columns are called 'a'"),
    "empty": ("", ["a"], "the table is empty"),
    "blank": ("\n\n", ["a"], "the table is empty"),
}


@pytest.mark.parametrize(("text", "features", "message"), CSV_ERRORS.values(), ids=CSV_ERRORS)
def test_csv_errors_name_the_place(tmp_path, text, features, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(TableError) as error:
        read(path, features)
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_an_error_far_down_names_its_row(tmp_path):
    path = tmp_path / "t.csv"
    lines = ["1.5,2.5"] * 200_000
    lines[150_000] = "1.5,x"
    path.write_text("a,b\n" + "\n".join(lines))
    with pytest.raises(TableError, match=r"column 'b' contains 'x' in row 150000, which is not a number"):
        read(path, ["a", "b"])


@pytest.mark.parametrize(("decimal", "rows"), [(".", 3), (",", 3), (".", 60_000)], ids=["point", "comma", "far down"])
def test_a_text_among_numbers_is_named_with_its_row_and_remedy(tmp_path, decimal, rows):
    path = tmp_path / "t.csv"
    lines = [f"1;7{decimal}25", "2;", *[f"3;7{decimal}5"] * (rows - 2), "4;Off Spec", "5;worse"]
    path.write_text("a;pH\n" + "\n".join(lines) + "\n")
    with pytest.raises(TableError, match=rf"column 'pH' .*in row {rows}\b.*--missing .Off Spec.") as error:
        read(path, ["a", "pH"])
    assert "7" not in str(error.value).partition("column")[2]
    X, _, _ = read(path, ["a", "pH"], missing=("Off Spec", "worse"))
    assert X[0, 1] == 7.25
    assert np.isnan(X[[1, -2, -1], 1]).all()


def test_wrong_encoding_is_said(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("größe,b\n1,2\n".encode("latin-1"))
    with pytest.raises(TableError, match="--encoding cp1252"):
        read(path, ["größe"])
    assert read(path, ["größe"], encoding="latin-1")[0].tolist() == [[1.0]]
    with pytest.raises(TableError, match=r"--encoding must be .* got .x."):
        read(path, ["größe"], encoding="x")


def test_csv_cells_of_all_kinds(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("flag,a,late\ntrue,1,\nfalse,-,\n,3e2,7\n")
    X, _, _ = read(path, ["flag", "a", "late"], missing=("-",))
    n = np.nan
    np.testing.assert_array_equal(X, [[1, 1, n], [0, n, n], [n, 300, 7]])


@pytest.mark.parametrize(("delimiter", "decimal_sign"), [(";", ","), (";", "."), ("\t", ","), ("|", "."), (",", ".")])
def test_dialects_are_found(tmp_path, delimiter, decimal_sign):
    path = tmp_path / "t.csv"
    pd.DataFrame({"a": [1.5, 2.25], "b;c": [3, 4], "d": ["x,y", "z"]}).to_csv(
        path, index=False, sep=delimiter, decimal=decimal_sign
    )
    X, kept, _ = read(path, ["a", "b;c"], ["d"])
    assert X.tolist() == [[1.5, 3], [2.25, 4]]
    assert kept["d"] == ["x,y", "z"]


def test_bad_lines_are_reported_with_their_number(tmp_path):
    path = tmp_path / "t.ndjson"
    lines = [
        '{"a": 1}',
        "nonsense",
        '{"a": null}',
        "",
        "[1]",
        '{"b": 1}',
        '{"a": "1"}',
        '{"a": 1e999}',
        '{"a": NaN}',
        '{"a": true}',
    ]
    path.write_bytes("\n".join(lines).encode() + b'\n{"a": "\xff"}\n{"a": 2}')
    said = []
    X, _, rows = read(path, ["a"], report=said.append)
    np.testing.assert_array_equal(X.ravel(), [1, np.nan, np.nan, 1, 2])
    assert rows == [0, 2, 7, 8, 10]  # a blank line is no row
    assert [text.split(": ")[0].split(", line ")[1] for text in said] == ["2", "5", "6", "7", "8", "11"]
    with pytest.raises(TableError, match=r"line 2: not JSON\."):
        read(path, ["a"], strict=True)
    X, _, rows = read(path, ["a"], report=said.append, sparse=True)
    assert rows == [0, 2, 4, 7, 8, 10]


def test_useless_ndjson(tmp_path):
    path = tmp_path / "t.ndjson"
    path.write_text('{"temp_3": 1}\n' * 3)
    said = []
    with pytest.raises(TableError, match="no line could be used"):
        read(path, ["temp3"], report=said.append)
    assert "did you mean 'temp_3'?" in said[0]


def test_damaged_columnar_files(tmp_path, frame):
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    whole = path.read_bytes()
    for content in (b"", b"PAR1", whole[: len(whole) // 2], b"x" * 100):
        path.write_bytes(content)
        with pytest.raises(TableError, match="cannot be read"):
            read(path, ["a"])
    arrow = tmp_path / "t.arrow"
    arrow.write_bytes(b"nonsense" * 10)
    with pytest.raises(TableError, match="cannot be read"):
        read(arrow, ["a"])


def test_formats_by_name(tmp_path):
    assert format_of(tmp_path / "a.b.PARQUET") == "parquet"
    assert format_of(tmp_path / "a.csv.gz") == "csv"
    with pytest.raises(TableError, match="the file extension is not known"):
        format_of(tmp_path / "a.doc")


def test_choice_of_columns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,"x,y",time,site\n1,2,2024-01-01,north\n')
    columns = open_source(path, Options(), silent).columns()
    assert split_names(["a,time", "x,y"], list(columns)) == ["a", "time", "x,y"]
    assert choose_features(columns, "t", [], ["site"], ["time"]) == ["a", "x,y"]
    assert choose_features(columns, "t", ["x,y", "a"], [], ["time"]) == ["x,y", "a"]
    with pytest.raises(
        TableError, match=r"column 'site' contains text, for example 'north'\. Fit without it \(--drop\)"
    ):
        choose_features(columns, "t", [], [], ["time"])
    with pytest.raises(TableError, match="did you mean 'site'"):
        choose_features(columns, "t", [], ["sites"], ["time"])


class Pipe:
    """Standard input that hands out bytes in portions."""

    def __init__(self, *portions):
        self.buffer = self
        self.portions = list(portions)

    def read1(self, size):
        if not self.portions:
            return b""
        portion, self.portions[0] = self.portions[0][:size], self.portions[0][size:]
        if not self.portions[0]:
            self.portions.pop(0)
        return portion


def test_lines_come_as_they_arrive(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Pipe(b'{"a": 1}\n{"a"', b": 2}\n", b'{"a": 3}'))
    batches = open_source(None, Options(), silent).batches(["a"], [])
    assert [batch.X.ravel().tolist() for batch in batches] == [[1.0], [2.0], [3.0]]


def test_a_pipe_is_looked_at_without_losing_anything(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Pipe(b"x", b'\n{"a": 1, "b": "t"}\n', b'{"a": 2}\n'))
    source = open_source(None, Options(), lambda text: None)
    assert list(source.columns()) == ["a", "b"]
    assert [x for batch in source.batches(["a"], []) for x in batch.X.ravel()] == [1.0, 2.0]
    monkeypatch.setattr(sys, "stdin", Pipe(b"a;", b"b\n1,5", b";2\n3;", b"4\n"))
    source = open_source(None, Options(format="csv"), silent)
    assert np.concatenate([batch.X for batch in source.batches(["b", "a"], [])]).tolist() == [[2, 1.5], [4, 3]]


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "ndjson"])
def test_what_is_written_can_be_read(tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    with open_sink(path, kind) as sink:
        sink.write({"id": ["x", "ü\"'"], "v": np.array([1 / 3, np.nan])})
        sink.write({"id": pa.array(["z"]), "v": np.array([1e-300])})
    X, kept, _ = read(path, ["v"], ["id"])
    np.testing.assert_array_equal(X.ravel(), [1 / 3, np.nan, 1e-300])
    assert kept["id"] == ["x", "ü\"'", "z"]


def test_formulas_are_disarmed_on_request(tmp_path):
    cells = {"=id": ["=cmd|' /C calc'!A0", "-1+2", "plain", None], "v": np.array([-1.5, 2.0, 3.0, np.nan])}
    for escape in (False, True):
        with open_sink(tmp_path / "t.csv", "csv", force=True, escape=escape) as sink:
            sink.write(cells)
            sink.write(cells)
        found = pd.read_csv(tmp_path / "t.csv")
        mark = "'" if escape else ""
        assert found.columns.tolist() == [f"{mark}=id", "v"]
        assert found.iloc[:, 0].tolist()[:3] == [f"{mark}=cmd|' /C calc'!A0", f"{mark}-1+2", "plain"]
        assert found["v"].tolist()[:3] == [-1.5, 2, 3]


def test_times_have_no_fractions_of_zeros(tmp_path):
    whole = pd.to_datetime(["2024-03-01 01:24", "2024-03-01 01:25"])
    clocks = [datetime.time(1, 24), datetime.time(1, 25)]
    parts = [
        {"t": pa.array(whole, pa.timestamp(unit)), "clock": pa.array(clocks), "x": [1.5, 2.5]} for unit in ("us", "ns")
    ]
    parts[1]["t"] = pa.array(whole + pd.Timedelta("250ms"), pa.timestamp("ns"))
    lines = {}
    for kind in ("csv", "ndjson", "parquet"):
        with open_sink(tmp_path / f"t.{kind}", kind) as sink:
            for part in (*parts, parts[0]):
                sink.write(part)
        lines[kind] = (tmp_path / f"t.{kind}").read_bytes().decode(errors="replace").splitlines()
    assert [line.split(",") for line in lines["csv"]] == [
        ['"t"', '"clock"', '"x"'],
        ["2024-03-01 01:24:00", "01:24:00", "1.5"],
        ["2024-03-01 01:25:00", "01:25:00", "2.5"],
        ["2024-03-01 01:24:00.250", "01:24:00", "1.5"],
        ["2024-03-01 01:25:00.250", "01:25:00", "2.5"],
        ["2024-03-01 01:24:00", "01:24:00", "1.5"],
        ["2024-03-01 01:25:00", "01:25:00", "2.5"],
    ]
    assert [json.loads(line)["t"][17:] for line in lines["ndjson"]] == [
        *("00", "00"),
        *("00.250", "00.250"),
        *("00", "00"),
    ]
    assert pq.read_schema(tmp_path / "t.parquet").field("t").type == pa.timestamp("us")


def test_a_sink_is_all_or_nothing(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("old")
    with pytest.raises(ValueError, match="--force"), open_sink(path, "csv"):
        pass

    def interrupted():
        with open_sink(path, "csv", force=True) as sink:
            sink.write({"a": [1]})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    with open_sink(path, "csv", force=True) as sink:
        sink.write({"a": [1]})
        assert path.read_text() == "old"
    assert path.read_text() == '"a"\n1\n'
    assert list(tmp_path.iterdir()) == [path]


def test_columns_that_change_type_are_refused(tmp_path):
    def write_ids(*batches):
        with open_sink(tmp_path / "t.csv", "csv") as sink:
            for ids in batches:
                sink.write({"id": ids})

    with pytest.raises(TableError, match="column 'id'"):
        write_ids([1], ["x"])
    with pytest.raises(TableError, match="mixes types"):
        write_ids([1, "x"])
    assert not list(tmp_path.iterdir())


def test_binary_formats_are_not_for_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdout", Terminal())
    with pytest.raises(TableError, match="cannot be shown on a terminal"), open_sink(None, "parquet"):
        pass


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv"])
def test_half_an_output_does_not_look_whole_on_a_pipe(monkeypatch, kind):
    class Standard:
        buffer = io.BytesIO()

        def isatty(self):
            return False

    def fail():
        with open_sink(None, kind) as sink:
            sink.write({"a": [1.5]})
            written.append(len(Standard.buffer.getvalue()))
            raise KeyboardInterrupt

    written = []
    monkeypatch.setattr(sys, "stdout", Standard())
    with pytest.raises(KeyboardInterrupt):
        fail()
    assert len(Standard.buffer.getvalue()) == written[0]


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(TableError, match="pass '-'"):
        open_source(tmp_path / "t.csv", Options(), silent)


def test_ndjson_output_is_json_for_everybody(tmp_path):
    path = tmp_path / "t.ndjson"
    with open_sink(path, "ndjson") as sink:
        sink.write({"v": np.array([np.inf, np.nan, 1.0]), "id": [float("nan"), "x", None], "more": [..., [1], ...]})
    records = [json.loads(line, parse_constant=silent) for line in path.read_text().splitlines()]
    assert records == [{"v": None, "id": None}, {"v": None, "id": "x", "more": [1]}, {"v": 1.0, "id": None}]


def packed_columns():
    numbers = pa.array([1.5, 1.5, None])
    return {
        "runs": (pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([1.5, None])), True),
        "dictionary": (numbers.dictionary_encode(), True),
        "bool8": (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8())), True),
        "string_view": (pa.array(["x", "y", None], pa.string_view()), False),
        "binary_view": (pa.array([b"x", b"y", None], pa.binary_view()), False),
        "large_list": (pa.array([[1.0], [2.0], None], pa.large_list(pa.float64())), False),
        "struct": (pa.array([{"a": 1}, None, None]), False),
        "fixed": (pa.array([b"ab", b"cd", None], pa.binary(2)), False),
    }


@pytest.mark.parametrize("name", packed_columns())
def test_packed_types_are_read_or_refused_by_name(tmp_path, name):
    array, numeric = packed_columns()[name]
    path = tmp_path / "t.arrow"
    batch = pa.record_batch({"a": pa.array([1.0, 2.0, 3.0]), name: array})
    with pa.ipc.new_file(path, batch.schema) as out:
        out.write_batch(batch)
    if numeric:
        expected = [1, 0, np.nan] if name == "bool8" else [1.5, 1.5, np.nan]
        np.testing.assert_array_equal(read(path, [name])[0].ravel(), expected)
    else:
        with pytest.raises(TableError, match=f"column '{name}' contains"):
            read(path, ["a", name])
    if name in ("string_view", "runs", "dictionary"):
        for kind in ("csv", "parquet", "ndjson"):
            with open_sink(tmp_path / f"o.{kind}", kind) as sink:
                sink.write({"id": array})
            assert len((tmp_path / f"o.{kind}").read_bytes()) > 5


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (r'{"a": 1, "b": 2, "id": "\ud800"}', "field 'id' contains a broken character"),
        (r'{"a": 1, "b": 2, "id": {"x": ["\uDFFF"]}}', "field 'id' contains a broken character"),
        (r'{"a": 1, "b": 2, "id": 3, "n\ud83d": 4}', r"field 'n\ud83d' contains a broken character"),
        ('{"a": 1, "b": 2, "id": 3, "a": 4}', "there are several fields 'a'"),
        ('{"a" : 1, "b": 2, "id": 3, "b": 2}', "there are several fields 'b'"),
        ('{"a": 1, "b": 2, "id": {"x": 1, "x": 2}}', "there are several fields 'x'"),
    ],
)
def test_lines_of_json_without_a_certain_meaning(tmp_path, line, problem):
    path, told = tmp_path / "t.ndjson", []
    good = r'{"a": 5, "b": 6, "id": "\ud83d\ude00 10:00\": x"}'
    path.write_text(f"{good}\n{line}\n{good}\n")
    X, kept, rows = read(path, ["a", "b"], ["id"], told.append)
    assert (X.tolist(), kept["id"], rows) == ([[5, 6]] * 2, ['😀 10:00": x'] * 2, [0, 2])
    assert len(told) == 1
    assert f"t.ndjson, line 2: {problem}" in told[0]
    with pytest.raises(TableError, match="line 2"):
        read(path, ["a", "b"], ["id"], strict=True)


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of files are texts there")
@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "ndjson"])
def test_file_names_that_are_not_utf_8(tmp_path, frame, kind):
    path, plain = tmp_path / os.fsdecode(b"bad\xff." + kind.encode()), tmp_path / f"plain.{kind}"
    with open_sink(plain, kind) as sink:
        sink.write({name: pa.array(frame[name]) for name in "ac"})
    plain.rename(path)
    np.testing.assert_array_equal(read(path, ["a", "c"])[0], frame[["a", "c"]])
    with pytest.raises(TableError, match=r"bad\udcff"):
        read(path, ["a", "x"], strict=True)


@pytest.mark.parametrize(
    ("cells", "kinds", "message"),
    [
        (pa.array([[1, 2]] * 3), ["csv"], r"column 'id' contains values of the type list.* Write Parquet or NDJSON"),
        (pa.array([b"\xff"] * 3), ["csv", "ndjson"], "column 'id' contains bytes that are not UTF-8 text"),
        (
            pa.array([(1, 2, 3)] * 3, pa.month_day_nano_interval()),
            ["csv", "ndjson", "parquet"],
            "column 'id' contains values of the type month_day_nano_interval",
        ),
    ],
)
def test_columns_that_a_format_cannot_store_are_named(tmp_path, cells, kinds, message):
    for kind in kinds:
        with pytest.raises(TableError, match=message), open_sink(tmp_path / f"t.{kind}", kind) as sink:
            sink.write({"a": pa.array([1.5] * 3), "id": cells})


def test_bytes_in_ndjson_are_text(tmp_path):
    for cells in (pa.array([b"ab"]), pa.array([b"ab"], pa.binary(2)), pa.array([b"ab"], pa.large_binary())):
        with open_sink(tmp_path / "t.ndjson", "ndjson", force=True) as sink:
            sink.write({"id": cells})
        assert (tmp_path / "t.ndjson").read_text() == '{"id": "ab"}\n'


def test_runs_of_dictionary_values(tmp_path):
    ends = pa.array([2, 3, 5], pa.int32())
    numbers = pa.RunEndEncodedArray.from_arrays(ends, pa.array([1.5, None, 2.5]).dictionary_encode())
    labels = pa.RunEndEncodedArray.from_arrays(ends, pa.array(["x", None, "y"]).dictionary_encode())
    batch = pa.RecordBatch.from_arrays([numbers, labels], names=["a", "id"])
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    X, _, _ = read(tmp_path / "t.arrow", ["a"])
    np.testing.assert_array_equal(X[:, 0], [1.5, 1.5, np.nan, 2.5, 2.5])
    assert plain(labels.slice(1, 3)).to_pylist() == ["x", None, "y"]
    assert plain(labels).to_pylist() == ["x", "x", None, "y", "y"]


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (gzip.compress, r"t\.csv is compressed\. Decompress it with gzip -d, or name the file like table\.csv\.gz"),
        (bz2.compress, r"bzip2 -d, or name the file like table\.csv\.bz2"),
        (lzma.compress, "xz -d, and pass the result"),
        (lambda content: pa.compress(content, "zstd", asbytes=True), "zstd -d"),
        (
            lambda content: content.decode().encode("utf-16"),
            "not encoded in utf-8, but in utf-16. Add --encoding utf-16",
        ),
        (lambda content: content.decode().encode("utf-32"), "Add --encoding utf-32"),
        (lambda content: content.decode().encode("utf-16-le"), "Add --encoding utf-16-le"),
        (lambda content: content.decode().encode("utf-16-be"), "Add --encoding utf-16-be"),
    ],
)
def test_other_bytes_than_utf_8_are_recognised(tmp_path, packed, message):
    (tmp_path / "t.csv").write_bytes(packed(b"a,b\n1,2\n3,4\n"))
    with pytest.raises(TableError, match=message):
        read(tmp_path / "t.csv", ["a", "b"])
    if "encoding" in message:
        assert read(tmp_path / "t.csv", ["a"], encoding=message.split()[-1])[0].tolist() == [[1], [3]]


def test_compressed_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(b"a,b\n1,2\n"))))
    with pytest.raises(
        TableError, match=r"standard input is compressed\. .* gzip -d, for example in a pipe before culpa"
    ):
        open_source(None, Options(), silent)


def test_a_stage_over_a_table_can_be_copied():
    assert copy.copy(Stage([1, 2])).count(1) == 1
