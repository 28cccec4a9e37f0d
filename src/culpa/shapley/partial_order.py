"""Who comes before whom: a partial order of players, from chains such as feed, reactor, product.

An order in which players join is *admissible* if every player joins after all players upstream of it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Self

from culpa._core.copies import CopiedInUse


@dataclass(frozen=True)
class PartialOrder(CopiedInUse):
    """For each player, the set of all players upstream of it, as the bits of a whole number.

    >>> order = PartialOrder.from_chains([(0, 2, 1)], ["feed", "product", "reactor"])
    >>> order.before  # 1 is the feed alone, 5 the feed and the reactor
    (0, 5, 1)
    """

    before: tuple[int, ...]

    @classmethod
    def from_chains(cls, chains: Iterable[Sequence[int]], names: Sequence[str]) -> Self:
        """Each chain lists players by position, causes before effects. ``names`` are those of all players.

        Players in a loop, each of which is upstream of the others, join in any order.

        >>> PartialOrder.from_chains([(0, 1, 2, 1)], ["feed", "reactor", "separator"]).before
        (0, 1, 1)
        """
        upstream = [0] * len(names)
        for chain in chains:
            for before, after in pairwise(chain):
                upstream[after] |= 1 << before
        for k, further in enumerate(upstream):
            for i, known in enumerate(upstream):
                if known >> k & 1:
                    upstream[i] |= further
        loops = [i for i, known in enumerate(upstream) if known >> i & 1]
        loop_of = {i: sum(1 << j for j in loops if upstream[i] >> j & 1 and upstream[j] >> i & 1) for i in loops}
        return cls(tuple(known & ~loop_of.get(i, 0) for i, known in enumerate(upstream)))

    def __len__(self) -> int:
        return len(self.before)

    @property
    def constrains(self) -> bool:
        """Whether anybody is upstream of anybody."""
        return any(self.before)

    @cached_property
    def after(self) -> tuple[int, ...]:
        """For each player, the set of all players downstream of it."""
        return tuple(
            sum(1 << j for j, upstream in enumerate(self.before) if upstream >> i & 1) for i in range(len(self))
        )

    @property
    def width(self) -> int:
        """Number of players, at least, of which nobody is upstream of another: those with equally many upstream of them.

        Any of them may be in a down-set without the others, so there are at least 2^width down-sets.
        """
        return max(Counter(upstream.bit_count() for upstream in self.before).values())

    def among(self, players: Sequence[int]) -> "PartialOrder":
        """The order of some players, numbered anew: who is upstream through a player left out is still upstream."""
        return PartialOrder(
            tuple(sum(1 << k for k, j in enumerate(players) if self.before[i] >> j & 1) for i in players)
        )

    def linear(self, preference: Sequence[int]) -> list[int]:
        """An admissible order that follows the preference as far as it can."""
        joined, order, waiting = 0, [], list(preference)
        while waiting:
            following = next(player for player in waiting if not self.before[player] & ~joined)
            waiting.remove(following)
            order.append(following)
            joined |= 1 << following
        return order

    @cached_property
    def parallel(self) -> list[list[int]]:
        """Sets of players without any relation between the sets, as fine as possible."""
        return _components(
            [upstream | downstream for upstream, downstream in zip(self.before, self.after, strict=True)]
        )

    @cached_property
    def series(self) -> list[list[int]]:
        """Sets of players of which each lies entirely upstream of the next, as fine as possible."""
        everybody = (1 << len(self)) - 1
        unrelated = [
            everybody & ~(upstream | downstream | 1 << i)
            for i, (upstream, downstream) in enumerate(zip(self.before, self.after, strict=True))
        ]
        return sorted(_components(unrelated), key=lambda part: self.before[part[0]].bit_count())


def _components(neighbours: Sequence[int]) -> list[list[int]]:
    """Connected components of a graph, given the neighbours of each node as bits."""
    left, result = (1 << len(neighbours)) - 1, []
    while left:
        found = fresh = left & -left
        while fresh:
            node = (fresh & -fresh).bit_length() - 1
            fresh = (fresh & ~(1 << node)) | neighbours[node] & ~found
            found |= neighbours[node]
        result.append([i for i in range(len(neighbours)) if found >> i & 1])
        left &= ~found
    return result
