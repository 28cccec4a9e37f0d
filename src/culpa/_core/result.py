"""What results of an analysis have in common: plain data, JSON, and a table in the kind that was given."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, overload

from culpa._core.json_values import to_json_value
from culpa._core.types import DataFrame, FrameT, TableT
from culpa._core.validation import frame_like


@dataclass(frozen=True, eq=False)
class Result(Generic[TableT]):
    """A result whose fields are its data; ``native`` is the table that was given, kept to answer in kind."""

    native: Any = field(default=None, repr=False, kw_only=True)
    _derived: ClassVar[tuple[str, ...]] = ("sentence",)  # properties that dictionaries begin with
    _hidden: ClassVar[tuple[str, ...]] = ("native",)  # fields that they leave out

    @property
    def _lines(self) -> Sequence[Any]:
        """The lines of the table: dataclasses of one kind."""
        raise NotImplementedError

    @overload
    def to_frame(self: "Result[FrameT]") -> FrameT: ...  # type: ignore[overload-overlap]

    @overload
    def to_frame(self) -> DataFrame: ...

    def to_frame(self) -> Any:
        """The main part as a table, in the kind that was given."""
        return self._frame_of(self._lines)

    def _frame_of(self, lines: Iterable[Any]) -> DataFrame:
        """Lines as a table, in the kind that was given; an interval is three columns."""
        return frame_like(self.native, as_columns(lines))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers; what is no finite number is None."""
        own = {name: value for name, value in vars(self).items() if name not in self._hidden}
        return dict(to_json_value({name: getattr(self, name) for name in self._derived} | own))

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False)


def as_columns(lines: Iterable[Any]) -> dict[str, list[Any]]:
    """Dataclasses of one kind as columns; a named tuple is a column of its name and others for the rest of it."""
    columns: dict[str, list[Any]] = {}
    for line in lines:
        for name, cell in vars(line).items():
            parts = cell._asdict() if hasattr(cell, "_asdict") else {"value": cell}
            for part, value in parts.items():
                columns.setdefault(name if part == "value" else part, []).append(value)
    return columns
