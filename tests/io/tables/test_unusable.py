"""Tables with too few columns of numbers: long tables get the option that reads them, others get no useless advice."""

import shlex

import numpy as np
import pandas as pd
import pytest
from command_line import run, write

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
