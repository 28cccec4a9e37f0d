"""The user's columns, each behind one or more features of a model.

Users know columns; a model knows features. A column is one feature (`Plain`), or several: its values at earlier
times (`culpa.columns.lags`), or whatever a Pipeline makes of it (`culpa.columns.pipelines`). Scores and games see
features; players, actual and expected values are columns.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from culpa._core.continuity import Step
from culpa._core.native import emptied
from culpa._core.types import Floats
from culpa._core.validation import Table, check_width, default_names, feature_positions, read_table
from culpa.columns.picking import picked

Cells = NDArray[Any]  # float64, or objects where there are texts among them


@dataclass(frozen=True, eq=False)
class Reading:
    """Rows as the features of a model, and as the cells of the user's table."""

    features: Floats  # (rows, features); NaN is missing
    cells: Cells  # (rows, columns)
    labels: NDArray[Any]  # what the user calls the rows
    names: tuple[str, ...] | None = None  # of the columns, if the table had any
    native: Any = None  # the table itself, kept to answer in kind
    shrink: Floats | None = None  # (rows, features) of smoothed rows: see `culpa.columns.smoothing`
    reference: Floats | None = None  # (rows, features) that features are distances from, and cells are not

    @classmethod
    def of(cls, table: Table) -> Self:
        """A checked table, whose numbers are features and cells."""
        return cls(table.array, table.array, table.row_labels(), table.names, table.native)

    @staticmethod
    def joined(parts: "Sequence[Reading]") -> "Reading":
        """Readings of the same columns, as one."""
        shrinks = [part.shrink for part in parts if part.shrink is not None]
        return replace(
            parts[0],
            features=np.concatenate([part.features for part in parts]),
            cells=np.concatenate([part.cells for part in parts]),
            labels=np.concatenate([part.labels for part in parts]),
            shrink=np.concatenate(shrinks) if shrinks else None,
        )

    def owned(self) -> "Reading":
        """The same rows in memory that nobody else has, without the table."""
        labels, native = self.labels.copy(), emptied(self.native)
        if self.native is not None:  # a table of which the numbers are a copy
            return Reading(self.features, self.cells, labels, self.names, native, self.shrink)
        features = self.features.copy(order="K")
        cells = features if self.cells is self.features else self.cells.copy(order="K")
        return Reading(features, cells, labels, self.names, None, self.shrink)

    def choose(self, rows: Any) -> Self:
        """Some of the rows, by positions (or a single one), a mask, a slice, or labels of a pandas index."""
        at = picked(rows, self.labels, self.native)
        shrink, reference = (None if each is None else each[at] for each in (self.shrink, self.reference))
        labels = self.labels[at]
        return replace(
            self, features=self.features[at], cells=self.cells[at], labels=labels, shrink=shrink, reference=reference
        )

    def against(self, reference: Floats) -> Self:
        """The same rows, with features that are distances from a reference."""
        return replace(self, features=self.features - reference, reference=reference)


class Arranged(NamedTuple):
    """The next rows of a table that comes in pieces: features, cells and ``shrink`` of a `Reading`."""

    features: Floats
    cells: Cells
    shrink: Floats | None = None


class Remembers(Protocol):
    """What remembers earlier rows; set its memory to go on from there."""

    memory: tuple[Any, ...]


@dataclass(frozen=True)
class Arrange:
    """Arranges the next rows, with as many missing rows before each; ``past`` remembers earlier rows, where they matter."""

    arranged: Callable[[Floats, Floats | None], Arranged]
    past: Remembers | None = None

    def __call__(self, X: Floats, missing: Floats | None = None) -> Arranged:
        """Arrange the next rows of the table."""
        return self.arranged(X, missing)


class Columns(ABC):
    """The user's columns: their names, the features made from them, and the conversion in both directions.

    ``members`` are the positions of the features behind each column. ``known`` says that the names are the user's and not
    made up. ``inputs`` are the names of all columns that are read: those above, and those that are only given.
    ``positions`` are where the columns are among the inputs.
    """

    lags: int = 0  # how many rows back a row's features go
    step: Step | None = None  # how far apart rows with lags are
    smooth: float | None = None  # weight of a row in smoothed rows
    obstacle: str | None = None  # why no single column can be blamed, where that is so

    def __init__(
        self,
        names: tuple[str, ...],
        members: tuple[tuple[int, ...], ...],
        *,
        known: bool,
        inputs: tuple[str, ...] | None = None,
        positions: Sequence[int] | None = None,
    ) -> None:
        self.names, self.members, self.inputs = names, members, inputs or names
        self.known_names = names if known else None
        self.known_inputs = self.inputs if known else None
        self.positions = list(range(len(names)) if positions is None else positions)

    @abstractmethod
    def read(self, X: Any) -> Reading:
        """Check the user's table and make features of its columns."""

    @abstractmethod
    def decode(self, features: Floats) -> Cells:
        """Cells (rows, columns) that have these features; NaN where they cannot be computed."""

    def show(self, features: Floats, reading: Reading) -> Cells:
        """`decode`, for features that belong to the rows of a reading: what they would look like beside its cells."""
        return self.decode(features if reading.reference is None else features + reading.reference)

    def at(self, position: int, argument: str) -> int:
        """Which of the columns has a position in the user's table."""
        [place] = feature_positions([position], self.inputs, argument)
        if place not in self.positions:
            raise ValueError(
                f"{argument} contains position {place}, which is {self.inputs[place]!r}: it is given or not used, so it is "
                "never blamed."
            )
        return self.positions.index(place)

    def find(self, features: Iterable[str | int], argument: str, names: Sequence[str] | None = None) -> list[int]:
        """Which columns these are, by name (of theirs, or of ``names``) or by position in the user's table."""
        listed = [features] if isinstance(features, str) else features
        known = names or self.names
        return [
            feature_positions([one], known, argument)[0] if isinstance(one, str) else self.at(int(one), argument)
            for one in listed
        ]

    def named(self, features: Iterable[str | int], argument: str) -> list[str]:
        """The same by name; other names stay as they are, since they may be those of features or groups."""
        listed = [features] if isinstance(features, str) else features
        return [one if isinstance(one, str) else self.names[self.at(int(one), argument)] for one in listed]

    def stream(self) -> Arrange:
        """A function that arranges the next rows of a table that comes in pieces."""
        raise TypeError(f"{type(self).__name__} columns can only be read as a whole table.")

    def features_of(self, columns: Iterable[int]) -> list[int]:
        """Positions of the features behind some columns."""
        return sorted(feature for column in columns for feature in self.members[column])


