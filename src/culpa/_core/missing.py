"""Rows that miss the same features are treated together: one pattern, one small linear-algebra problem."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.warning import EmptyRowsWarning, warn
from culpa._core.words import count

_FEW = 4096  # cells, for which starting to look takes longer than looking


def any_missing(X: NDArray[np.float64]) -> bool:
    """Whether a cell is NaN; the smallest cell of a large table tells in a third of the time.

    >>> any_missing(np.array([[1.0, np.nan]])), any_missing(np.zeros((100, 100)))
    (True, False)
    """
    return bool(np.count_nonzero(np.isnan(X))) if X.size <= _FEW else math.isnan(np.min(X))


def kinds_of_rows(missing: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """The different rows of a mask in lexicographic order, and which of them each row is.

    >>> kinds, kind_of_row = kinds_of_rows(np.array([[True, False], [False, False], [True, False]]))
    >>> kinds.tolist(), kind_of_row.tolist()
    ([[False, False], [True, False]], [1, 0, 1])
    """
    packed = np.packbits(missing, axis=1)
    if packed.shape[1] > 8:
        _, first, kind_of_row = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    else:  # as one number per row, which is far faster
        words = np.zeros((len(packed), 8), dtype=np.uint8)
        words[:, : packed.shape[1]] = packed
        _, first, kind_of_row = np.unique(words.view(">u8").ravel(), return_index=True, return_inverse=True)
    return missing[first], kind_of_row.ravel()


def sorted_by_pattern(kind_of_row: NDArray[np.intp], n_kinds: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows of the first kind, then those of the second and so on; and where each kind starts, and the last one ends.

    >>> rows, starts = sorted_by_pattern(np.array([1, 0, 1]), 2)
    >>> rows.tolist(), starts.tolist()
    ([1, 0, 2], [0, 1, 3])
    """
    counts = np.bincount(kind_of_row, minlength=n_kinds)
    return np.argsort(kind_of_row, kind="stable"), np.append(0, np.cumsum(counts))


def patterns(X: NDArray[np.float64]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield ``(rows, observed)``: the rows that share a pattern of NaN, and the features they do have.

    >>> import numpy as np
    >>> [(r.tolist(), o.tolist()) for r, o in patterns(np.array([[1., 2.], [np.nan, 3.], [4., 5.]]))]
    [([0, 2], [0, 1]), ([1], [1])]
    """
    if not any_missing(X):
        if len(X):
            yield np.arange(len(X)), np.arange(X.shape[1])
        return
    kinds, kind_of_row = kinds_of_rows(np.isnan(X))
    order, starts = sorted_by_pattern(kind_of_row, len(kinds))
    for kind, rows in zip(kinds, np.split(order, starts[1:-1]), strict=True):
        yield rows, np.flatnonzero(~kind)


def warn_about_empty_rows(labels: NDArray[Any], *, context: bool = False) -> None:
    """Warn about rows without a score: rows in which all features are missing, or with a ``context`` a given one."""
    shown = ", ".join(map(str, labels[:5])) + (", ..." if len(labels) > 5 else "")
    warn(f"{without_score(len(labels), context=context)}: {shown}", EmptyRowsWarning)


def without_score(n: int, *, context: bool = False) -> str:
    """Why so many rows have no score.

    >>> without_score(1), without_score(2)
    ('1 row has no observed feature, so it gets no score', '2 rows have no observed feature, so they get no score')
    """
    have, get = ("has", "it gets") if n == 1 else ("have", "they get")
    given = ", or a given feature is missing" if context else ""
    return f"{count(n, 'row')} {have} no observed feature{given}, so {get} no score"
