"""Quoted line breaks anywhere in a file; quotes that swallow rows are refused."""

import io

import numpy as np
import pandas as pd
import pytest

from culpa.io.tables import Options, TableError, open_source
from culpa.io.tables.lines import Lines


def read(path, features, carried=(), **options):
    batches = list(open_source(path, Options(**options), print).batches(features, carried))
    return np.concatenate([batch.X for batch in batches]), [
        cell for batch in batches for name in carried for cell in batch.carried[name].to_pylist()
    ]


@pytest.mark.parametrize("at", [0, 3, 90_000])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_breaks_in_cells(tmp_path, at, newline):
    """Also far beyond the part of the file that is looked at first."""
    frame = pd.DataFrame({"a": np.arange(100_000.0), "note": "x", "b": 2.5})
    frame.loc[at, "note"] = f'first{newline}second, "third"{newline}{newline}end'
    frame.to_csv(tmp_path / "t.csv", index=False, lineterminator=newline)
    X, notes = read(tmp_path / "t.csv", ["a", "b"], ["note"])
    assert X[:, 0].tolist() == frame["a"].tolist()
    assert notes == frame["note"].tolist()


def test_line_breaks_in_names(tmp_path):
    (tmp_path / "t.csv").write_text('"Temperature\n[degC]",b\n1,2\n')
    assert read(tmp_path / "t.csv", ["Temperature [degC]", "b"])[0].tolist() == [[1, 2]]


STRAY = {
    "in a row": 'a,b,c\n1,2,3\n4,"x,6\n7,8,9\n10,11,12\n',
    "closed by another one": 'a,b,c\n1,2,3\n4,"x,6\n7,8,9\n10,"y,12\n13,14,15\n',
    "closed in the next row": 'a,b,c\n1,2,3\n4,"x,6\n7,8",9\n',
    "at the end": 'a,b,c\n1,2,3\n4,5,"6\n',
    "in the header": 'a,"b,c\n1,2,3\n4,5,6\n',
}


@pytest.mark.parametrize("text", STRAY.values(), ids=STRAY)
def test_a_stray_quote_swallows_nothing(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(TableError):
        read(tmp_path / "t.csv", ["a"])


def test_a_stray_quote_far_down(tmp_path):
    lines = [f"{i},x,{i}" for i in range(80_000)]
    lines[70_000] = '70000,"x,1'
    (tmp_path / "t.csv").write_text("a,b,c\n" + "\n".join(lines) + "\n")
    with pytest.raises(TableError, match=r"line 70002: a quote \(\"\) is opened and not closed"):
        read(tmp_path / "t.csv", ["a", "c"])


def test_inch_marks_are_no_quotes(tmp_path):
    (tmp_path / "t.csv").write_text('a,pipe,b\n1,5" pipe,2\n3,4 1/2",4\n')
    X, pipes = read(tmp_path / "t.csv", ["a", "b"], ["pipe"])
    assert X.tolist() == [[1, 2], [3, 4]]
    assert pipes == ['5" pipe', '4 1/2"']


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_blocks_end_with_lines_whatever_the_portions(size):
    text = b'a,b\r\n1,"x\r\ny"\r\n2,z\r\n3,"""q"""\r\n4,last'
    read = io.BytesIO(text).read
    lines = Lines(lambda n: read(size), "utf-8", ",", "t", 2)
    assert b"".join(lines) == text


@pytest.mark.parametrize("encoding", ["rot13", "zip", "x", "idna\0"])
def test_encodings_that_are_none(tmp_path, encoding):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match="--encoding must be"):
        read(tmp_path / "t.csv", ["a"], encoding=encoding)


