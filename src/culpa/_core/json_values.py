"""Numbers, texts and lists that JSON has, from whatever there is."""

import math
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from culpa._core.optional import require


def to_json_value(value: Any) -> Any:
    """Dataclasses as dictionaries, arrays as lists, times as ISO 8601 texts, anything else unknown as text.

    What is no finite number is None.


    >>> import numpy as np
    >>> to_json_value({"score": np.array([1.5, np.nan]), "row": np.datetime64("2024-03-05T10:00")})
    {'score': [1.5, None], 'row': '2024-03-05T10:00:00'}
    """
    if hasattr(value, "_asdict"):  # a named tuple
        value = value._asdict()
    if is_dataclass(value):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, dict):
        return {name: to_json_value(item) for name, item in value.items()}
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biufU":  # nothing to look for inside
        cells = value.tolist()
        return [cell if math.isfinite(cell) else None for cell in cells] if value.dtype.kind == "f" else cells
    if isinstance(value, np.ndarray):
        return to_json_value(list(value) if value.dtype.kind in "mM" else value.tolist())
    if isinstance(value, (list, tuple)):
        return [to_json_value(item) for item in value]
    if isinstance(value, (np.datetime64, np.timedelta64)):
        pd = require("pandas", "A time in JSON")
        value = (pd.Timestamp if isinstance(value, np.datetime64) else pd.Timedelta)(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (str, int, type(None))):
        return value
    return str(value.isoformat() if hasattr(value, "isoformat") and hasattr(value, "year") else value)


def as_typed(number: float) -> str:
    """A number as a person would type it, without losing a digit.

    >>> as_typed(-9999.0), as_typed(1e6), as_typed(0.1), as_typed(1e20)
    ('-9999', '1000000', '0.1', '1e+20')
    """
    return repr(float(number)).removesuffix(".0")
