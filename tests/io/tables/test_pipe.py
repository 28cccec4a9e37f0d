"""The same rows, in every format, as a file and over pipes that deliver them in random pieces."""

import io
import json
import os
import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from culpa.io.tables import Options, TableError, open_source
from culpa.io.tables.pipe import Pipe

NAMES = ["a", "b", "on", "dé"]


class Pieces(io.RawIOBase):
    """An input that gives a random number of bytes at a time."""

    def __init__(self, content, seed, most):
        self.content, self.random, self.most = content, np.random.default_rng(seed), most

    def readable(self):
        return True

    def readinto(self, buffer):
        n = min(int(self.random.integers(1, self.most + 1)), len(buffer))
        piece, self.content = self.content[:n], self.content[n:]
        buffer[: len(piece)] = piece
        return len(piece)

    def fileno(self):
        return 0


class Standard:
    """Standard input that reads such pieces."""

    closed = False

    def __init__(self, content, seed, most):
        self.buffer = io.BufferedReader(Pieces(content, seed, most), 1 << 16)


def rows_of(n, seed):
    """Numbers, missing cells, flags of which the first is missing, and texts with letters of two bytes."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3)).round(6)
    X[random.random((n, 3)) < 0.05] = np.nan
    X[:, 2] = random.integers(0, 2, n)
    X[:: int(random.integers(2, 9)), 2] = np.nan
    return X, [f"Anlage {i} ö" for i in range(n)]


def table_of(X, texts):
    flags = pa.array([None if x != x else bool(x) for x in X[:, 2]])
    return pa.table([pa.array(X[:, 0], from_pandas=True), pa.array(X[:, 1], from_pandas=True), flags, texts], NAMES)


def as_csv(table):
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    lines = (",".join("" if cell is None else str(cell) for cell in cells) for cells in (NAMES, *rows))
    return ("\n".join(lines) + "\n").encode()


def as_ndjson(table):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()).encode()


def as_arrow(table, start):
    sink = pa.BufferOutputStream()
    with start(sink, table.schema) as writer:
        writer.write_batch(table.combine_chunks().to_batches()[0])
    return sink.getvalue().to_pybytes()


def as_parquet(table):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def as_excel(table):
    openpyxl = pytest.importorskip("openpyxl")
    book, content = openpyxl.Workbook(write_only=True), io.BytesIO()
    sheet = book.create_sheet()
    sheet.append(NAMES)
    for cells in zip(*(column.to_pylist() for column in table.columns), strict=True):
        sheet.append(cells)
    book.save(content)
    return content.getvalue()


WRITERS = {
    "csv": as_csv,
    "ndjson": as_ndjson,
    "arrow": lambda table: as_arrow(table, pa.ipc.new_stream),
    "feather": lambda table: as_arrow(table, pa.ipc.new_file),
    "parquet": as_parquet,
    "xlsx": as_excel,
}


def read(path):
    said = []
    source = open_source(path, Options(), said.append)
    rows, X, texts = [], [], []
    for batch in source.batches(NAMES[:3], NAMES[3:]):
        rows.extend(batch.rows.tolist())
        X.append(batch.X)
        cells = batch.carried[NAMES[3]]
        texts += cells if isinstance(cells, list) else cells.to_pylist()
    assert said == []
    assert source.skipped == 0
    return rows, np.concatenate(X), texts


def check(found, X, texts):
    rows, numbers, cells = found
    assert rows == list(range(len(X)))
    np.testing.assert_array_equal(numbers, X)
    assert cells == texts


@pytest.mark.parametrize("ending", ["csv", "ndjson", "arrow", "feather"])
@pytest.mark.parametrize("seed", range(6))
def test_pieces_of_a_pipe_do_not_matter(tmp_path, monkeypatch, ending, seed):
    X, texts = rows_of(200, seed)
    content = WRITERS[ending](table_of(X, texts))
    path = tmp_path / f"t.{ending}"
    path.write_bytes(content)
    check(read(path), X, texts)
    for most in (1, 7, 300, 1 << 16):
        monkeypatch.setattr(sys, "stdin", Standard(content, seed, most))
        check(read(None), X, texts)


@pytest.mark.parametrize(
    ("ending", "n"),
    [
        ("csv", 100_000),
        ("ndjson", 20_000),
        ("arrow", 70_000),
        ("feather", 70_000),
        ("parquet", 70_000),
        ("xlsx", 9_000),
    ],
)
def test_tables_above_every_block_size(tmp_path, monkeypatch, ending, n):
    X, texts = rows_of(n, 1)
    content = WRITERS[ending](table_of(X, texts))
    path = tmp_path / f"t.{ending}"
    path.write_bytes(content)
    check(read(path), X, texts)
    if ending not in ("parquet", "xlsx"):
        monkeypatch.setattr(sys, "stdin", Standard(content, 0, 70_000))
        check(read(None), X, texts)


def test_input_that_does_not_block_ends_where_it_ends(monkeypatch):
    receiver, sender = os.pipe()
    os.set_blocking(receiver, False)
    content = os.urandom(300_000)

    def send():
        with os.fdopen(sender, "wb") as file:
            for start in range(0, len(content), 60_000):
                file.write(content[start : start + 60_000])
                file.flush()
                pause.wait(0.05)

    pause = threading.Event()
    thread = threading.Thread(target=send)
    with os.fdopen(receiver, "rb") as file:
        monkeypatch.setattr(sys, "stdin", type("Standard", (), {"buffer": file}))
        thread.start()
        assert Pipe().read(300_000) == content
        thread.join()


def spoilt(line, how):
    """A line with a byte that is not UTF-8, or with a quote that is never closed."""
    return [
        line.replace("ö".encode(), b"\xf6"),
        line[:3] + b"\xff\xfe" + line[3:],
        b'"' + line,
        line.replace(b",", b',"', 1),
    ][how]


@pytest.mark.parametrize("seed", range(40))
def test_lines_that_are_no_text_do_not_end_a_csv_pipe(monkeypatch, seed):
    random = np.random.default_rng(seed)
    X = random.normal(size=(40, 3)).round(4)
    lines = [f"{a},{b},{c},ö{i}\n".encode() for i, (a, b, c) in enumerate(X)]
    bad = random.choice(40, 3, replace=False).tolist()
    for row in bad:
        lines[row] = spoilt(lines[row], int(random.integers(4)))
    good = [row for row in range(40) if row not in bad]
    content, said = b"a,b,c,t\n" + b"".join(lines), []
    for most in (1, 50, 9000):
        monkeypatch.setattr(sys, "stdin", Standard(content, seed, most))
        said.clear()
        source = open_source(None, Options(format="csv"), said.append)
        batches = list(source.batches(["a", "b", "c"], ["t"]))
        assert [row for batch in batches for row in batch.rows] == good
        np.testing.assert_array_equal(np.concatenate([batch.X for batch in batches]), X[good])
        assert source.skipped == 3
        assert len(said) == 1
        assert f"row {min(bad)}" in said[0]


def test_a_header_in_another_encoding_is_an_error(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Standard("Größe,b\n1,2\n".encode("cp1252"), 0, 99))
    with pytest.raises(TableError, match="--encoding cp1252"):
        open_source(None, Options(format="csv"), print)


@pytest.mark.parametrize("first", range(4))
def test_texts_in_the_first_rows_do_not_end_a_csv_pipe(monkeypatch, first):
    lines = [b"a,b\n", *[b"off,1\n"] * first, b"1,2\n", b"off,3\n", b"4,5\n"]
    for most in (1, 7, 9000):
        monkeypatch.setattr(sys, "stdin", Standard(b"".join(lines), first, most))
        source = open_source(None, Options(format="csv"), lambda text: None)
        assert [row for batch in source.batches(["a", "b"], []) for row in batch.rows] == [first, first + 2]
        assert source.skipped == first + 1


def test_rows_of_a_pipe_count_their_missing_cells_once(monkeypatch):
    """Beside a row that is skipped, rows are read one by one after they were read together."""
    content = b"a,b,on\n1,2,true\nBad Input,3,false\n1e400,4,true\n5,6\n7,8,Bad Input\n"
    for most in (1, 7, 9000):
        monkeypatch.setattr(sys, "stdin", Standard(content, 0, most))
        source = open_source(None, Options(format="csv", skip_ragged=True), lambda text: None)
        batches = [batch for batch in source.batches(["a", "b", "on"], []) if len(batch.rows)]
        assert [row for batch in batches for row in batch.rows] == [0, 1, 4]
        assert source.missing_found == {"Bad Input": 2}
        assert source.skipped == 2


@pytest.mark.parametrize(
    ("content", "names"), [(b"a\tb\n1\t2\n\t\n3\t4\n\n\t\n", ["a", "b"]), (b"a\n1\n \n\n3\n \n", ["a"])]
)
def test_rows_of_nothing_but_blanks_are_rows_however_they_arrive(tmp_path, monkeypatch, content, names):
    (tmp_path / "t.tsv").write_bytes(content)
    wanted = [[1, 2][: len(names)], [np.nan] * len(names), [3, 4][: len(names)], [np.nan] * len(names)]
    for most in (None, 1, 3, 9000):
        if most is not None:
            monkeypatch.setattr(sys, "stdin", Standard(content, 0, most))
        source = open_source(None if most else tmp_path / "t.tsv", Options(format="csv"), pytest.fail)
        batches = list(source.batches(names, []))
        assert [row for batch in batches for row in batch.rows] == [0, 1, 2, 3]
        np.testing.assert_array_equal(np.concatenate([batch.X for batch in batches]), wanted)
