"""Everything that is wrong with a table, at once, with a command line that solves it."""

import shlex

import numpy as np
import pandas as pd
import pytest
from command_line import run, write


def bad_table(path, n=300):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 4)).round(4), columns=list("abcd")).astype(object)
    frame["site"] = "north"
    frame.loc[[7, 30], "a"] = "off"
    frame.loc[250, "c"] = "worse"
    frame.loc[9, "d"] = "inf"
    lines = frame.to_csv(index=False).splitlines()
    lines[100] += ",1"
    lines[120] = "1,2"
    path.write_text("\n".join(lines) + "\n")
    return frame


def test_all_problems_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bad_table(tmp_path / "t.csv")
    told = run("fit", "t.csv", "-o", "m.culpa", code=2).stderr.splitlines()
    assert told == [
        "Error: t.csv has 5 problems:",
        "- column 'site' contains text, for example 'north'",
        "- column 'a' contains 'off' 2 times, first in row 7",
        "- column 'c' contains 'worse' once, first in row 250",
        "- column 'd' contains 'inf' once, first in row 9",
        "- 2 rows have another number of cells than the header, first row 99 (6 instead of 5)",
        "This solves them: culpa fit t.csv -o m.culpa "
        "--drop site --missing off --missing worse --missing inf --skip-ragged",
    ]
    command = told[-1].partition("culpa ")[2]
    done = run(*shlex.split(command))
    assert "298 rows, 2 lines skipped, 4 features" in done.stderr
    assert "read as missing: 'off' (2), 'worse' (1), 'inf' (1)" in done.stderr
    # the model remembers the codes, but that rows were skipped is a decision for each table
    told = run("score", "t.csv", "-m", "m.culpa", code=2).stderr
    assert "row 99 has 6 cell(s), but the header has 5" in told
    scores = run("score", "t.csv", "-m", "m.culpa", "--skip-ragged", "-q").stdout
    assert len(scores.splitlines()) == 299


def test_one_problem_is_one_sentence(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,off\n5,6\n")
    told = run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", code=2).stderr
    assert told.count("\n") == 1
    assert "column 'b' contains 'off' in row 1, which is not a number" in told


def test_missing_columns_are_listed_together(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)), columns=["temp_1", "temp_2", "flow"])
    frame.to_csv(tmp_path / "n.csv", index=False)
    run("fit", tmp_path / "n.csv", "-o", tmp_path / "m")
    for kind in ("csv", "parquet"):
        other = frame.rename(columns={"temp_1": "temp1", "flow": "Flow"})
        other.to_csv(tmp_path / "o.csv", index=False) if kind == "csv" else other.to_parquet(tmp_path / "o.parquet")
        told = run("score", tmp_path / f"o.{kind}", "-m", tmp_path / "m", code=2).stderr
        assert "- there is no column 'temp_1'; did you mean 'temp1' or 'temp_2'?" in told
        assert "- there is no column 'flow'; did you mean 'Flow'?" in told
        assert "This solves" not in told


@pytest.mark.parametrize("n", [6, 40])
def test_a_column_of_many_texts_is_dropped(tmp_path, n):
    lines = [f"{i},{i * i % 7},{f'x{i}' if i % 3 == 0 and i < 3 * n else i}" for i in range(300)]
    (tmp_path / "t.csv").write_text("a,b,c\n" + "\n".join(lines) + "\n1,oops,2\n")
    told = run("fit", tmp_path / "t.csv", "-o", tmp_path / "m", code=2).stderr
    assert f"- column 'c' contains {n} different texts, first 'x0' in row 0" in told
    assert told.rstrip().endswith("--missing oops --drop c")


