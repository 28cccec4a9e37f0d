"""Decimal marks and thousands separators: never guessed where a number would change."""

import io

import numpy as np
import pytest

from culpa.io.tables import Options, TableError, open_source
from culpa.io.tables.marks import detect


def read(tmp_path, text, **options):
    (tmp_path / "t.csv").write_text(text)
    source = open_source(tmp_path / "t.csv", Options(**options), print)
    names = [name for name, column in source.columns().items() if column.kind == "number"]
    return np.concatenate([batch.X for batch in source.batches(names, [])]).tolist()


@pytest.mark.parametrize(
    ("cells", "delimiter", "decimal", "thousands"),
    [
        (["1,5", "2"], ";", ",", None),
        (["1.5", "2"], ";", ".", None),
        (["1.234,5"], ";", ",", "."),
        (["1,234.5"], ";", ".", ","),
        (["1.234", "2,5"], ";", ",", "."),
        (["1,234", "2.5"], ";", ".", ","),
        (["1.234.567"], ";", ",", "."),
        (["0.123"], ";", ".", None),
        (["1234.567"], ";", ".", None),
        (["1 234,5"], ";", ",", " "),
        (["1'234.5"], ";", ".", "'"),
        (["1’234"], ";", ".", "’"),
        (["1\u00a0234,5"], ";", ",", "\u00a0"),
        (["1\u202f234", "2,5"], ";", ",", "\u202f"),
        (["1.234"], ",", ".", None),
        (["abc", "29.02.2024"], ";", ".", None),
    ],
)
def test_marks_that_cells_show(cells, delimiter, decimal, thousands):
    found = detect(cells, delimiter)
    assert (found.decimal, found.thousands, found.unsure) == (decimal, thousands, None)


@pytest.mark.parametrize("cell", ["1.234", "1,234", "-12.345", "999.999"])
def test_cells_that_must_be_asked_about(cell):
    assert detect([cell, "5", "17"], ";").unsure == cell


@pytest.mark.parametrize("text", ["a;b\n1.234;5.678\n", "a;b\n1,234;2,345\n", 'a,b\n1,"1,234"\n'])
def test_the_question_and_both_answers(tmp_path, text):
    with pytest.raises(TableError, match=r"may mean 1\.234 or 1234") as error:
        read(tmp_path, text)
    mark = "." if "1.234" in text else ","
    assert f"--decimal '{mark}' or --thousands '{mark}'" in str(error.value)
    small, large = read(tmp_path, text, decimal=mark), read(tmp_path, text, thousands=mark)
    assert 1.234 in small[0]
    assert 1234 in large[0]
    assert read(tmp_path, text, hints={"decimal": mark}) == small


def test_a_single_cell_does_not_multiply_all_others_by_a_thousand(tmp_path):
    """Three decimals everywhere, and two cells that lost the end of one and the beginning of the other."""
    text = "a;b\n-479.504;-374.976\n417.077;568.374.976\n417.077;568.856\n"
    with pytest.raises(TableError, match=r"'-479\.504' may mean -479\.504 or -479504, and only '568\.374\.976' tells"):
        read(tmp_path, text)
    assert read(tmp_path, text, thousands=".")[1] == [417077, 568374976]
    assert read(tmp_path, text, hints={"decimal": ",", "thousands": "."})[1] == [417077, 568374976]
    for options in ({"decimal": "."}, {"hints": {"decimal": "."}}):
        source = open_source(tmp_path / "t.csv", Options(**options), print)
        with pytest.raises(TableError, match=r"contains '568\.374\.976'"):
            list(source.batches(["a", "b"], []))
    assert read(tmp_path, text + "1.568.374;568.856\n")[1] == [417077, 568374976]  # two cells tell


def test_a_number_among_texts_tells_nothing(tmp_path):
    text = "a;note\n1.234;12,5\n2.345;pump\n3.456;valve\n"
    with pytest.raises(TableError, match=r"may mean 1\.234 or 1234"):
        read(tmp_path, text)
    known = "a;b\n1.234;Bad Input\n2.345;No Data\n3.456;12,5\n"
    assert read(tmp_path, known)[0][0] == 1234  # a column of numbers with words for missing cells


def test_grouped_numbers(tmp_path):
    found = read(tmp_path, "a;b\n1.234,5;2,5\n-1.234.567;NA\n")
    np.testing.assert_array_equal(found, [[1234.5, 2.5], [-1234567, np.nan]])
    assert read(tmp_path, "a;b\n1 234,5;2,5\n7;8\n") == [[1234.5, 2.5], [7, 8]]
    for space in "\u00a0\u202f’":
        assert read(tmp_path, f"a;b\n1{space}234;2\n7;8\n") == [[1234, 2], [7, 8]]
    assert read(tmp_path, 'a,b\n"1,234.5",2\n') == [[1234.5, 2]]
    assert read(tmp_path, 'a,b\n"1,5",2\n') == [[1.5, 2]]


@pytest.mark.parametrize("cell", ["12.34", "1.2345", "1.23,4"])
def test_groups_that_are_no_thousands(tmp_path, cell):
    (tmp_path / "t.csv").write_text(f"a;b\n1.234,5;2,5\n{cell};3,5\n")
    with pytest.raises(TableError, match=f"contains '{cell}'"):
        list(open_source(tmp_path / "t.csv", Options(), print).batches(["a", "b"], []))


