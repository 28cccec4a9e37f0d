"""What a game is, and everything that an engine may ask of it.

A game assigns a value to every coalition of features, for every row. A new game has to say how many features it has, what
the empty coalition is worth, and what a coalition is worth:

>>> import numpy as np
>>> from culpa import shapley
>>> class Largest(Game):
...     '''A coalition is worth the largest of its features' values, and 0 if it is empty.'''
...     n_features = 3
...     base_value = 0.0
...
...     def value(self, X, members):
...         return X[:, members].max(axis=1, initial=0.0)
>>> shapley.exact(Largest(), np.array([[6.0, 3.0, 1.0]]), [[0], [1], [2]]).values.round(3)
array([[4.333, 1.333, 0.333]])

Everything else has a default that works, and is overridden to be faster:

| member | what it is for | default |
| --- | --- | --- |
| `Game.values` | values of many coalitions at once | calls `Game.value` for each |
| `Game.start` | coalitions that grow step by step | calls `Game.values` at every step |
| `Game.tree_job` | the tree of all coalitions by a compiled kernel | not offered |
| `Game.marginals` | contributions of all players to one coalition at once | not offered |
| `Game.closed_form` | Shapley values by a formula | not offered |
| `Game.quadratic`, `forms_keep_digits`, `axes`, `scale` | Shapley values as quadratic forms of the row | not offered |
| `Game.cost` | choosing between exact and sampled values | as for one linear solve per coalition |

A game is *walked*: `Game.start` puts a batch of empty coalitions in front of queues of features. Then, again and again, the
first feature of every queue either joins (`Coalitions.join`, which returns how the value of every coalition changes for
every row) or is skipped for good (`Coalitions.skip`). Exact enumeration joins and skips; sampled orders only join. A
feature that was skipped never comes back, so coalitions need to know only what matters to the features still waiting.
Where only some coalitions are admissible (`culpa.shapley.asymmetric`), those that go on are chosen (`Coalitions.choose`).

Arrays follow the array API standard, so that the same code runs on NumPy arrays and on torch tensors. Shapes:

| symbol | meaning |
| --- | --- |
| B | coalitions of a batch |
| k | features still waiting |
| n | rows |
| d | features |
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self

import numpy as np
from array_api_compat import array_namespace

from culpa._core.copies import CopiedInUse
from culpa._core.types import Array, Floats, Mask, Positions
from culpa._kernels.tree import TreeJob
from culpa.games.arrays import as_array_like
from culpa.games.batch import Batch
from culpa.games.marginals import Marginals


class Cost(NamedTuple):
    """About how many operations a coalition takes, once and per row, in a tree of coalitions and in an order."""

    tree_coalition: float
    tree_row: float
    order_coalition: float
    order_row: float


class Axes(NamedTuple):
    """Coordinates u for finding quadratic forms, where the rows' own coordinates would lose digits."""

    directions: Floats  # (d, d): rows x = u @ directions
    coordinates: Floats  # (d, d): u = x @ coordinates


class Coalitions(Protocol):
    """A batch of growing coalitions, each with its own queue of features."""

    def join(self) -> tuple[Self, Array]:
        """The first feature of every queue joins; also returns the change of value, (B, n)."""
        ...

    def skip(self) -> Self:
        """The first feature of every queue is skipped for good."""
        ...

    def concat(self, other: Self) -> Self:
        """Both batches as one; their queues must be equally long."""
        ...

    def choose(self, which: Array) -> Self:
        """Some coalitions of the batch, by their positions."""
        ...


class GaussianCoalitions(Coalitions, Protocol):
    """Coalitions of Gaussian features, which know how likely the next feature is."""

    def surprise(self) -> tuple[Array, Array]:
        """What the first feature of every queue is beyond what was expected, (B, n), and the variance of that, (B,)."""
        ...


