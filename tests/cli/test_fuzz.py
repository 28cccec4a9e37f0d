"""Whatever is thrown at the command line: an answer that the library gives too, or one sentence. Never a traceback, never
half an output file."""

import json
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from culpa import PCADetector
from culpa.cli import app

NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    X = np.random.default_rng(0).normal(size=(50, 3)) @ np.random.default_rng(1).normal(size=(3, 3))
    detector = PCADetector(1).fit(pd.DataFrame(X, columns=NAMES))
    detector.save(folder / "plant.culpa")
    return folder, detector


def attempt(folder, *arguments, stdin=None):
    """Run a command that writes ``out.csv``; returns its table, or ``None`` after a user error."""
    out = folder / "out.csv"
    out.unlink(missing_ok=True)
    result = CliRunner().invoke(app, [*map(str, arguments), "-o", str(out)], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert "Traceback" not in result.output
    assert not list(folder.glob(".*.part"))
    assert result.exit_code in (0, 2), result.output
    assert out.exists() == (result.exit_code == 0)
    if result.exit_code == 2:
        assert "Error: " in result.stderr
        return None
    return pd.read_csv(out)


def check(table, detector, expected_rows):
    """The scores are those of the library for the rows that were meant."""
    X = np.array(expected_rows, dtype=float).reshape(-1, 3)
    some = ~np.isnan(X).all(axis=1)
    scores = np.full(len(X), np.nan)
    if some.any():
        with np.errstate(over="ignore", invalid="ignore"):
            scores[some] = -detector.score_samples(pd.DataFrame(X[some], columns=NAMES))
    assert len(table) == len(X)
    np.testing.assert_allclose(table["score"].astype(float), scores, rtol=1e-10)


fuzzy = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
numbers = st.floats(min_value=-1e9, max_value=1e9)
cells = st.one_of(st.none(), numbers, st.integers(-1000, 1000), st.booleans())


@fuzzy
@given(
    content=st.one_of(
        st.binary(max_size=300), st.text(alphabet="abc,;\t|\"'\n\r.-+e0123456789 ", max_size=300).map(str.encode)
    )
)
@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet", "arrow", "csv.gz"])
def test_arbitrary_bytes_are_no_table(plant, ending, content):
    folder, _ = plant
    path = folder / f"bytes.{ending}"
    path.write_bytes(content)
    attempt(folder, "score", path, "-m", folder / "plant.culpa")
    attempt(folder, "fit", path)


@fuzzy
@given(
    rows=st.lists(st.tuples(*[st.one_of(st.none(), numbers)] * 3), min_size=1, max_size=12),
    order=st.permutations(NAMES),
    delimiter=st.sampled_from(",;\t|"),
    decimal=st.sampled_from(".,"),
)
def test_csv_in_any_dialect_is_read_right_or_refused(plant, rows, order, delimiter, decimal):
    folder, detector = plant
    path = folder / "t.csv"
    frame = pd.DataFrame(rows, columns=NAMES, dtype=float)
    frame["id"] = range(len(rows))
    frame[["id", *order]].to_csv(path, index=False, sep=delimiter, decimal=decimal)
    told = ["--delimiter", delimiter] if delimiter == "," else ["--delimiter", delimiter, "--decimal", decimal]
    table = attempt(folder, "score", path, "-m", folder / "plant.culpa", *told)
    if table is not None:
        check(table, detector, frame[NAMES].to_numpy())
    else:
        assert delimiter == decimal == ","
    table = attempt(folder, "score", path, "-m", folder / "plant.culpa")
    if table is not None:
        check(table, detector, frame[NAMES].to_numpy())


@fuzzy
@given(
    lines=st.lists(
        st.one_of(
            st.fixed_dictionaries(dict.fromkeys(NAMES, cells)),
            st.dictionaries(
                st.sampled_from([*NAMES, "d"]), st.one_of(cells, st.text(max_size=3), st.lists(cells, max_size=2))
            ),
            st.text(alphabet='{}[]":,abc0.\x00é', max_size=10),
        ),
        max_size=12,
    )
)
def test_ndjson_lines_are_answered_or_reported(plant, lines):
    folder, detector = plant
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    kept, meant = [], []
    for number, text in enumerate(text for text in texts if text.strip()):  # blank lines have no number
        row = usable(text)
        if row is not None:
            kept.append(number)
            meant.append(row)
    content = "\n".join(texts).encode()
    (folder / "t.ndjson").write_bytes(content)
    for source, stdin in ((folder / "t.ndjson", None), ("-", content)):
        table = attempt(folder, "score", source, "-m", folder / "plant.culpa", "--format", "csv", stdin=stdin)
        if table is None:
            assert not kept
        else:
            assert table["row"].tolist() == kept
            check(table, detector, meant)


def usable(text):
    """The row that a line means, by the rules in the manual, or None."""
    try:
        record = json.loads(text)
    except ValueError:
        return None
    if not isinstance(record, dict) or not set(NAMES) <= set(record):
        return None
    row = [record[name] for name in NAMES]
    if not all(value is None or isinstance(value, (int, float)) for value in row):
        return None
    return [math.nan if value is None else float(value) for value in row]


@fuzzy
@given(data=st.data())
def test_damaged_model_files_are_refused(plant, data):
    folder, _ = plant
    content = bytearray((folder / "plant.culpa").read_bytes())
    (folder / "rows.csv").write_text("a,b,c\n1,2,3\n")
    damage = data.draw(st.sampled_from(["cut", "flip", "swap", "insert", "arbitrary"]))
    position = data.draw(st.integers(0, len(content) - 1))
    if damage == "cut":
        content = content[:position]
    elif damage == "flip":
        content[position] ^= 1 << data.draw(st.integers(0, 7))
    elif damage == "swap":
        content = content[position:] + content[:position] if position else content[1:]
    elif damage == "insert":
        content[position:position] = data.draw(st.binary(min_size=1, max_size=20))
    else:
        content = bytearray(data.draw(st.binary(max_size=200)))
    (folder / "damaged.culpa").write_bytes(content)
    assert attempt(folder, "score", folder / "rows.csv", "-m", folder / "damaged.culpa") is None


@fuzzy
@given(data=st.data())
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_columnar_files_that_were_cut_short_are_refused(plant, ending, data):
    folder, _ = plant
    path = folder / f"t.{ending}"
    table = pa.table({name: np.arange(20.0) + i for i, name in enumerate(NAMES)})
    if ending == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as out:
            out.write_table(table)
    content = bytearray(path.read_bytes())
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    assert attempt(folder, "score", path, "-m", folder / "plant.culpa") is None


def dressed(text, dress):
    """A CSV text as exports dress it up, without changing what it means."""
    header, *lines = text.splitlines()
    if "quotes" in dress:
        lines = [",".join(f'"{cell}"' for cell in line.split(",")) for line in lines]
    if "blank" in dress:
        lines = [part for line in lines for part in (line, "")]
    above = (["sep=,"] if "sep" in dress else []) + ([header] if "title" not in dress else ["Export of line 3", header])
    end = "\r\n" if "crlf" in dress else "\n"
    return ("\ufeff" if "mark" in dress else "") + end.join([*above, *lines]) + end * ("cut" not in dress)


@fuzzy
@given(
    rows=st.lists(st.tuples(*[st.one_of(st.none(), numbers)] * 3), min_size=2, max_size=12),
    dress=st.sets(st.sampled_from(["quotes", "blank", "sep", "title", "crlf", "mark", "cut"])),
    note=st.text(alphabet='ab",\n\r;0 ', max_size=12),
    at=st.integers(0, 11),
    block=st.sampled_from([64, 1 << 22]),
)
def test_exports_are_read_right_or_refused(plant, rows, dress, note, at, block):
    """A label with quotes and line breaks moves no number; a file is read in portions as it is read whole."""
    folder, detector = plant
    frame = pd.DataFrame(rows, columns=NAMES, dtype=float)
    (folder / "t.csv").write_text(dressed(frame.to_csv(index=False), dress), encoding="utf-8", newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("culpa.io.tables.csv_cells._BLOCK", block)
        table = attempt(folder, "score", folder / "t.csv", "-m", folder / "plant.culpa")
        if table is not None:
            # an empty line is no row, and a row of nothing but empty cells is one
            check(table, detector, frame[NAMES].to_numpy())
        frame["note"] = "x"
        frame.loc[at % len(frame), "note"] = note
        frame.to_csv(folder / "t.csv", index=False, lineterminator="\n")
        table = attempt(folder, "score", folder / "t.csv", "-m", folder / "plant.culpa")
        if table is not None:
            check(table, detector, frame[NAMES].to_numpy())


@fuzzy
@given(
    rows=st.lists(st.tuples(*[st.floats(1, 999).map(lambda x: round(x, 3))] * 3), min_size=1, max_size=6),
    thousands=st.booleans(),
)
def test_marks_are_never_guessed_wrong(plant, rows, thousands):
    """1.234 in a file of semicolons is a number in two ways; what is read is what was written."""
    folder, detector = plant
    X = np.array(rows) * (1000 if thousands else 1)
    X = X.round(0 if thousands else 3)
    cells = [[f"{x:,.0f}".replace(",", ".") if thousands else repr(float(x)) for x in row] for row in X]
    (folder / "t.csv").write_text("a;b;c\n" + "\n".join(";".join(row) for row in cells) + "\n")
    table = attempt(folder, "score", folder / "t.csv", "-m", folder / "plant.culpa")
    if table is not None:
        check(table, detector, X)


@fuzzy
@given(
    lines=st.lists(
        st.tuples(
            st.sampled_from([*NAMES, "other"]),
            st.integers(0, 400),
            st.one_of(numbers.map(repr), st.sampled_from(["Bad Input", "", "OPEN", "No Data"])),
            st.sampled_from(["Good", "Bad", "good", "Uncertain", ""]),
        ),
        min_size=1,
        max_size=40,
    ),
    order=st.sampled_from(["time", "tag", "any"]),
    junk=st.booleans(),
)
def test_long_tables_are_averaged_right_or_refused(plant, lines, order, junk):
    folder, detector = plant
    keys = {"time": lambda line: line[1], "tag": lambda line: (line[0], line[1]), "any": lambda line: 0}
    lines = sorted(lines, key=keys[order])
    texts = [f"{tag},2024-02-29 23:{s // 60:02}:{s % 60:02},{value},{quality}" for tag, s, value, quality in lines]
    texts += ['A,"'] if junk else []
    (folder / "t.csv").write_text("tag,time,value,quality\n" + "\n".join(texts) + "\n")
    options = ("--long", "tag,time,value,quality", "--every", "1min")
    table = attempt(folder, "score", folder / "t.csv", "-m", folder / "plant.culpa", *options)
    if table is None:
        return
    assert not junk
    cells = {}
    for tag, s, value, quality in lines:
        if tag in NAMES and quality.lower() == "good" and value not in ("Bad Input", "", "No Data"):
            cells.setdefault(s // 60, {}).setdefault(tag, []).append(float(value))
    means = [[np.mean(cells[k][tag]) if tag in cells[k] else np.nan for tag in NAMES] for k in sorted(cells)]
    check(table, detector, means)


TIMES = st.one_of(
    st.text(alphabet="0123456789./-: APMFebJan", max_size=20),
    st.datetimes().map(lambda t: t.strftime("%d.%m.%Y %H:%M")),
    st.datetimes().map(lambda t: t.strftime("%m/%d/%y")),
    st.integers(0, 10**19).map(str),
)


@fuzzy
@given(
    times=st.lists(TIMES, min_size=1, max_size=6), format=st.sampled_from([None, "dmy", "ms", "%d.%m.%Y", "%", "%Q"])
)
def test_times_of_any_kind_are_read_or_refused(plant, times, format):
    folder, _ = plant
    (folder / "t.csv").write_text("when,a,b,c\n" + "".join(f"{time},1,2,3\n" for time in times))
    told = ["--time", "when", *([] if format is None else ["--time-format", format])]
    attempt(folder, "incidents", folder / "t.csv", "-m", folder / "plant.culpa", *told)
    attempt(folder, "incidents", folder / "t.csv", "-m", folder / "plant.culpa")
    attempt(folder, "score", folder / "t.csv", "-m", folder / "plant.culpa", *told, "--from", "2024-01-01")


@fuzzy
@given(data=st.data())
def test_damaged_excel_files_are_refused(plant, data):
    openpyxl = pytest.importorskip("openpyxl")
    folder, _ = plant
    path = folder / "t.xlsx"
    values = st.one_of(
        st.none(), numbers, st.integers(-9, 9), st.booleans(), st.sampled_from(["x", "#N/A", "1,5", "No Data"])
    )
    rows = data.draw(st.lists(st.tuples(values, values, values), max_size=6))
    book = openpyxl.Workbook()
    for row in (NAMES, *rows):
        book.active.append(row)
    book.save(path)
    attempt(folder, "score", path, "-m", folder / "plant.culpa")
    content = bytearray(path.read_bytes())
    position = int(data.draw(st.floats(0, 1)) * (len(content) - 1))  # the size depends on the time of day
    if data.draw(st.booleans()):
        path.write_bytes(content[:position])
        assert attempt(folder, "score", path, "-m", folder / "plant.culpa") is None
    else:
        content[position] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(content)
        attempt(folder, "score", path, "-m", folder / "plant.culpa")


@fuzzy
@given(text=st.text(alphabet='tablesnewmodrigcu=[]"\n,.0#{} ', max_size=80))
def test_project_files_of_any_kind(plant, text, monkeypatch):
    folder, _ = plant
    (folder / "culpa.toml").write_text(text)
    (folder / "rows.csv").write_text("a,b,c\n1,2,3\n")
    monkeypatch.chdir(folder)
    try:
        attempt(folder, "score", "rows.csv", "-m", "plant.culpa")
    finally:
        (folder / "culpa.toml").unlink()
