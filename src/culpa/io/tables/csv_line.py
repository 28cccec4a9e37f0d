"""A single line of CSV, as pyarrow writes it.

Lines of a pipe are answered one by one. A table of one row would take longer than everything else about such an answer.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

_NUMPY_KINDS = {"double": np.float64, "int64": np.int64, "bool": np.bool_}  # of Arrow's types


class CsvLine:
    """Writes single rows of tables whose columns are numbers, flags or texts."""

    def __init__(self, schema: Any) -> None:
        self._columns = [(field.name, _NUMPY_KINDS.get(str(field.type))) for field in schema]
        self._is_plain = all(str(field.type) in (*_NUMPY_KINDS, "string") for field in schema)

    def __call__(self, columns: Mapping[str, Any]) -> bytes | None:
        """The line; ``None`` if there is other than one row, or if the types are not those of the schema."""
        if not self._is_plain:
            return None
        cells = [_cell(columns[name], kind) for name, kind in self._columns]
        if any(cell is ... for cell in cells):
            return None
        at = [i for i, cell in enumerate(cells) if isinstance(cell, float)]
        numbers = pa.array([cells[i] for i in at], pa.float64(), from_pandas=True)  # NaN is a missing cell
        for i, text in zip(at, numbers.cast(pa.string()).to_pylist(), strict=True):
            cells[i] = text
        return (",".join("" if cell is None else cell for cell in cells) + "\n").encode()


def _cell(column: Any, kind: Any) -> Any:
    """The only cell: a float, or the text of anything else; ``None`` if it is missing, ``...`` if it is not plain."""
    if len(column) != 1:
        return ...
    if kind is None:
        return _quoted(column[0].as_py() if isinstance(column, pa.Array) else column[0])
    if not isinstance(column, np.ndarray) or column.dtype != kind:
        return ...
    return column.item() if kind is np.float64 else str(column.item()).lower()


def _quoted(cell: Any) -> Any:
    if cell is None:
        return None
    return '"' + cell.replace('"', '""') + '"' if isinstance(cell, str) else ...