@pytest.mark.parametrize(
    ("rows", "mark", "cells"),
    [
        ("-698.450\t610,678\n778.888\t-1328.901\n", ",", "'610,678' and '-1328.901'"),
        ("5697.3\t12188.8\n-8361.9\t-26 417.9\n", " ", "'-26 417.9' and '12188.8'"),
    ],
)
def test_some_large_numbers_of_a_column_are_grouped_and_others_are_not(tmp_path, rows, mark, cells):
    """A comma instead of a point by mistake would make the number a thousand times larger."""
    with pytest.raises(TableError, match=f"column 'b' contains {cells}, .* --thousands '{mark}'"):
        read(tmp_path, "a\tb\n" + rows)
    assert np.isfinite(read(tmp_path, "a\tb\n" + rows, thousands=mark)).all()


def test_each_column_groups_thousands_in_its_own_way(tmp_path):
    rows = read(tmp_path, "a;b\n1,234.5;1234.5\n999.5;999.5\n12,345.25;12345.25\n")
    assert rows == [[1234.5, 1234.5], [999.5, 999.5], [12345.25, 12345.25]]


def test_large_numbers_disagree_in_another_block(tmp_path):
    with pytest.raises(TableError, match=r"column 'a' contains '1,234\.5' and '1234\.5'"):
        read(tmp_path, "a;b\n" + "1,234.5;1\n" * 300_000 + "1234.5;1\n")


@pytest.mark.parametrize("text", ["a;b\n1;2\n", "a;b\n1 234;2\n", "a,b\n1.234,2\n", "a;b\n1;v1.2.3\n"])
def test_marks_that_no_cell_settles_are_not_remembered(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    assert open_source(tmp_path / "t.csv", Options(), print).hints == {}


def test_whole_numbers_at_the_beginning_settle_nothing(tmp_path):
    rows = ["1;2"] * 1000
    late = "a;b\n" + "\n".join([*rows, "1.234;2,5"]) + "\n"
    assert read(tmp_path, late, hints={"decimal": ",", "thousands": "."})[-1] == [1234, 2.5]
    late = "a;b\n" + "\n".join([*rows, "1.234;2.5"]) + "\n"
    assert read(tmp_path, late, hints={"decimal": "."})[-1] == [1.234, 2.5]
    assert read(tmp_path, "a,b\n1,2\n3,4.5\n", hints={"decimal": ","})[-1] == [3, 4.5]


@pytest.mark.parametrize("cell", ["1.234", "1,234", "-12.345"])
@pytest.mark.parametrize("n", [450, 1_000_000])
def test_an_unclear_mark_far_down_is_asked_about(tmp_path, cell, n):
    text = "a;b\n" + "1;2\n" * n + f"{cell};3\n"
    place = "" if n < 1000 else f" column 'a', row {n}:"
    with pytest.raises(TableError, match=rf"t\.csv:{place} '{cell}' may mean .*, and no .* tells"):
        read(tmp_path, text)
    if n < 1000:
        mark = "." if "." in cell else ","
        assert read(tmp_path, text, decimal=mark)[-1][0] == float(cell.replace(",", "."))
        assert read(tmp_path, text, thousands=mark)[-1][0] == float(cell.replace(mark, ""))


def test_marks_far_down_that_other_cells_settle(tmp_path):
    head = "a;b;c\n" + "1;2;x 1.234\n" * 450
    assert read(tmp_path, head + "1.234;2.5;x\n")[-1] == [1.234, 2.5]
    assert read(tmp_path, head + "1.234;2,5;x\n")[-1] == [1234, 2.5]
    assert read(tmp_path, head + "1.234;2;x\n", hints={"decimal": "."})[-1] == [1.234, 2]
    assert read(tmp_path, head + "-9.999;2;x\n", missing=("-9.999",))[-1][1] == 2
    assert read(tmp_path, head.replace(";", ",") + "1.234,2,x\n")[-1] == [1.234, 2]
    (tmp_path / "t.csv").write_text(head + "1;2;x\n" * 100_000 + "1;2\n1.234;2;x\n")
    with pytest.raises(TableError, match=r"column 'a', row 100451: '1\.234' may mean"):
        list(open_source(tmp_path / "t.csv", Options(skip_ragged=True), print).batches(["a", "b"], []))


@pytest.mark.parametrize("at_once", [True, False])
def test_an_unclear_mark_in_a_pipe_is_skipped(monkeypatch, at_once):
    later = ["3;4\n", "1.234;5\n", "2.5;6\n", "1.234;7\n"]
    arriving = [b"a;b\n1;2\n", *("".join(lines).encode() for lines in ([later] if at_once else later))]

    class Arriving(io.RawIOBase):
        def read1(self, size=-1):
            return arriving.pop(0) if arriving else b""

    monkeypatch.setattr("sys.stdin", type("Input", (), {"buffer": Arriving(), "closed": False}))
    told = []
    source = open_source(None, Options(format="csv"), told.append)
    rows = np.concatenate([batch.X for batch in source.batches(["a", "b"], [])]).tolist()
    assert rows == [[1, 2], [3, 4], [2.5, 6], [1.234, 7]]
    assert len(told) == 1
    assert "row 2: '1.234' may mean 1.234 or 1234, and no cell before it tells" in told[0]
    assert told[0].endswith("The row is skipped.")
