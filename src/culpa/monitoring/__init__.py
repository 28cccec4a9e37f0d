"""What happened, and whose fault was it? Flagged rows become incidents with culprits and sentences."""

from culpa.monitoring.grouping import Culprit, Incident
from culpa.monitoring.incidents import Incidents, find_incidents, split_time

__all__ = ["Culprit", "Incident", "Incidents", "find_incidents", "split_time"]
