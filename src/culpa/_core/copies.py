"""Objects that can be copied in one thread while another uses them, and values that nobody else can change."""

from collections.abc import Mapping
from typing import Any

import numpy as np


class CopiedInUse:
    """Base of classes with cached properties, whose first use adds to the dictionary of an object.

    `copy.deepcopy` and `pickle` go through that dictionary, and raise an error if it grows meanwhile. So they get a copy
    of it. Making one is a single step, which no other thread interrupts.
    """

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))


def own_copy(value: Any) -> Any:
    """A copy of lists, dicts and arrays, however deep, as plain lists and dicts; anything else as it is.

    >>> groups = {"feed": ["a", "b"]}
    >>> mine = own_copy(groups)
    >>> groups["feed"].append("c")
    >>> mine
    {'feed': ['a', 'b']}
    """
    if isinstance(value, Mapping):
        return {key: own_copy(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [own_copy(each) for each in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
