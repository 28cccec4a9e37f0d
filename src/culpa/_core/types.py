"""Array types that every room uses."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]
Mask = NDArray[np.bool_]
Array = Any  # an array of any library that follows the array API standard, which defines no type for it yet


class DataFrame(Protocol):
    """A data frame of the kind that the user works with: pandas, polars, pyarrow or another.

    All kinds have these methods. Which others a frame has depends on its kind, so they are not checked.
    """

    @property
    def columns(self) -> Any:
        """The columns: their names, or the columns themselves in pyarrow."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any: ...

    def __getattr__(self, name: str, /) -> Any: ...
