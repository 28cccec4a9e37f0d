"""Tables as plants export them, from nothing to a report in three commands; the examples of docs/plant-tables.md."""

import json
import subprocess
import sys
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from command_line import run

import culpa
from culpa.datasets import make_plant

CULPA = [sys.executable, "-m", "culpa"]


@pytest.fixture(scope="module")
def plant():
    """Normal rows, and new rows in which a flow is wrong from 20:50 on."""
    made = make_plant()
    names = list(made.feature_names)
    normal = pd.DataFrame(
        made.normal, columns=names, index=pd.date_range("2024-02-01", periods=len(made.normal), freq="1min")
    )
    new = pd.DataFrame(
        made.new, columns=names, index=pd.date_range("2024-03-05 20:00", periods=len(made.new), freq="1min")
    )
    return normal, new


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def content():
    return json.loads(run("report", "--json", "-q").stdout)


def test_a_german_excel_export_with_two_header_rows(folder, plant):
    openpyxl = pytest.importorskip("openpyxl")
    for frame, name in zip(plant, ("normal.xlsx", "neu.xlsx"), strict=True):
        book = openpyxl.Workbook()
        book.active.title = "Messdaten"
        book.active.append(["Zeit", *frame.columns])
        book.active.append([None, *("°C" if "temperature" in column else "m3/h" for column in frame.columns)])
        for time, row in zip(frame.index[:700], frame.to_numpy()[:700].tolist(), strict=False):
            book.active.append([time.to_pydatetime(), *row])
        book.active.cell(5, 4).value = "#N/A"
        book.save(name)
    run("init", "normal.xlsx", "--new", "neu.xlsx")
    told = run("fit").stderr
    assert "normal.xlsx: 2 header rows, one of names and one of units." in told
    assert "read as missing: '#N/A' (1)" in told
    told = run("report").stderr
    assert "incidents; wrote report.html" in told
    assert culpa.load("plant.culpa").units_["flow_reflux"] == "m3/h"
    assert "flow_reflux stood out first, on 2024-03-05 at 20:50" in run("incidents", "--text", "-q").stdout


def test_a_long_pi_export_with_bad_values(folder, plant):
    for frame, name in zip(plant, ("normal.csv", "new.csv"), strict=True):
        long = frame[:700].stack().rename("Value").rename_axis(["Timestamp", "Tag"]).reset_index()
        long["Timestamp"] = long["Timestamp"].dt.strftime("%d-%b-%y %H:%M:%S")
        long["Quality"] = "Good"
        long = long.astype({"Value": object})
        long.loc[::997, "Value"], long.loc[::997, "Quality"] = "I/O Timeout", "Bad"
        long.loc[5::1999, "Quality"] = "Questionable"
        long[["Tag", "Timestamp", "Value", "Quality"]].to_csv(name, index=False)
    told = run(
        "fit", "normal.csv", "-o", "plant.culpa", "--long", "Tag,Timestamp,Value,Quality", "--every", "1min"
    ).stderr
    assert "long table, means over 1 min; times in column 'Timestamp'" not in told  # the column was given
    assert "'I/O Timeout' (9)" in told
    assert "'quality Questionable' (5)" in told
    assert "700 rows, 12 features" in told
    told = run("report", "new.csv", "-m", "plant.culpa").stderr  # the model remembers how to read it
    assert "long table, means over 1 min" in told
    assert "wrote report.html" in told
    text = run("incidents", "new.csv", "-m", "plant.culpa", "--text", "-q").stdout
    assert "flow_reflux stood out first, on 2024-03-05 at 20:50" in text


def test_a_folder_of_parquet_files_with_a_maintenance_week(folder, plant):
    normal, new = plant
    (folder / "line3").mkdir()
    week = slice("2024-02-01 10:00", "2024-02-01 16:00")
    normal = normal.copy()
    normal.loc[week] += 500  # whatever sensors say while people work on the plant
    for day, part in normal.groupby(normal.index.floor("6h")):
        part.rename_axis("time").reset_index().to_parquet(f"line3/{day:%Y-%m-%d_%H}.parquet")
    new.rename_axis("time").reset_index().to_parquet("new.parquet")
    told = run("fit", "line3/*.parquet", "-o", "plant.culpa", "--exclude", "2024-02-01T10:00/2024-02-01T16:01").stderr
    assert f"{len(normal) - 361:,} rows, 361 rows left out, 12 features" in told
    assert culpa.load("plant.culpa").mean_.max() < 400
    run("report", "new.parquet", "-m", "plant.culpa")
    assert (folder / "report.html").exists()
    assert (
        "flow_reflux stood out first, on 2024-03-05 at 20:50"
        in run("incidents", "new.parquet", "-m", "plant.culpa", "--text", "-q").stdout
    )


