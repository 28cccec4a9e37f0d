"""Quadratic forms that an engine has found: one game, and so one set of forms, for each set of observed features.

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
from itertools import groupby
from typing import NamedTuple

import numpy as np

from culpa._core.locks import Lock
from culpa._core.missing import kinds_of_rows, sorted_by_pattern
from culpa._core.types import Floats, Mask, Positions
from culpa.games import Game
from culpa.shapley.exact import size_weights, tabulate
from culpa.shapley.form_evaluation import evaluate_each, n_products
from culpa.shapley.forms import QuadraticForms, forms_from_probes
from culpa.shapley.plan import FormsCost
from culpa.shapley.shares import Players, Served, Shares, summarise

_MOST_COUNTED = 100_000  # patterns whose operations are remembered
_MOST_COEFFICIENTS = 1 << 20  # of the values of all coalitions


class Pattern(NamedTuple):
    """Rows in which the same features are observed, and the game that they are about."""

    game: Game
    observed: Mask
    players: Players  # those of which something is observed
    present: Positions  # which of all players these are
    whole: bool  # whether nothing is missing of these players

    @classmethod
    def of(cls, game: Game, players: Players, observed: Mask) -> "Pattern":
        """From the features that are observed, (d,)."""
        members = [[feature for feature in player if observed[feature]] for player in players]
        present = np.array([k for k, player in enumerate(members) if player], dtype=np.intp)
        whole = all(len(members[k]) == len(players[k]) for k in present)
        return cls(game.where(observed), observed, [members[k] for k in present], present, whole)

    @property
    def features(self) -> Positions:
        """The positions of observed features."""
        return np.flatnonzero(self.observed)


class Finding(NamedTuple):
    """How the forms of a pattern are found, and what that costs."""

    cost: Callable[[Pattern], FormsCost]
    find: Callable[[Pattern], QuadraticForms]
    exact: bool  # whether values of complete rows are


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


class FormCache:
    """Forms by the features that are observed, and what patterns without forms have cost.

    Those of complete rows stay. Of the others, those used last are kept within some memory. They apply to whole rows with 0
    in missing cells, and give missing players 0. Threads that share an explainer find forms one at a time.
    """

    def __init__(self, game: Game, players: Players, memory: float) -> None:
        self.game, self.players, self.memory = game, players, memory
        self.complete: QuadraticForms | None = None
        self.refused = False  # because forms would lose digits
        self.finding = Lock()
        self._found: OrderedDict[bytes, QuadraticForms] = OrderedDict()
        self._n_bytes = 0
        self._spent: dict[bytes, float] = {}
        self._n_rows = 0  # with missing cells, so far
        self._coalitions: CoalitionForms | None = None

    def __reduce__(self) -> tuple[object, ...]:
        # a copy finds its own: other threads may be adding forms while it is made
        return _copied, (self.game, self.players, self.memory, self.complete, self.refused)

    @property
    def whole(self) -> Pattern:
        """The pattern of complete rows."""
        return Pattern.of(self.game, self.players, np.ones(self.game.n_features, dtype=bool))

    def share_out(self, rows: Floats, how: Finding, n_jobs: int | None) -> Served:
        """Rows with missing cells, those whose patterns have forms."""
        served = Served.none(len(rows), len(self.players))
        kinds, kind_of_row = kinds_of_rows(np.isnan(rows))
        order, starts = sorted_by_pattern(kind_of_row, len(kinds))
        with self.finding:
            found = self._forms_of(~kinds, np.diff(starts).tolist(), how)
        some = [
            (forms, order[starts[kind] : starts[kind + 1]]) for kind, forms in enumerate(found) if forms is not None
        ]
        for _, group in groupby(sorted(some, key=_n_replicates), key=_n_replicates):
            alike = list(group)
            at = np.concatenate([rows for _, rows in alike])
            served = served.with_rows(at, self._evaluate(rows[at], alike, n_jobs))
        return served

    def _evaluate(self, rows: Floats, some: list[tuple[QuadraticForms, Positions]], n_jobs: int | None) -> Shares:
        """Rows that go through one set of forms after the other."""
        ends = np.cumsum([0, *(len(own) for _, own in some)])
        n_replicates, n_players, n_coefficients = some[0][0].coefficients.shape
        flat = [forms.coefficients.reshape(-1, n_coefficients) for forms, _ in some]
        constants = [forms.constants.ravel() for forms, _ in some]
        values = evaluate_each(flat, constants, np.nan_to_num(rows, nan=0.0), ends, n_jobs)
        replicates = values.reshape(len(rows), n_replicates, n_players).transpose(1, 0, 2)
        n_evaluations = max(forms.n_evaluations for forms, _ in some)
        if n_replicates > 1:
            return summarise(replicates, n_evaluations)
        return Shares(replicates[0], np.zeros_like(replicates[0]), n_evaluations, 0)

    def _forms_of(self, observed: Mask, n_rows: list[int], how: Finding) -> list[QuadraticForms | None]:
        """Forms of patterns (patterns, d) that so many rows have; ``None`` for those whose rows are too few so far."""
        self._n_rows += sum(n_rows)
        enough = how.exact and self._n_rows >= CoalitionForms.n_rows(self.game)
        if self._coalitions is None and enough and CoalitionForms.fit(self.game, len(self.players)):
            self._coalitions = CoalitionForms(self.game, self.players)
        return [self._get_or_find(seen, n, how) for seen, n in zip(observed, n_rows, strict=True)]

    def _get_or_find(self, observed: Mask, n_rows: int, how: Finding) -> QuadraticForms | None:
        key = observed.tobytes()
        if key in self._found:
            self._found.move_to_end(key)
            return self._found[key]
        pattern = Pattern.of(self.game, self.players, observed)
        if not len(pattern.present) or not worth_forms(pattern.game):
            return None
        if self._coalitions is not None and pattern.whole and pattern.game is self.game:
            forms = self._coalitions.among(pattern.present)
        elif self._are_due(key, how.cost(pattern), n_rows):
            d, features = self.game.n_features, pattern.features
            forms = how.find(pattern).among(len(self.players), pattern.present, d, features)
        else:
            return None
        self._keep(key, forms)
        return forms

    def _keep(self, key: bytes, forms: QuadraticForms) -> None:
        self._found[key] = forms
        self._n_bytes += forms.n_bytes
        room = self.memory - (0 if self.complete is None else self.complete.n_bytes)
        while len(self._found) > 1 and self._n_bytes > room:
            self._n_bytes -= self._found.popitem(last=False)[1].n_bytes

    def _are_due(self, key: bytes, cost: FormsCost, n_rows: int) -> bool:
        """Whether to find forms for so many more rows; if not, these rows are counted."""
        spent = self._spent.get(key, 0.0) + cost.of_rows(n_rows)
        if spent >= cost.of_forms:
            self._spent.pop(key, None)
            return True
        if len(self._spent) >= _MOST_COUNTED:
            self._spent.clear()
        self._spent[key] = spent
        return False


def _n_replicates(item: tuple[QuadraticForms, Positions]) -> int:
    return len(item[0].constants)


def _copied(game: Game, players: Players, memory: float, complete: QuadraticForms | None, refused: bool) -> FormCache:
    cache = FormCache(game, players, memory)
    cache.complete, cache.refused = complete, refused
    return cache
