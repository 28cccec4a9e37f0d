"""Arrow, Feather, Parquet and Excel: columns of all types."""

import datetime as dt
import decimal
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.case import NAMES, Case, Reading, Unreadable


def draw_arrow(rng):
    table, X = _table(rng)
    sink = io.BytesIO()
    compression = [None, None, "lz4", "zstd"][rng.integers(4)]
    options = pa.ipc.IpcWriteOptions(compression=compression)
    start = pa.ipc.new_file if rng.random() < 0.7 else pa.ipc.new_stream
    with start(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=int(rng.integers(1, 20)))
    return _case(["t.arrow", "t.feather", "t.ipc"][rng.integers(3)], sink.getvalue(), X)


def draw_parquet(rng):
    table, X = _table(rng, parquet=True)
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        row_group_size=int(rng.integers(1, 20)),
        compression=["none", "snappy", "gzip", "zstd"][rng.integers(4)],
        write_page_checksum=bool(rng.integers(2)),
        version=["1.0", "2.4", "2.6"][rng.integers(3)],
        data_page_version=["1.0", "2.0"][rng.integers(2)],
    )
    return _case("t.parquet", sink.getvalue(), X)


def draw_excel(rng):
    import openpyxl

    n = int(rng.integers(1, 8))
    X = np.round(rng.normal(size=(n, 3)) * 10, 3)
    X[rng.random(X.shape) < 0.1] = np.nan
    book = openpyxl.Workbook()
    for row in (NAMES, *X):
        book.active.append([None if cell != cell else cell for cell in (row if row is NAMES else row.tolist())])
    sink = io.BytesIO()
    book.save(sink)
    blank = np.isnan(X).all(axis=1)  # rows without any cell are skipped, as blank lines of CSV are
    return Case("t.xlsx", sink.getvalue(), lambda: Reading(X[~blank]))


def _case(name, content, X):
    def witness():
        if X is None:
            raise Unreadable("a column does not contain numbers")
        return Reading(X)

    return Case(name, content, witness, must_be_read=X is not None and len(X) > 0)


def _table(rng, parquet=False):
    """Columns of random types, and their numbers; ``None`` if one does not hold numbers."""
    n = int(rng.integers(1, 40))
    kinds = [*NUMBERS] if rng.random() < 0.7 else [*NUMBERS, *OTHERS]
    if parquet:
        kinds = [kind for kind in kinds if kind not in NOT_PARQUET]
    arrays, columns = {}, []
    for name in rng.permutation([*NAMES, "id"]).tolist():
        kind = kinds[rng.integers(len(kinds))] if name != "id" else "text"
        cells = [None if rng.random() < 0.1 else cell for cell in CELLS[kind](rng, n)]
        arrays[name] = ARRAYS[kind](cells)
        if name != "id":
            columns.append((name, kind, cells))
    if any(kind in OTHERS for _, kind, _ in columns):
        return pa.table(arrays), None
    X = np.array([[np.nan if cell is None else float(cell) for cell in cells] for _, _, cells in sorted(columns)]).T
    return pa.table(arrays), X


def _floats(rng, n):
    return np.round(rng.normal(size=n) * 10.0 ** rng.integers(-3, 6), 6).tolist()


def _wholes(rng, n):
    return rng.integers(0, 100, n).tolist()


def _few(rng, n):
    return rng.choice([1.5, 2.5, -3.0], n).tolist()


def _eighths(rng, n):
    return (rng.integers(-800, 800, n) / 8).tolist()  # exact in 16 bits


def _runs(cells):
    ends, values = pa.array(range(1, len(cells) + 1), pa.int32()), pa.array(cells, pa.float64())
    return pa.RunEndEncodedArray.from_arrays(ends, values)


def _of(dtype):
    return lambda cells: pa.array(cells, dtype)


def _dictionary(cells):
    return pa.array(cells, pa.float64()).dictionary_encode()


def _decimals(cells):
    return pa.array([None if cell is None else decimal.Decimal(str(cell)) for cell in cells], pa.decimal128(12, 3))


def _bool8(cells):
    storage = pa.array([None if cell is None else int(cell) for cell in cells], pa.int8())
    return pa.ExtensionArray.from_storage(pa.bool8(), storage)


CELLS = {
    "float64": _floats,
    "float32": _eighths,
    "float16": _eighths,
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), _wholes),
    "bool": lambda rng, n: (rng.random(n) < 0.5).tolist(),
    "bool8": lambda rng, n: (rng.random(n) < 0.5).tolist(),
    "dictionary": _few,
    "runs": _few,
    "decimal": _eighths,
    "null": lambda rng, n: [None] * n,
    "text": lambda rng, n: [f"label {i}" for i in range(n)],
    "string_view": lambda rng, n: [f"a text of more than twelve bytes {i}" for i in range(n)],
    "binary_view": lambda rng, n: [b"x" * i for i in range(n)],
    "large_string": lambda rng, n: [f"x{i}" for i in range(n)],
    "list": lambda rng, n: [[float(i)] for i in range(n)],
    "large_list": lambda rng, n: [[float(i)] for i in range(n)],
    "struct": lambda rng, n: [{"x": i} for i in range(n)],
    "time": lambda rng, n: [dt.datetime(2024, 1, 1) + dt.timedelta(minutes=i) for i in range(n)],
    "duration": lambda rng, n: [dt.timedelta(minutes=i) for i in range(n)],
}
PLAIN = (
    *("float64", "float32", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "null"),
    *("string_view", "binary_view", "large_string"),
)
ARRAYS = {
    **{name: _of(getattr(pa, name)()) for name in PLAIN},
    "float16": lambda cells: pa.array([None if cell is None else np.float16(cell) for cell in cells], pa.float16()),
    "bool": _of(pa.bool_()),
    "bool8": _bool8,
    "dictionary": _dictionary,
    "runs": _runs,
    "decimal": _decimals,
    "text": _of(pa.string()),
    "list": _of(pa.list_(pa.float64())),
    "large_list": _of(pa.large_list(pa.float64())),
    "struct": _of(pa.struct([("x", pa.int64())])),
    "time": _of(pa.timestamp("us")),
    "duration": _of(pa.duration("us")),
}
NUMBERS = tuple(CELLS)[: tuple(CELLS).index("text")]
OTHERS = tuple(CELLS)[tuple(CELLS).index("text") :]
NOT_PARQUET = ("runs", "string_view", "binary_view", "large_list", "duration")
