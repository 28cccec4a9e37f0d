"""Checks of everything that users pass in, done once, here; `culpa._core.native` gives results back in the same kind.

Inside, arrays are float64, two-dimensional and free of infinities; NaN means missing.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from culpa._core.choices import one_of
from culpa._core.continuity import RowOrder, Step, order_of, usual_step
from culpa._core.native import float_cells, given_as, index_labels, to_frame
from culpa._core.native import frame_like as frame_like
from culpa._core.native import same_kind as same_kind

Rows = NDArray[np.float64]

_LARGEST = 1e100  # scores are sums of squares, and must not overflow
_CELLS_AT_A_TIME = 1 << 15  # which stay in cache


@dataclass(frozen=True)
class Table:
    """Checked input: the numbers, the column names (``None`` if it had none), and the original table."""

    array: Rows
    names: tuple[str, ...] | None = None
    native: Any = None
    order: RowOrder | None = None  # where it is known

    def feature_names(self) -> tuple[str, ...]:
        """Names for people: the columns' own, or x0, x1, ... as scikit-learn calls them."""
        return self.names or default_names(self.array.shape[1])

    def missing_rows(self, step: Step | None = None) -> Rows | None:
        """How many rows are missing before each row, where that is known; ``step`` is that of rows seen before."""
        return self.order.missing if self.order is not None else order_of(getattr(self.native, "index", None), step)

    def usual_step(self) -> Step | None:
        """How far apart rows usually are, where that is known."""
        return self.order.step if self.order is not None else usual_step(getattr(self.native, "index", None))

    def row_labels(self) -> NDArray[Any]:
        """Labels of the rows: the pandas index, else positions."""
        return index_labels(self.native, len(self.array))


def default_names(n_features: int) -> tuple[str, ...]:
    """Names of columns that have none."""
    return tuple(f"x{i}" for i in range(n_features))


def read_table(X: Any, *, argument: str = "X", min_rows: int = 1, min_features: int = 1) -> Table:
    """Turn an array or a data frame of any common kind into a `Table`; errors name the cell that is not a number."""
    if isinstance(X, Table):
        return X
    if _is_checked_array(X):
        table = Table(X)
    elif (cells := float_cells(X)) is not None:
        table = Table(np.array(cells, order="F"), _names(X.columns.tolist(), argument), X)
    else:
        frame = to_frame(X, argument)
        table = _read_frame(frame, X, argument) if isinstance(frame, nw.DataFrame) else Table(_read_array(X, argument))
    _check_shape(table.array, argument, min_rows, min_features)
    refuse_infinity(table, argument)
    return table


def read_cells(X: Any, position: int, name: str | None = None) -> NDArray[Any]:
    """One column of a table, found by name where it has names: numbers as float64, anything else as it is."""
    frame = to_frame(X, "X")
    if isinstance(frame, nw.DataFrame):
        series = frame.get_column(name if name in frame.columns else frame.columns[position])
        try:
            return _read_column(series, name, "X")
        except ValueError:
            return np.array([*series.to_list(), None], dtype=object)[:-1]  # None: or numpy would look into the cells
    cells = np.asarray(X, dtype=None if isinstance(X, np.ndarray) else object)[:, position]
    try:
        return np.asarray(cells, dtype=np.float64)
    except (TypeError, ValueError):
        return np.asarray(cells, dtype=object)


def check_estimator_input(estimator: Any, X: Any, *, reset: bool, min_rows: int = 1, min_features: int = 2) -> Table:
    """Read ``X`` for a scikit-learn style estimator: same names in the same order as in ``fit``, else an error."""
    table = read_table(X, min_rows=min_rows, min_features=min_features if reset else 1)
    if reset:
        _set_columns(estimator, table)
        return table
    if _has_fitted_columns(estimator, table):
        return table
    _refuse_other_numbers(table, getattr(estimator, "feature_names_in_", None), "X")
    from sklearn.utils.validation import validate_data

    try:
        validate_data(estimator, _header(table), reset=False, skip_check_array=True)
    except ValueError as error:
        raise ValueError(
            f"{str(error).rstrip()}\n"
            f"Pass the columns that {type(estimator).__name__} was fitted on, in that order: X[model.feature_names_in_]."
        ) from None
    return table


