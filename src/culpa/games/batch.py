"""Coalitions side by side, as arrays with one entry per coalition."""

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

from array_api_compat import array_namespace

from culpa._core.types import Array


@dataclass(frozen=True)
class Batch:
    """A batch of coalitions, whose fields are arrays (B, ...), other batches, or tuples of batches.

    >>> import numpy as np
    >>> @dataclass(frozen=True)
    ... class Sized(Batch):
    ...     size: Array
    >>> one, two = Sized(np.array([1, 2])), Sized(np.array([3]))
    >>> one.concat(two).choose(np.array([2, 0]))
    Sized(size=array([3, 1]))
    """

    SHARED: ClassVar[tuple[str, ...]] = ()  # fields that are the same for all coalitions

    def concat(self, other: Self) -> Self:
        """Both batches as one; their queues must be equally long."""
        return replace(self, **{name: _joined(getattr(self, name), getattr(other, name)) for name in self._own()})

    def choose(self, which: Array) -> Self:
        """Some coalitions of the batch, by their positions."""
        return replace(self, **{name: _chosen(getattr(self, name), which) for name in self._own()})

    def _own(self) -> list[str]:
        """Fields that have an entry for each coalition."""
        return [field.name for field in fields(self) if field.name not in self.SHARED]


def _joined(one: Any, two: Any) -> Any:
    if isinstance(one, tuple):
        return tuple(_joined(*pair) for pair in zip(one, two, strict=True))
    return one.concat(two) if isinstance(one, Batch) else array_namespace(one).concat((one, two), axis=0)


def _chosen(part: Any, which: Array) -> Any:
    if isinstance(part, tuple):
        return tuple(_chosen(one, which) for one in part)
    return part.choose(which) if isinstance(part, Batch) else array_namespace(part).take(part, which, axis=0)
