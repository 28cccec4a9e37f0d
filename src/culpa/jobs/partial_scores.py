"""The second pass of a fit over many processes: scores of rows by models that did not see them, and their range.

What a process knows of a stretch of a block travels as one row: how far each feature went, sums of scores, and the
scores themselves, by statistic. Limits rest on at most `MOST_SCORED` rows, chosen by their own numbers; up to that
many rows, they are the library's.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from culpa._core.parameters import DetectorSettings
from culpa._core.types import Floats
from culpa.columns import Lagged
from culpa.fitting.learning import Recipe
from culpa.jobs.partial_moments import GatheredMoments, complete_rows_of, read_moments
from culpa.jobs.places import Integers, Places, chosen_rows
from culpa.jobs.record_batches import in_larger_batches
from culpa.models import FittedModel
from culpa.models.normal_range import NormalRange, sums_of_pairs, worth_of_rows
from culpa.scores import named_score

MOST_SCORED = 1 << 22  # rows: the rate of a 99% limit is then known to within 0.005% (one standard error)

_NUMBERS = pa.list_(pa.float64())

Scorer = Callable[[Floats], Mapping[str, Floats]]


@dataclass(frozen=True, eq=False)
class GatheredScores:
    """Scores of the rows by statistic, their blocks, and the range of all rows."""

    scores: dict[str, Floats]
    block: Integers
    range: NormalRange


@dataclass(frozen=True)
class ScoresPass:
    """Scores the rows of partitions. Its fields are plain, so that any engine can send it to its processes.

    ``statistics`` are those to score by; there may be none, where limits are formulas. Rows are scored by the models of the
    other blocks, or with ``held_out=False`` by that of all rows. ``moments`` are those of the blocks, as `MomentsPass`
    wrote them.
    """

    names: tuple[str, ...]
    places: Places
    settings: DetectorSettings
    given: tuple[int, ...]
    moments: bytes
    n_components: int | None
    statistics: tuple[str, ...]
    held_out: bool
    share: float  # of the rows that are scored
    key: ClassVar[str] = "stretch"

    @property
    def schema(self) -> pa.Schema:
        """Of what travels."""
        fixed = {
            "block": pa.int32(),
            "stretch": pa.int32(),
            "n": pa.int64(),
            "low": _NUMBERS,
            "high": _NUMBERS,
            "sums": _NUMBERS,
        }
        return pa.schema({**fixed, **{f"score_{name}": _NUMBERS for name in self.statistics}})

    def part(self, batches: Iterable[Any]) -> Iterator[Any]:
        """What some record batches of the table say."""
        worker = _Worker(self)
        yield from self.merge(worker.look_at(batch) for batch in in_larger_batches(batches))

    def merge(self, batches: Iterable[Any]) -> Iterator[Any]:
        """What several parts say together."""
        found: dict[tuple[int, int], _Stretch] = {}
        for batch in batches:
            for line in _lines(batch, self.statistics):
                known = found.get(line.key)
                found[line.key] = line if known is None else known.merge(line)
        yield self.to_record_batch([found[key].joined() for key in sorted(found)])

    def read(self, table: pa.Table) -> GatheredScores:
        """What all parts say."""
        [batch] = self.merge(table.to_batches())
        lines = _lines(batch, self.statistics)
        scores = {
            name: np.concatenate([np.empty(0), *(line.scores[name][0] for line in lines)]) for name in self.statistics
        }
        sizes = [len(line.scores[name][0]) for line in lines for name in self.statistics[:1]]
        blocks = np.repeat([line.key[0] for line in lines], sizes) if sizes else np.empty(0, dtype=np.int64)
        return GatheredScores(scores, blocks.astype(np.int64), _range(lines))

    def to_record_batch(self, lines: "list[_Stretch]") -> pa.RecordBatch:
        """Lines as they travel."""
        columns: dict[str, list[Any]] = {
            "block": [line.key[0] for line in lines],
            "stretch": [line.key[1] for line in lines],
            "n": [line.n for line in lines],
            "low": [line.low for line in lines],
            "high": [line.high for line in lines],
            "sums": [line.sums for line in lines],
        }
        columns |= {f"score_{name}": [line.scores[name][0] for line in lines] for name in self.statistics}
        return pa.record_batch([pa.array(columns[one.name], one.type) for one in self.schema], schema=self.schema)


@dataclass(eq=False)
class _Stretch:
    """What is known of the rows of one stretch of one block; scores are in parts until they are `joined`."""

    key: tuple[int, int]
    n: int
    low: Floats
    high: Floats
    sums: Floats  # of squared distances and their number, then those of pairs of successive scores
    scores: dict[str, list[Floats]] = field(default_factory=dict)

    def merge(self, other: "_Stretch") -> "_Stretch":
        for name, parts in other.scores.items():
            self.scores[name].extend(parts)
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return _Stretch(self.key, self.n + other.n, low, high, self.sums + other.sums, self.scores)

    def joined(self) -> "_Stretch":
        self.scores = {name: [np.concatenate(parts)] for name, parts in self.scores.items()}
        return self


def _lines(batch: pa.RecordBatch, statistics: tuple[str, ...]) -> list[_Stretch]:
    def numbers(name: str, at: int) -> Floats:
        return np.asarray(batch.column(name)[at].values.to_numpy())

    keys = zip(batch.column("block").to_pylist(), batch.column("stretch").to_pylist(), strict=True)
    return [
        _Stretch(
            key,
            batch.column("n")[at].as_py(),
            numbers("low", at),
            numbers("high", at),
            numbers("sums", at),
            {name: [numbers(f"score_{name}", at)] for name in statistics},
        )
        for at, key in enumerate(keys)
    ]


def _range(lines: list[_Stretch]) -> NormalRange:
    """The range of the rows, whose stretches may lie in several blocks."""
    farthest: dict[int, Floats] = {}
    for line in lines:
        here = np.maximum(np.abs(line.low), np.abs(line.high))
        farthest[line.key[1]] = np.maximum(here, farthest.get(line.key[1], here))
    low = np.min([line.low for line in lines], axis=0)
    sums = np.sum([line.sums for line in lines], axis=0)
    return NormalRange(
        low,
        np.max([line.high for line in lines], axis=0),
        np.mean([farthest[at] for at in sorted(farthest)], axis=0),
        sum(line.n for line in lines),
        worth_of_rows(round(sums[2]), sums[3:]),
        max(float(sums[0] / max(sums[1], 1.0)) / len(low), 1.0),
    )


class _Worker:
    """Scores rows in one process, by models that it learns from the moments as it needs them."""

    def __init__(self, task: ScoresPass) -> None:
        self.task = task
        columns = Lagged(task.names, len(task.names), 0, task.given)
        self.recipe = Recipe(task.settings, columns)
        self._model = self._learn(self._gathered.blocks.total)
        self._distance = named_score("mahalanobis", self._model)
        self._scorers: dict[int, Scorer] = {}

    @cached_property
    def _gathered(self) -> GatheredMoments:
        return read_moments(pa.ipc.open_stream(self.task.moments).read_all(), len(self.task.names))

    def _learn(self, moments: Any) -> FittedModel:
        return self.recipe.learn_moments(moments, p=self.task.n_components).model

    def look_at(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What a record batch of the table says, by block and stretch."""
        places = self.task.places
        rows = complete_rows_of(batch, self.task.names, places.order)
        X, order = rows.X, rows.order
        if order is not None:  # rows that follow each other are neighbours
            sorting = np.argsort(order, kind="stable")
            X, order = X[sorting], order[sorting]
        block = places.blocks(X, order)
        stretch = places.stretches(X, order, round(self._gathered.blocks.total.n))
        Z = self._model.standardise(X)
        distance, scores = self._distance(Z), self._scores(X, block)
        lines = [
            _Stretch(
                key,
                len(here),
                Z[here].min(axis=0),
                Z[here].max(axis=0),
                _sums(distance[here], successive=order is not None),
                {name: [_known(values[here])] for name, values in scores.items()},
            )
            for key, here in _groups(block, stretch)
        ]
        return self.task.to_record_batch(lines)

    def _scores(self, X: Floats, block: Integers) -> dict[str, Floats]:
        """By statistic; NaN for rows that are not chosen."""
        result = {name: np.full(len(X), np.nan) for name in self.task.statistics}
        chosen = chosen_rows(X, self.task.share)
        for k in np.unique(block[chosen]).tolist() if result else []:
            here = np.flatnonzero(chosen & (block == k))
            scores = self._scorer(k)(X[here])
            for name, values in result.items():
                values[here] = scores[name]
        return result

    def _scorer(self, block: int) -> Scorer:
        if block not in self._scorers:
            self._scorers[block] = self._make_scorer(block)
        return self._scorers[block]

    def _make_scorer(self, block: int) -> Scorer:
        if self.task.held_out:
            k = int(np.searchsorted(self._gathered.ids, block))
            return self.recipe.judge(self._learn(self._gathered.blocks.without(k))).scores
        return self.recipe.judge(self._model).scores


def _sums(distance: Floats, *, successive: bool) -> Floats:
    pairs = sums_of_pairs(distance)[0] if successive else np.zeros(6)
    return np.concatenate([[distance.sum(), len(distance)], pairs])


def _known(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def _groups(block: Integers, stretch: Integers) -> Iterator[tuple[tuple[int, int], Integers]]:
    """Positions of the rows of each block and stretch."""
    if not len(block):
        return
    keys = block * (stretch.max() + 1) + stretch
    sorting = np.argsort(keys, kind="stable")
    for here in np.split(sorting, np.flatnonzero(np.diff(keys[sorting])) + 1):
        yield (int(block[here[0]]), int(stretch[here[0]])), here
