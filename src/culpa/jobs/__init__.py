"""Jobs over tables of any size: learn, score, explain, gather incidents, a batch at a time.

Some take a table of `culpa.io`, as the command line does. Others take Arrow record batches of tables that are spread over
many processes: `record_batches` answers them, `partitioned` learns from them, and `machines` treats each machine apart.
Spark calls these, and so can any other engine.
"""

from typing import TYPE_CHECKING

from culpa._core.lazy import lazy_from

_HOMES = {
    "answers": "explain score",
    "batches": "Listener Summary",
    "comparing": "compare",
    "describing": "describe describe_detector",
    "fitting": "check_columns fit sample",
    "incident_stream": "incidents",
    "machines": "by_machine machine_fits machine_incidents machine_scores",
    "partitioned": "HashedPlaces OrderedPlaces Pass Run calibrate_partitions fit_partitions",
    "record_batches": "RecordBatchExplainer RecordBatchScorer",
    "updating": "Update update",
}
__all__ = [
    "HashedPlaces",
    "Listener",
    "OrderedPlaces",
    "Pass",
    "RecordBatchExplainer",
    "RecordBatchScorer",
    "Run",
    "Summary",
    "Update",
    "by_machine",
    "calibrate_partitions",
    "check_columns",
    "compare",
    "describe",
    "describe_detector",
    "explain",
    "fit",
    "fit_partitions",
    "incidents",
    "machine_fits",
    "machine_incidents",
    "machine_scores",
    "sample",
    "score",
    "update",
]

if TYPE_CHECKING:
    from culpa.jobs.answers import explain, score
    from culpa.jobs.batches import Listener, Summary
    from culpa.jobs.comparing import compare
    from culpa.jobs.describing import describe, describe_detector
    from culpa.jobs.fitting import check_columns, fit, sample
    from culpa.jobs.incident_stream import incidents
    from culpa.jobs.machines import by_machine, machine_fits, machine_incidents, machine_scores
    from culpa.jobs.partitioned import HashedPlaces, OrderedPlaces, Pass, Run, calibrate_partitions, fit_partitions
    from culpa.jobs.record_batches import RecordBatchExplainer, RecordBatchScorer
    from culpa.jobs.updating import Update, update
else:  # a job loads what it needs
    __getattr__ = lazy_from(__name__, **_HOMES)
