"""Mean and covariance of consecutive blocks of rows, gathered in one pass over a table of unknown length."""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core import memory
from culpa._core.copies import CopiedInUse
from culpa._core.types import Floats
from culpa.models.moments import Moments
from culpa.models.scatter import Scatter

N_BLOCKS = 10
FEWEST_PER_BLOCK = 3  # rows that are scored, for held-out scores
_MEMORY_PER_BLOCK = 0.2  # a block is no longer than this share of what forgetting leaves in memory
_ROUNDING = 1e-9  # of a weight
HELD = 4096  # rows held before moments are taken, so that small tables are cut into exact tenths
_PIECES = 64  # equally long pieces that a large table is gathered in, at least; at most twice as many


def block_starts(n_rows: int, n_blocks: int = N_BLOCKS) -> NDArray[np.int64]:
    """Position of the first row of each block: exact tenths of a small table, nearly tenths of a large one.

    >>> block_starts(100).tolist()
    [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]
    """
    if n_rows <= HELD:
        n_blocks = max(1, min(n_blocks, n_rows))
        return np.array([n_rows * at // n_blocks for at in range(n_blocks)], dtype=np.int64)
    size = HELD // _PIECES
    while n_rows >= 2 * _PIECES * size:
        size *= 2
    ends = np.append(np.arange(size, n_rows, size), n_rows)
    wanted = n_rows * np.arange(1, n_blocks) / n_blocks
    return np.concatenate([[0], ends[np.abs(ends - wanted[:, None]).argmin(axis=1)]]).astype(np.int64)


def block_sizes(n_rows: int) -> NDArray[np.int64]:
    """Number of rows of each block."""
    return np.diff(np.append(block_starts(n_rows), n_rows))


@dataclass(frozen=True, eq=False)
class BlockMoments(CopiedInUse):
    """Moments of consecutive blocks of about the same number of complete rows."""

    blocks: tuple[Moments, ...]

    @classmethod
    def of(cls, X: Floats, n_blocks: int = N_BLOCKS) -> "BlockMoments":
        """Blocks of complete rows that are all at hand."""
        reference = X[0].copy() if len(X) else None
        parts = np.split(X, block_starts(len(X), n_blocks)[1:])
        return cls(tuple(Moments.of(part, reference) for part in parts))

    def then(self, X: Floats, forget: float = 0.0) -> "BlockMoments":
        """Blocks after more rows, each of which takes a share ``forget`` off the weight of every row before it.

        New rows make blocks about as heavy as the heaviest so far, and light neighbours are joined where there are too
        many. How the rows are cut into calls does not matter. A single block stays one: it is of rows whose blocks are not
        known.
        """
        return self.then_placed(X, forget).blocks

    def then_placed(self, X: Floats, forget: float = 0.0) -> "Placed":
        """The same, and where everything is now."""
        place, moved = np.zeros(len(X), dtype=np.int64), np.arange(len(self))
        if len(self) == 1 and self.blocks[0].n:
            return Placed(BlockMoments((self.blocks[0].then(X, forget),)), place, moved)
        blocks, done = list(self.blocks), 0
        while done < len(X):
            weights = [block.n for block in blocks]
            if weights[-1] >= _wanted(weights, forget):
                blocks.append(Moments.of(X[:0], X[done].copy()))
                weights.append(0)
            end = done + _rows_until_full(weights, len(X) - done, forget)
            fade = (1 - forget) ** (end - done)
            blocks = [
                *(block.weighted(fade) if forget else block for block in blocks[:-1]),
                blocks[-1].then(X[done:end], forget),
            ]
            place[done:end] = len(blocks) - 1
            done = end
            if len(blocks) == 2 * N_BLOCKS - 1 and blocks[-1].n >= _wanted([block.n for block in blocks], forget):
                pair = int(np.argmin([first.n + second.n for first, second in pairwise(blocks)]))
                blocks[pair : pair + 2] = [blocks[pair].merge(blocks[pair + 1])]
                place[:done] -= place[:done] > pair
                moved -= moved > pair
        return Placed(BlockMoments(tuple(blocks)), place, moved)

    def cut_anew(self, blocks: "BlockMoments", n_new: int) -> "Placed":
        """Other blocks of the same rows and of so many new ones: where these are, and the middles of the blocks so far."""
        ends = np.cumsum([block.n for block in self.blocks])
        middles = ((self.starts + ends) // 2).astype(np.int64)
        seen = round(blocks.total.n) - n_new
        return Placed(blocks, blocks.of_rows(np.arange(seen, seen + n_new)), blocks.of_rows(middles))

    def to_arrays(self) -> dict[str, Floats]:
        """Plain arrays, for saving."""
        upper = np.triu_indices(self.blocks[0].n_features)
        return {
            "n": np.array([block.n for block in self.blocks], dtype=np.float64),
            "mean": np.array([block.mean for block in self.blocks]),
            "scatter": np.array([block.scatter[upper] for block in self.blocks]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats]) -> "BlockMoments":
        """Inverse of `to_arrays`."""
        d = arrays["mean"].shape[1]
        blocks = []
        for n, mean, upper in zip(arrays["n"].tolist(), arrays["mean"], arrays["scatter"], strict=True):
            scatter = np.zeros((d, d))
            scatter[np.triu_indices(d)] = upper
            scatter += np.triu(scatter, 1).T
            count = int(n) if n.is_integer() else n
            blocks.append(Moments(count, mean, np.zeros(d), Scatter.of_matrix(scatter)))
        return cls(tuple(blocks))

    @cached_property
    def total(self) -> Moments:
        """Moments of the rows of all blocks together."""
        return reduce(Moments.merge, self.blocks)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Position of the first row of each block among the complete rows."""
        return np.concatenate([[0], np.cumsum([block.n for block in self.blocks])[:-1]]).astype(np.int64)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of rows of each block, where they have no weights."""
        return np.array([round(block.n) for block in self.blocks], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.blocks)

    def without(self, k: int) -> Moments:
        """Moments of all rows but those of block ``k``."""
        return reduce(Moments.merge, [block for at, block in enumerate(self.blocks) if at != k])

    def of_rows(self, positions: NDArray[np.integer]) -> NDArray[np.int64]:
        """The blocks that rows at these positions belong to."""
        return np.asarray(np.searchsorted(self.starts, positions, side="right") - 1, dtype=np.int64)


def _wanted(weights: Sequence[float], forget: float) -> float:
    """The weight at which the last block is full, but for rounding: that of the heaviest one, of what memory holds."""
    heavy = max(weights)
    return max(1.0, min(heavy, _MEMORY_PER_BLOCK / forget) if forget else heavy) * (1 - _ROUNDING)


def _rows_until_full(weights: Sequence[float], most: int, forget: float) -> int:
    """How many rows the last block takes until it is full, of ``most`` that there are."""
    others, last = max(weights[:-1], default=0.0), float(weights[-1])
    if not forget:
        return min(most, max(1, math.ceil(max(others, 1.0) - last)))
    for rows in range(1, most + 1):
        others, last = others * (1 - forget), last * (1 - forget) + 1
        if last >= _wanted((others, last), forget):
            return rows
    return most


class Placed(NamedTuple):
    """Blocks after more rows: the block that each new row is in, and the one that each block of before is in."""

    blocks: BlockMoments
    rows: NDArray[np.int64]
    before: NDArray[np.int64]


class BlockGatherer:
    """Takes rows in any portions and ends with the blocks that `BlockMoments.of` makes of all rows at once."""

    _held: list[Floats]  # rows, while they are few
    _pieces: list[Moments]  # what takes their place
    _size: int  # of a piece
    _reference: Floats | None

    def __init__(self, n_columns: int) -> None:
        self._held = [np.empty((0, n_columns))]
        self._pieces = []
        self._size = HELD // _PIECES
        self._reference = None

    def then(self, X: Floats) -> "BlockGatherer":
        """Another one, which has seen these rows, too."""
        new = copy(self)
        new._held, new._pieces = list(self._held), list(self._pieces)
        new.add(X)
        return new

    def add(self, X: Floats) -> None:
        """Take the next complete rows into their block."""
        if self._reference is None and len(X):
            self._reference = X[0].copy()
        if not self._pieces:
            self._held.append(X.copy())  # whoever has X may use it for other rows next time
            if sum(map(len, self._held)) <= HELD:
                return
            X, self._held = np.concatenate(self._held), self._held[:1]
        self._gather(X)

    @property
    def rows(self) -> Floats | None:
        """All rows so far, as long as they are few enough to be held."""
        return None if self._pieces else np.concatenate(self._held)

    @property
    def n(self) -> int:
        """Rows so far."""
        return sum(map(len, self._held)) + round(sum(piece.n for piece in self._pieces))

    def finish(self) -> BlockMoments:
        """The blocks so far; fewer than usual where there are fewer rows."""
        if not self._pieces:
            return BlockMoments.of(np.concatenate(self._held))
        ends = np.cumsum([piece.n for piece in self._pieces])
        cuts = np.searchsorted(ends, block_starts(int(ends[-1]))[1:]) + 1
        groups = np.split(np.arange(len(ends)), cuts)
        return BlockMoments(tuple(reduce(Moments.merge, [self._pieces[at] for at in group]) for group in groups))

    def to_arrays(self) -> dict[str, Floats]:
        """Plain arrays, for saving: the rows while they are held, and then pieces."""
        return BlockMoments(tuple(self._pieces)).to_arrays() if self.rows is None else {"rows": self.rows}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats]) -> "BlockGatherer":
        """Inverse of `to_arrays`."""
        gatherer = cls(arrays["rows" if "rows" in arrays else "mean"].shape[1])
        if "rows" in arrays:
            gatherer.add(arrays["rows"])
            return gatherer
        gatherer._pieces = list(BlockMoments.from_arrays(arrays).blocks)
        gatherer._size, gatherer._reference = int(arrays["n"].max()), arrays["mean"][0]
        return gatherer

    def _gather(self, X: Floats) -> None:
        d = X.shape[1]
        while len(X):
            unfinished = self._pieces and self._pieces[-1].n < self._size
            room = self._size - self._pieces[-1].n if unfinished else self._size
            piece = Moments.of(X[:room], self._reference)
            if unfinished:
                self._pieces[-1] = self._pieces[-1].merge(piece)
            else:
                self._pieces.append(piece)
            X = X[room:]
            if len(self._pieces) == 2 * _PIECES and self._pieces[-1].n == self._size:
                held = 8.0 * 2 * _PIECES * d * min(2 * self._size, d)
                memory.claim(held, f"a table of more than {self.n:,} rows x {d:,} columns", "Use fewer columns.")
                pairs = zip(self._pieces[::2], self._pieces[1::2], strict=True)
                self._pieces = [first.merge(second) for first, second in pairs]
                self._size *= 2
