"""How is the worth shared out? Engines that turn a game into Shapley values; they see games, never models."""

from culpa.shapley.algorithm1 import algorithm1
from culpa.shapley.asymmetric import asymmetric
from culpa.shapley.down_sets import DownSets
from culpa.shapley.exact import exact, tabulate
from culpa.shapley.extensions import extension_rule
from culpa.shapley.forms import QuadraticForms, compile_exact, compile_rule
from culpa.shapley.kernel import PairedRule, kernel, paired_rule
from culpa.shapley.partial_order import PartialOrder
from culpa.shapley.permutation import permutation
from culpa.shapley.rules import Rule, averaging_rule, default_rule, independent_rule
from culpa.shapley.shares import Players, Progress, Shares

__all__ = [
    "DownSets",
    "PairedRule",
    "PartialOrder",
    "Players",
    "Progress",
    "QuadraticForms",
    "Rule",
    "Shares",
    "algorithm1",
    "asymmetric",
    "averaging_rule",
    "compile_exact",
    "compile_rule",
    "default_rule",
    "exact",
    "extension_rule",
    "independent_rule",
    "kernel",
    "paired_rule",
    "permutation",
    "tabulate",
]
