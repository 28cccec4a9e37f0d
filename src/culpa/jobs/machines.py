"""The rows of many machines in one sorted stream: incidents of each, a model of each, scores by the model of each.

Engines bring the rows of a machine together and sort them. A partition is then a stream of record batches in which machines
follow each other, so that memory does not grow with the rows of a machine, except for fits.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from culpa._core.continuity import RowOrder
from culpa._core.estimators import ConvergenceWarning
from culpa._core.threads import one_blas_thread
from culpa._core.validation import Table
from culpa._core.warning import FitWarning, without_warnings
from culpa.detecting.detector import PCADetector
from culpa.fitted import FittedDetector
from culpa.io.model_file import detector_to_bytes, fitted_from_bytes
from culpa.jobs.batches import in_memory, joined
from culpa.jobs.following import Following
from culpa.jobs.incident_stream import incident_schema, incidents
from culpa.jobs.record_batches import THE_TABLE, RecordBatches, RecordBatchScorer, to_record_batch

Key = tuple[Any, ...]


FIT_COLUMNS = {"model": pa.binary(), "rows": pa.int64(), "limit": pa.float64(), "error": pa.string()}
SCORE_COLUMNS = {"score": pa.float64(), "limit": pa.float64(), "anomaly": pa.bool_(), "p_value": pa.float64()}


class Machine(NamedTuple):
    """A machine of a sorted stream: its key, the columns of its record batches, and these."""

    key: Key
    schema: pa.Schema
    batches: Iterator[Any]

    def fields(self, by: Sequence[str]) -> dict[str, pa.DataType]:
        """Types of the columns that tell machines apart."""
        return {name: self.schema.field(name).type for name in by}


def by_machine(batches: Iterable[Any], by: Sequence[str]) -> Iterator[Machine]:
    """Machines of a sorted stream; read the batches of one before you ask for the next."""
    runs = (run for batch in batches for run in _runs(batch, by))
    for key, group in groupby(runs, key=lambda run: run[0]):
        rows = (batch for _, batch in group)
        first = next(rows)
        yield Machine(key, first.schema, chain([first], rows))


def _runs(batch: pa.RecordBatch, by: Sequence[str]) -> Iterator[tuple[Key, Any]]:
    """Stretches of a record batch with the same key."""
    if not batch.num_rows:
        return
    changes = np.zeros(max(batch.num_rows - 1, 0), dtype=bool)
    for name in by:
        codes = batch.column(name).dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
        changes |= np.diff(codes) != 0
    starts = [0, *(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]
    for start, end in pairwise(starts):
        yield tuple(batch.column(name)[start].as_py() for name in by), batch.slice(start, end - start)


class _Collected:
    """A sink that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[Mapping[str, Any]] = []

    def write(self, columns: Mapping[str, Any]) -> None:
        self.written.append(columns)


def incident_columns(by: Sequence[str], time: pa.DataType, *, modes: bool) -> dict[str, pa.DataType]:
    """The columns of incidents of machines, whose times are of this type, after the columns ``by``."""
    fields = incident_schema(time, modes=modes)
    names = list(joined(dict.fromkeys(by), dict.fromkeys(fields.names)))[len(by) :]
    return dict(zip(names, fields.types, strict=True))


def machine_incidents(
    fitted: FittedDetector, batches: Iterable[Any], by: Sequence[str], time: str, **grouping: Any
) -> Iterator[Any]:
    """Incidents of each machine of a sorted stream, beside its key; options are those of `culpa.jobs.incidents`."""
    for machine in by_machine(batches, by):
        found = _Collected()
        incidents(fitted, RecordBatches(machine.batches, _named(by, machine.key)), found, time=time, **grouping)
        of_times = machine.schema.field(time).type
        schema = machine.fields(by) | incident_columns(by, of_times, modes=fitted.n_modes is not None)
        for columns in found.written:
            n = len(columns["sentence"])
            keys = {name: [value] * n for name, value in zip(by, machine.key, strict=True)}
            yield to_record_batch(joined(keys, columns), pa.schema(schema))


def machine_fits(
    batches: Iterable[Any],
    by: Sequence[str],
    names: tuple[str, ...],
    options: Mapping[str, Any],
    time: str | None = None,
) -> Iterator[Any]:
    """One line per machine of a sorted stream: its model file, its rows and its limit, or why there is no model.

    The column ``time`` shows where rows are missing.
    """
    for machine in by_machine(batches, by):
        following = Following(RecordBatches(machine.batches, _named(by, machine.key)), time)
        X, order = in_memory(list(following.batches(names)), len(names))
        order = RowOrder(order.missing, step=following.found)
        found: dict[str, Any] = {"model": None, "rows": len(X), "limit": None, "error": None}
        try:
            detector = _fit(Table(X, names, order=order), options)
            found |= {"model": detector_to_bytes(detector.fitted), "limit": detector.limit_}
        except ValueError as error:  # one machine must not stop the others
            found["error"] = str(error)
        line = dict(zip(by, machine.key, strict=True)) | found
        schema = pa.schema(machine.fields(by) | FIT_COLUMNS)
        yield to_record_batch({name: [value] for name, value in line.items()}, schema)


def _fit(table: Table, options: Mapping[str, Any]) -> PCADetector:
    if len(table.array) < 2:
        raise ValueError(f"at least 2 rows are needed to learn from, got {len(table.array)}.")
    with without_warnings(FitWarning, ConvergenceWarning), one_blas_thread():
        return PCADetector(**options).fit(table)


def machine_scores(batches: Iterable[Any], by: Sequence[str], model: str) -> Iterator[Any]:
    """Scores of the rows of each machine by its own model.

    The column ``model`` holds the model file in the first row of a machine, which has nothing else, and is null in the rows
    to score. If a machine has several models, the first one counts. Rows of a machine without a model get no score.
    """
    for machine in by_machine(batches, by):
        scorer: RecordBatchScorer | None = None
        kept = {field.name: field.type for field in machine.schema if field.name != model}
        schema = pa.schema(joined(kept, SCORE_COLUMNS))
        for batch in machine.batches:
            files = batch.column(model).drop_null()
            rows = batch.filter(batch.column(model).is_null()).drop_columns([model])
            if scorer is None and len(files):
                scorer = RecordBatchScorer(fitted_from_bytes(files[0].as_py()), rows.schema)
            if rows.num_rows:
                answer = rows if scorer is None else scorer(rows)
                yield to_record_batch(dict(zip(answer.schema.names, answer.columns, strict=True)), schema)


def _named(by: Sequence[str], key: Key) -> str:
    """What errors call the rows of a machine."""
    return ", ".join(f"{name}={value}" for name, value in zip(by, key, strict=True)) or THE_TABLE
