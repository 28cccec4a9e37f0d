"""Tables of the user's own kind: how they are recognised, and how results come back in that kind, with the same index.

narwhals knows pandas, polars, pyarrow, modin and others. What it does not know, or knows only as a lazy table, is
recognised by the name of its package, so that the error says how to turn it into a table.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from culpa._core.types import DataFrame
from culpa._core.words import with_article

_FEW_ROWS = 64  # of a table that is copied sooner than its types of columns are looked at
# how to load tables of packages whose tables are not in memory
_LOADED_BY = {
    "polars": "X.collect()",
    "dask": "X.compute()",
    "dask_expr": "X.compute()",
    "pyspark": "X.toPandas()",
    "duckdb": "X.df()",
    "ibis": "X.to_pandas()",
    "sqlframe": "X.toPandas()",
    "modin": "X.modin.to_pandas()",
    "vaex": "X.to_pandas_df()",
}


def to_frame(X: Any, argument: str = "X") -> Any:
    """A narwhals data frame, or ``X`` itself if it is not a data frame."""
    if X is None or type(X) is np.ndarray:  # narwhals would take a while to see that
        return X
    try:
        frame = nw.from_native(X, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"{argument} has several columns of the same name. Rename or drop them ({error}).") from None
    if isinstance(frame, nw.DataFrame):
        return frame
    package = type(X).__module__.partition(".")[0]
    if isinstance(frame, nw.LazyFrame) or (package in _LOADED_BY and hasattr(X, "columns")):
        call = _LOADED_BY.get(package, "X.collect()").replace("X", argument)
        raise TypeError(f"{argument} is {with_article(package)} table that is not in memory. Load it first: {call}.")
    if hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__"):
        return _from_arrow(X)
    return X


def with_names(estimator: Any, rows: NDArray[Any]) -> Any:
    """Rows as a fitted estimator wants them: a data frame if it was fitted to one."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return rows
    import pandas as pd

    return pd.DataFrame(rows, columns=names)


def for_steps(X: Any) -> Any:
    """A table for the steps of a Pipeline, which may work in place: a copy, and no Arrow table."""
    if type(X).__module__.startswith("pyarrow"):
        return X.to_pandas()
    return X.copy() if hasattr(X, "copy") else X


def _from_arrow(X: Any) -> Any:
    """A table that speaks Arrow, such as a record batch; ``X`` itself if it is a single array."""
    import pyarrow as pa

    try:
        return nw.from_native(pa.Table.from_batches([X]) if isinstance(X, pa.RecordBatch) else pa.table(X))
    except (pa.ArrowInvalid, TypeError, ValueError):
        return X


def float_cells(X: Any) -> NDArray[np.float64] | None:
    """The cells of a small pandas table of nothing but float64; ``None`` for any other table.

    Most tables are like that, and looking at their columns one by one would take longer than explaining a row.
    """
    if not _is_pandas(X) or len(X) > _FEW_ROWS or not X.columns.is_unique:
        return None
    cells = X.to_numpy()
    if cells.dtype != np.float64:
        return None
    # views of it, so all columns have its type; a single column may be sparse
    one_array = X.shape[1] > 1 and np.may_share_memory(cells, X.to_numpy())
    return cells if one_array or set(X.dtypes.to_numpy()) == {np.dtype(np.float64)} else None


def given_as(X: Any, frame: nw.DataFrame[Any]) -> Any:
    """The table that results follow in kind: the user's own, or what was read from a stream, which cannot be read again."""
    return X if _is_record_batch(X) else frame.to_native()


def emptied(native: Any) -> Any:
    """The table without its rows: enough to answer in kind, and it keeps no data alive."""
    if native is None:
        return None
    if _is_arrow(native):
        return native.slice(0, 0)
    if _is_pandas(native):  # narwhals takes as long as explaining a row
        return native.iloc[:0]
    frame = nw.from_native(native, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame.head(0).to_native()
    return None


def index_labels(native: Any, n_rows: int) -> NDArray[Any]:
    """What the user calls the rows: the pandas index, else positions."""
    index = _index(native)
    return np.arange(n_rows) if index is None else np.asarray(index.to_numpy())


def column_labels(native: Any, names: Sequence[str]) -> list[Any]:
    """The table's own labels of columns with these names: numbers and tuples are names in pandas."""
    if _index(native) is None:
        return list(names)
    frame = nw.from_native(native, eager_only=True, pass_through=True)
    labels: Sequence[Any] = frame.columns if isinstance(frame, nw.DataFrame) else ()
    own = {str(label): label for label in labels}
    return [own.get(name, name) for name in names]


def frame_like(native: Any, columns: Mapping[Any, Any], labels: NDArray[Any] | None = None) -> DataFrame:
    """A table of the kind the user works with.

    Where the input was a bare array, it is the first kind that is installed of pandas, polars and pyarrow, else a NumPy
    record array. ``labels`` are the rows' labels in the user's table. They become the index where the user's table has one.
    """
    frame = to_frame(native)
    backend: Any = frame.implementation if isinstance(frame, nw.DataFrame) else _installed_kind()
    if backend is None:
        make: Any = np.rec.fromarrays
        records: DataFrame = make([np.asarray(cells) for cells in columns.values()], names=list(columns))
        return records
    result = nw.from_dict(dict(columns), backend=backend).to_native()
    if labels is not None and _index(native) is not None:
        result.index = index_of(native, labels)
    given: DataFrame = _as_given(native, result)
    return given


@cache
def _installed_kind() -> str | None:
    return next((kind for kind in ("pandas", "polars", "pyarrow") if find_spec(kind) is not None), None)


def same_kind(native: Any, values: NDArray[np.float64], names: Sequence[str] | None = None) -> Any:
    """Numbers as the user gave a table: an array, or a data frame with the same index and columns (or ``names``)."""
    frame = to_frame(native)
    if not isinstance(frame, nw.DataFrame):
        return values
    own: Sequence[Any] = frame.columns
    kept = names is None or list(names) == list(map(str, own))  # a name need not be text in pandas
    plain = dict(zip(map(str, range(values.shape[1])) if kept else names or (), values.T, strict=True))
    result = nw.from_dict(plain, backend=frame.implementation).to_native()
    if _index(native) is not None:
        result.index = _index(native)
        if kept:
            result.columns = native.columns  # a dict of tuples would lose their kind
    elif kept:
        result = nw.from_native(result).rename(dict(zip(plain, own, strict=True))).to_native()
    return _as_given(native, result)


def _index(native: Any) -> Any:
    """The index of a pandas-like table, or nothing."""
    index = getattr(native, "index", None)
    return index if index is not None and hasattr(index, "to_numpy") else None


def index_of(native: Any, labels: NDArray[Any]) -> Any:
    """An index of the same kind as the table's, with these labels."""
    import pandas as pd

    own = native.index
    if not len(labels):
        return own[:0]
    if own.nlevels > 1:
        return pd.MultiIndex.from_tuples(list(labels), names=own.names)
    return pd.Index(labels, dtype=own.dtype, name=own.name)


def _is_pandas(native: Any) -> bool:
    pandas = sys.modules.get("pandas")  # who has such a table has imported it
    return pandas is not None and isinstance(native, pandas.DataFrame)


def _is_arrow(native: Any) -> bool:
    return type(native).__module__.partition(".")[0] == "pyarrow"


def _is_record_batch(native: Any) -> bool:
    return type(native).__name__ == "RecordBatch" and _is_arrow(native)


def _as_given(native: Any, result: Any) -> Any:
    if not _is_record_batch(native):
        return result
    import pyarrow as pa

    arrays = [column.combine_chunks() for column in result.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=result.schema)
