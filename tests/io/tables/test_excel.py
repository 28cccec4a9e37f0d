"""Excel sheets: the same numbers as CSV, dates as dates, and one sentence about what is wrong."""

import datetime as dt
import re
import sys
import zipfile

import numpy as np
import pytest

from culpa.io.tables import Options, TableError, open_table

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
    table = open_table([str(path)], Options(**options), print)
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
    with pytest.raises(TableError, match="the first row contains numbers instead of names"):
        read(sheet(tmp_path / "n.xlsx", [[1.5, 2], [3, 4]]), ["a"])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(TableError, match=r"pip install 'culpa\[excel\]'"):
        read(path, ["a", "b"])


def test_unclear_numbers_in_texts_are_asked_about(tmp_path):
    path = sheet(tmp_path / "t.xlsx", [["a", "b"], [1, 2], ["1.234", 3], [4.5, 5]])
    with pytest.raises(TableError, match=r"'1\.234' may mean 1\.234 or 1234, .* --decimal '\.' or --thousands '\.'"):
        read(path, ["a", "b"])
    assert read(path, ["a"], decimal=".")[1].tolist() == [[1], [1.234], [4.5]]
    assert read(path, ["a"], thousands=".")[1].tolist() == [[1], [1234], [4.5]]
    assert read(path, ["a"], hints={"decimal": "."})[1].tolist() == [[1], [1.234], [4.5]]
    late = sheet(tmp_path / "late.xlsx", [["a", "b"], *[[1, 2]] * 500, ["1.234", 3]])
    with pytest.raises(TableError, match=r"column 'a', row 500: '1\.234' may mean 1\.234 or 1234"):
        read(late, ["a", "b"])
    labels = sheet(tmp_path / "labels.xlsx", [["a", "b"], *[[1, "pump"]] * 9, [1, "1.234"]])
    assert read(labels, ["a"])[1].tolist() == [[1]] * 10


@pytest.mark.parametrize(
    ("cell", "number", "decisions"),
    [
        ("1.234,5", 1234.5, ["decimal mark ',' in texts", "thousands separator '.' in texts"]),
        ("1,5", 1.5, ["decimal mark ',' in texts"]),
        ("1 234", 1234, ["thousands separator ' ' in texts"]),
        ("1.5", 1.5, []),
    ],
)
def test_marks_in_texts_are_stated(tmp_path, cell, number, decisions):
    table, X, _ = read(sheet(tmp_path / "t.xlsx", [["a", "b"], [1, 2.5], [cell, 3]]), ["a", "b"])
    assert X.tolist() == [[1, 2.5], [number, 3]]
    assert table.decisions == decisions


@pytest.mark.parametrize("cell", ["１２", "٣"])
@pytest.mark.parametrize("n", [2, 500])
def test_digits_of_other_scripts_are_refused(tmp_path, cell, n):
    path = sheet(tmp_path / "t.xlsx", [["a", "b"], *[[1, 2]] * n, [cell, 3]])
    with pytest.raises(TableError, match=f"column 'a' contains '{cell}' in row {n}, which is not a number"):
        read(path, ["a", "b"])


def changed_xml(path, old, new):
    """The same workbook with other text in the XML of its sheet."""
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    assert old in parts["xl/worksheets/sheet1.xml"]
    parts["xl/worksheets/sheet1.xml"] = parts["xl/worksheets/sheet1.xml"].replace(old, new)
    with zipfile.ZipFile(path, "w") as book:
        for name, content in parts.items():
            book.writestr(name, content)
    return path


def test_formulas_without_values_are_stated(tmp_path):
    path = sheet(tmp_path / "t.xlsx", [["a", "b", "c"], [1, 2, 5], [3, "=A3*2", 6], [4, "=A4*2", "=A4"]])
    table, X, _ = read(path, ["a", "b"])
    np.testing.assert_array_equal(X, [[1, 2], [3, np.nan], [4, np.nan]])
    assert table.decisions == [
        "formulas without saved values are read as missing, in columns 'b' (2), 'c' (1) (open the workbook in Excel and "
        "save it to compute them)"
    ]
    for value in (b"<v />", b"<v></v>", b"<v/>"):
        with zipfile.ZipFile(path) as book:
            if b"<f>A4</f>" + value in book.read("xl/worksheets/sheet1.xml"):
                changed_xml(path, b"<f>A4</f>" + value, b"<f>A4</f><v>4</v>")
                break
    table, X, _ = read(path, ["a", "c"])
    assert X.tolist() == [[1, 5], [3, 6], [4, 4]]
    assert "column 'b' (2) (open" in table.decisions[0]


