"""How is the worth shared out? Engines that turn a game into Shapley values; they see games, never models."""

from culpa.shapley.algorithm1 import algorithm1
from culpa.shapley.base import Shares
from culpa.shapley.cost import affordable, check_affordable
from culpa.shapley.exact import exact, tabulate
from culpa.shapley.permutation import permutation

__all__ = ["Shares", "affordable", "algorithm1", "check_affordable", "exact", "permutation", "tabulate"]