def complete_rows(table: Table, needed_by: str = "partial_fit") -> Rows:
    """The numbers of a table without missing cells."""
    missing = np.isnan(table.array)
    if missing.any():
        row, column = np.argwhere(missing)[0]
        raise ValueError(
            f"column {table.feature_names()[column]!r} of X is NaN in row {row}, but {needed_by} needs complete rows. "
            f"Drop incomplete rows{', or use fit on all rows' * (needed_by == 'partial_fit')}."
        )
    return table.array


def check_width(table: Table, n_features: int, names: tuple[str, ...] | None, argument: str = "X") -> None:
    """Refuse a table whose columns are not those of the model."""
    if table.array.shape[1] != n_features:
        raise ValueError(
            f"{argument} has {table.array.shape[1]} features, but the model has {n_features}. "
            "Pass the columns that the model was fitted to."
        )
    _refuse_other_numbers(table, names, argument)
    if names is not None and table.names is not None and table.names != names:
        missing = [name for name in names if name not in table.names]
        what = f"has no column {missing[0]!r}" if missing else "has the model's columns in another order"
        shown = ", ".join(map(repr, names[:6])) + (", ..." if len(names) > 6 else "")
        raise ValueError(f"{argument} {what}. Pass the columns that the model was fitted to, in this order: {shown}.")


def _refuse_other_numbers(table: Table, names: Sequence[str] | None, argument: str) -> None:
    """Refuse columns that have numbers for names, in another order than the model's; no names are 0, 1, 2, ... in order."""
    if table.native is None or (table.names is None and names is None):
        return
    numbers = tuple(map(str, range(table.array.shape[1])))
    found, known = table.names or numbers, numbers if names is None else tuple(map(str, names))
    if found != known and set(found) == set(known) == set(numbers):
        shown = ", ".join(known[:6]) + (", ..." if len(known) > 6 else "")
        raise ValueError(f"{argument} has the model's columns in another order. Pass them in this order: {shown}.")


def feature_positions(features: Iterable[str | int], names: Sequence[str], argument: str) -> list[int]:
    """Positions of features given by name or by number; a single name counts as a list of one."""
    positions = []
    if isinstance(features, str):
        features = [features]
    for feature in features:
        if isinstance(feature, str):
            positions.append(list(names).index(one_of(feature, names, f"feature in {argument}:")))
        elif 0 <= feature < len(names):
            positions.append(int(feature))
        else:
            raise ValueError(
                f"{argument} contains position {feature}, but features have positions 0 to {len(names) - 1}."
            )
    return positions


def _is_checked_array(X: Any) -> bool:
    """Whether an array is what reading it would make of it: looking further would take longer than explaining a row."""
    return type(X) is np.ndarray and X.ndim == 2 and X.dtype == np.float64


def _has_fitted_columns(estimator: Any, table: Table) -> bool:
    """Whether scikit-learn's own check, which takes longer than explaining a row, would find nothing."""
    if table.array.shape[1] != getattr(estimator, "n_features_in_", None):
        return False
    names = getattr(estimator, "feature_names_in_", None)
    return table.names is None if names is None else table.names == tuple(names)