@pytest.mark.parametrize("shift", range(0, 60, 7))
def test_a_cell_with_line_breaks_where_the_sample_ends(tmp_path, shift):
    """The part that is looked at first may end anywhere."""
    head = "a,note,b\n" + "1,x,2\n" * (((1 << 18) - shift) // 6 - 2)
    (tmp_path / "t.csv").write_text(head + '1,"first line\nsecond line\nthird line",2\n' + "1,x,2\n" * 50)
    X, notes = read(tmp_path / "t.csv", ["a", "b"], ["note"])
    assert len(X) == head.count("\n") - 1 + 51
    assert "first line\nsecond line\nthird line" in notes


@pytest.mark.parametrize("rows", [1, 2, 100_000])
def test_byte_order_marks_at_the_beginning_of_lines_are_ignored(tmp_path, rows):
    text = "\ufeff\ufeffid,a,b\n" + '\ufeff"x",1,2\ny,3,4\n\ufeff\n\ufeffz,5,6\r\n' * rows
    (tmp_path / "t.csv").write_bytes(text.encode())
    X, ids = read(tmp_path / "t.csv", ["a", "b"], ["id"])
    assert X.tolist() == [[1, 2], [3, 4], [5, 6]] * rows
    assert ids == ["x", "y", "z"] * rows


def test_vertical_tabs_and_form_feeds_are_no_line_breaks(tmp_path):
    (tmp_path / "t.csv").write_bytes(b'a,id,b\n1,"x\x0by",2\n3,\x0c,4\n5,"q\nr",6\n')
    X, ids = read(tmp_path / "t.csv", ["a", "b"], ["id"])
    assert X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert ids == ["x\x0by", "\x0c", "q\nr"]
    (tmp_path / "u.csv").write_bytes(b"c|a|b\r\n-\x0b0.5|0.7|1.6\r\n0.7|-0.8|1.1\r\n")
    with pytest.raises(TableError, match="column 'c'"):
        read(tmp_path / "u.csv", ["a", "b", "c"], delimiter="|")


@pytest.mark.parametrize("odd", ["\x0b", "\x1c", "\u00a0", "\u2028"])
def test_only_blanks_and_tabs_separate_cells(tmp_path, odd):
    """The header was cut at white space of any kind, and rows were not."""
    (tmp_path / "t.csv").write_text(f"b\ta{odd}c\n11.5\t6.7\t-9.4\n-5.9\t-8.4\t-1.1\n", encoding="utf-8")
    with pytest.raises(TableError):
        read(tmp_path / "t.csv", ["a", "b", "c"])
    (tmp_path / "t.csv").write_text(f"b  a\tc{odd}d\n1  2 3\n4 5 6\n", encoding="utf-8")
    with pytest.raises(TableError, match="no column 'c'"):
        read(tmp_path / "t.csv", ["a", "c"])
    assert read(tmp_path / "t.csv", ["a", "b"])[0].tolist() == [[2, 1], [5, 4]]


def test_a_line_break_outside_quotes_ends_a_row_whatever_else_the_row_holds(tmp_path):
    (tmp_path / "t.csv").write_bytes(b'a,id,b,note\n1,x,2,y\n3,te\rxt,4,"q\nr"\n')
    with pytest.raises(TableError, match=r"row 1 has 2 cell\(s\), but the header has 4"):
        read(tmp_path / "t.csv", ["a", "b"], ["id"])


def test_line_breaks_in_any_column(tmp_path):
    rng = np.random.default_rng(3)
    for _ in range(60):
        frame = pd.DataFrame(rng.integers(0, 99, (12, 4)), columns=list("abcd")).astype(object)
        texts = ["plain", "two\nlines", "1\n2", "7\n", 'a "word"\nb', "x;y\nz"]
        where = int(rng.integers(4))
        frame[frame.columns[where]] = rng.choice(texts, 12)
        path = tmp_path / "t.csv"
        path.write_bytes(frame.to_csv(index=False, sep=";").encode())
        table = open_source(path, Options(delimiter=";"), print)
        names = [name for name in "abcd" if name != frame.columns[where]]
        batches = list(table.batches(names, [frame.columns[where]]))
        np.testing.assert_array_equal(np.concatenate([batch.X for batch in batches]), frame[names].astype(float))
        cells = [cell for batch in batches for cell in batch.carried[frame.columns[where]].to_pylist()]
        assert cells == frame[frame.columns[where]].tolist()