def test_rows_that_are_skipped_are_no_problem(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{i % 7},{i % 5},{i % 3}" for i in range(40)]
    rows[9], rows[20], rows[30] = "1,2", "1,off,3", "x,2,3"
    (tmp_path / "t.csv").write_text("a,b,c\n" + "\n".join(rows) + "\n")
    told = run("fit", "t.csv", "-o", "m.culpa", "--skip-ragged", code=2).stderr
    assert told.count("--skip-ragged") == 1
    assert "has 2 problems" in told


TIMES = pd.date_range("2024-03-01", periods=60, freq="1min")
TAGS = ["TI101", "FI102", "PI103"]


def long_table(**columns):
    """Readings of three tags at the same times."""
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([TIMES, TAGS], names=["Timestamp", "Tag"])
    frame = pd.Series(rng.normal(size=len(index)), index, name="Value").reset_index()
    return frame.assign(**columns)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("columns", "long"),
    [
        ({}, "Tag,Timestamp,Value"),
        ({"Quality": "Good"}, "Tag,Timestamp,Value,Quality"),
        ({"Quality": 192}, "Tag,Timestamp,Value,Quality"),
        ({"ok?": "Good", "unit": "K"}, "Tag,Timestamp,Value,ok?"),
    ],
)
def test_a_long_table_gets_the_option_that_reads_it(folder, kind, columns, long):
    table = write(long_table(**columns), folder / f"ln.{kind}")
    told = run("fit", table.name, "-o", "m", code=2).stderr
    assert "looks like a long table" in told
    assert "--drop" not in told
    options = shlex.split(told.partition("Add ")[2].strip().removesuffix("."))
    assert options == ["--long", long]
    assert "60 rows, 3 features" in run("fit", table.name, "-o", "m", *options).stderr


def test_a_long_table_with_other_names(folder):
    names = {"Tag": "Stelle, Ort", "Value": "x", "Timestamp": "Zeit"}
    write(long_table().rename(columns=names), folder / "ln.csv")
    told = run("fit", "ln.csv", "-o", "m", code=2).stderr
    assert """Add --long '"Stelle, Ort",Zeit,x'.""" in told
    run("fit", "ln.csv", "-o", "m", "--long", '"Stelle, Ort",Zeit,x')


def test_tags_with_different_times_need_intervals(folder):
    frame = long_table()
    frame["Timestamp"] = pd.date_range("2024-03-01", periods=len(frame), freq="7s")
    write(frame, folder / "ln.csv")
    assert "Add --long Tag,Timestamp,Value, and --every 1min" in run("fit", "ln.csv", "-o", "m", code=2).stderr
    write(frame.sort_values(["Tag", "Timestamp"])[:50], folder / "ln.csv")  # one tag only, as far as one can see
    assert "Add --long Tag,Timestamp,Value, and" in run("fit", "ln.csv", "-o", "m", "--drop", "Tag", code=2).stderr


def test_wide_tables_with_texts_are_not_long(folder):
    frame = pd.DataFrame(
        {"time": TIMES, "shift": ["day", "night"] * 30, "a": np.arange(60.0), "b": np.arange(60.0) ** 2}
    )
    write(frame, folder / "t.csv")
    told = run("fit", "t.csv", "-o", "m", code=2).stderr
    assert "column 'shift' contains text" in told
    assert "--long" not in told
    write(frame.drop(columns="b"), folder / "t.csv")
    told = run("fit", "t.csv", "-o", "m", code=2).stderr
    assert "at least 2 numeric columns are needed, but only 'a' is numeric: column 'shift' contains text" in told
    assert "--drop" not in told


@pytest.mark.parametrize("line", ["<p>One, two, three</p>", "<tr><td>12</td></tr>", "<p>1, 2, 3, 4</p>\n<br>\n<br>"])
def test_a_page_is_not_a_table(folder, line):
    (folder / "report.html").write_text("<!DOCTYPE html>\n<html>\n" + f"{line}\n<a>,</a>\n<b>\n" * 200 + "</html>\n")
    told = run("fit", "report.html", "--input-format", "csv", "-o", "m", code=2).stderr
    assert "report.html does not look like a table" in told
    assert told.count("\n") == 1
    assert "--drop" not in told
    assert "--skip-ragged" not in told


def test_dropping_columns_is_not_advised_where_too_few_would_be_left(folder):
    rows = [f"{i},{f'x{i}' if i > 40_000 else i},{'oops' if i == 45_000 else i}" for i in range(50_000)]
    (folder / "t.csv").write_text("a,b,c\n" + "\n".join(rows) + "\n")  # texts far behind the first rows
    told = run("fit", "t.csv", "-o", "m", code=2).stderr
    assert told.rstrip().endswith("--drop b --missing oops")
    told = run("fit", "t.csv", "-o", "m", "--drop", "a", code=2).stderr
    assert "--drop b" not in told
    assert told.rstrip().endswith("This solves all but 1: culpa fit t.csv -o m --drop a --missing oops")
