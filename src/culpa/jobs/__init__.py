"""The jobs of the command line over tables of any size: learn, score, explain, gather incidents, a batch at a time."""

from culpa.jobs.batches import Summary
from culpa.jobs.comparing import compare
from culpa.jobs.describing import Description, describe, describe_detector
from culpa.jobs.explaining import explain
from culpa.jobs.fitting import check_columns, fit, sample
from culpa.jobs.incident_stream import incidents
from culpa.jobs.scoring import score
from culpa.jobs.updating import Update, update

__all__ = [
    "Description",
    "Summary",
    "Update",
    "check_columns",
    "compare",
    "describe",
    "describe_detector",
    "explain",
    "fit",
    "incidents",
    "sample",
    "score",
    "update",
]
