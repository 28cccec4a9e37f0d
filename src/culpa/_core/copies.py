"""Objects that can be copied in one thread while another uses them."""

from typing import Any


class CopiedInUse:
    """Base of classes with cached properties, whose first use adds to the dictionary of an object.

    `copy.deepcopy` and `pickle` go through that dictionary, and raise an error if it grows meanwhile. So they get a copy
    of it. Making one is a single step, which no other thread interrupts.
    """

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))
