"""A table whose row of units names other units than those that a model, or the first file, has."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from culpa.columns.units import conversion, same_unit
from culpa.io.tables.table import Batch, Source, Stage, TableError


class _Converted(Stage):
    """A table in other units."""

    def __init__(self, inner: Source, units: Mapping[str, str]) -> None:
        super().__init__(inner)
        self._wanted = units

    @property
    def units(self) -> Mapping[str, str]:
        """The units into which columns are converted."""
        return {**self.inner.units, **self._wanted}

    def batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        """All rows in these units. A feature that nobody can convert is refused."""
        steps = [(j, *self._step(name)) for j, name in enumerate(features) if name in self._wanted]
        for batch in self.inner.batches(features, carried):
            X = batch.X.copy(order="F")
            for j, factor, shift in steps:
                X[:, j] = X[:, j] * factor + shift
            yield replace(batch, X=X)

    def _step(self, name: str) -> tuple[float, float]:
        unit, wanted = self.inner.units[name], self._wanted[name]
        found = conversion(unit, wanted)
        if found is None:
            raise _other_unit(self.inner, name, wanted)
        return found


def _other_unit(source: Source, name: str, wanted: str) -> TableError:
    return TableError(
        f"{source.name}: column {name!r} is in {source.units[name]!r}, but it was in {wanted!r} before. Convert it, or "
        "correct the row of units."
    )


def check_unit(source: Source, units: Mapping[str, str], name: str) -> Source:
    """The table, unless a column is in another unit. Values of a long table are not converted, because tags differ."""
    if name in units and not same_unit(source.units.get(name, units[name]), units[name]):
        raise _other_unit(source, name, units[name])
    return source


def in_units(source: Source, units: Mapping[str, str], report: Callable[[str], None]) -> Source:
    """The table with its columns in these units, where they are others than its row of units names."""
    own = source.units
    others = {name: unit for name, unit in units.items() if name in own and not same_unit(own[name], unit)}
    for name, unit in others.items():
        if conversion(own[name], unit):
            report(f"{source.name}: column {name!r} is converted from {own[name]} to {unit}.")
    return _Converted(source, others) if others else source
