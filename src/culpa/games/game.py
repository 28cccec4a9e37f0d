"""What every game offers to the engines.

A game is walked, not tabulated. `Game.start` puts a batch of empty coalitions in front of queues of features. Then, again
and again, the first feature of every queue either joins (`Coalitions.join`, which tells how the value of every
coalition changes for every row) or is passed over for good (`Coalitions.skip`). Exact enumeration joins and skips;
sampled orders only join. Because features that were passed over never come back, a game need only keep what
the features still waiting can see.

Arrays follow the array API standard, so the same code runs on NumPy arrays and on torch tensors. Shapes:
batch B (coalitions), k (features still waiting), n (rows).
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from culpa._core.types import Array, Floats


class Cost(NamedTuple):
    """About how many operations a coalition takes, once and per row, in a tree of coalitions and in an order."""

    tree_coalition: float
    tree_row: float
    order_coalition: float
    order_row: float


class Coalitions(Protocol):
    """A batch of coalitions on their way, each with its own queue of features."""

    def join(self) -> tuple[Self, Array]:
        """The first feature of every queue joins; also returns the change of value, (B, n)."""
        ...

    def skip(self) -> Self:
        """The first feature of every queue is passed over for good."""
        ...

    def concat(self, other: Self) -> Self:
        """Both batches as one; their queues must be equally long."""
        ...


class Game(ABC):
    """The value of every coalition of features, for every row."""

    n_features: int
    cost: Cost
    scale: Floats  # natural size of each feature, (d,)
    quadratic: bool = False  # whether values are quadratic in the row, so that Shapley values can be compiled
    forms_keep_digits: bool = True  # whether they should be
    # Coordinates u for compiling, where those of the rows would cost digits: rows x = u @ axes, u = x @ coordinates.
    axes: tuple[Floats, Floats] | None = None

    @property
    @abstractmethod
    def base_value(self) -> float:
        """Value of the empty coalition, the same for all rows."""

    @abstractmethod
    def start(self, X: Array, queues: NDArray[np.intp], *, branching: bool) -> Coalitions:
        """Empty coalitions in front of ``queues`` (B, k); ``branching`` tells that features will also be skipped."""

    @abstractmethod
    def value(self, X: Floats, members: NDArray[np.intp]) -> Floats:
        """Value of one coalition straight from the definition, (n,): slow, and the witness for everything else."""

    def total(self, X: Floats, observed: NDArray[np.intp]) -> Floats:
        """Value of the coalition of all observed features, (n,): the score that is explained."""
        return self.value(X, observed)

    def deciding_order(self, players: list[list[int]]) -> list[int]:
        """In which order players should decide in a tree of coalitions: it is smallest when the large ones come first."""
        return sorted(range(len(players)), key=lambda i: -len(players[i]))

    def closed_form(self, X: Floats, players: list[list[int]]) -> Floats | None:
        """Shapley values (n, players) where a formula gives them; ``None`` where the game must be walked."""
        return None


def like(array: Any, X: Array) -> Array:
    """``array`` in the namespace and on the device of ``X``; a number is one of 64 bits."""
    if isinstance(X, np.ndarray):
        return np.asarray(array)
    # torch would make 32 bits of a Python number, and warns of arrays that may not be written to
    return array_namespace(X).asarray(np.array(array), device=device(X))


def row_chunks(X: Array, size: int) -> list[Array]:
    """``X`` cut into pieces of at most ``size`` rows."""
    n = X.shape[0]
    return [X[start : min(start + size, n), :] for start in range(0, n, size)]


def gather_pairs(matrix: Floats, queues: NDArray[np.intp], X: Array) -> Array:
    """Submatrices (B, k, k) of a (d, d) matrix, rows and columns in the order of each queue."""
    return like(matrix[queues[:, :, None], queues[:, None, :]], X)


def gather_columns(X: Array, queues: NDArray[np.intp]) -> Array:
    """Columns of ``X`` in the order of each queue, (B, k, n)."""
    xp = array_namespace(X)
    flat = xp.take(xp.permute_dims(X, (1, 0)), like(queues.reshape(-1), X), axis=0)
    return xp.reshape(flat, (*queues.shape, X.shape[0]))
