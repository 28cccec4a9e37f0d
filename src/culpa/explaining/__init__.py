"""Explanations that are easier to read: non-negative values, the fewest culprits, interactions, and what to change."""

from culpa.explaining.counterfactual import Counterfactual
from culpa.explaining.interactions import Interactions
from culpa.explaining.shortest import Shortest

__all__ = ["Counterfactual", "Interactions", "Shortest"]
