"""Fits over partitions: rows that are spread over many processes, by Spark or another engine.

An engine needs to do one thing, `Run`: send a pass to the processes, let each turn its record batches into a part, merge
the parts, and return them as a table. Nothing leaves the processes but sums of d x d numbers and a sample of the rows.

The library cuts a table into consecutive blocks, and judges each block by the model of the others. In a table without an
order, the row's own numbers decide by a hash: every process comes to the same result, however the rows are spread, and
equal rows are in the same block. Rows that follow each other resemble each other, so a column that orders them makes better
blocks: those are consecutive again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from culpa._core.threads import one_blas_thread
from culpa._core.types import Floats, Mask
from culpa._core.validation import Table
from culpa._core.words import count
from culpa.detecting.detector import PCADetector
from culpa.detecting.pieces import fit_moments, of_fitted
from culpa.fitting.learning import Learned, Recipe
from culpa.fitting.limits import InOrder, in_blocks, limits_by_holding_out, range_of
from culpa.jobs.record_batches import in_larger_batches, read_features
from culpa.models import FittedModel, Moments
from culpa.models.blocks import N_BLOCKS, BlockMoments, block_starts
from culpa.models.normal_range import NormalRange, sums_of_pairs, worth_of_rows
from culpa.models.scatter import Scatter
from culpa.scores import Limits, named_score

Integers = NDArray[np.int64]

_FROM_ROWS_IN_ORDER = ("lags", "smooth")
_LEFT_OUT = -1  # block of a line that counts rows that were left out, and the missing cells of each column
_NUMBERS = pa.list_(pa.float64())
MOST_ROWS = 200_000  # that are sampled; the rate of a 99% limit is then known to within 0.02% (one standard error)
_MOST_CELLS = 1 << 24  # 134 MB


@dataclass(frozen=True)
class HashedPlaces:
    """Places by the row's own numbers."""

    order: None = None

    def find(self, X: Floats, order: Floats | None) -> tuple[Integers, Floats]:
        """Blocks of rows, and numbers that sort the rows of a block."""
        hashed = hash_rows(X)
        return (hashed % np.uint64(N_BLOCKS)).astype(np.int64), (hashed >> np.uint64(11)).astype(np.float64)


@dataclass(frozen=True)
class OrderedPlaces:
    """Places between values of a column: ``cuts`` are the first values of all blocks but the first."""

    order: str
    cuts: tuple[float, ...]

    @classmethod
    def of(cls, order: str, n_rows: int, at_ranks: Callable[[Sequence[int]], Sequence[float]]) -> "OrderedPlaces":
        """Cut ``n_rows`` rows as the library does. ``at_ranks`` finds values of the column by rank, counted from 0.

        They may be approximate, as Spark's are in large tables. The blocks are then only nearly as long as the library's.
        """
        return cls(order, tuple(at_ranks(block_starts(n_rows)[1:].tolist())))

    def find(self, X: Floats, order: Any) -> tuple[Integers, Floats]:
        """Blocks of rows, and numbers that sort the rows of a block."""
        if np.isnan(order).any():
            raise ValueError(
                f"column {self.order!r} orders the rows, but some of its cells are missing. Drop these rows."
            )
        return np.searchsorted(np.array(self.cuts), order, side="right").astype(np.int64), order


Places = HashedPlaces | OrderedPlaces  # of rows, which every process finds by itself


def hash_rows(X: Floats) -> NDArray[np.uint64]:
    """A number per row that looks random, and depends on nothing but the row's numbers (the mixer of SplitMix64).

    >>> import numpy as np
    >>> rows = np.array([[1.0, 0.0], [1.0, -0.0], [0.0, 1.0]])
    >>> first, same, other = hash_rows(rows)
    >>> bool(first == same), bool(first == other)
    (True, False)
    """
    bits = np.ascontiguousarray(X + 0.0).view(np.uint64)  # of which -0.0 has others than 0.0
    state = np.zeros(len(X), dtype=np.uint64)
    for column in bits.T:
        state = (state ^ column) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return state


class Rows(NamedTuple):
    """Rows of a record batch and their places, and how many cells of each column are missing in the whole batch."""

    X: Floats
    block: Integers
    position: Floats
    missing: Floats


def rows_of(batch: pa.RecordBatch, names: Sequence[str], places: Places, *, complete_only: bool) -> Rows:
    """Read the rows of a record batch, or those that have all their cells."""
    X, order = read_features(batch, names), None
    if places.order is not None:
        order = read_features(batch, [places.order])[:, 0]
    missing = np.isnan(X)
    if complete_only and missing.any():
        complete = ~missing.any(axis=1)
        X, order = X[complete], None if order is None else order[complete]
    return Rows(X, *places.find(X, order), missing.sum(axis=0).astype(np.float64))


