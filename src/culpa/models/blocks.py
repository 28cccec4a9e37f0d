"""Mean and covariance of consecutive blocks of rows, gathered in one pass over a table of unknown length."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.models.moments import Moments

N_BLOCKS = 10
_HELD = 4096  # rows held before moments are taken, so that small tables are cut into exact tenths
_PIECES = 64  # equally long pieces that a large table is gathered in, at least; at most twice as many


@dataclass(frozen=True, eq=False)
class BlockMoments:
    """Moments of consecutive blocks of about the same number of complete rows."""

    blocks: tuple[Moments, ...]

    @classmethod
    def of(cls, X: Floats, n_blocks: int = N_BLOCKS) -> "BlockMoments":
        """Blocks of complete rows that are all at hand."""
        gatherer = BlockGatherer(X.shape[1], n_blocks)
        gatherer.add(X)
        return gatherer.finish()

    @cached_property
    def total(self) -> Moments:
        """Moments of all rows."""
        return reduce(Moments.merge, self.blocks)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Position of the first row of each block among the complete rows."""
        return np.concatenate([[0], np.cumsum([block.n for block in self.blocks])[:-1]]).astype(np.int64)

    def __len__(self) -> int:
        return len(self.blocks)

    def without(self, k: int) -> Moments:
        """Moments of all rows but those of block ``k``."""
        return reduce(Moments.merge, [block for at, block in enumerate(self.blocks) if at != k])

    def of_rows(self, positions: NDArray[np.integer]) -> NDArray[np.int64]:
        """The blocks that rows at these positions belong to."""
        return np.asarray(np.searchsorted(self.starts, positions, side="right") - 1, dtype=np.int64)


class BlockGatherer:
    """Takes rows in any portions and ends with blocks whose borders depend on the number of rows alone."""

    def __init__(self, n_columns: int, n_blocks: int = N_BLOCKS) -> None:
        self._n_columns, self._n_blocks = n_columns, n_blocks
        self._held: list[Floats] = []
        self._n_held = 0
        self._pieces: list[Moments] = []
        self._size = _HELD // _PIECES
        self._reference: Floats | None = None

    def add(self, X: Floats) -> None:
        """The next complete rows."""
        if self._reference is None and len(X):
            self._reference = X[0].copy()
        if self._held is not None and not self._pieces:
            self._held.append(X)
            self._n_held += len(X)
            if self._n_held <= _HELD:
                return
            X = np.concatenate(self._held)
            self._held = []
        self._gather(X)

    def finish(self) -> BlockMoments:
        """The blocks; fewer than asked for where there are fewer rows."""
        if not self._pieces:
            X = np.concatenate([np.empty((0, self._n_columns)), *self._held])
            k = max(1, min(self._n_blocks, len(X)))
            cuts = [len(X) * at // k for at in range(k + 1)]
            return BlockMoments(tuple(self._moments(X[a:b]) for a, b in zip(cuts, cuts[1:], strict=False)))
        return BlockMoments(tuple(self._joined()))

    def _moments(self, X: Floats) -> Moments:
        return Moments.of(X, self._reference)

    def _gather(self, X: Floats) -> None:
        while len(X):
            room = self._size - self._pieces[-1].n if self._pieces and self._pieces[-1].n < self._size else 0
            if room:
                self._pieces[-1] = self._pieces[-1].merge(self._moments(X[:room]))
            else:
                room = self._size
                self._pieces.append(self._moments(X[:room]))
            X = X[room:]
            if len(self._pieces) == 2 * _PIECES and self._pieces[-1].n == self._size:
                pairs = zip(self._pieces[::2], self._pieces[1::2], strict=True)
                self._pieces = [first.merge(second) for first, second in pairs]
                self._size *= 2

    def _joined(self) -> Iterator[Moments]:
        """Neighbouring pieces joined to blocks of nearly the same number of rows."""
        ends = np.cumsum([piece.n for piece in self._pieces])
        wanted = ends[-1] * np.arange(1, self._n_blocks) / self._n_blocks
        cuts = [0, *(int(np.argmin(np.abs(ends - at))) + 1 for at in wanted), len(ends)]
        for first, last in zip(cuts, cuts[1:], strict=False):
            if first < last:
                yield reduce(Moments.merge, self._pieces[first:last])
