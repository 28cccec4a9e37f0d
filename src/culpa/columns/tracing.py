"""Which outputs of a scikit-learn transformer are made from which of its inputs, and how to invert it.

A transformer that is known here is traced by its fitted attributes, never by the names of its outputs. If a transformer is
not known, every output may be made from all inputs. So all of them are blamed together, and no single one wrongly.
"""

from collections.abc import Callable, Sequence
from copy import copy
from functools import singledispatch
from itertools import zip_longest
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

from culpa.columns.lags import Lags

Cells = NDArray[Any]
Known = list[Cells | None]  # columns, one array each; None if a column cannot be computed
Back = Callable[[Known], Known]


class Link(NamedTuple):
    """Of each output, the inputs it is made of; and which inputs would give some outputs."""

    sources: list[frozenset[int]]
    back: Back

    def then(self, later: "Link") -> "Link":
        """This step followed by a later one."""
        sources = [frozenset().union(*(self.sources[i] for i in inputs)) for inputs in later.sources]
        return Link(sources, lambda known: self.back(later.back(known)))


def link(step: Any, n_in: int, n_out: int | None) -> Link | None:
    """Trace a fitted step, or ``None`` if not even the number of its outputs is known."""
    found = _trace_iterative(step, n_in) or _trace(step, n_in, n_out)
    if found is None or (n_out is not None and len(found.sources) != n_out):
        return None if n_out is None else _mixed(n_in, n_out)
    return found


def chain(steps: Sequence[Any], n_in: int, n_out: int) -> Link:
    """Trace steps that follow each other."""
    whole = _same(n_in)
    for step, following in zip_longest(steps, steps[1:]):
        width = n_out if following is None else getattr(following, "n_features_in_", None)
        found = link(step, len(whole.sources), width)
        if found is None:
            return _mixed(n_in, n_out)
        whole = whole.then(found)
    return whole


def is_known(step: Any) -> bool:
    """Whether a step can be traced at all."""
    n_in = getattr(step, "n_features_in_", 1)
    found = _trace_iterative(step, n_in) or _trace(step, n_in, None)
    return found is not None or isinstance(step, Pipeline)


def positions(columns: Any, names: Sequence[str] | None, n_columns: int) -> list[int]:
    """Positions of columns that are given to a ColumnTransformer as names, numbers, slices or masks."""
    import pandas as pd

    order = pd.Series(range(n_columns), index=None if names is None else list(names))
    first = columns.start if isinstance(columns, slice) else columns if np.isscalar(columns) else next(iter(columns), 0)
    last = columns.stop if isinstance(columns, slice) else None
    chosen = order.loc[columns] if isinstance(first, str) or isinstance(last, str) else order.iloc[columns]
    return [int(i) for i in np.atleast_1d(np.asarray(chosen))]


def _same(n: int) -> Link:
    return Link([frozenset([i]) for i in range(n)], lambda known: known)


def _mixed(n_in: int, n_out: int) -> Link:
    return Link([frozenset(range(n_in))] * n_out, lambda known: [None] * n_in)


def _runs(counts: Sequence[int], back: Back | None = None) -> Link:
    """Each input gives a run of outputs."""
    sources = [frozenset([i]) for i, count in enumerate(counts) for _ in range(count)]
    return Link(sources, back or (lambda known: [None] * len(counts)))


def _trace_iterative(step: Any, n_in: int) -> Link | None:
    """IterativeImputer, which scikit-learn only has after an import of its own."""
    if type(step).__name__ != "IterativeImputer" or not hasattr(step, "initial_imputer_"):
        return None
    first = step.initial_imputer_
    kept = np.arange(n_in) if step.keep_empty_features else np.flatnonzero(~np.isnan(first.statistics_))
    return _imputed(kept.tolist(), step.indicator_, n_in)


@singledispatch
def _trace(step: Any, n_in: int, n_out: int | None) -> Link | None:
    return None


@_trace.register(str)
@_trace.register(type(None))
def _(step: str | None, n_in: int, n_out: int | None) -> Link | None:
    return _same(n_in)  # "passthrough"


@_trace.register
def _(step: Pipeline, n_in: int, n_out: int | None) -> Link | None:
    return None if n_out is None else chain([inner for _, inner in step.steps], n_in, n_out)