def test_a_model_remembers_no_order_of_day_and_month_that_its_table_leaves_open(folder, plant):
    for frame, day, name in zip(plant, ("2024-01-01", "2024-03-04"), ("normal.csv", "new.csv"), strict=True):
        times = pd.date_range(day, periods=300, freq="1min").strftime("%m/%d/%Y %H:%M")
        frame[:300].set_axis(times).rename_axis("time").to_csv(name)
    assert "day, month, year" not in run("fit", "normal.csv", "-o", "m.culpa").stderr
    assert "time_format" not in culpa.load("m.culpa").fitted.reading["detected"]
    told = run("incidents", "new.csv", "-m", "m.culpa", code=2).stderr
    assert "may mean 2024-04-03 00:00:00 (day, month, year) or 2024-03-04 00:00:00" in told
    assert "Choose with --time-format dmy or --time-format mdy." in told
    for command in ("score", "explain"):  # which only copy times
        for option in ([], ["--id", "time"], ["-q"]):
            told = run(command, "new.csv", "-m", "m.culpa", *option)
            assert "may mean" not in told.stderr
            assert told.stdout.splitlines()[1].startswith('"03/04/2024 00:')
        assert "may mean" in run(command, "new.csv", "-m", "m.culpa", "--from", "2024-03-04", code=2).stderr
    run("fit", "normal.csv", "-o", "m.culpa", "-f", "--time-format", "mdy")
    assert "2024-03-04" in run("incidents", "new.csv", "-m", "m.culpa", "--text", "-q").stdout


@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx", "ndjson", "long.csv"])
def test_numbers_that_mean_missing_cells_are_counted(folder, plant, kind):
    frame = plant[0][:300].reset_index(drop=True)
    frame.loc[3:7, "flow_feed"] = -9999.0
    options = ["--missing", "-9999", "--missing", "Bad Input"]
    if kind == "long.csv":
        frame = frame.set_axis(pd.date_range("2024-01-01", periods=300, freq="1min")).stack().reset_index()
        frame.columns = ["t", "tag", "v"]
        options += ["--long", "tag,t,v"]
    if kind.endswith("csv"):
        frame.to_csv(f"t.{kind}", index=False)
    elif kind == "parquet":
        frame.astype({"flow_feed": "float32"}).to_parquet("t.parquet")
    elif kind == "xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel("t.xlsx", index=False)
    else:
        frame.to_json("t.ndjson", orient="records", lines=True)
    told = run("fit", f"t.{kind}", "-o", "m.culpa", *options).stderr
    assert f"t.{kind}: read as missing: '-9999' (5)." in told
    assert "'-9999' (5)" in run("incidents", f"t.{kind}", "-m", "m.culpa").stderr  # the model remembers it


@pytest.mark.parametrize("name", ["Zeit", "time"])
def test_rows_can_be_numbered_although_they_have_times(folder, plant, name):
    for frame, file in zip(plant, ("normal.csv", "new.csv"), strict=True):
        times = frame.index if name == "Zeit" else frame.index.as_unit("s").asi8
        frame.set_axis(times).rename_axis(name)[:400].to_csv(file)
    assert "400 rows, 12 features" in run("fit", "normal.csv", "-o", "m.culpa", "--time", "none").stderr
    assert culpa.load("m.culpa").fitted.reading["detected"]["time"] == "none"
    found = pd.read_csv(StringIO(run("incidents", "new.csv", "-m", "m.culpa", "-q").stdout))
    assert len(found)
    assert found["start"].tolist() == found["first"].tolist()


