"""The coalitions that admissible orders pass through, and in how many ways.

They are the down-sets of the partial order: coalitions that have everybody upstream of their members. To enumerate them,
players decide one after the other, upstream ones first. The sets with the k-th player are added behind those without it:

| symbol | code | meaning |
| --- | --- | --- |
| N | ``len`` | number of down-sets; 0 is the empty one, N - 1 that of everybody |
| S + i | ``children`` | the set with the player who decides k-th, or -1 where it may not join |
| b(S) | ``_mantissa``, ``_exponent`` | number of admissible orders of those outside S, as a float and a power of two |
| r(S) | ``_reached`` | share of the admissible orders that pass through S |

An order that is at S goes on to S + i with probability b(S + i) / b(S). So the share of orders in which i joins S is
r(S) b(S + i) / b(S). Numbers of orders may exceed any float; their ratios are accurate to the last digits.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats, Positions
from culpa.shapley.partial_order import PartialOrder

Indices = NDArray[np.int32]

MOST_CELLS = 40_000_000  # of the table of children, four bytes each
_SETS_PER_CHUNK = 1 << 14
_NOTHING = -(1 << 30)  # power of two of the number 0


class Steps(NamedTuple):
    """All steps in which one player joins: from which set to which, and the share of the orders that do it."""

    before: Positions
    after: Positions
    share: Floats


class DownSets:
    """All down-sets of a partial order, with the shares of admissible orders that lead through them."""

    def __init__(self, order: Sequence[int], children: Indices, sizes: Indices) -> None:
        self.order = list(order)  # players in the order in which they decide
        self.children = children  # (players, N)
        self._layers = np.split(np.argsort(sizes, kind="stable"), np.cumsum(np.bincount(sizes))[:-1])
        # one more than there are sets: a child that does not exist is at the end, and leads nowhere
        self._mantissa, self._exponent = self._ways_on()
        self._reached = self._shares_reached()

    @classmethod
    def find(cls, order: PartialOrder, most: float, preference: Sequence[int] | None = None) -> "DownSets | None":
        """Enumerate them; ``None`` if there are more than ``most``. ``preference`` says who had better decide first."""
        most = min(most, MOST_CELLS / max(1, len(order)))
        if 2.0**order.width > most:
            return None
        deciding = order.linear(range(len(order)) if preference is None else preference)
        inside = np.zeros((len(order), 1), dtype=np.bool_)  # by player
        children = np.full((len(order), 1), -1, dtype=np.int32)
        n = 1
        for place, player in enumerate(deciding):
            upstream = [i for i in range(len(order)) if order.before[player] >> i & 1]
            joins = np.flatnonzero(inside[upstream, :n].all(axis=0))
            end = n + len(joins)
            if end > most:
                return None
            inside, children = _widened(inside, end), _widened(children, end)
            children[place, joins] = np.arange(n, end)
            # with the player in, another one leads to where it leads without, and the player in; -1 stays -1
            target = np.append(children[place, :n], -1)
            children[:place, n:end] = target[children[:place, joins]]
            children[place:, n:end] = -1
            inside[:, n:end] = inside[:, joins]
            inside[player, n:end] = True
            n = end
        return cls(deciding, children[:, :n], inside[:, :n].sum(axis=0, dtype=np.int32))

    def __len__(self) -> int:
        return int(self.children.shape[1])

    def last_to_join(self) -> Positions:
        """For each set, the place in the deciding order of the last player who may join; -1 for everybody's set."""
        result = np.full(len(self), -1)
        for place, child in enumerate(self.children):
            result[child >= 0] = place
        return result

    def steps(self, place: int) -> Steps:
        """Steps in which the player at this place of the deciding order joins."""
        child = self.children[place]
        before = np.flatnonzero(child >= 0)
        after = child[before]
        return Steps(before, after.astype(np.intp), self._reached[before] * self._ratio(after, before))

    def draw(self, n_orders: int, rng: np.random.Generator) -> Positions:
        """Admissible orders, all equally likely, (n_orders, players)."""
        players = np.array(self.order, dtype=np.intp)
        result = np.empty((n_orders, len(players)), dtype=np.intp)
        at = np.zeros(n_orders, dtype=np.intp)
        for step in range(len(players)):
            following = self.children[:, at]
            chances = np.cumsum(self._ratio(following, at), axis=0)
            chosen = np.argmax(chances > rng.random(n_orders) * chances[-1], axis=0)
            result[:, step] = players[chosen]
            at = following[chosen, np.arange(n_orders)].astype(np.intp)
        return result

    def _ratio(self, after: NDArray[np.signedinteger], before: Positions) -> Floats:
        """b(after) / b(before), two numbers of orders that may be too large for floats."""
        shift = self._exponent[after] - self._exponent[before]
        return np.asarray(np.ldexp(self._mantissa[after] / self._mantissa[before], shift))

    def _ways_on(self) -> tuple[Floats, Indices]:
        mantissa, exponent = np.zeros(len(self) + 1), np.full(len(self) + 1, _NOTHING, dtype=np.int32)
        mantissa[-2], exponent[-2] = 1.0, 0  # everybody's set: there is one way to add nobody
        for sets in self._chunks(self._layers[-2::-1]):
            children = self.children[:, sets]
            top = exponent[children].max(axis=0)
            total = np.ldexp(mantissa[children], exponent[children] - top).sum(axis=0)
            mantissa[sets], shift = np.frexp(total)
            exponent[sets] = top + shift
        return mantissa, exponent

    def _shares_reached(self) -> Floats:
        reached = np.zeros(len(self) + 1)
        reached[0] = 1.0
        for sets in self._chunks(self._layers[:-1]):
            children = self.children[:, sets]
            exists = children >= 0
            np.add.at(reached, children[exists], (reached[sets] * self._ratio(children, sets))[exists])
        return reached

    @staticmethod
    def _chunks(layers: Sequence[Positions]) -> Iterator[Positions]:
        for layer in layers:
            for start in range(0, len(layer), _SETS_PER_CHUNK):
                yield layer[start : start + _SETS_PER_CHUNK]


def _widened(array: NDArray[Any], width: int) -> NDArray[Any]:
    """An array of at least this width: twice as wide where it was too narrow, so that it is seldom copied."""
    if width <= array.shape[1]:
        return array
    result = np.empty((len(array), max(width, 2 * array.shape[1])), dtype=array.dtype)
    result[:, : array.shape[1]] = array
    return result
