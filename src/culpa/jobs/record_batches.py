"""Scores and explanations of Arrow record batches, for engines that spread the rows of a table over many processes.

Spark, Dask, Ray Data and Beam all hand over some rows at a time. A `RecordBatchScorer` or `RecordBatchExplainer` answers
such a batch with another one. Both know the columns of their answers in advance, because engines ask for them before they
read any row. The columns are those that ``culpa score`` and ``culpa explain`` write, beside the columns of the table.

Batches come in any order, so each row must be judged alone. Detectors with lags or smoothing judge rows by earlier ones,
and are refused.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from culpa._core.threads import one_blas_thread
from culpa._core.types import Floats, Mask
from culpa._core.validation import Table, refuse_infinity
from culpa.fitted import FittedDetector
from culpa.io.tables import Batch
from culpa.io.tables.columns import find_all, kind, to_floats
from culpa.jobs.batch_explainer import BatchExplainer
from culpa.jobs.batches import ScoredBatch, joined, score_batch
from culpa.jobs.explaining import lines_of, long_columns, wide_columns
from culpa.jobs.scoring import score_columns

_ROWS_TOGETHER = 1 << 16
THE_TABLE = "the table"  # what errors call the rows: engines do not say which table a batch is from


def read_features(batch: pa.RecordBatch, names: Sequence[str]) -> Floats:
    """Some columns of a record batch as numbers; an error names the column that has none, or too large a number."""
    check_numbers(batch.schema, names)
    result = np.empty((batch.num_rows, len(names)), order="F")
    for position, name in enumerate(names):
        result[:, position] = to_floats(batch.column(name), name, THE_TABLE)
    refuse_infinity(Table(result, tuple(names)), THE_TABLE)
    return result


def check_numbers(schema: pa.Schema, names: Sequence[str]) -> None:
    """Refuse a table that lacks one of these columns, has it twice, or has something else than numbers in it."""
    find_all(names, schema.names, THE_TABLE)
    for name in names:
        if kind(schema.field(name).type) != "number":
            raise ValueError(f"column {name!r} of {THE_TABLE} contains {schema.field(name).type}, not numbers.")


class _Answers(ABC):
    """Answers record batches of one schema.

    ``schema`` is that of the answers: the columns ``kept`` from the table, and the fields that are ``added``.
    """

    def __init__(self, fitted: FittedDetector, schema: pa.Schema) -> None:
        if fitted.columns.lags or fitted.columns.smooth is not None:
            what = "lags" if fitted.columns.lags else "smooth"
            raise ValueError(
                f"the detector was fitted with {what}, so it judges each row by earlier rows. Record batches come in any "
                f"order. Sort the rows and use detector.score_samples or culpa.jobs.incidents, or fit without {what}."
            )
        check_numbers(schema, fitted.columns.inputs)
        self.fitted = fitted
        self._arrange = fitted.columns.stream()
        kept = [field for field in schema if self._keeps(field.name)]
        self.kept = [field.name for field in kept]
        self.added = self._new_fields(schema)
        self.schema = pa.schema([*kept, *self.added])

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The answer to the rows of a batch."""
        return to_record_batch(self._answer(batch), self.schema)

    @abstractmethod
    def _keeps(self, name: str) -> bool:
        """Whether answers have this column of the table."""

    @abstractmethod
    def _columns(self, scored: ScoredBatch) -> dict[str, Any]:
        """The columns of an answer: those that are kept, and the new ones."""

    def _answer(self, batch: pa.RecordBatch) -> dict[str, Any]:
        cells = {name: batch.column(name) for name in self.kept}
        # a detector whose table has no other columns still needs labels, which are left out again
        carried = cells or {"row": pa.array(np.arange(batch.num_rows))}
        X = read_features(batch, self.fitted.columns.inputs)
        with one_blas_thread():
            rows = Batch(np.arange(batch.num_rows), X, carried)
            columns = self._columns(score_batch(self.fitted, rows, self._arrange, THE_TABLE))
        return columns if cells else dict(list(columns.items())[1:])

    def _new_fields(self, schema: pa.Schema) -> list[pa.Field]:
        """Names and types of the new columns, from the answer to a row of zeros."""
        cells = [
            pa.array([0]).cast(field.type) if field.name in self.fitted.columns.inputs else pa.nulls(1, field.type)
            for field in schema
        ]
        answer = self._answer(pa.record_batch(cells, names=schema.names))
        new = list(answer.items())[len(self.kept) :]
        return [pa.field(name, _as_array(cells, None).type) for name, cells in new]


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

    def _keeps(self, name: str) -> bool:
        return True

    def _columns(self, scored: ScoredBatch) -> dict[str, Any]:
        everything = np.ones(len(scored.rows), dtype=bool)
        return joined(scored.batch.carried, score_columns(self.fitted, scored, everything))


class RecordBatchExplainer(_Answers):
    """Answers record batches with explanations of their rows, or of those that are flagged.

    By default the answer has one line per row: the columns of the table that are not features, score, limit and flag, and
    a column of Shapley values for each feature or group. With ``top``, it has a line for each of that many worst culprits
    of a row instead.
    """

    def __init__(
        self, fitted: FittedDetector, schema: pa.Schema, *, top: int | None = None, flagged_only: bool = False
    ) -> None:
        self.explainer, self.top = BatchExplainer(fitted.explainer()), top
        self._lines, self._flagged_only = lines_of(top, None, None), False
        super().__init__(fitted, schema)
        self._flagged_only = flagged_only  # the row that new columns are found with is not flagged

    def _keeps(self, name: str) -> bool:
        return name not in self.explainer.explainer.model.columns.inputs

    def _columns(self, scored: ScoredBatch) -> dict[str, Any]:
        limit = self.fitted.limit
        if self._lines is None:
            everything = np.ones(len(scored.rows), dtype=bool)
            return wide_columns(scored, scored.anomaly if self._flagged_only else everything, self.explainer, limit)
        return long_columns(scored, self._explained(scored), self.explainer.explain, limit, self._lines)

    def _explained(self, scored: ScoredBatch) -> Mask:
        """Rows without a score have no culprits."""
        return scored.anomaly if self._flagged_only else ~np.isnan(scored.rows.score)


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


def answered(answers: type[_Answers], fitted: FittedDetector, batches: Iterable[Any], **options: Any) -> Iterator[Any]:
    """The answers to the batches of a partition, which all have the schema of the first."""
    answer: _Answers | None = None
    for batch in batches:
        answer = answer or answers(fitted, batch.schema, **options)
        yield answer(batch)


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