@_trace.register
def _(step: ColumnTransformer, n_in: int, n_out: int | None) -> Link | None:
    names = getattr(step, "feature_names_in_", None)
    sources: list[frozenset[int]] = [frozenset()] * max(part.stop for part in step.output_indices_.values())
    parts: list[tuple[slice, list[int], Back]] = []
    for name, transformer, columns in step.transformers_:
        outputs = step.output_indices_[name]
        if outputs.start == outputs.stop:
            continue
        inputs = positions(columns, names, n_in)
        inner = link(transformer, len(inputs), outputs.stop - outputs.start)
        assert inner is not None  # the number of outputs is known
        sources[outputs] = [frozenset(inputs[i] for i in own) for own in inner.sources]
        parts.append((outputs, inputs, inner.back))

    def back(known: Known) -> Known:
        result: Known = [None] * n_in
        for outputs, inputs, undo in parts:
            for i, cells in zip(inputs, undo(known[outputs]), strict=True):
                result[i] = cells if result[i] is None else result[i]
        return result

    return Link(sources, back)


@_trace.register(StandardScaler)
@_trace.register(MinMaxScaler)
@_trace.register(MaxAbsScaler)
@_trace.register(RobustScaler)
@_trace.register(PowerTransformer)
@_trace.register(QuantileTransformer)
def _(step: Any, n_in: int, n_out: int | None) -> Link | None:
    return Link(_same(n_in).sources, lambda known: _inverted(step, known))


@_trace.register
def _(step: FunctionTransformer, n_in: int, n_out: int | None) -> Link | None:
    if step.func is None and step.inverse_func is None:
        return _same(n_in)
    each = isinstance(step.func, np.ufunc) and step.func.nin == step.func.nout == 1
    if not each and step.feature_names_out != "one-to-one":
        return None
    return Link(_same(n_in).sources, lambda known: _inverted(step, known) if step.inverse_func else [None] * n_in)


@_trace.register(Binarizer)
def _(step: Binarizer, n_in: int, n_out: int | None) -> Link | None:
    return _runs([1] * n_in)


@_trace.register
def _(step: KBinsDiscretizer, n_in: int, n_out: int | None) -> Link | None:
    return _runs([1] * n_in if step.encode == "ordinal" else [int(n) for n in step.n_bins_])


