"""The columns that go into a scikit-learn Pipeline, and the features that its steps make from them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from culpa._core.native import for_steps
from culpa._core.types import Floats
from culpa._core.validation import Table, default_names, feature_positions, read_cells, refuse_infinity
from culpa.columns.columns import Cells, Columns, Reading
from culpa.columns.tracing import Known, chain, is_known


class Traced(Columns):
    """Columns behind the steps of a Pipeline before its model.

    Features that are made of the same columns belong together: those of one column under its name, those that mix
    several under their names joined, such as ``a+b``. Columns that no feature is made of are left out.

    ``inner`` is what the model itself makes of the outputs of the last step before it; usually they are its features.
    ``outputs`` are their names, where the steps have names for them.
    """

    def __init__(self, pipeline: Any, inner: Columns) -> None:
        names = getattr(pipeline, "feature_names_in_", None)
        self.steps = steps_of(pipeline)
        self.inner = inner
        self.outputs = output_names(pipeline[:-1])
        self._names_in = None if names is None else tuple(map(str, names))
        n_columns = pipeline.n_features_in_
        self._link = chain(self.steps, n_columns, len(inner.inputs))
        made_of: dict[tuple[int, ...], list[int]] = {}
        shown = [self._link.sources[i] for i in inner.positions]
        for sources, features in zip(shown, inner.members, strict=True):
            made_of.setdefault(tuple(sorted(sources)), []).extend(features)
        self._sources = sorted(made_of)
        members = tuple(tuple(sorted(made_of[own])) for own in self._sources)
        self._columns = self._names_in or default_names(n_columns)
        super().__init__(joined_names(self._sources, self._columns), members, known=True)
        if len(self.names) == 1 and n_columns > 1:
            self.obstacle = _obstacle(pipeline)

    def at(self, position: int, argument: str) -> int:
        """The column, or those that it is mixed with."""
        [place] = feature_positions([position], self._columns, argument)
        for column, sources in enumerate(self._sources):
            if place in sources:
                return column
        raise ValueError(f"{argument} contains {self._columns[place]!r}, which no feature is made of.")

    def read(self, X: Any) -> Reading:
        """The table that went into the Pipeline; it may hold texts."""
        table = Table(transformed(self.steps, X, len(self.inner.inputs)), self.outputs, X)
        refuse_infinity(table, "what the Pipeline makes of X")
        inner = self.inner.read(replace(table, names=None))
        reading = replace(inner, cells=self._cells(X), names=self.names, native=X)
        if inner.shrink is None:
            return reading
        return replace(reading, cells=self._back(inner.cells))

    def decode(self, features: Floats) -> Cells:
        """Back through all steps, as far as they can be undone."""
        return self._back(self.inner.decode(features))

    def show(self, features: Floats, reading: Reading) -> Cells:
        """The same, for the rows of a reading."""
        return self._back(self.inner.show(features, reading))

    def _back(self, outputs: Cells) -> Cells:
        """Columns that have these outputs, of which given ones are not known."""
        cells: Known = [None] * len(self.inner.inputs)
        for position, column in zip(self.inner.positions, outputs.T, strict=True):
            cells[position] = column
        known = self._link.back(cells)
        unknown = np.full(len(outputs), np.nan)
        single = [known[sources[0]] if len(sources) == 1 else None for sources in self._sources]
        return np.column_stack([unknown if cells is None else cells for cells in single])

    def _cells(self, X: Any) -> Cells:
        """What the table held, for columns on their own."""
        unknown = np.full(len(X), np.nan)
        return np.column_stack(
            [
                read_cells(X, sources[0], None if self._names_in is None else self._names_in[sources[0]])
                if len(sources) == 1
                else unknown
                for sources in self._sources
            ]
        )


def steps_of(pipeline: Any) -> list[Any]:
    """The steps of a Pipeline before its last one, that do anything."""
    return [step for _, step in pipeline.steps[:-1] if step not in (None, "passthrough")]


def transformed(steps: Sequence[Any], X: Any, n_outputs: int) -> Floats:
    """What the steps make of a table."""
    if not len(X):
        return np.empty((0, n_outputs))
    rows = for_steps(X)
    for step in steps:
        rows = step.transform(rows)
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)


def output_names(steps: Any) -> tuple[str, ...] | None:
    """What the steps call their outputs, if all of them do."""
    try:
        return tuple(map(str, steps.get_feature_names_out()))
    except (AttributeError, ValueError, TypeError):
        return None


def _obstacle(pipeline: Any) -> str:
    for name, step in pipeline.steps[:-1]:
        if not is_known(step):
            return f"step {name!r} of the Pipeline ({type(step).__name__}) may mix columns"
    return "the Pipeline mixes all columns"


def joined_names(groups: Sequence[tuple[int, ...]], names: Sequence[str]) -> tuple[str, ...]:
    """A name for every group of columns: theirs, joined; numbered where a column has that name already."""
    taken = {names[group[0]] for group in groups if len(group) == 1}
    result = []
    for group in groups:
        name = "+".join(names[i] for i in group)
        if len(group) > 1:
            name = next(new for n in count(1) if (new := name if n == 1 else f"{name} ({n})") not in taken)
            taken.add(name)
        result.append(name)
    return tuple(result)
