"""Which features to suspect first: classical contributions, log-odds of faults, and where a fault entered."""

from culpa._core.choices import CRITERIA
from culpa.ranking.contributions import of_model, propagated_together
from culpa.ranking.fault_odds import fault_log_odds
from culpa.ranking.propagation import entry_log_odds

__all__ = ["CRITERIA", "entry_log_odds", "fault_log_odds", "of_model", "propagated_together"]
