"""What remembers earlier rows, as JSON: every number keeps its digits, and what comes back is the same.

Only arrays, times, containers and the plain classes of `_CLASSES` can be written.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from culpa.columns import Reading
from culpa.monitoring import incident, running, signal_watch, signals
from culpa.ranking.recent import Recent
from culpa.scores import grouping

_CLASSES: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (
        running.Course,
        running.Draft,
        running.Movement,
        running.Part,
        running.Snapshot,
        running.Stages,
        signal_watch.WrongSignal,
        signals.Finding,
        signals.State,
        grouping.Stretch,
        incident.Culprit,
        incident.Disagreement,
        incident.Incident,
        incident.Moment,
        incident.Moved,
        incident.Reached,
        incident.Stage,
        Reading,
        Recent,
    )
}


def to_plain(value: Any) -> Any:
    """A value as JSON has it.

    >>> to_plain({1: (0.5, "a")})
    {'map': [[1, {'tuple': [{'float': '0x1.0000000000000p-1'}, 'a']}]]}
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, np.generic):
        return to_plain(value.item()) if value.dtype.kind != "M" else {"array": _array(np.array(value))}
    if type(value).__name__ in _CLASSES:
        names = [one.name for one in fields(value)] if is_dataclass(value) else value._fields
        if isinstance(value, Reading):  # of single rows, whose labels stand elsewhere
            value = replace(value, native=None, labels=np.arange(len(value.features)))
        return {"class": type(value).__name__, "of": {name: to_plain(getattr(value, name)) for name in names}}
    if isinstance(value, dict):
        return {"map": [[to_plain(key), to_plain(item)] for key, item in value.items()]}
    if isinstance(value, (tuple, list)):
        return {type(value).__name__: [to_plain(item) for item in value]}
    return _time(value)


def from_plain(plain: Any) -> Any:
    """Inverse of `to_plain`."""
    if not isinstance(plain, dict):
        return plain
    if "class" in plain:
        return _CLASSES[plain["class"]](**{name: from_plain(item) for name, item in plain["of"].items()})
    if "map" in plain:
        return {from_plain(key): from_plain(item) for key, item in plain["map"]}
    (kind, content), *shape = plain.items()
    if kind == "float":
        return float.fromhex(content)
    if kind == "array":
        return from_plain(content)[()]
    if kind in ("tuple", "list"):
        items = [from_plain(item) for item in content]
        return tuple(items) if kind == "tuple" else items
    if kind in ("Timestamp", "Timedelta"):
        return _time_from(kind, content)
    if kind == "object":
        result = np.empty(len(content), dtype=object)
        result[:] = [from_plain(item) for item in content]
        return result.reshape(shape[0][1])
    return np.frombuffer(bytes.fromhex(content), dtype=np.dtype(kind)).reshape(shape[0][1]).copy()


def _array(array: np.ndarray) -> dict[str, Any]:
    if array.dtype == object:
        return {"object": [to_plain(item) for item in array.ravel()], "shape": list(array.shape)}
    return {array.dtype.str: np.ascontiguousarray(array).tobytes().hex(), "shape": list(array.shape)}


def _time(value: Any) -> dict[str, Any]:
    """A time of pandas: its count, in its unit and zone."""
    kind = type(value).__name__
    if kind == "Timedelta":
        return {kind: [value.value]}
    if kind != "Timestamp":
        raise TypeError(f"{kind} cannot be kept.")
    return {kind: [value.value, value.unit, None if value.tz is None else str(value.tz)]}


def _time_from(kind: str, content: list[Any]) -> Any:
    import pandas as pd

    if kind == "Timedelta":
        return pd.Timedelta(content[0], "ns")
    count, unit, zone = content
    return pd.Timestamp(count, tz=zone).as_unit(unit)
