"""Cells of files, pipes and sheets mean the same, and are read the same whichever way converts them."""

import csv
import io

import numpy as np
import pytest

from culpa.io.tables import Options, TableError, open_source
from culpa.io.tables.lines import Lines, rows_of

openpyxl = pytest.importorskip("openpyxl")

KINDS = ["csv", "xlsx"]


def write(path, rows):
    if path.suffix == ".xlsx":
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        book.save(path)
    else:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    return path


def read(path, features, carried=(), **options):
    source = open_source(path, Options(**options), print)
    batches = list(source.batches(features, carried))
    return source, np.concatenate([batch.X for batch in batches]), batches


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dirty", ["", "Bad Input", "NA", " 7.5 ", "-9999", "1e3"])
@pytest.mark.parametrize("at", [3, 30_000])
def test_columns_that_arrow_converts_and_others_are_read_alike(tmp_path, kind, dirty, at):
    """Also where the first such cell comes long after the rows that were looked at."""
    if kind == "xlsx" and at > 3000:
        at = 9000
    X = np.random.default_rng(0).normal(size=(at + 50, 3)).round(3)
    rows = [["a", "b", "c"], *X.tolist()]
    rows[at + 1][1] = dirty
    source, found, _ = read(write(tmp_path / f"t.{kind}", rows), ["c", "b", "a"], missing=("-9999",))
    X[at, 1] = {" 7.5 ": 7.5, "1e3": 1000}.get(dirty, np.nan)
    np.testing.assert_array_equal(found, X[:, ::-1])
    assert source.missing_found == ({dirty: 1} if dirty in ("Bad Input", "-9999") else {})


def test_texts_with_decimal_commas_among_numbers_of_a_sheet(tmp_path):
    X = np.random.default_rng(0).normal(size=(20_000, 2)).round(3)
    rows = [["a", "b"], *X.tolist()]
    for at in (0, 1, 500, 9000, 19_000):
        rows[at + 1][0] = str(X[at, 0]).replace(".", ",")
    rows[2][1], X[1, 1] = "No Data", np.nan
    np.testing.assert_array_equal(read(write(tmp_path / "t.xlsx", rows), ["a", "b"])[1], X)


@pytest.mark.parametrize("kind", KINDS)
def test_every_problem_of_a_table_is_listed(tmp_path, kind):
    rows = [["a", "b"], *[[i, 2.5] for i in range(50)], [1, "off"], ["worse", 3], [2, "off"]]
    with pytest.raises(TableError) as error:
        read(write(tmp_path / f"t.{kind}", rows), ["a", "b"])
    assert [problem.options for problem in error.value.problems] == [("--missing", "worse"), ("--missing", "off")]
    assert "'off' 2 times, first in row 50" in str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_true_and_false(tmp_path, kind):
    rows = [["on", "x"], ["true", 1], ["False", 2], ["", 3], ["Bad Input", 4], ["TRUE", 5]]
    _, found, _ = read(write(tmp_path / f"t.{kind}", rows[:4] + rows[5:]), ["on"])
    np.testing.assert_array_equal(found.ravel(), [1, 0, np.nan, 1])
    source, found, _ = read(write(tmp_path / f"u.{kind}", rows), ["on"])
    np.testing.assert_array_equal(found.ravel(), [1, 0, np.nan, np.nan, 1])
    assert source.missing_found == {"Bad Input": 1}
    late = write(tmp_path / f"v.{kind}", [*rows[:3], *[["true", 1]] * 60_000 * (kind == "csv"), ["0.5", 2]])
    if kind == "csv":
        with pytest.raises(TableError, match=r"column 'on' contains '0\.5' in row 60002"):
            read(late, ["on"])


def test_a_column_that_is_a_feature_and_a_label(tmp_path):
    path = write(tmp_path / "t.csv", [["a", "b"], ["1.50", 2], ["Bad Input", 3]])
    _, X, batches = read(path, ["b", "a"], ["a"])
    np.testing.assert_array_equal(X, [[2, 1.5], [3, np.nan]])
    assert batches[0].carried["a"].to_pylist() == ["1.50", "Bad Input"]


CELLS = ["1", "x", "", '"a"', '"a,b"', '"a ""b"" c"', '"line\nbreak"', '"\r\n"', '5"', 'a"b"', '""', '" "', '"x"y']


@pytest.mark.parametrize("seed", range(300))
def test_rows_with_quotes_are_those_of_the_csv_module(seed):
    """Whatever quotes stand where, and wherever blocks end."""
    rng = np.random.default_rng(seed)
    n, few = int(rng.integers(1, 20)), int(rng.integers(1, len(CELLS)))
    known = rng.permutation(CELLS)[:few].tolist()
    end = ["\n", "\r\n"][rng.integers(2)]
    text = "".join(",".join([str(i), "name", *rng.choice(known, 2)]) + end for i in range(n))
    records = list(csv.reader(io.StringIO(text, newline="")))
    read = io.BytesIO(text.encode())
    size = int(rng.integers(1, 80))
    lines = Lines(lambda most: read.read(size), "utf-8", ",", "t", 99)
    found = [row.decode() for block in lines for row in rows_of(block, ",")]
    assert "".join(found) == text
    assert [next(csv.reader(io.StringIO(row, newline=""))) for row in found] == records
