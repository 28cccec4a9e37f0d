"""How is the worth shared out? Engines that turn a game into Shapley values; they see games, never models."""

from culpa.shapley.algorithm1 import algorithm1
from culpa.shapley.asymmetric import asymmetric
from culpa.shapley.down_sets import DownSets
from culpa.shapley.exact import exact, tabulate
from culpa.shapley.extensions import extension_rule
from culpa.shapley.forms import QuadraticForms, compile_exact
from culpa.shapley.kernel import PairedRule, kernel, paired_rule
from culpa.shapley.partial_order import PartialOrder
from culpa.shapley.permutation import permutation
from culpa.shapley.rules import CoalitionRule, OrderRule, order_rule
from culpa.shapley.shares import Players, Progress, Shares

__all__ = [
    "CoalitionRule",
    "DownSets",
    "OrderRule",
    "PairedRule",
    "PartialOrder",
    "Players",
    "Progress",
    "QuadraticForms",
    "Shares",
    "algorithm1",
    "asymmetric",
    "compile_exact",
    "exact",
    "extension_rule",
    "kernel",
    "order_rule",
    "paired_rule",
    "permutation",
    "tabulate",
]
