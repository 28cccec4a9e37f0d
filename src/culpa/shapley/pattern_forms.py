"""Quadratic forms of rows with missing cells: one game, and so one set of forms, for each set of observed features.

Shapley values of a game with fewer players are other averages over coalitions, so the forms of complete rows do not tell
them. Most tables have few patterns of missing cells that occur again and again. Forms of a pattern are found as soon as its
rows have taken as many operations without forms as finding them takes. So a pattern never costs much more than twice
what it would have cost if the number of its rows had been known, and rare patterns are not compiled at all.
"""

from collections import OrderedDict
from typing import NamedTuple

from culpa._core.types import Mask
from culpa.games import Game
from culpa.shapley.forms import QuadraticForms
from culpa.shapley.plan import form_operations
from culpa.shapley.rules import Rule
from culpa.shapley.shares import Players

_MOST_COUNTED = 100_000  # patterns whose operations are remembered


class PatternCost(NamedTuple):
    """Operations of finding forms, and of rows without forms: once for all rows, and for each of them."""

    prepare: float
    together: float
    each: float

    @classmethod
    def of(cls, game: Game, players: Players, n_features: int, rule: Rule | None) -> "PatternCost":
        """By a sampling rule, or by all coalitions."""
        prepare, each = form_operations(game, players, n_features, rule)
        cost = game.cost
        together = (
            cost.tree_coalition * 2.0 ** len(players) if rule is None else cost.order_coalition * rule.n_evaluations
        )
        return cls(together + prepare, together, each)


class PatternForms:
    """Forms by the features that are observed, those used last within some memory, and what patterns without have cost."""

    def __init__(self) -> None:
        self._forms: OrderedDict[bytes, QuadraticForms] = OrderedDict()
        self._spent: dict[bytes, float] = {}

    def get(self, observed: Mask) -> QuadraticForms | None:
        """The forms of a pattern, if they were found."""
        forms = self._forms.get(observed.tobytes())
        if forms is not None:
            self._forms.move_to_end(observed.tobytes())
        return forms

    def are_due(self, observed: Mask, cost: PatternCost, n_rows: int) -> bool:
        """Whether to find forms for so many more rows; if not, these rows are counted."""
        key = observed.tobytes()
        spent = self._spent.get(key, 0.0) + cost.together + n_rows * cost.each
        if spent >= cost.prepare:
            self._spent.pop(key, None)
            return True
        if len(self._spent) >= _MOST_COUNTED:
            self._spent.clear()
        self._spent[key] = spent
        return False

    def keep(self, observed: Mask, forms: QuadraticForms, memory: float) -> None:
        """Remember forms, and forget those used least recently if all take more than ``memory`` bytes."""
        self._forms[observed.tobytes()] = forms
        while len(self._forms) > 1 and sum(kept.n_bytes for kept in self._forms.values()) > memory:
            self._forms.popitem(last=False)


def worth_forms(game: Game) -> bool:
    """Whether forms in the features' own coordinates serve rows with missing cells."""
    return game.quadratic and game.forms_keep_digits and game.axes is None and not game.has_closed_form
