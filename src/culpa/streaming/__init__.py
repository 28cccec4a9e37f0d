"""The jobs of the command line over tables of any size: learn, score, explain, gather incidents, a batch at a time."""

from culpa.streaming.answering import Summary, explain, score
from culpa.streaming.describing import Description, describe, describe_detector
from culpa.streaming.fitting import fit, sample
from culpa.streaming.gathering import incidents

__all__ = [
    "Description",
    "Summary",
    "describe",
    "describe_detector",
    "explain",
    "fit",
    "incidents",
    "sample",
    "score",
]