@dataclass(frozen=True)
class MomentsPass:
    """Sums up the rows of partitions. Its fields are plain, so that any engine can send it to its processes."""

    names: tuple[str, ...]
    places: Places

    key: ClassVar[str] = "block"  # sums of one block can be merged by a process of its own
    schema: ClassVar[pa.Schema] = pa.schema(
        {"block": pa.int32(), "n": pa.int64()} | dict.fromkeys(("reference", "offset", "scatter", "missing"), _NUMBERS)
    )

    def part(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The sums of some record batches of the table."""
        sums = Sums(len(self.names))
        for batch in in_larger_batches(batches):
            rows = rows_of(batch, self.names, self.places, complete_only=True)
            sums.leave_out(batch.num_rows - len(rows.X), rows.missing)
            for k in np.unique(rows.block).tolist():
                sums.add(k, Moments.of(rows.X[rows.block == k]))
        yield sums.to_record_batch()

    def merge(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The sums of several parts."""
        yield Sums(len(self.names)).merged(batches).to_record_batch()

    def read(self, table: pa.Table) -> "Sums":
        """The sums of all parts."""
        return Sums(len(self.names)).merged(table.to_batches())


class Sums:
    """Moments of the blocks that have rows, and what was left out: rows, and missing cells by column."""

    def __init__(self, n_features: int) -> None:
        self.found: dict[int, Moments] = {}
        self.n_left_out, self.missing = 0, np.zeros(n_features)

    @property
    def blocks(self) -> BlockMoments:
        """Moments of the blocks, in the order of their rows."""
        found = tuple(self.found[k] for k in sorted(self.found))
        return BlockMoments(found or (Moments.of(np.empty((0, len(self.missing)))),))

    def check(self, names: Sequence[str], *, complete_only: bool) -> None:
        """Refuse what cannot be learned from, with a sentence that names the column."""
        n = round(self.blocks.total.n)
        if (empty := np.flatnonzero(self.missing == n + self.n_left_out)).size and self.n_left_out:
            raise ValueError(f"all cells of column {names[empty[0]]!r} are missing. Leave it out with columns=.")
        if self.n_left_out and not complete_only:
            worst = int(np.argmax(self.missing))
            raise ValueError(
                f"{count(self.n_left_out, 'row')} of {n + self.n_left_out:,} have missing cells, most of them in column "
                f"{names[worst]!r}. Leave these rows out with complete_only=True, or fill the cells."
            )
        if n < 2:
            raise ValueError(f"at least 2 complete rows are needed to learn from, got {n}.")

    def add(self, block: int, part: Moments) -> None:
        """Add rows of a block."""
        self.found[block] = self.found[block].merge(part) if block in self.found else part

    def leave_out(self, n: int, missing: Floats) -> None:
        """Count rows that were left out, and missing cells."""
        self.n_left_out, self.missing = self.n_left_out + n, self.missing + missing

    def merged(self, batches: Iterable[Any]) -> "Sums":
        """With the sums of other processes."""
        d = len(self.missing)
        for line in (line for batch in batches for line in batch.to_pylist()):
            if line["block"] == _LEFT_OUT:
                self.leave_out(line["n"], np.array(line["missing"]))
                continue
            reference, offset, scatter = (np.array(line[name]) for name in ("reference", "offset", "scatter"))
            self.add(line["block"], Moments(line["n"], reference, offset, Scatter.of_matrix(scatter.reshape(d, d))))
        return self

    def to_record_batch(self) -> pa.RecordBatch:
        """A line for each block, and one for what was left out."""
        lines: list[dict[str, Any]] = [
            {"block": k, "n": round(each.n), "reference": each.reference, "offset": each.offset}
            | {"scatter": each.scatter.ravel()}
            for k, each in sorted(self.found.items())
        ]
        lines.append({"block": _LEFT_OUT, "n": self.n_left_out, "missing": self.missing})
        return pa.RecordBatch.from_pylist(lines, schema=MomentsPass.schema)


def share_of(n_rows: float, n_features: int) -> float:
    """The share of a table's rows to sample."""
    return min(1.0, MOST_ROWS / max(n_rows, 1), _MOST_CELLS / max(n_rows * n_features, 1))


def is_chosen(X: Floats, share: float) -> Mask:
    """Which rows are sampled: by their own numbers, and independently of their blocks."""
    if share >= 1:
        return np.ones(len(X), dtype=bool)
    return np.asarray((hash_rows(X[:, ::-1]) >> np.uint64(11)) < np.uint64(int(share * 2**53)))


@dataclass(frozen=True)
class RowsPass:
    """Samples the rows of partitions. Its fields are plain, so that any engine can send it to its processes.

    With an order, the row that follows a sampled one comes along, if it is in the same record batch.
    """

    names: tuple[str, ...]
    places: Places
    share: float
    complete_only: bool = True

    key: ClassVar[str] = "block"
    schema: ClassVar[pa.Schema] = pa.schema(
        {"block": pa.int32(), "position": pa.float64(), "row": pa.list_(pa.float64())}
    )

    def part(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The sampled rows of some record batches of the table, with their places."""
        for batch in in_larger_batches(batches):
            X, block, position, _ = rows_of(batch, self.names, self.places, complete_only=self.complete_only)
            here = np.argsort(position, kind="stable")
            chosen = is_chosen(X[here], self.share)
            if self.places.order is not None:
                chosen[1:] |= chosen[:-1].copy()
            here = here[chosen]
            yield pa.record_batch([block[here].astype(np.int32), position[here], list(X[here])], schema=self.schema)

    def merge(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Rows stay as they are."""
        yield from batches

    def read(self, table: pa.Table) -> tuple[Floats, Integers]:
        """The sampled rows in order, and their blocks."""
        rows = table.column("row").combine_chunks().flatten().to_numpy().reshape(-1, len(self.names))
        block = table.column("block").to_numpy().astype(np.int64)
        here = np.lexsort((table.column("position").to_numpy(), block))
        return rows[here], block[here]


# Work on all partitions of a table. Parts are record batches of its ``schema``. Those with one value in the column ``key``
# may be sent to different processes that merge them.
Pass = MomentsPass | RowsPass
Run = Callable[[Pass], pa.Table]  # returns parts, merged or not


def fit_partitions(
    detector: PCADetector, names: tuple[str, ...], run: Run, places: Places, *, complete_only: bool = False
) -> PCADetector:
    """Fit a detector to columns of a table that ``run`` reaches; ``places`` says in which block a row is.

    The model is that of `fit_moments` with the same blocks, to rounding. ``complete_only`` leaves out rows with
    missing cells, which otherwise are an error.
    """
    for name in _FROM_ROWS_IN_ORDER:
        if getattr(detector, name):
            raise ValueError(f"{name} needs rows in the order of time, but partitions have none. Fit without it.")
    first = MomentsPass(names, places)
    gathered = first.read(run(first))
    gathered.check(names, complete_only=complete_only)

    sample = RowsPass(names, places, share_of(gathered.blocks.total.n, len(names)))

    def second_pass(recipe: Recipe, learned: Learned, blocks: BlockMoments) -> tuple[Limits, NormalRange]:
        X, block = sample.read(run(sample))
        starts = np.searchsorted(block, sorted(gathered.found))
        return _limits(recipe, learned, blocks, X, starts), _range(learned.model, sample, X)

    with one_blas_thread():
        return fit_moments(detector, gathered.blocks, names, second_pass)


def _limits(recipe: Recipe, learned: Learned, blocks: BlockMoments, X: Floats, starts: Integers) -> Limits:
    """Limits of sampled rows, whose blocks begin at ``starts``; their models are those of all rows of other blocks."""
    model, sizes = learned.model, np.diff(starts, append=len(X))

    def hold_out() -> Limits:
        if len(blocks) < 2:
            return Limits(model, "formula")
        p = model.standard.n_components
        portions = in_blocks([(InOrder(X), np.arange(len(X)))], sizes, recipe.columns)
        return limits_by_holding_out(model, lambda k: recipe.judge(recipe.model_without(blocks, k, p)), sizes, portions)

    return recipe.limits(model, hold_out, [InOrder(X)])


def _range(model: FittedModel, sample: RowsPass, X: Floats) -> NormalRange:
    """The range of sampled rows; only neighbours in the table tell how alike successive rows are."""
    seen = range_of(model, InOrder(X))
    if sample.places.order is None:
        return replace(seen, dependence=1.0)
    distance = named_score("mahalanobis", model)(model.standardise(X))
    pairs = np.stack([distance[:-1], distance[1:], np.full(len(X) - 1, np.nan)], axis=1)  # NaN keeps pairs apart
    sums, _ = sums_of_pairs(pairs[is_chosen(X[:-1], sample.share)].ravel())
    return replace(seen, dependence=worth_of_rows(round(sums[0]), sums[1:]))


def calibrate_partitions(detector: PCADetector, run: Run, n_rows: int) -> PCADetector:
    """A copy of a detector with a conformal limit from normal rows that it was not fitted to."""
    names = detector.fitted.columns.inputs
    sample = RowsPass(names, HashedPlaces(), share_of(n_rows, len(names)), complete_only=False)
    rows, _ = sample.read(run(sample))
    return of_fitted(detector.fitted).calibrate_limit(Table(rows, names))
