"""Jobs over tables of any size: learn, score, explain, gather incidents, a batch at a time.

Some modules take a table of `culpa.io`, as the command line does. Others take Arrow record batches of tables that are
spread over many processes: `record_batches` answers them, `partitioned` learns from them, and `machines` treats each
machine apart. Spark calls these, and so can any other engine, which finds here what it needs.
"""

from typing import TYPE_CHECKING

from culpa._core.lazy import lazy_from

__all__ = ["HashedPlaces", "OrderedPlaces", "RecordBatchExplainer", "RecordBatchScorer", "fit_partitions"]

if TYPE_CHECKING:
    from culpa.jobs.partitioned import HashedPlaces, OrderedPlaces, fit_partitions
    from culpa.jobs.record_batches import RecordBatchExplainer, RecordBatchScorer
else:  # a job loads what it needs
    __getattr__ = lazy_from(
        __name__,
        partitioned="HashedPlaces OrderedPlaces fit_partitions",
        record_batches="RecordBatchExplainer RecordBatchScorer",
    )
