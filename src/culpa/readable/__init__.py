"""Explanations that are easier to read: non-negative values, the fewest culprits, interactions, and what to change."""

from culpa.readable.counterfactual import Counterfactual
from culpa.readable.interactions import Interactions
from culpa.readable.shortest import Shortest

__all__ = ["Counterfactual", "Interactions", "Shortest"]
