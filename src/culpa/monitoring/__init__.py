"""What happened, and whose fault was it? Flagged rows become incidents; periods are compared, and drift is noticed."""

from culpa.monitoring.comparison import Comparison
from culpa.monitoring.drift import Drift
from culpa.monitoring.incident import Culprit, Incident, Moment
from culpa.monitoring.incidents import Incidents, Search, find_incidents, split_time

__all__ = [
    "Comparison",
    "Culprit",
    "Drift",
    "Incident",
    "Incidents",
    "Moment",
    "Search",
    "find_incidents",
    "split_time",
]
