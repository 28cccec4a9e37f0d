"""Which features to suspect first: classical contributions, log-odds of faults, and where a fault entered."""

from culpa.ranking.contributions import of_model, propagated_together

__all__ = ["of_model", "propagated_together"]
