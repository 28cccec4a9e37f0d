"""Explanations as plain lists and numbers, for JSON, and back."""

import json
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from culpa._core.border import entered
from culpa._core.json_values import to_json_value

_NOT_STORED = ("native", "origin")  # fields that are not data


@entered
@dataclass(frozen=True, eq=False)
class Stored:
    """A dataclass of arrays that is written as plain data, and read again."""

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers; `from_dict` reads it back."""
        return {
            field.name: to_json_value(vars(self).get(field.name))
            for field in fields(self)
            if field.name not in _NOT_STORED
        }

    def to_json(self) -> str:
        """`to_dict` as JSON; missing numbers become null."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Inverse of `to_dict`, also after a trip through JSON."""
        known = {field.name for field in fields(cls)} - set(_NOT_STORED)
        if missing := known - content.keys():
            raise ValueError(f"not an explanation: {sorted(missing)[0]!r} is missing.")
        read = {name: content[name] for name in known}
        n, d, players = (
            len(read["row_labels"]),
            len(read["feature_names"]),
            len(read["groups"] or read["feature_names"]),
        )
        for name in ("data", "expected"):
            read[name] = None if read[name] is None else _cells(read[name], (n, d))
        for name in ("values", "std_error", "score", "score_if_fixed", "suspicion"):
            if read[name] is None:
                continue
            width = () if name == "score" else (players,)  # an empty list does not know its width
            read[name] = np.array(read[name], dtype=np.float64).reshape(n, *width)
        if read["furthest"] is not None:
            read["furthest"] = np.array(read["furthest"], dtype=np.intp).reshape(n, players)
        if isinstance(read["base_value"], list):
            read["base_value"] = np.array(read["base_value"], dtype=np.float64)
        labels = read["row_labels"]
        if any(isinstance(label, (list, tuple)) for label in labels):  # of a MultiIndex
            read["row_labels"] = np.empty(n, dtype=object)
            read["row_labels"][:] = [tuple(label) for label in labels]
        else:
            read["row_labels"] = np.array(labels)
        read["feature_names"] = tuple(read["feature_names"])
        if read["groups"] is not None:
            read["groups"] = tuple((name, tuple(members)) for name, members in read["groups"])
        return cls(**read)


def _cells(rows: list[list[Any]], shape: tuple[int, int]) -> NDArray[Any]:
    """Cells from plain lists: float64 unless there is text among them."""
    text = any(isinstance(cell, str) for row in rows for cell in row)
    cells = np.array(rows, dtype=object if text else np.float64).reshape(shape)
    if text:
        cells[cells == None] = np.nan  # noqa: E711 - cell by cell
    return cells
