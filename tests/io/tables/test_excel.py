"""Excel sheets: the same numbers as CSV, dates as dates, and one sentence about what is wrong."""

import datetime as dt
import re
import sys
import zipfile

import numpy as np
import pytest

from culpa.io.tables import Options, Selection, TableError, open_table

openpyxl = pytest.importorskip("openpyxl")

START = dt.datetime(2024, 2, 29, 23)


def sheet(path, rows, name="Daten", others=()):
    book = openpyxl.Workbook()
    book.active.title = name
    for row in rows:
        book.active.append(row)
    for other in others:
        book.create_sheet(other)
    book.save(path)
    return path


def read(path, features, **options):
    table = open_table([str(path)], Options(**options), Selection(), print)
    batches = list(table.batches(features, [table.time] if table.time else []))
    return table, np.concatenate([batch.X for batch in batches]), batches


def test_two_header_rows_units_and_bad_values(tmp_path):
    rows = [
        ["Messdaten Linie 3"],
        ["Zeit", "Reaktor", None, "Kolonne"],
        [None, "T", "p", "T"],
        [None, "°C", "bar", "°C"],
        [START, 1.5, 2, "Bad Input"],
        [START + dt.timedelta(minutes=1), "2,5", None, 7],
        [START + dt.timedelta(minutes=2), 3, 4.5, "#N/A"],
    ]
    table, X, batches = read(sheet(tmp_path / "t.xlsx", rows), ["Reaktor T", "Reaktor p", "Kolonne T"])
    n = np.nan
    np.testing.assert_array_equal(X, [[1.5, 2, n], [2.5, n, 7], [3, 4.5, n]])
    assert table.units == {"Reaktor T": "°C", "Reaktor p": "bar", "Kolonne T": "°C"}
    assert table.time == "Zeit"
    assert batches[0].times()[0] == START
    assert table.missing_found == {"Bad Input": 1, "#N/A": 1}


def test_numbers_that_are_texts(tmp_path):
    path = sheet(tmp_path / "t.xlsx", [["a", "b"], ["0", "1,5"], ["0,0", "2,5"]])
    np.testing.assert_array_equal(read(path, ["a", "b"])[1], [[0, 1.5], [0, 2.5]])


def test_sheets_by_name(tmp_path):
    path = sheet(tmp_path / "t.xlsx", [["a", "b"], [1, 2]], others=["Notizen"])
    _, X, _ = read(path, ["a", "b"], sheet="Daten")
    assert X.tolist() == [[1, 2]]
    assert read(path, ["a"])[0].decisions == ["sheet 'Daten', the first of 2"]
    with pytest.raises(TableError, match="there is no sheet 'Datn'; did you mean 'Daten'"):
        read(path, ["a"], sheet="Datn")
    with pytest.raises(TableError, match="the sheet 'Notizen' is empty"):
        read(path, ["a"], sheet="Notizen")
    assert read(path, ["x", "y"], names=("x", "y"), header_rows=1)[1].tolist() == [[1, 2]]


def test_what_is_wrong_is_said(tmp_path, monkeypatch):
    path = sheet(tmp_path / "t.xlsx", [["a", "b"], [1, 2], [3, "broken"]])
    with pytest.raises(
        TableError, match=r"column 'b' contains 'broken' in row 1, which is not a number.*--missing broken"
    ):
        read(path, ["a", "b"])
    damaged = tmp_path / "damaged.xlsx"
    damaged.write_bytes(path.read_bytes()[:500])
    with pytest.raises(TableError, match="cannot be read as an Excel file"):
        read(damaged, ["a"])
    with zipfile.ZipFile(path) as book, zipfile.ZipFile(tmp_path / "none.xlsx", "w") as without:
        for name in book.namelist():
            without.writestr(name, re.sub(rb"<sheet [^>]*>", b"", book.read(name)))
    with pytest.raises(TableError, match="the workbook has no sheets"):
        read(tmp_path / "none.xlsx", ["a"])
    with pytest.raises(TableError, match="the first row contains only numbers"):
        read(sheet(tmp_path / "n.xlsx", [[1.5, 2], [3, 4]]), ["a"])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(TableError, match=r"pip install 'culpa\[excel\]'"):
        read(path, ["a", "b"])