@_trace.register
def _(step: SplineTransformer, n_in: int, n_out: int | None) -> Link | None:
    return _runs([step.n_features_out_ // n_in] * n_in)


@_trace.register
def _(step: SelectorMixin, n_in: int, n_out: int | None) -> Link | None:
    return _some(step.get_support(indices=True).tolist(), n_in)


@_trace.register
def _(step: SimpleImputer, n_in: int, n_out: int | None) -> Link | None:
    import pandas as pd

    kept = np.arange(n_in) if step.keep_empty_features else np.flatnonzero(~pd.isna(step.statistics_))
    return _imputed(kept.tolist(), step.indicator_, n_in)


@_trace.register
def _(step: KNNImputer, n_in: int, n_out: int | None) -> Link | None:
    # the number of outputs tells whether columns without any value were dropped; which ones only the step knows
    kept = np.arange(n_in)
    empty = getattr(step, "_valid_mask", None)
    if not step.keep_empty_features and empty is not None:
        kept = np.flatnonzero(empty)
    return _imputed(kept.tolist(), step.indicator_, n_in)


@_trace.register
def _(step: MissingIndicator, n_in: int, n_out: int | None) -> Link | None:
    return Link([frozenset([i]) for i in step.features_.tolist()], lambda known: [None] * n_in)


@_trace.register
def _(step: FrozenEstimator, n_in: int, n_out: int | None) -> Link | None:
    return link(step.estimator, n_in, n_out)


@_trace.register
def _(step: FeatureUnion, n_in: int, n_out: int | None) -> Link | None:
    parts = [transformer for _, transformer in step.transformer_list if transformer != "drop"]
    found = [link(part, n_in, _width(part, n_in)) for part in parts]
    if any(part is None for part in found):
        return None
    links = [part for part in found if part is not None]
    ends = np.cumsum([0, *(len(part.sources) for part in links)])

    def back(known: Known) -> Known:
        result: Known = [None] * n_in
        for part, start, stop in zip(links, ends, ends[1:], strict=False):
            for i, cells in enumerate(part.back(known[start:stop])):
                result[i] = cells if result[i] is None else result[i]
        return result

    return Link([own for part in links for own in part.sources], back)


def _width(step: Any, n_in: int) -> int | None:
    """How many outputs a fitted transformer has, if it says so."""
    if isinstance(step, str):
        return n_in
    try:
        return len(step.get_feature_names_out())
    except (AttributeError, ValueError, TypeError):
        return None


def _imputed(kept: list[int], indicator: Any, n_in: int) -> Link:
    """Columns whose missing cells are filled in, and then marks of missing cells."""
    own = _some(kept, n_in)
    marks = [] if indicator is None else indicator.features_.tolist()
    sources = own.sources + [frozenset([i]) for i in marks]
    return Link(sources, lambda known: own.back(known[: len(kept)]))


@_trace.register
def _(step: Lags, n_in: int, n_out: int | None) -> Link | None:
    return Link(_same(n_in).sources * (step.lags + 1), lambda known: known[:n_in])


@_trace.register
def _(step: OrdinalEncoder, n_in: int, n_out: int | None) -> Link | None:
    most = [count - 1 for count in _counts(step)]

    def back(known: Known) -> Known:
        nearest: Known = [
            np.clip(np.rint(cells), 0, top) if _is_number(cells) else None
            for cells, top in zip(known, most, strict=True)
        ]
        return _inverted(step, nearest)

    return Link(_same(n_in).sources, back)


@_trace.register
def _(step: OneHotEncoder, n_in: int, n_out: int | None) -> Link | None:
    dropped = [None] * n_in if step.drop_idx_ is None else step.drop_idx_.tolist()
    counts = [count - (out is not None) for count, out in zip(_counts(step), dropped, strict=True)]
    ends = np.cumsum([0, *counts])

    # the encoder itself says what its outputs stand for: one row per output, ones where an input has fewer of them
    corners = np.zeros((max(counts), ends[-1]))
    for start, count in zip(ends, counts, strict=False):
        if count:
            corners[np.arange(len(corners)), start + np.minimum(np.arange(len(corners)), count - 1)] = 1.0
    told = np.asarray(step.inverse_transform(corners), dtype=object)

    def back(known: Known) -> Known:
        result: Known = []
        for i, (count, out) in enumerate(zip(counts, dropped, strict=True)):
            block = known[ends[i] : ends[i + 1]]
            labels = told[:count, i].tolist() + ([] if out is None else [step.categories_[i][out]])
            if not block or not all(_is_number(cells) for cells in block):
                result.append(None)
                continue
            indicators = np.column_stack([cells for cells in block if cells is not None])
            if out is not None:
                indicators = np.column_stack([indicators, 1 - indicators.sum(axis=1)])
            result.append(_tidy(np.array(labels, dtype=object)[indicators.argmax(axis=1)]))
        return result

    return _runs(counts, back)


def _counts(encoder: Any) -> list[int]:
    """Number of categories of each input, rare ones counted as one."""
    rare = getattr(encoder, "infrequent_categories_", None) or [None] * len(encoder.categories_)
    return [
        len(known) - max(0 if few is None else len(few) - 1, 0)
        for known, few in zip(encoder.categories_, rare, strict=True)
    ]


def _some(kept: list[int], n_in: int) -> Link:
    """Some of the inputs, as they are."""

    def back(known: Known) -> Known:
        at = dict(zip(kept, known, strict=True))
        return [at.get(i) for i in range(n_in)]

    return Link([frozenset([i]) for i in kept], back)


def _inverted(step: Any, known: Known) -> Known:
    """The step's own way back, for the columns that hold numbers."""
    rows = next((len(cells) for cells in known if _is_number(cells)), None)
    if rows is None:
        return [None] * len(known)
    block = np.column_stack([cells if _is_number(cells) else np.zeros(rows) for cells in known])
    nameless = copy(step)  # which does not warn about the names that the block lacks
    vars(nameless).pop("feature_names_in_", None)
    with np.errstate(all="ignore"):
        inputs = np.asarray(nameless.inverse_transform(block))
    return [_tidy(inputs[:, i]) if _is_number(cells) else None for i, cells in enumerate(known)]


def _is_number(cells: Cells | None) -> TypeGuard[Cells]:
    return cells is not None and cells.dtype.kind == "f"


def _tidy(cells: Cells) -> Cells:
    """Numbers as float64, anything else as objects."""
    if cells.dtype.kind == "O" and any(isinstance(cell, str) for cell in cells):
        return cells
    try:
        return np.asarray(cells, dtype=np.float64)
    except (TypeError, ValueError):
        return np.asarray(cells, dtype=object)