def test_the_model_remembers_how_its_table_was_read(folder, plant):
    normal, _ = plant
    for frame, name in zip(plant, ("normal.csv", "new.csv"), strict=True):
        written = frame[:300].copy().astype(object)
        written.insert(0, "Zeit", frame.index[:300].strftime("%m/%d/%Y %I:%M:%S %p"))
        written.loc[written.index[7], "flow_feed"] = "kaputt"
        written.to_csv(name, index=False, sep=";", header=False)
    names = ",".join(["Zeit", *normal.columns])
    options = ["--names", names, "--missing", "kaputt", "--time-format", "mdy", "--time", "Zeit"]
    run("fit", "normal.csv", "-o", "m.culpa", "--complete-only", *options)
    reading = culpa.load("m.culpa").fitted.reading
    assert reading["missing"] == ["kaputt"]
    assert reading["detected"] == {"time": "Zeit", "time_format": "mdy", "decimal": "."}
    for command in (["score"], ["explain", "--top", "1"], ["incidents", "--text"], ["report", "-o", "r.html"]):
        told = run(*command, "new.csv", "-m", "m.culpa", "-q")  # 03/05/2024 alone would be asked about
    told = run("score", "new.csv", "-m", "m.culpa", "--flagged")
    assert '"03/05/2024 08:50:00 PM"' in told.stdout
    assert "'kaputt' (1)" in told.stderr
    run("update", "m.culpa", "new.csv", "-o", "n.culpa", "--complete-only")
    assert culpa.load("n.culpa").fitted.reading == reading
    run("compare", "normal.csv", "new.csv", "-m", "n.culpa")
    forgotten = culpa.load("m.culpa")
    forgotten.save("again.culpa")
    assert culpa.load("again.culpa").fitted.reading == reading


def test_decisions_are_told_once_and_hidden_by_quiet(folder, plant):
    frame = plant[0][:100].reset_index(names="time")
    frame.to_csv("t.csv", index=False, sep=";", decimal=",")
    told = run("fit", "t.csv", "-o", "m.culpa", "--limit", "formula").stderr.splitlines()
    assert told[0] == "t.csv: delimiter ';'; decimal mark ','; times in column 'time', written as year-month-day."
    assert run("fit", "t.csv", "-o", "q.culpa", "--limit", "formula", "-q").stderr == ""


def test_csv_lines_are_answered_as_they_arrive(folder, plant):
    frame = plant[0].reset_index(names="time")
    frame[:300].to_csv("t.csv", index=False)
    run("fit", "t.csv", "-o", "m.culpa")
    header, *lines = frame[300:305].to_csv(index=False).splitlines()
    command = [*CULPA, "score", "-", "-m", "m.culpa", "-q"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(header.encode() + b"\n")
    for row, line in enumerate(lines):
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        if row == 0:
            assert process.stdout.readline() == b'"time","score","limit","anomaly","p_value"\n'
        assert process.stdout.readline().startswith(
            b'"2024-02-01 05:0'
        )  # would wait for ever if answers were held back
    out, err = process.communicate()
    assert (process.returncode, out, err) == (0, b"", b"")


def test_a_crash_is_no_finding(folder, plant):
    """A flagged row, an error of the user and a crash end with different codes."""
    plant[1].to_csv("new.csv", index=False)
    plant[0].to_csv("normal.csv", index=False)
    run("fit", "normal.csv", "-o", "m.culpa")
    run("score", "new.csv", "-m", "m.culpa", "--fail-on-anomaly", "-o", "o.csv", code=3)
    run("score", "absent.csv", "-m", "m.culpa", code=2)
    crash = "import culpa.jobs.answers as s; s.scored_batches = None; from culpa.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", crash, "score", "new.csv", "-m", "m.culpa"], capture_output=True, check=False
    )
    assert done.returncode == 1
    assert b"Traceback" in done.stderr