def _set_columns(estimator: Any, table: Table) -> None:
    """What scikit-learn notes of the columns of a fit."""
    estimator.n_features_in_ = table.array.shape[1]
    if table.names is not None:
        estimator.feature_names_in_ = np.array(table.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def _header(table: Table) -> Any:
    """A table without rows for scikit-learn's own check; it reads names from data frames only."""
    if table.names is None:
        return table.array[:0]
    return frame_like(table.native, {name: np.empty(0) for name in table.names})


def _read_frame(frame: nw.DataFrame[Any], native: Any, argument: str) -> Table:
    columns = frame.columns
    if frame.implementation.is_pandas() and all(kind == np.float64 for kind in native.dtypes):
        array = np.array(native, order="F")  # all columns at once
    else:
        array = np.empty(frame.shape, order="F")
        for position, series in enumerate(frame.iter_columns()):
            array[:, position] = _read_column(series, columns[position], argument)
    return Table(array, _names(columns, argument), given_as(native, frame))


def _names(columns: Sequence[Any], argument: str) -> tuple[str, ...] | None:
    """Columns by name; pandas numbers columns that have no names, and anything else is a name."""
    if all(name == position for position, name in enumerate(columns)):
        return None
    names = tuple(map(str, columns))
    if len(set(names)) < len(names):  # 1 and "1" are two names in pandas
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{argument} has several columns that are called {twice} in texts. Rename one of them.")
    return names


def _read_column(series: Any, name: object, argument: str) -> Rows:
    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    if series.dtype == nw.Object:  # pandas columns of mixed things are often numbers all the same
        try:
            return np.asarray(series.to_numpy(), dtype=np.float64)
        except (TypeError, ValueError):
            pass
        if (numbers := _numbers_or_nothing(series)) is not None:
            return numbers
    first = next(iter(series.drop_nulls().to_list()), None)
    if first is None and not series.dtype.is_temporal():  # nothing but missing cells, whatever their type
        return np.full(len(series), np.nan)
    remedy = "Drop it, or make it the index" if series.dtype.is_temporal() else _remedy_for_text(first)
    raise ValueError(
        f"column {name!r} of {argument} contains {series.dtype}, for example {first!r}, not numbers. {remedy}."
    )


def _numbers_or_nothing(series: Any) -> Rows | None:
    """A column of numbers and pandas' NA, which is no number; or nothing where there is anything else."""
    import pandas as pd  # no other kind has columns of objects

    cells = series.to_numpy()
    try:
        return np.asarray(np.where(pd.isna(cells), np.nan, cells), dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _remedy_for_text(cell: object) -> str:
    try:
        float(str(cell).replace(",", "."))
    except ValueError:
        return "Drop it, or turn it into numbers (one 0/1 column per category)"
    return "Convert it to numbers"


def _read_array(X: Any, argument: str) -> Rows:
    if isinstance(X, np.ma.MaskedArray):  # scikit-learn would read what is under the mask
        X = np.ma.filled(X.astype(np.float64), np.nan)
    from sklearn.utils.validation import check_array

    try:
        return np.asarray(
            check_array(
                X,
                dtype=np.float64,
                ensure_all_finite=False,
                ensure_min_samples=0,
                ensure_min_features=0,
                input_name=argument,
            )
        )
    except (TypeError, ValueError) as error:
        where = _first_non_number(X)
        if where is None:
            raise
        row, column, cell = where
        raise type(error)(
            f"{error}: {argument} contains {cell!r} in column {column}, row {row}. Drop that column or turn it into "
            "numbers."
        ) from None


def _first_non_number(X: Any) -> tuple[int, int, object] | None:
    cells = np.asarray(X, dtype=object)
    if cells.ndim != 2:
        return None
    for (row, column), cell in np.ndenumerate(cells):
        try:
            if not isinstance(cell, complex):
                float(cell)
        except (TypeError, ValueError):
            return row, column, cell
    return None


def _check_shape(array: Rows, argument: str, min_rows: int, min_features: int) -> None:
    n_rows, n_features = array.shape
    if n_features < min_features:
        raise ValueError(
            f"{argument} has {n_features} feature(s) (shape=({n_rows}, {n_features})) while a minimum of "
            f"{min_features} is required."
        )
    if n_rows < min_rows:
        raise ValueError(
            f"{argument} has {n_rows} sample(s) (shape=({n_rows}, {n_features})) while a minimum of "
            f"{min_rows} is required: pass a table with more rows."
        )


def refuse_infinity(table: Table, argument: str) -> None:
    """Raise an error that says where a number is infinite, or too large to be squared."""
    # one pass over the data decides; only a bad table takes the time to find the cell
    largest = _largest(table.array)
    if largest > _LARGEST:
        row, column = np.argwhere(np.abs(table.array) == largest)[0]
        what = "infinity" if math.isinf(largest) else f"{table.array[row, column]:g}"
        large = "" if math.isinf(largest) else ", which is too large"
        raise ValueError(
            f"column {table.feature_names()[column]!r} of {argument} contains {what} in row {row}{large}. "
            "Replace it by NaN if the value is missing. Otherwise correct it."
        )


def _largest(array: Rows) -> float:
    """The largest absolute value of a cell, where NaN does not count; some rows at a time, to take little memory."""
    if array.size <= _CELLS_AT_A_TIME or len(array) == 1:
        return float(np.fmax.reduce(np.abs(array), axis=None, initial=0.0))
    step = max(1, _CELLS_AT_A_TIME // array.shape[1])
    return max(_largest(array[start : start + step]) for start in range(0, len(array), step))
