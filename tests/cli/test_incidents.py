"""`culpa incidents`: the same incidents as in the library, whatever the format and the batches."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from command_line import run, write

import culpa
from culpa.datasets import make_plant


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("plant")
    plant = make_plant()
    names = list(plant.feature_names)
    pd.DataFrame(plant.normal, columns=names).to_csv(path / "normal.csv", index=False)
    new = pd.DataFrame(plant.new.copy(), columns=names)
    new.insert(3, "time", pd.date_range("2024-03-05 20:00", periods=400, freq="1min"))
    new.to_csv(path / "new.csv", index=False)
    new.to_parquet(path / "new.parquet")
    new.to_json(path / "new.ndjson", orient="records", lines=True, date_format="iso", double_precision=15)
    options = ["--components", "0.95", "--statistic", "spe", "--limit", "formula", "--unit", "flow_reflux=m3/h"]
    run("fit", path / "normal.csv", "-o", path / "plant.culpa", *options)
    return path


@pytest.fixture(scope="module")
def expected(folder):
    new = pd.read_parquet(folder / "new.parquet")
    return culpa.load(folder / "plant.culpa").incidents(new, time="time", gap="5min", min_length=2)


@pytest.mark.parametrize("kind", ["csv", "parquet", "ndjson"])
def test_same_as_the_library(folder, expected, kind, tmp_path):
    options = ["-m", folder / "plant.culpa", "--time", "time", "--gap", "5min", "--min-length", "2"]
    result = run("incidents", folder / f"new.{kind}", *options, "-o", tmp_path / "out.parquet")
    assert f"400 rows, 155 flagged, {len(expected)} incidents; wrote" in result.stderr
    found, wanted = pd.read_parquet(tmp_path / "out.parquet"), expected.to_frame()
    assert list(found.columns) == list(wanted.columns)
    for name in ("start", "end", "peak"):
        found[name] = pd.to_datetime(found[name]).dt.as_unit("us")
        wanted[name] = wanted[name].dt.as_unit("us")
    # older pandas warns that None is not NaN
    found, wanted = (frame.astype(object).where(frame.notna(), None) for frame in (found, wanted))
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False, rtol=1e-6)
    lines = run("incidents", folder / f"new.{kind}", *options, "--text").stdout.splitlines()
    assert lines == [incident.sentence for incident in expected]
    assert lines[0].startswith(
        "flow_reflux stood out first, on 2024-03-05 at 20:50, and at 20:53 read 58.30 m3/h where"
    )


def test_small_batches(folder, expected, monkeypatch):
    monkeypatch.setattr("culpa.io.tables.columnar.ROWS", 7)
    options = ["-m", folder / "plant.culpa", "--time", "time", "--gap", "5min", "--min-length", "2", "--text"]
    assert run("incidents", folder / "new.parquet", *options).stdout.splitlines() == [i.sentence for i in expected]


@pytest.mark.parametrize("rows", [400, 4])
@pytest.mark.parametrize("source", ["new.csv", "new.parquet", "-"])
def test_a_gap_shorter_than_the_time_between_rows(folder, tmp_path, source, rows):
    """Files and pipes say so, once, however many rows there are and come together."""
    table = pd.read_parquet(folder / "new.parquet")[:rows]
    table.to_csv(tmp_path / "new.csv", index=False)
    table.to_parquet(tmp_path / "new.parquet")
    piped = "".join((folder / "new.ndjson").read_text().splitlines(keepends=True)[:rows])
    warning = "rows are 1 min apart, so a gap of 30 s ends an incident after every row. Use a longer gap."
    common = (source if source == "-" else tmp_path / source, "-m", folder / "plant.culpa", "--time", "time")
    short, long = (run("incidents", *common, "--gap", gap, stdin=piped).stderr for gap in ("30s", "1min"))
    assert short.count(warning) == 1
    assert "gap" not in long
    if source != "-":
        made = run("report", *common, "--gap", "30s", "-o", tmp_path / "report.html")
        assert made.stderr.count(warning) == 1


def test_a_pipe_and_row_numbers(folder):
    stdin = (folder / "new.ndjson").read_text()
    lines = run(
        "incidents", "-", "-m", folder / "plant.culpa", "--gap", "3", "--time", "none", stdin=stdin
    ).stdout.splitlines()
    found = [json.loads(line) for line in lines]
    over = [line for line in found if line["event"] == "closed"]
    assert (over[1]["start"], over[1]["end"], over[1]["culprit"]) == (50, 79, "flow_reflux")
    assert over[-1]["to_fix"] == "flow_product, temperature_top"
    quiet = run(
        "incidents", "-", "-m", folder / "plant.culpa", "--gap", "3", "--time", "none", "--no-events", stdin=stdin
    ).stdout
    assert [json.loads(line) for line in quiet.splitlines()] == [
        {key: value for key, value in line.items() if key not in ("event", "new")} for line in over
    ]


def started(folder, *options):
    """`culpa incidents` on a pipe."""
    model = ["-m", str(folder / "plant.culpa")]
    command = [sys.executable, "-m", "culpa", "incidents", "-", *model, "--time", "none", "-q", *options]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_events_are_written_at_once(folder):
    """Lines of a pipe one by one: an incident opens with its first row, and is over with the first row past the gap."""
    lines = [line.encode() + b"\n" for line in (folder / "new.ndjson").read_text().splitlines()]
    process = started(folder, "--gap", "3")
    process.stdin.writelines(lines[45:51])
    process.stdin.flush()
    opened = json.loads(process.stdout.readline())  # would wait for ever if answers were held back
    assert (opened["event"], opened["start"], opened["end"], opened["culprit"]) == ("opened", 5, 5, "flow_reflux")
    process.stdin.writelines(lines[51:84])
    process.stdin.flush()
    event = opened
    while event["event"] != "closed":
        event = json.loads(process.stdout.readline())
    assert (event["start"], event["end"]) == (5, 34)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (0, b"", b"")


def test_events_as_text(folder):
    stdin = (folder / "new.ndjson").read_text()
    lines = run(
        "incidents", "-", "-m", folder / "plant.culpa", "--gap", "3", "--time", "none", "--text", stdin=stdin
    ).stdout.splitlines()
    assert lines[0].startswith("New incident, already over. In row 31, flow_reflux read 43.85 m3/h")
    told = [line.partition(". ")[2] for line in lines]
    assert len(set(told)) == len(told)  # nothing is told twice
    over = [incident.sentence for incident in culpa.load(folder / "plant.culpa").incidents(_new(folder), gap=3)]
    assert told == over


def _new(folder):
    return pd.read_parquet(folder / "new.parquet").drop(columns="time")


def test_events_as_text_row_by_row(folder):
    """An incident that was told and has not changed since is over with a word."""
    lines = [line.encode() + b"\n" for line in (folder / "new.ndjson").read_text().splitlines()]
    process = started(folder, "--text", "--gap", "0")
    process.stdin.writelines(lines[28:32])
    process.stdin.flush()
    assert process.stdout.readline().startswith(b"New incident. In row 3, flow_reflux read 43.85 m3/h")
    process.stdin.writelines(lines[32:34])
    process.stdin.flush()
    assert process.stdout.readline() == b"Over.\n"
    process.stdin.writelines(lines[50:52])
    process.stdin.flush()
    assert process.stdout.readline().startswith(b"New incident. ")
    process.stdin.writelines(lines[52:54])
    process.stdin.flush()
    out, _ = process.communicate()
    assert out.splitlines()[-1].startswith(b"Still open. flow_reflux stood out first, in row 6, and ")
    assert process.returncode == 0


def test_no_rows_and_exit_codes(folder, tmp_path):
    header = (folder / "new.csv").read_text().splitlines()[0]
    (tmp_path / "empty.csv").write_text(header + "\n")
    out = run(
        "incidents", tmp_path / "empty.csv", "-m", folder / "plant.culpa", "--gap", "5min", "--time", "time"
    ).stdout
    assert out.startswith('"start","end","peak",')
    assert len(out.splitlines()) == 1
    run("incidents", folder / "new.csv", "-m", folder / "plant.culpa", "--fail-on-anomaly", "--text", code=3)
    run(
        "incidents",
        folder / "new.csv",
        "-m",
        folder / "plant.culpa",
        "--min-length",
        "100",
        "--fail-on-anomaly",
        code=0,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--time", "tim"], "did you mean 'time'"),
        (["--time", "flow_feed"], "'flow_feed' goes backwards: row 1"),
        (["--gap", "5min", "--time", "none"], "rows need times"),
        (["--gap", "-1"], "gap must not be negative, got -1."),
        (["--gap", "5.5", "--time", "time"], "whole number of rows or a time span such as '5min', got '5.5'"),
        (["--gap", "long", "--time", "time"], "a time span such as '5min'"),
        (["--text", "-o", "x.csv"], "standard output"),
    ],
)
def test_mistakes(folder, options, message):
    result = run("incidents", folder / "new.csv", "-m", folder / "plant.culpa", *options, code=2)
    assert message in result.stderr


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize("offset", ["", "+01:00"])
def test_texts_of_times_that_are_finer_than_a_microsecond(folder, ending, offset):
    rows = pd.read_csv(folder / "new.csv")
    rows["time"] = [f"2024-03-05T00:00:{k % 60:02}.{k // 60}234567{offset}" for k in range(len(rows))]
    rows = rows.sort_values("time", ignore_index=True)
    rows.to_csv(folder / "fine.csv", index=False)
    given = ("incidents", folder / "fine.csv", "-m", folder / "plant.culpa", "--time", "time", "--force", "-o")
    run(*given, folder / "i.csv")
    run(*given, folder / f"i.{ending}")
    found = (pq.read_table if ending == "parquet" else feather.read_table)(folder / f"i.{ending}").to_pandas()
    wanted = pd.to_datetime(pd.read_csv(folder / "i.csv")["start"], utc=bool(offset))
    assert len(found)
    assert list(found["start"]) == list(wanted)
    assert {time.nanosecond for time in found["start"]} == {700}


@pytest.mark.parametrize(
    ("times", "kind"),
    [
        (lambda t: t, "timestamp[ns]"),
        (lambda t: t.astype("datetime64[s]"), "timestamp[ns]"),
        (lambda t: t.astype("datetime64[ns]"), "timestamp[ns]"),
        (lambda t: t.astype(str), "timestamp[ns]"),
        (lambda t: t.tz_localize("Europe/Berlin"), "timestamp[ns, tz=UTC]"),
        (lambda t: t.tz_localize("Europe/Berlin").map(lambda time: time.isoformat()), "timestamp[ns, tz=UTC]"),
        (lambda t: np.arange(len(t)), "double"),
        (lambda t: np.arange(len(t)) / 4, "double"),
    ],
)
def test_how_a_table_holds_its_times_does_not_change_those_of_its_incidents(folder, times, kind):
    rows = pd.read_csv(folder / "new.csv")
    rows["time"] = times(pd.date_range("2024-03-05", periods=len(rows), freq="1min"))
    write(rows, folder / "typed.parquet")
    given = ("incidents", folder / "typed.parquet", "-m", folder / "plant.culpa", "--time", "time", "--force", "-o")
    run(*given, folder / "i.parquet")
    found = pq.read_table(folder / "i.parquet")
    assert {str(found.schema.field(name).type) for name in ("start", "end", "peak")} == {kind}
    run(*given, folder / "i.csv")
    of_text = pd.read_csv(folder / "i.csv")["start"]
    start = found["start"].to_pandas()
    assert len(start)
    assert list(start) == list(of_text if kind == "double" else pd.to_datetime(of_text, utc="UTC" in kind))


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize("source", ["csv", "parquet", "ndjson"])
def test_tables_of_incidents_have_one_schema(tmp_path, ending, source):
    random = np.random.default_rng(3)
    X = random.normal(size=(300, 2)) @ random.normal(size=(2, 4)) + 0.3 * random.normal(size=(300, 4))
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.insert(0, "when", pd.date_range("2024-03-05", periods=300, freq="1min"))
    write(frame, tmp_path / "normal.parquet")
    run("fit", tmp_path / "normal.parquet", "-o", tmp_path / "m.culpa", "--limit", "formula", "--confidence", 0.999999)
    faulty = frame.copy()
    faulty.loc[200:205, "b"] += 20
    read = pq.read_table if ending == "parquet" else feather.read_table
    found = []
    for rows in (frame, faulty, frame[:0] if source == "parquet" else frame[:2]):
        table = rows.assign(when=rows["when"].astype(str)) if source == "ndjson" else rows
        path = write(table, tmp_path / f"t.{source}")
        target = tmp_path / f"i.{ending}"
        run("incidents", path, "-m", tmp_path / "m.culpa", "-o", target, "--force")
        found.append(read(target))
    assert [table.num_rows for table in found] == [0, 1, 0]
    assert found[0].schema == found[1].schema == found[2].schema
    assert found[1]["start"].to_pylist() == [frame["when"][200].to_pydatetime()]
    kinds = {field.name: str(field.type) for field in found[0].schema}
    assert kinds["start"] == kinds["end"] == kinds["peak"] == "timestamp[ns]"
    assert (kinds["first"], kinds["score"], kinds["p_value"], kinds["culprit"]) == (
        "int64",
        "double",
        "double",
        "string",
    )
