"""Which rows of a table a user picks: by positions, by a mask, by a slice, or by labels of a pandas index."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.choices import short
from culpa._core.native import index_of
from culpa._core.words import count


def picked(rows: Any, labels: NDArray[Any], native: Any) -> slice | NDArray[np.intp]:
    """Positions of the picked rows, in the order given.

    Whole numbers are positions, and a pandas Index is made of labels. Everything else that is not a mask is a label.
    """
    n = len(labels)
    if isinstance(rows, slice):
        if all(end is None or isinstance(end, Integral) for end in (rows.start, rows.stop)):
            return rows
        return _by_label(rows, labels, native)
    if hasattr(rows, "get_indexer") or _are_tuples(rows):
        return _by_labels(list(rows) if not isinstance(rows, tuple) else [rows], labels, native)
    array = np.atleast_1d(np.asarray(rows))
    if array.dtype.kind == "O" and all(isinstance(cell, (bool, np.bool_)) for cell in array.flat):
        array = array.astype(bool)  # a mask of pandas' nullable kind
    if not array.size:
        array = array.astype(np.intp)
    if array.ndim != 1 or array.dtype.kind not in "biuOUSMmf":
        raise ValueError(f"rows must be positions, a mask or labels of rows, got {short(rows)}.")
    if array.dtype.kind == "b":
        if len(array) != n:
            raise ValueError(f"rows is a mask of {count(len(array), 'row')}, but X has {count(n, 'row')}.")
        return np.flatnonzero(array[_in_order_of(getattr(rows, "index", None), labels, native)])
    if array.dtype.kind in "iu":
        if (outside := (array < -n) | (array >= n)).any():
            raise ValueError(f"rows contains position {array[outside][0]}, but X has {count(n, 'row')}.")
        return np.asarray(np.arange(n)[array])
    return _by_labels(array.tolist() if array.dtype.kind in "OUSf" else list(array), labels, native)


def _in_order_of(own: Any, labels: NDArray[Any], native: Any) -> slice | NDArray[np.intp]:
    """Where the cells of a mask are that belong to the rows of X: those with the same labels, as in pandas."""
    if getattr(native, "index", None) is None or not hasattr(own, "get_indexer"):
        return slice(None)
    index = index_of(native, labels)
    if index.equals(own):
        return slice(None)
    at = own.get_indexer(index) if own.is_unique else np.array([-1])
    if (at < 0).any():
        raise ValueError("rows is a mask whose index is not that of X: use the index of X, or rows.to_numpy().")
    return np.asarray(at, dtype=np.intp)


def _are_tuples(rows: Any) -> bool:
    """Labels of an index with several levels, or one of them."""
    if isinstance(rows, tuple):
        return any(isinstance(cell, str) for cell in rows)
    return isinstance(rows, list) and any(isinstance(label, tuple) for label in rows)


def _by_labels(wanted: list[Any], labels: NDArray[Any], native: Any) -> NDArray[np.intp]:
    found = [_by_label(label, labels, native) for label in wanted]
    return np.concatenate([np.empty(0, dtype=np.intp), *found])


def _by_label(label: Any, labels: NDArray[Any], native: Any) -> NDArray[np.intp]:
    """Positions of the rows with a label, or from one label to another."""
    if getattr(native, "index", None) is None:
        raise ValueError(f"rows contains {short(label)}, but X has no row labels. Give positions or a mask.")
    index = index_of(native, labels)
    try:
        at = index.slice_indexer(label.start, label.stop) if isinstance(label, slice) else index.get_loc(label)
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"rows contains {short(label)}, which is not in the index of X.") from None
    return np.atleast_1d(np.arange(len(labels))[at])
