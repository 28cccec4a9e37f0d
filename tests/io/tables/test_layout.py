"""Headers: several rows, units, lines above them, none at all."""

import numpy as np
import pytest

from culpa.io.tables import Options, TableError, open_source


def source(tmp_path, text, name="t.csv", **options):
    (tmp_path / name).write_text(text)
    return open_source(tmp_path / name, Options(**options), print)


def numbers(table):
    names = [name for name, column in table.columns().items() if column.kind == "number"]
    return names, np.concatenate([batch.X for batch in table.batches(names, [])]).tolist()


def test_a_row_of_units(tmp_path):
    table = source(tmp_path, "time;TI1;PI2\n;°C;[bar]\n2024-01-01;1,5;2,5\n")
    assert numbers(table) == (["TI1", "PI2"], [[1.5, 2.5]])
    assert table.units == {"TI1": "°C", "PI2": "bar"}
    assert "2 header rows, one of names and one of units" in table.decisions


def test_a_row_of_units_that_ends_early(tmp_path):
    """Some programs write no delimiters after the last unit."""
    table = source(tmp_path, "time;TI1;PI2;n\n;°C;bar\n2024-01-01;1,5;2,5;3\n2024-01-02;1,5;2,5;3\n")
    assert numbers(table) == (["TI1", "PI2", "n"], [[1.5, 2.5, 3.0]] * 2)
    assert table.units == {"TI1": "°C", "PI2": "bar"}


def test_merged_cells_above_the_names(tmp_path):
    table = source(tmp_path, "Zeit;Reaktor;;Kolonne\n;T;p;T\n;°C;bar;°C\n01.01.2024;1,5;2,5;3,5\n")
    assert numbers(table) == (["Reaktor T", "Reaktor p", "Kolonne T"], [[1.5, 2.5, 3.5]])
    assert table.units["Kolonne T"] == "°C"


def test_lines_above_the_header_and_sep_lines(tmp_path):
    assert numbers(source(tmp_path, "Export of line 3\nCreated 2024\n\na;b\n1;2\n3;4\n"))[1] == [[1, 2], [3, 4]]
    assert numbers(source(tmp_path, "sep=;\na;b\n1,5;2\n")) == (["a", "b"], [[1.5, 2]])
    assert numbers(source(tmp_path, "sep=|\r\na|b\r\n1|2\r\n"))[1] == [[1, 2]]


def test_files_without_a_header_are_asked_about(tmp_path):
    text = "1.5,2\n3,4\n"
    with pytest.raises(TableError, match=r"the first row contains numbers instead of names \(1.5, 2\)") as error:
        numbers(source(tmp_path, text))
    assert "--no-header" in str(error.value)
    assert numbers(source(tmp_path, text, header_rows=0)) == (["c1", "c2"], [[1.5, 2], [3, 4]])
    assert numbers(source(tmp_path, text, names=("x", "y"))) == (["x", "y"], [[1.5, 2], [3, 4]])
    assert numbers(source(tmp_path, text, header_rows=1)) == (["1.5", "2"], [[3, 4]])
    assert numbers(source(tmp_path, "0,1\n5,6\n")) == (["0", "1"], [[5, 6]])  # what programs write without names
    with pytest.raises(TableError, match="--names has 3 names, but the table has 2 columns"):
        source(tmp_path, text, names=("x", "y", "z"))


WIDTHS = {
    "a row that is too long": "a,b,c\n1,2,,3\n",
    "names of rows without a name": "a,b,c\nr1,1,2,3\nr2,4,5,6\n",
    "a name too many": "a,b,,c\n1,2,3\n4,5,6\n",
}


@pytest.mark.parametrize("text", WIDTHS.values(), ids=WIDTHS)
def test_headers_that_do_not_fit_the_rows(tmp_path, text):
    with pytest.raises(TableError, match=r"the header has \d cells, but most rows have \d"):
        source(tmp_path, text)


def test_delimiters_after_the_last_cell(tmp_path):
    for text in ("a,b\n1,2,\n3,4,\n", "a,b,\n1,2\n3,4\n", "a,b,\n1,2,\n3,4,\n"):
        table = source(tmp_path, text)
        assert [batch.X.tolist() for batch in table.batches(["a", "b"], [])] == [[[1, 2], [3, 4]]]


def test_blanks_between_cells(tmp_path):
    text = "a   b     c\n 1.5  2  -3\n\n2.5\t 3  4  \n"
    assert numbers(source(tmp_path, text, "t.txt")) == (["a", "b", "c"], [[1.5, 2, -3], [2.5, 3, 4]])
    assert numbers(source(tmp_path, "1.234 2\n3 4\n", "t.dat", names=("a", "b"), delimiter=" ", format="csv"))[1] == [
        [1.234, 2],
        [3, 4],
    ]


def test_a_row_of_bad_cells_is_no_header(tmp_path):
    table = source(tmp_path, "a,b\nfault,fault\n1,2\n3,4\n")
    assert table.columns()["a"].row == 0
    known = source(tmp_path, "a,b\nBad Input,No Data\n1,2\n3,4\n")
    assert np.isnan(numbers(known)[1][0]).all()
    assert known.missing_found == {"Bad Input": 1, "No Data": 1}


def test_a_row_that_was_torn_apart_is_no_header(tmp_path):
    table = source(tmp_path, "a,b,c\n-\n1.5,2.5,3.5\n")
    with pytest.raises(TableError, match=r"row 0 has 1 cell\(s\), but the header has 3"):
        numbers(table)


@pytest.mark.parametrize(
    "first", ["2024-01-01 00:00,1.5,2.5", "05.01.2024 10:00,pump 1,2.5", "NA,1.5,2024-01-01", "10:42:07,1,2"]
)
def test_a_first_row_with_times_is_asked_about(tmp_path, first):
    (tmp_path / "t.csv").write_text("\n".join([first, *[first.replace("5", "7")] * 30]) + "\n")
    table = open_source(tmp_path / "t.csv", Options(), print)
    with pytest.raises(TableError, match="numbers instead of names"):
        table.columns()
    assert len(open_source(tmp_path / "t.csv", Options(header_rows=0), print).names) == 3


@pytest.mark.parametrize("header", ["time,1,2", "tag,2024-01-01,2024-01-02", "0,1,2", "t,T 5,2024"])
def test_names_may_have_numbers(tmp_path, header):
    (tmp_path / "t.csv").write_text(f"{header}\n" + "1,2,3\n" * 30)
    assert list(open_source(tmp_path / "t.csv", Options(), print).columns()) == header.split(",")
