"""Everything that is wrong with a table, at once, with a command line that solves it."""

import shlex

import numpy as np
import pandas as pd
import pytest
from command_line import run


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
