"""What happened, and what would mend it: incidents, several features fixed together, trimmed training rows."""

from culpa.monitoring.fixing import JointFix
from culpa.monitoring.grouping import Culprit, Incident
from culpa.monitoring.incidents import Incidents, find_incidents

__all__ = ["Culprit", "Incident", "Incidents", "JointFix", "find_incidents"]