class Game(CopiedInUse, ABC):
    """The value of every coalition of features, for every row. The module's text says what to override, and why."""

    known: Positions = np.empty(0, dtype=np.intp)  # features that are in every coalition, and are no players
    explains_score: bool = True  # whether `total` is the score itself, also where cells are missing
    is_simulated: bool = False  # whether coalitions are valued by draws, as `culpa.shapley.simulated` needs it

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of features, d."""

    @property
    @abstractmethod
    def base_value(self) -> float:
        """Value of the empty coalition, the same for all rows; 0 if `base_varies`."""

    @property
    def base_varies(self) -> bool:
        """Whether the empty coalition is worth more in some rows than in others. Values are then counted from there."""
        return False

    def base_values(self, X: Floats) -> Floats:
        """What the empty coalition is worth in each row, (n,), where that differs from row to row."""
        return np.full(len(X), self.base_value)

    @abstractmethod
    def value(self, X: Floats, members: Positions) -> Floats:
        """Value of one coalition from the definition, (n,). May be slow: tests compare everything else with it."""

    def values(self, X: Array, members: Array) -> Array:
        """Values (B, n) of coalitions that are given as (B, d) arrays of 0 and 1.

        The default serves NumPy arrays. To run on other libraries, override it with array API code.
        """
        return np.stack([self.value(X, np.flatnonzero(mask)) for mask in members])

    def walked_value(self, X: Floats, members: Positions) -> Floats:
        """The same, by letting the members join one after the other."""
        coalitions = self.start(X, members[None], branching=False)
        value = self.base_values(X)
        for _ in members:
            coalitions, change = coalitions.join()
            value = value + change[0]
        return value

    def total(self, X: Floats, observed: Positions) -> Floats:
        """Value of the coalition of all observed features, (n,): the score that is explained."""
        return self.value(X, observed)

    def where(self, observed: Mask) -> "Game":
        """The game of rows in which only some features are observed, (d,); the others are nobody's members."""
        return self

    def start(self, X: Array, queues: Positions, *, branching: bool) -> Coalitions:
        """Empty coalitions in front of ``queues`` (B, k). ``branching``: whether features will also be skipped."""
        xp = array_namespace(X)
        members = xp.zeros((len(queues), self.n_features), dtype=X.dtype, device=X.device)
        value = xp.full((len(queues), X.shape[0]), self.base_value, dtype=X.dtype, device=X.device)
        return ValuedCoalitions(self, X, as_array_like(queues, X), members, value)

    def tree_job(self, X: Floats, queue: Positions) -> TreeJob | None:
        """All coalitions by a compiled kernel, features in the order in which they decide; ``None`` if there is none."""
        return None

    @property
    def marginals(self) -> Marginals | None:
        """Contributions of all players to a coalition at once; ``None`` if they would have to be computed one by one."""
        return None

    @property
    def has_closed_form(self) -> bool:
        """Whether `closed_form` returns values; then `cost` should be next to nothing, too."""
        return False

    def closed_form(self, X: Array, players: list[list[int]]) -> Array | None:
        """Shapley values (n, players) by a formula; ``None`` if there is none.

        Rows may be arrays of any library. Missing cells are 0 in them, and belong to no player.
        """
        return None

    def deciding_order(self, players: list[list[int]]) -> list[int]:
        """Order in which players decide in the tree of coalitions. The tree is smallest if large players come first."""
        return sorted(range(len(players)), key=lambda i: -len(players[i]))

    @property
    def cost(self) -> Cost:
        """What a coalition costs. The default is that of one linear solve or eigendecomposition."""
        d = self.n_features
        return Cost(60.0 * d**3, 4.0 * d**2, 60.0 * d**3, 4.0 * d**2)

    @property
    def quadratic(self) -> bool:
        """Whether values are quadratic in the row, so that Shapley values are quadratic forms."""
        return False

    @property
    def forms_keep_digits(self) -> bool:
        """Whether quadratic forms would be accurate."""
        return True

    @property
    def axes(self) -> Axes | None:
        """Coordinates for the forms, if the rows' own coordinates would lose digits."""
        return None

    @property
    def scale(self) -> Floats:
        """Natural size of each feature, (d,), for finding the forms."""
        return np.ones(self.n_features)


@dataclass(frozen=True)
class ValuedCoalitions(Batch):
    """Coalitions of any game: every step computes their values anew."""

    SHARED = ("game", "X")

    game: Game
    X: Array
    queue: Array  # (B, k)
    members: Array  # (B, d) of 0 and 1
    value: Array  # (B, n)

    def join(self) -> tuple[Self, Array]:
        """The values with one more member, minus the values before."""
        xp = array_namespace(self.X)
        everybody = xp.arange(self.game.n_features, device=self.queue.device)[None, :]
        members = self.members + xp.astype(self.queue[:, 0:1] == everybody, self.X.dtype)
        value = self.game.values(self.X, members)
        return replace(self, queue=self.queue[:, 1:], members=members, value=value), value - self.value

    def skip(self) -> Self:
        """Leave the first feature of each queue outside of its coalition."""
        return replace(self, queue=self.queue[:, 1:])
