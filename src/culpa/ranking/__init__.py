"""Which features to suspect first: classical contributions and log-odds of faults."""

from culpa._core.choices import CRITERIA
from culpa.ranking.contributions import of_model
from culpa.ranking.fault_odds import fault_log_odds

__all__ = ["CRITERIA", "fault_log_odds", "of_model"]