def test_closed_standard_output_and_error(folder, plant):
    plant[0][:200].to_csv("normal.csv", index=False)
    run("fit", "normal.csv", "-o", "m.culpa")
    command = f"{sys.executable} -m culpa score normal.csv -m m.culpa"
    done = subprocess.run(f"{command} >&-", shell=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (2, b"Error: standard output is closed. Name a file with -o.\n")
    done = subprocess.run(f"{command} 2>&-", shell=True, capture_output=True, check=False)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 201


def test_closed_standard_input(folder, plant):
    plant[0][:200].to_csv("normal.csv", index=False)
    run("fit", "normal.csv", "-o", "m.culpa")
    done = subprocess.run(
        f"{sys.executable} -m culpa score - -m m.culpa <&-", shell=True, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"standard input is closed" in done.stderr


def test_names_cannot_steer_a_terminal(folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 3)) + 0.1 * rng.normal(size=(200, 3))
    frame = pd.DataFrame(X, columns=["a\x1b[31m", "b", "c"])
    frame.to_parquet("n.parquet")
    frame.loc[5, "a\x1b[31m"] += 50
    frame.to_parquet("t.parquet")
    run("fit", "n.parquet", "-o", "m.culpa")
    for told in (run("info", "m.culpa"), run("incidents", "t.parquet", "-m", "m.culpa", "--text")):
        assert "\x1b" not in told.output
        assert "a\\x1b[31m" in told.output


def test_bad_rows_do_not_stop_a_pipe(folder, plant):
    plant[0][:300].to_csv("normal.csv", index=False)
    run("fit", "normal.csv", "-o", "m.culpa")
    header, *lines = plant[0][300:304].to_csv(index=False).splitlines()
    stdin = "\n".join([header, lines[0], "1,2", lines[1], lines[2].replace(",", ",oops", 1), lines[3]]) + "\n"
    done = run("score", "-", "-m", "m.culpa", stdin=stdin)
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == ['"row"', "0", "2", "4"]
    assert "row 1 has 2 cell(s), but the header has 12. The row is skipped." in done.stderr
    assert "in row 3, which is not a number" in done.stderr
    assert "3 rows, 0 flagged, 2 lines skipped" in done.stderr
    told = run("score", "-", "-m", "m.culpa", "--strict", stdin=stdin, code=2).stderr
    assert "in row 3, which is not a number" in told
    ragged = "\n".join([header, *lines[:2], "1,2", lines[2]]) + "\n"
    strict = run("score", "-", "-m", "m.culpa", "--strict", stdin=ragged, code=2)
    assert [line.split(",")[0] for line in strict.stdout.splitlines()] == ['"row"', "0", "1"]
    assert "row 2 has 2 cell(s), but the header has 12." in strict.stderr
    assert "no row could be used" in run("score", "-", "-m", "m.culpa", stdin=f"{header}\n1,2\n", code=2).stderr


def test_lines_before_a_bad_one_are_answered(folder, plant):
    """However many lines arrive at once."""
    plant[0][:300].to_csv("normal.csv", index=False)
    run("fit", "normal.csv", "-o", "m.culpa")
    lines = plant[0][300:304].to_json(orient="records", lines=True, date_format="iso").splitlines()
    stdin = "\n".join([*lines[:3], "garbage", lines[3]]) + "\n"
    strict = run("score", "-", "-m", "m.culpa", "--strict", stdin=stdin, code=2)
    assert [json.loads(line)["row"] for line in strict.stdout.splitlines()] == [0, 1, 2]
    assert "line 4: not JSON" in strict.stderr
    assert len(run("score", "-", "-m", "m.culpa", stdin=stdin).stdout.splitlines()) == 4


@pytest.mark.parametrize("shape", ["wide", "long"])
@pytest.mark.parametrize("unit", ["s", "ms"])
def test_the_unit_of_times_that_was_named_is_remembered(folder, plant, shape, unit):
    """Numbers that are too small to be recognised as times since 1970."""
    normal, new = (rows.drop(columns="time", errors="ignore") for rows in plant)
    for name, rows in (("normal", normal), ("new", new)):
        table = rows.assign(time=(np.arange(len(rows)) * 60 + 600) * (1000 if unit == "ms" else 1))
        table = table.melt("time", var_name="tag", value_name="value") if shape == "long" else table
        table.to_csv(f"{name}.csv", index=False)
    extra = ["--long", "tag,time,value", "--every", "1min"] if shape == "long" else ["--time", "time"]
    run("fit", "normal.csv", "-o", "m.culpa", "--time-format", unit, *extra)
    run("incidents", "new.csv", "-m", "m.culpa", "-o", "i.csv")
    run("incidents", "new.csv", "-m", "m.culpa", "-o", "told.csv", "--time-format", unit)
    found = pd.read_csv("i.csv")
    assert len(found)
    pd.testing.assert_frame_equal(found, pd.read_csv("told.csv"))
    first = pd.Timestamp("1970-01-01 00:10") + pd.to_timedelta(found["first"], "min")
    assert list(pd.to_datetime(found["start"])) == list(first)


def test_rows_of_long_tables_are_named_by_their_times(folder, plant):
    long = plant[0][:200].stack().rename("value").rename_axis(["time", "tag"]).reset_index()
    long.to_csv("t.csv", index=False)
    run("fit", "t.csv", "-o", "m.culpa", "--long", "tag,time,value", "--every", "1min", "--limit", "formula")
    lines = run("score", "t.csv", "-m", "m.culpa", "-q").stdout.splitlines()
    assert lines[1].startswith("2024-02-01 00:00:00,")
    assert len(lines) == 201


def test_a_row_without_a_time_is_said_once(folder, plant):
    frame = plant[0][:200].reset_index(names="time").astype({"time": str})
    frame.loc[5, "time"] = ""
    frame.to_csv("t.csv", index=False)
    run("fit", "t.csv", "-o", "m.culpa", "--limit", "formula")
    told = run("incidents", "t.csv", "-m", "m.culpa", "-q", code=2).stderr
    assert told == "Error: t.csv: 'time' has no time in row 5. Drop rows without a time.\n"
