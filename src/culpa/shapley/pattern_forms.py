"""Quadratic forms of rows with missing cells: one game, and so one set of forms, for each set of observed features.

Shapley values of a game with fewer players are other averages over coalitions, so the forms of complete rows do not tell
them. Most tables have few patterns of missing cells that occur again and again. Forms of a pattern are found as soon as its
rows have taken as many operations without forms as finding them takes. So a pattern never costs much more than twice
what it would have cost if the number of its rows had been known, and rare patterns are not compiled at all.

With up to a dozen players, the values of all coalitions are found once, as forms themselves. Then the exact forms of any
pattern are a small matrix product, so that all patterns have forms.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from culpa._core.locks import Lock
from culpa._core.missing import kinds_of_rows, sorted_by_pattern
from culpa._core.types import Floats, Mask, Positions
from culpa.games import Game
from culpa.shapley.exact import size_weights, tabulate
from culpa.shapley.form_evaluation import evaluate_each, n_products
from culpa.shapley.forms import QuadraticForms, forms_from_probes
from culpa.shapley.plan import form_operations
from culpa.shapley.rules import Rule
from culpa.shapley.shares import Players, Served, Shares

_MOST_COUNTED = 100_000  # patterns whose operations are remembered
_MOST_COEFFICIENTS = 1 << 20  # of the values of all coalitions
_CALL = 4e6  # operations that take as long as everything around a kernel: what one call costs beside its rows


FindForms = Callable[[Game, Players, Positions], QuadraticForms]  # of the features at these positions


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
        return cls(_CALL + together + prepare, _CALL + together, each)


class PatternForms:
    """Forms by the features that are observed, those used last within some memory, and what patterns without have cost."""

    def __init__(self) -> None:
        self._forms: OrderedDict[bytes, QuadraticForms] = OrderedDict()
        self._n_bytes = 0
        self._spent: dict[bytes, float] = {}

    def __reduce__(self) -> tuple[type["PatternForms"], tuple[()]]:
        return PatternForms, ()  # a copy finds its own: other threads may be adding forms while it is made

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
        self._n_bytes += forms.n_bytes
        while len(self._forms) > 1 and self._n_bytes > memory:
            self._n_bytes -= self._forms.popitem(last=False)[1].n_bytes


def worth_forms(game: Game) -> bool:
    """Whether forms in the features' own coordinates serve rows with missing cells."""
    return game.quadratic and game.forms_keep_digits and game.axes is None and not game.has_closed_form


class CoalitionForms:
    """The values of all coalitions of a small game as quadratic forms, which tell the exact forms of every pattern.

    That takes a game in which a coalition is worth the same whatever else is observed.
    """

    def __init__(self, game: Game, players: Players) -> None:
        self._n_players = len(players)
        self._forms = forms_from_probes(game, lambda rows: tabulate(game, rows, players).T[None])

    @staticmethod
    def fit(game: Game, n_players: int) -> bool:
        """Whether they are few enough."""
        n_coefficients = n_products(game.n_features) * 2.0 ** min(n_players, 1000)
        return worth_forms(game) and n_coefficients <= _MOST_COEFFICIENTS

    @staticmethod
    def n_rows(game: Game) -> int:
        """Rows that take as long without forms as finding these does."""
        return 1 + n_products(game.n_features)

    def among(self, present: Positions) -> QuadraticForms:
        """Exact forms of rows in which only some players are present, with zeros for the others."""
        coalitions = np.zeros(1, dtype=np.intp)
        for player in present.tolist():
            coalitions = np.concatenate([coalitions, coalitions + (1 << player)])
        weights, table = _coalition_weights(len(present)), self._forms
        coefficients = np.zeros((1, self._n_players, table.coefficients.shape[2]))
        constants = np.zeros((1, self._n_players))
        coefficients[0, present] = weights @ table.coefficients[0, coalitions]
        constants[0, present] = weights @ table.constants[0, coalitions]
        return QuadraticForms(coefficients, constants, table.n_features, len(coalitions))


@lru_cache(maxsize=32)
def _coalition_weights(n_players: int) -> Floats:
    """Weights (players, coalitions) of the values of coalitions in Shapley values; bit i says whether player i is in."""
    member, common = size_weights(n_players)
    inside = (np.arange(1 << n_players) >> np.arange(n_players)[:, None]) & 1
    size = inside.sum(axis=0)
    return np.asarray(inside * member[size] - common[size])


class ExactPatterns:
    """Finds the exact forms of patterns. They apply to whole rows with 0 in missing cells, and give missing players 0."""

    def __init__(self, game: Game, players: Players) -> None:
        self.game, self.players = game, players
        self._found = PatternForms()
        self._coalitions: CoalitionForms | None = None
        self._n_rows = 0  # with missing cells, so far
        self._finding = Lock()

    def share_out(self, rows: Floats, find: FindForms, memory: float, n_jobs: int | None) -> Served:
        """Rows with missing cells, those whose patterns have forms.

        ``find`` finds the forms of a game in which only some features are observed. All may take ``memory`` bytes.
        """
        served = Served.none(len(rows), len(self.players))
        kinds, kind_of_row = kinds_of_rows(np.isnan(rows))
        order, starts = sorted_by_pattern(kind_of_row, len(kinds))
        with self._finding:  # so that threads that share an explainer do it once
            found = self._forms_of(~kinds, np.diff(starts).tolist(), find, memory)
        some = [
            (forms, order[starts[kind] : starts[kind + 1]]) for kind, forms in enumerate(found) if forms is not None
        ]
        if not some:
            return served
        at, ends = np.concatenate([rows for _, rows in some]), np.cumsum([0, *(len(rows) for _, rows in some)])
        flat, constants = zip(*((forms.coefficients[0], forms.constants[0]) for forms, _ in some), strict=True)
        values = evaluate_each(flat, constants, np.nan_to_num(rows[at], nan=0.0), ends, n_jobs)
        n_evaluations = max(forms.n_evaluations for forms, _ in some)
        return served.with_rows(at, Shares(values, np.zeros_like(values), n_evaluations, 0))

    def _forms_of(
        self, observed: Mask, n_rows: list[int], find: FindForms, memory: float
    ) -> list[QuadraticForms | None]:
        """Forms of patterns (patterns, d) that so many rows have; ``None`` for those whose rows are too few so far."""
        self._n_rows += sum(n_rows)
        enough = self._n_rows >= CoalitionForms.n_rows(self.game)
        if self._coalitions is None and enough and CoalitionForms.fit(self.game, len(self.players)):
            self._coalitions = CoalitionForms(self.game, self.players)
        result = []
        for seen, n in zip(observed, n_rows, strict=True):
            forms = self._found.get(seen)
            if forms is None:
                forms = self._forms(seen, n, find)
                if forms is not None:
                    self._found.keep(seen, forms, memory)
            result.append(forms)
        return result

    def _forms(self, observed: Mask, n_rows: int, find: FindForms) -> QuadraticForms | None:
        members = [[feature for feature in player if observed[feature]] for player in self.players]
        present = np.array([k for k, player in enumerate(members) if player], dtype=np.intp)
        game = self.game.where(observed)
        if not len(present) or not worth_forms(game):
            return None
        whole = all(len(members[k]) == len(self.players[k]) for k in present)
        if self._coalitions is not None and whole and game is self.game:
            return self._coalitions.among(present)
        among, features = [members[k] for k in present], np.flatnonzero(observed)
        if not self._found.are_due(observed, PatternCost.of(game, among, len(features), None), n_rows):
            return None
        return find(game, among, features).among(len(self.players), present, game.n_features, features)
