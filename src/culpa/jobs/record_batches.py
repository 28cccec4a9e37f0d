"""Scores and explanations of Arrow record batches, for engines that spread the rows of a table over many processes.

Spark, Dask, Ray Data and Beam all hand over some rows at a time. A `RecordBatchScorer` or `RecordBatchExplainer` answers
such a batch with another one. Both know the columns of their answers in advance, because engines ask for them before they
read any row. The columns are those that ``culpa score`` and ``culpa explain`` write, beside the columns of the table.

Batches come in any order, so each row must be judged alone. Detectors with lags or smoothing judge rows by earlier ones,
and are refused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from culpa._core.types import Floats
from culpa._core.validation import Table, refuse_infinity
from culpa.explaining.batch_explainer import BatchExplainer
from culpa.fitted import FittedDetector
from culpa.io.tables import Batch
from culpa.io.tables.columns import find_all, kind, to_floats
from culpa.jobs.answers import Say, answers, blame, scores

_ROWS_TOGETHER = 1 << 16
THE_TABLE = "the table"  # what errors call the rows: engines do not say which table a batch is from


def read_features(batch: pa.RecordBatch, names: Sequence[str]) -> Floats:
    """Some columns of a record batch as numbers; an error names the column that has none, or too large a number."""
    check_numbers(batch.schema, names)
    result = np.empty((batch.num_rows, len(names)), order="F")
    for position, name in enumerate(names):
        result[:, position] = to_floats(batch.column(name))
    refuse_infinity(Table(result, tuple(names)), THE_TABLE)
    return result


def check_numbers(schema: pa.Schema, names: Sequence[str]) -> None:
    """Refuse a table that lacks one of these columns, has it twice, or has something else than numbers in it."""
    find_all(names, schema.names, THE_TABLE)
    for name in names:
        if kind(schema.field(name).type) != "number":
            raise ValueError(f"column {name!r} of {THE_TABLE} contains {schema.field(name).type}, not numbers.")


@dataclass(eq=False)
class RecordBatches:
    """Record batches as a table that jobs read, with rows numbered from 0; ``name`` is what errors call it."""

    stream: Iterable[Any]
    name: str = THE_TABLE
    live: bool = False

    def batches(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[Batch]:
        """All rows, as the engine hands them over."""
        done = 0
        for batch in self.stream:
            rows = np.arange(done, done + batch.num_rows)
            yield Batch(rows, read_features(batch, features), {name: batch.column(name) for name in carried})
            done += batch.num_rows


class _Answers:
    """Answers record batches of one schema with what ``say`` says about their rows.

    ``schema`` is that of the answers: the columns ``kept`` from the table, and the fields that are ``added``.
    """

    def __init__(
        self, fitted: FittedDetector, schema: pa.Schema, say: Say, kept: Sequence[str], *, flagged_only: bool = False
    ) -> None:
        if fitted.columns.lags or fitted.columns.smooth is not None:
            what = "lags" if fitted.columns.lags else "smooth"
            raise ValueError(
                f"the detector was fitted with {what}, so it judges each row by earlier rows. Record batches come in any "
                f"order. Sort the rows and use detector.score_samples or culpa.jobs.incidents, or fit without {what}."
            )
        check_numbers(schema, fitted.columns.inputs)
        self.fitted, self.kept, self._say = fitted, list(kept), say
        zeros = [  # a row that shows names and types of the new columns
            pa.array([0]).cast(field.type) if field.name in fitted.columns.inputs else pa.nulls(1, field.type)
            for field in schema
        ]
        answer = self._answer(pa.record_batch(zeros, names=schema.names), flagged_only=False)
        self.added = [pa.field(name, _as_array(answer[name], None).type) for name in list(answer)[len(self.kept) :]]
        self.schema = pa.schema([*(schema.field(name) for name in self.kept), *self.added])
        self._flagged_only = flagged_only

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The answer to the rows of a batch."""
        if not batch.num_rows:
            return pa.RecordBatch.from_pylist([], self.schema)
        return to_record_batch(self._answer(batch, flagged_only=self._flagged_only), self.schema)

    def _answer(self, batch: pa.RecordBatch, *, flagged_only: bool) -> dict[str, Any]:
        rows = RecordBatches([batch])
        (columns,) = answers(self.fitted, rows, self._say, carried=self.kept, flagged_only=flagged_only)
        # a table that has no other columns still has labels
        return columns if self.kept else dict(list(columns.items())[1:])


class RecordBatchScorer(_Answers):
    """Answers record batches with all their columns, and score, limit, flag and p-value of each row.

    A detector with operating modes adds the mode. A new column whose name is taken gets an underscore at its end.

    >>> import numpy as np, pyarrow as pa
    >>> from culpa import PCADetector
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> rows = pa.record_batch([pa.array(X[:, 0]), pa.array(X[:, 1])], names=["flow", "power"])
    >>> score = RecordBatchScorer(PCADetector().fit(rows).fitted, rows.schema)
    >>> score(rows).schema.names
    ['flow', 'power', 'score', 'limit', 'anomaly', 'p_value']
    """

    def __init__(self, fitted: FittedDetector, schema: pa.Schema) -> None:
        super().__init__(fitted, schema, scores(fitted), schema.names)


class RecordBatchExplainer(_Answers):
    """Answers record batches with explanations of their rows, or of those that are flagged.

    By default the answer has one line per row: the columns of the table that are not features, score, limit and flag, and
    a column of Shapley values for each feature or group. With ``top``, it has a line for each of that many worst culprits
    of a row instead.
    """

    def __init__(
        self, fitted: FittedDetector, schema: pa.Schema, *, top: int | None = None, flagged_only: bool = False
    ) -> None:
        say = blame(BatchExplainer(fitted.explainer()), fitted.limit, top)
        kept = [name for name in schema.names if name not in fitted.columns.inputs]
        super().__init__(fitted, schema, say, kept, flagged_only=flagged_only)


def in_larger_batches(batches: Iterable[Any], rows: int = _ROWS_TOGETHER) -> Iterator[Any]:
    """The same rows in batches of at least so many, except for the last: engines send small ones, which cost more each."""
    held: list[Any] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= rows:
            yield _as_one(held)
            held = []
    if held:
        yield _as_one(held)


def _as_one(batches: Sequence[Any]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).combine_chunks()
    return pa.record_batch([_as_array(column, None) for column in table.columns], schema=table.schema)


def to_record_batch(columns: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """Columns as a record batch of that schema: NaN becomes null, a column that is not there is null throughout."""
    n = len(next(iter(columns.values())))
    arrays = [
        _as_array(columns[field.name], field.type) if field.name in columns else pa.nulls(n, field.type)
        for field in schema
    ]
    return pa.record_batch(arrays, schema=schema)


def _as_array(cells: Any, wanted: pa.DataType | None) -> pa.Array:
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    if not isinstance(cells, pa.Array):
        return pa.array(cells, wanted, from_pandas=True)
    return cells if wanted is None or cells.type == wanted else cells.cast(wanted)
