"""Scores of normal rows that are spread over many processes, by a detector that was not fitted to them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from culpa.io.model_bytes import kept_detector
from culpa.jobs.places import chosen_rows
from culpa.jobs.record_batches import read_features
from culpa.scores.limits import Tail


@dataclass(frozen=True)
class TailsPass:
    """Scores the rows of partitions by the statistics of a detector's charts; ``model`` is its model file."""

    model: bytes
    statistics: tuple[str, ...]
    share: float  # of the rows that are scored
    key: ClassVar[str] = "part"

    @property
    def schema(self) -> pa.Schema:
        """A column of scores for each statistic."""
        return pa.schema({"part": pa.int32(), **{name: pa.float64() for name in self.statistics}})

    def part(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The scores of some rows."""
        fitted = kept_detector(self.model).fitted
        for batch in batches:
            X = read_features(batch, fitted.columns.inputs)
            X = X[chosen_rows(X, self.share)]
            standard = fitted.model.standardise(X)
            scores = [pa.array(score(standard)) for score in fitted.charted.values()]
            yield pa.record_batch([pa.array(np.zeros(len(X), dtype=np.int32)), *scores], schema=self.schema)

    def merge(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Scores stay as they are."""
        yield from batches

    def read(self, table: pa.Table) -> dict[str, Tail]:
        """The largest scores, by statistic."""
        return {name: Tail.of(table.column(name).to_numpy()) for name in self.statistics}