def test_a_number_of_400_digits(tmp_path):
    path = sheet(tmp_path / "t.xlsx", [["a", "b"], [1, 2], [4711, 3], [5, 6]])
    changed_xml(path, b"<v>4711</v>", b"<v>" + b"9" * 400 + b"</v>")
    with pytest.raises(TableError, match=r"column 'a' contains infinity in row 1"):
        read(path, ["a", "b"])
    table = open_table([str(path)], Options(), print)
    assert next(table.batches(["b"], ["a"])).carried["a"].to_pylist() == ["1", "9" * 400, "5"]


def rewritten(path, change):
    """The file with its first sheet's XML changed, and that XML."""
    parts = {}
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    name = next(name for name in parts if name.startswith("xl/worksheets/sheet"))
    parts[name] = change(parts[name].decode()).encode()
    with zipfile.ZipFile(path, "w") as book:
        for each, content in parts.items():
            book.writestr(each, content)
    return parts[name].decode()


def numbers_in(xml):
    """A witness that knows nothing of openpyxl: the numbers of each row of the XML, by their own row numbers."""
    rows = {
        int(number): [float(value) for value in re.findall(r"<v>([^<]*)</v>", cells)]
        for number, cells in re.findall(r'<row r="(\d+)"[^>]*>(.*?)</row>', xml)
    }
    return np.array([rows[number] for number in sorted(rows) if number > 1])


def shuffled_rows(xml, random):
    before, rows, after = re.fullmatch(r"(.*<sheetData>)(.*)(</sheetData>.*)", xml, re.DOTALL).groups()
    each = re.findall(r"<row .*?</row>", rows)
    at = int(random.integers(2, len(each)))
    each[at - 1], each[at] = each[at], each[at - 1]
    return before + "".join(each) + after


@pytest.mark.parametrize("seed", range(12))
def test_every_row_of_the_xml_counts_whatever_the_sheet_says_about_its_size(tmp_path, seed):
    random = np.random.default_rng(seed)
    n = int(random.integers(5, 40))
    path = sheet(tmp_path / "t.xlsx", [["a", "b", "c"], *random.normal(size=(n, 3)).tolist()])
    corner = f"{'ABCZ'[random.integers(4)]}{random.integers(1, 60)}"
    xml = rewritten(path, lambda text: re.sub(r'<dimension ref="[^"]*"', f'<dimension ref="A1:{corner}"', text))
    assert f"A1:{corner}" in xml
    np.testing.assert_array_equal(read(path, ["a", "b", "c"])[1], numbers_in(xml))
    rewritten(path, lambda text: shuffled_rows(text, random))
    with pytest.raises(TableError, match="out of order"):
        read(path, ["a", "b", "c"])


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('<row r="3"', '<row r="2"'),  # twice the same row
        lambda text: re.sub(r'(<c r="A3".*?</c>)(<c r="B3".*?</c>)', r"\1\1", text),  # twice the same cell
        lambda text: text.replace('r="B3"', 'r="B9"'),  # a cell of another row
    ],
)
def test_rows_and_cells_that_contradict_each_other_are_refused(tmp_path, change):
    path = sheet(tmp_path / "t.xlsx", [["a", "b"], [1, 2], [3, 4], [5, 6]])
    rewritten(path, change)
    with pytest.raises(TableError, match="out of order or repeated"):
        read(path, ["a", "b"])


def test_cells_out_of_order_in_their_row_are_read(tmp_path):
    path = sheet(tmp_path / "t.xlsx", [["a", "b"], [1, 2], [3, 4]])
    rewritten(path, lambda text: re.sub(r'(<c r="A3".*?</c>)(<c r="B3".*?</c>)', r"\2\1", text))
    np.testing.assert_array_equal(read(path, ["a", "b"])[1], [[1, 2], [3, 4]])
