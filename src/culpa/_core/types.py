"""Array types that every room uses."""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]
Mask = NDArray[np.bool_]
Array = Any  # an array of any library that follows the array API standard, which defines no type for it yet


class Frame(Protocol):
    """A data frame, as type checkers recognise one."""

    @property
    def columns(self) -> Any:
        """The columns or their names."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""

    def __getitem__(self, key: Any, /) -> Any: ...


# The kind of table that a result was made from: what a method takes, and the data frame that its result returns. A result
# whose kind of table is not stated is one of any kind.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    TableT = TypeVar("TableT", default=Any)
else:
    from typing import TypeVar

    TableT = TypeVar("TableT")
FrameT = TypeVar("FrameT", bound=Frame)


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
