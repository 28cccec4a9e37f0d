"""Tables in, tables out: the kind stays, and so do the index and the names of the columns."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from culpa import PCADetector
from culpa._core.native import emptied, float_cells, frame_like, same_kind
from culpa._core.validation import read_table
from culpa.columns import Reading

NAMES = ["flow", "pressure", "temperature", "power"]


@pytest.fixture(scope="module")
def normal():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 2)) @ rng.normal(size=(2, 4)) + 0.2 * rng.normal(size=(60, 4))


INDEXES = {
    "numbers in disorder": lambda n: pd.Index(np.random.default_rng(1).permutation(10 * n)[:n], name="id"),
    "text": lambda n: pd.Index([f"batch {i}" for i in range(n)], name="batch"),
    "times": lambda n: pd.date_range("2024-03-30", periods=n, freq="h", name="time"),
    "times with a zone": lambda n: pd.date_range("2024-03-30", periods=n, freq="h", tz="Europe/Berlin", name="time"),
    "days": lambda n: pd.period_range("2024-01-01", periods=n, freq="D", name="day"),
    "spans": lambda n: pd.timedelta_range("1s", periods=n, freq="s"),
    "two levels": lambda n: pd.MultiIndex.from_product([["a", "b"], range(n // 2)], names=["line", "no"]),
    "categories": lambda n: pd.CategoricalIndex(["x", "y"] * (n // 2), name="shift"),
    "nullable": lambda n: pd.Index(pd.array(range(5, n + 5), dtype="Int64")),
}


@pytest.mark.parametrize("kind", sorted(INDEXES))
def test_the_index_stays(kind, normal):
    frame = pd.DataFrame(normal, columns=NAMES, index=INDEXES[kind](60))
    detector = PCADetector(2).fit(frame)
    odd = frame.iloc[[40, 3, 17]]
    why = detector.explain(odd)
    tables = {
        "statistics": detector.statistics(odd),
        "to_frame": why.to_frame(),
        "top": why.top(1),
        "contributions": detector.contributions(odd),
        "reconstruct": detector.reconstruct(odd),
        "residuals": detector.residuals(odd),
        "fix": detector.fix(odd, ["flow"]).to_frame(),
    }
    for name, table in tables.items():
        pd.testing.assert_index_equal(table.index, odd.index, exact="equiv", obj=name)
    pd.testing.assert_index_equal(why[1:].to_frame().index, odd.index[1:])
    pd.testing.assert_index_equal(why.top(2).index, odd.index.repeat(2))
    pd.testing.assert_index_equal(why[:0].to_frame().index, odd.index[:0])


def test_columns_can_be_assigned(normal):
    """A filtered table keeps labels with gaps; new columns must not be shifted by them."""
    frame = pd.DataFrame(normal, columns=NAMES).sample(frac=1, random_state=0)
    detector = PCADetector(2).fit(frame)
    joined = frame.assign(spe=detector.statistics(frame)["spe"])
    np.testing.assert_array_equal(joined["spe"], -detector.score_samples(frame))
    np.testing.assert_allclose(detector.reconstruct(frame) + detector.residuals(frame), frame)


FRAMES = {
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES, orient="row"),
    "arrow table": lambda X: pa.table(dict(zip(NAMES, X.T, strict=True))),
    "arrow batch": lambda X: pa.record_batch(dict(zip(NAMES, X.T, strict=True))),
}


@pytest.mark.parametrize("kind", sorted(FRAMES))
def test_the_kind_of_table_stays(kind, normal):
    frame = FRAMES[kind](normal)
    detector = PCADetector(2).fit(frame)
    assert detector.feature_names_in_.tolist() == NAMES
    why = detector.explain(frame)
    plain = PCADetector(2).fit(normal)
    for table in (
        why.top(2),
        why.to_frame(),
        why[:0].to_frame(),
        detector.statistics(frame),
        detector.fix(frame).to_frame(),
    ):
        assert type(table) is type(frame)
    for name in ("contributions", "reconstruct", "residuals"):
        table = getattr(detector, name)(frame)
        assert type(table) is type(frame)
        np.testing.assert_allclose(read_table(table).array, getattr(plain, name)(normal))
        assert list(read_table(table).names) == NAMES
    assert isinstance(plain.reconstruct(normal), np.ndarray)


def test_a_stream_of_arrow_batches_is_read_once(normal):
    table = FRAMES["arrow table"](normal)
    detector = PCADetector(2).fit(table.to_reader())
    statistics = detector.statistics(table.to_reader())
    assert isinstance(statistics, pa.Table)
    np.testing.assert_allclose(statistics["spe"].to_numpy(), -detector.score_samples(normal_named(normal)))


def normal_named(X):
    return pd.DataFrame(X, columns=NAMES)


@pytest.mark.parametrize(
    "columns",
    [
        pd.Index([10, 20, 30, 40]),
        pd.Index([3, 2, 1, 0]),
        pd.MultiIndex.from_tuples([("in", "flow"), ("in", "heat"), ("out", "flow"), ("out", "heat")]),
        pd.Index(["flow", 1, ("out", "heat"), 2.5], tupleize_cols=False),
    ],
    ids=["numbers", "numbers in disorder", "levels", "mixed"],
)
def test_names_that_are_not_text_are_kept(columns, normal):
    frame = pd.DataFrame(normal, columns=columns)
    detector = PCADetector(2).fit(frame)
    for name in ("contributions", "reconstruct", "residuals"):
        pd.testing.assert_index_equal(getattr(detector, name)(frame).columns, columns)
    why = detector.explain(frame)
    assert why.feature_names == tuple(map(str, columns))
    assert list(why.to_frame().columns) == ["row", "score", *columns]
    worst = why.top(1)["feature"].tolist()
    assert worst == [columns[i] for i in why.values.argmax(axis=1)]
    assert frame[worst[0]].shape == (60,)
    restored = type(why).from_dict(why.to_dict())
    assert restored.top(1)["feature"].tolist() == [str(label) for label in worst]


def test_a_column_of_levels_is_named_by_its_text(normal):
    columns = pd.MultiIndex.from_tuples([("in", "flow"), ("in", "heat"), ("out", "flow"), ("out", "heat")])
    frame = pd.DataFrame(normal, columns=columns)
    detector = PCADetector(given=["('in', 'heat')"]).fit(frame)
    assert detector.explain(frame[:2]).feature_names == ("('in', 'flow')", "('out', 'flow')", "('out', 'heat')")


def test_names_that_read_the_same_are_refused(normal):
    frame = pd.DataFrame(normal, columns=pd.Index(["1", 1, "a", "b"], dtype=object))
    with pytest.raises(ValueError, match="several columns that are called 1 in texts"):
        PCADetector(2).fit(frame)


def test_a_mask_means_missing(normal):
    masked = np.ma.masked_array(normal, mask=np.zeros_like(normal, dtype=bool))
    masked[5, 2] = np.ma.masked
    masked.data[5, 2] = 1e9  # what is under the mask must not be read
    holes = np.where(np.ma.getmaskarray(masked), np.nan, normal)
    np.testing.assert_array_equal(read_table(masked).array, holes)
    detector = PCADetector(2).fit(normal)
    np.testing.assert_array_equal(detector.score_samples(masked), detector.score_samples(holes))
    whole = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    np.testing.assert_array_equal(read_table(whole).array, [[1, np.nan], [3, 4]])


@pytest.mark.parametrize(
    "column",
    [
        pd.array([1, None, 3], dtype="Int64"),
        pd.array([1.0, None, 3.0], dtype="Float64"),
        pd.array([1.0, None, 3.0], dtype="double[pyarrow]"),
        pd.array([1, None, 3], dtype="uint8[pyarrow]"),
        pd.Series([1.0, pd.NA, 3.0], dtype=object),
        pd.Series([1, None, 3], dtype=object),
    ],
    ids=lambda column: str(column.dtype),
)
def test_nullable_types(column):
    table = read_table(pd.DataFrame({"a": column, "b": pd.array([True, None, False], dtype="boolean")}))
    np.testing.assert_array_equal(table.array, [[1, 1], [np.nan, np.nan], [3, 0]])


def test_text_is_no_number_even_among_missing_cells():
    with pytest.raises(ValueError, match=r"column 'a' of X contains Object, for example 1\.0"):
        read_table(pd.DataFrame({"a": pd.Series([1.0, pd.NA, "x"], dtype=object)}))


LAZY = {
    "dask.dataframe": "X.compute()",
    "dask_expr._collection": "X.compute()",
    "pyspark.sql.dataframe": "X.toPandas()",
    "duckdb": "X.df()",
    "modin.pandas.dataframe": "X.modin.to_pandas()",
}


@pytest.mark.parametrize("module", sorted(LAZY))
def test_tables_that_are_not_in_memory(module):
    table = type("DataFrame", (), {"__module__": module, "columns": NAMES})()
    with pytest.raises(TypeError, match="Load it first") as caught:
        PCADetector().fit(table)
    assert str(caught.value).endswith(f"Load it first: {LAZY[module]}.")


def test_lazy_polars_tables(normal):
    lazy = FRAMES["polars"](normal).lazy()
    with pytest.raises(TypeError, match=r"X is a polars table that is not in memory. Load it first: X.collect\(\)."):
        PCADetector().fit(lazy)
    PCADetector().fit(lazy.collect())


def test_results_keep_no_rows_alive(normal):
    for make in FRAMES.values():
        frame = make(normal)
        why = PCADetector(2).fit(frame).explain(frame)
        assert type(why.native) is type(frame)
        assert not len(read_table(why.native, min_rows=0).array)
    assert emptied(normal) is None
    assert emptied(None) is None


def test_arrays_of_such_packages_are_read():
    """They turn into NumPy arrays by themselves."""
    array = type("Array", (), {"__module__": "dask.array.core", "__array__": lambda self, *_, **__: np.eye(3)})()
    np.testing.assert_array_equal(read_table(array).array, np.eye(3))


def test_frame_like_and_same_kind_without_a_table():
    assert isinstance(frame_like(None, {"a": [1]}), pd.DataFrame)
    values = np.eye(2)
    assert same_kind(None, values) is values
    assert Reading.of(read_table(np.eye(3))).labels.tolist() == [0, 1, 2]


def in_two_arrays():
    table = pd.DataFrame({"a": [1.5, np.nan]}, index=["r", "s"])
    table["b"] = [2.5, 3.5]
    return table


@pytest.mark.parametrize("table", [pd.DataFrame(in_two_arrays().to_dict()), in_two_arrays()])
def test_small_pandas_tables_of_floats_are_read_at_once(table):
    assert float_cells(table) is not None
    read = read_table(table)
    np.testing.assert_array_equal(read.array, [[1.5, 2.5], [np.nan, 3.5]])
    assert (read.names, read.row_labels().tolist()) == (("a", "b"), ["r", "s"])
    table.iloc[0, 0] = 9.0
    assert read.array[0, 0] == 1.5  # a copy: the user may change the table later


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": [1.5, 2.5], "b": [2, 3]}),
        pd.DataFrame({"a": pd.Categorical([1.5, 2.5])}),
        pd.DataFrame({"a": pd.arrays.SparseArray([1.5, 2.5])}),
        pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]),
        pd.DataFrame(np.ones((1000, 2))),
        pl.DataFrame({"a": [1.5, 2.5]}),
        np.ones((2, 2)),
    ],
)
def test_other_tables_are_read_column_by_column(table):
    assert float_cells(table) is None