class Plain(Columns):
    """Columns that are features themselves, one each."""

    def __init__(self, names: tuple[str, ...] | None, n_features: int) -> None:
        one_each = tuple((i,) for i in range(n_features))
        super().__init__(names or default_names(n_features), one_each, known=names is not None)

    def read(self, X: Any) -> Reading:
        """Check any table of numbers; its cells are the features."""
        table = read_table(X, min_rows=0)
        check_width(table, len(self.names), self.known_names)
        return Reading.of(table)

    def stream(self) -> Arrange:
        """A function that arranges the next rows; no row depends on earlier ones."""
        return Arrange(lambda X, missing: Arranged(X, X))

    def decode(self, features: Floats) -> Cells:
        """The features are the cells."""
        return features


class View(Columns):
    """Other columns, of which some are hidden, and some are split into their features.

    A part is a name, the position of a column, or ``None`` for a feature, and the features behind it.
    """

    def __init__(
        self, columns: Columns, parts: Sequence[tuple[str, int | None, tuple[int, ...]]], *, known: bool, missing: str
    ) -> None:
        names = tuple(name for name, _, _ in parts)
        super().__init__(names, tuple(members for *_, members in parts), known=known, inputs=columns.inputs)
        self.columns, self.smooth, self.lags, self._missing = columns, columns.smooth, columns.lags, missing
        self._origin = [position for _, position, _ in parts]

    @classmethod
    def for_names(cls, columns: Columns, feature_names: Sequence[str], wanted: Iterable[object]) -> Columns:
        """The same columns, with those split whose features are asked for by name."""
        owner = {
            feature_names[feature]: position for position, members in enumerate(columns.members) for feature in members
        }
        opened = {
            owner[name] for name in wanted if isinstance(name, str) and name not in columns.names and name in owner
        }
        if not opened:
            return columns
        parts: list[tuple[str, int | None, tuple[int, ...]]] = []
        for position, (name, members) in enumerate(zip(columns.names, columns.members, strict=True)):
            features = [(feature_names[feature], None, (feature,)) for feature in members]
            parts += features if position in opened else [(name, position, members)]
        view = cls(columns, parts, known=True, missing="of which features are named elsewhere")
        if len(set(view.names)) < len(view.names):
            twice = next(name for name in view.names if view.names.count(name) > 1)
            raise ValueError(f"{twice!r} is the name of a column and of a feature. Rename one of them.")
        return view

    @classmethod
    def without(cls, columns: Columns, hidden: Iterable[int]) -> Columns:
        """The columns but for those that are known beforehand: the model uses them, but they are not shown."""
        shown = sorted(set(range(len(columns.names))) - set(hidden))
        parts = [(columns.names[i], i, columns.members[i]) for i in shown]
        known = columns.known_names is not None
        view = cls(columns, parts, known=known, missing="which is given, so it is never blamed")
        view.obstacle = columns.obstacle
        return view

    def at(self, position: int, argument: str) -> int:
        """Which of the columns has a position in the user's table."""
        place = self.columns.at(position, argument)
        if place not in self._origin:
            raise ValueError(f"{argument} contains {self.columns.names[place]!r}, {self._missing}.")
        return self._origin.index(place)

    def read(self, X: Any) -> Reading:
        """Features of split columns are cells."""
        reading = self.columns.read(X)
        names = None if reading.names is None else self.names
        return replace(reading, cells=self._arranged(reading.cells, reading.features), names=names)

    def decode(self, features: Floats) -> Cells:
        """As the columns do it."""
        return self._arranged(self.columns.decode(features), features)

    def show(self, features: Floats, reading: Reading) -> Cells:
        """As the columns do it."""
        return self._arranged(self.columns.show(features, reading), features)

    def _arranged(self, cells: Cells, features: Floats) -> Cells:
        if None not in self._origin:
            return np.asarray(cells[:, np.array(self._origin, dtype=np.intp)])
        parts = [
            features[:, members[0]] if position is None else cells[:, position]
            for position, members in zip(self._origin, self.members, strict=True)
        ]
        return np.column_stack(parts)
