"""The choice of an engine for a game, and its use: exact values, down-sets, sampled orders, or compiled forms.

`culpa.Explainer` makes one `Engine` of its game, its players and its options. The engine decides with the help of
`culpa.shapley.plan`, and remembers what it found: down-sets, the size of the sampling rule, and compiled forms.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from culpa._core.choices import DeviceName, Method
from culpa._core.kinds import top_of
from culpa._core.locks import Lock
from culpa._core.types import Floats, Mask, Positions
from culpa.games import Game
from culpa.shapley import on_gpu, plan
from culpa.shapley.algorithm1 import algorithm1
from culpa.shapley.asymmetric import asymmetric
from culpa.shapley.down_sets import DownSets
from culpa.shapley.exact import exact
from culpa.shapley.extensions import extension_rule
from culpa.shapley.few_missing import SMALLEST_NET, FewMissing
from culpa.shapley.forms import QuadraticForms, compile_exact, compile_rule
from culpa.shapley.kernel import PairedRule, kernel, paired_rule, pairs_for_tolerance, pairs_to_draw, values_all
from culpa.shapley.leading import until_certain
from culpa.shapley.missing_coalitions import MissingCoalitions
from culpa.shapley.partial_order import PartialOrder
from culpa.shapley.pattern_forms import ExactPatterns, PatternCost, PatternForms, worth_forms
from culpa.shapley.permutation import permutation, replicated
from culpa.shapley.rules import N_NETS, Rule, default_rule
from culpa.shapley.shares import Players, Progress, Served, Shares

_ALGORITHM1_ORDERS = 1000  # per player
_FORMS_MAY_DIFFER = 1e-9  # from values without forms, relative to the largest value of a row


class Settings(NamedTuple):
    """What the user asked for; see the parameters of `culpa.Explainer`."""

    method: Method
    tolerance: float | str
    max_coalitions: int | None
    n_orders: int | None
    exact_operations: float
    device: DeviceName
    memory_bytes: float
    seed: int
    n_jobs: int | None
    progress: Progress | None


class Engine:
    """Shares out the values of a game among its players.

    ``order`` says who joins before whom, if anybody. ``reference`` draws the rows on which the size of a sampling rule is
    found, so that it does not depend on the rows to explain.
    """

    def __init__(
        self,
        game: Game,
        players: Players,
        settings: Settings,
        *,
        reference: Callable[[], Floats],
        order: PartialOrder | None = None,
    ) -> None:
        self.game, self.players, self.settings = game, players, settings
        self.order, self.reference = order, reference
        self._forms: QuadraticForms | None = None
        self._forms_refused = False  # because they would lose digits
        self._pattern_forms, self._exact_patterns = PatternForms(), ExactPatterns(game, players)
        self._few_missing_forms = PatternForms()
        self._compiling = Lock()
        self._n_rows = 0  # explained so far

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("_down_sets", "_missing_coalitions")  # which may take much room
        return {name: value for name, value in dict(vars(self)).items() if name not in left_out}

    @property
    def chosen(self) -> str:
        """What the method means for this game: how many coalitions are valued, and how."""
        n_players = len(self.players)
        if self.order is not None:
            return self._chosen_in_order(self.order)
        if self._is_exact(n_players):
            if self.game.has_closed_form:
                return "exact: closed form"
            where = ", on the GPU" if self._device(n_players) == "gpu" else ""
            return f"exact: {1 << n_players:,} coalitions of {n_players} players{where}"
        if self.settings.method == "algorithm1":
            return f"algorithm1: {self._algorithm1_orders:,} orders for each of {n_players} players"
        if self.settings.method == "kernel":
            return f"kernel: {self._paired_rule(n_players).n_evaluations:,} coalitions of {n_players} players"
        if self._n_leading is not None:
            return f"permutation: {self._until_certain}, {n_players} players"
        rule = self._rule(n_players)
        return f"permutation: {len(rule.orders):,} orders in {rule.n_replicates} replicates, {n_players} players"

    def method_used(self, *, exact: bool) -> str:
        """Name of the method behind values that were exact or not."""
        if self.order is not None:
            return "asymmetric"
        method = self.settings.method
        return "exact" if exact else "permutation" if method == "auto" else method

    def check_method(self) -> None:
        """Raise an error if the method or the device cannot serve the game."""
        if self.settings.device == "gpu":
            on_gpu.check(self.game)
        if self._n_leading is not None and self.settings.method in ("algorithm1", "kernel"):
            raise ValueError(
                f"tolerance={self.settings.tolerance!r} needs sampled orders. Use method='auto' or 'permutation'."
            )
        k = top_of(self.settings.tolerance)
        if k is not None and k > len(self.players):
            raise ValueError(
                f"tolerance={self.settings.tolerance!r} asks for the order of {k} features, but there are only "
                f"{len(self.players)} to blame."
            )
        if self.order is None:
            if self.settings.method == "exact":
                speed = on_gpu.SPEED if self._device(len(self.players)) == "gpu" else 1.0
                plan.check_affordable(self.game, len(self.players), speed)
        elif self.settings.method in ("algorithm1", "kernel"):
            raise ValueError(
                f"method={self.settings.method!r} does not support upstream. Use method='auto' or 'permutation'."
            )
        elif self.settings.method == "exact" and self._down_sets is None:
            raise ValueError(
                f"method='exact' is too slow here, because upstream allows too many coalitions of the "
                f"{len(self.players)} players. Use method='auto' or 'permutation', or put features into groups."
            )

    def share_out(self, rows: Any, players: Players, present: Sequence[int] | None = None) -> Shares:
        """Shapley values of rows with the same features observed; ``present`` tells which players these are, if not all."""
        game, n_jobs, progress = self.game, self.settings.n_jobs, self.settings.progress
        complete = sum(map(len, players)) == sum(map(len, self.players)) and not _any_missing(rows)
        if complete and self._forms is not None:
            return self._forms(rows, n_jobs=n_jobs, device=self.settings.device)
        if not complete and len(rows):
            observed = ~np.isnan(rows[0])
            game = game.where(observed)
            forms = self._forms_where(observed, game, players, len(rows))
            if forms is not None:
                return forms(rows[:, observed], n_jobs=n_jobs, device=self.settings.device)
            rows = np.where(np.isnan(rows), 0.0, rows)  # missing features are nobody's members, so any number will do
        order = self.order if self.order is None or present is None else self.order.among(present)
        if order is not None and order.constrains:
            return self._share_out_in_order(game, rows, players, order)
        if self._is_exact(len(players)):
            return exact(game, rows, players, n_jobs=n_jobs, progress=progress, device=self._device(len(players)))
        if self.settings.method == "algorithm1":
            return algorithm1(game, rows, players, n_orders=self._algorithm1_orders, seed=self.settings.seed)
        if self.settings.method == "kernel":
            return kernel(game, rows, players, self._paired_rule(len(players)), progress=progress)
        return self._sample(game, rows, players, lambda net: default_rule(len(players), net, self.settings.seed))

    def share_out_incomplete(self, rows: Floats) -> Served:
        """Shapley values of rows with missing cells, many patterns at a time. Rows that are not served need `share_out`."""
        n_players, few_missing = len(self.players), self._few_missing
        if few_missing is not None:
            return few_missing.share_out(rows, lambda n_missing: self._is_exact(n_players - n_missing))
        if self._forms is None or self.order is not None or not (self.can_compile and self._is_exact(n_players)):
            return Served.none(len(rows), n_players)

        def find(game: Game, players: Players, features: Positions) -> QuadraticForms:
            return self._find_forms(game, players, None, features=features)

        memory = self.settings.memory_bytes - self._forms.n_bytes
        return self._exact_patterns.share_out(rows, find, memory, self.settings.n_jobs)

    @property
    def _few_missing(self) -> FewMissing | None:
        """What serves rows with a few missing cells, if values are sampled by enough orders."""
        if self.order is not None or self._n_leading is not None or self._is_exact(len(self.players)):
            return None
        if self.settings.method not in ("auto", "permutation") or self._net < SMALLEST_NET:
            return None
        return FewMissing(
            self.game,
            self.players,
            self._replicates,
            self._net,
            self.settings.seed,
            self.settings.n_jobs,
            self._missing_coalitions,
            self._few_missing_forms_if_due if self._patterns_may_have_forms(self.game) else None,
        )

    @cached_property
    def _missing_coalitions(self) -> MissingCoalitions | None:
        """Differences of rows with missing cells, if every feature is a player and the game knows its contributions."""
        marginals, alone = self.game.marginals, [[feature] for feature in range(self.game.n_features)]
        return None if marginals is None or self.players != alone else MissingCoalitions(marginals, self.settings.seed)

    def _replicates(self, rows: Floats) -> Floats:
        """Sampled values of complete rows by replicate, (replicates, n, players)."""
        n_jobs = self.settings.n_jobs
        if self._forms is not None:
            return np.asarray(self._forms.by_replicate(rows, n_jobs))
        rule = self._rule(len(self.players))
        return np.asarray(replicated(self.game, rows, self.players, rule, n_jobs=n_jobs, device=self.settings.device))

    def _sample(self, game: Game, rows: Any, players: Players, rule: Callable[[int], Rule]) -> Shares:
        """As many orders as were asked for, or until the most blamed players of each row are certain."""
        n_jobs, progress, device = self.settings.n_jobs, self.settings.progress, self.settings.device
        if self._n_leading is None:
            return permutation(game, rows, players, rule(self._net), n_jobs=n_jobs, progress=progress, device=device)
        nets = plan.nets_until_certain(len(players), self.settings.max_coalitions)
        return until_certain(
            lambda some, net: permutation(game, some, players, rule(net), n_jobs=n_jobs, device=device),
            rows,
            self._n_leading,
            nets,
            progress,
        )

    @property
    def _n_leading(self) -> int | None:
        """How many of the most blamed players must be certain; ``None`` if something else decides on the orders."""
        return None if self.settings.n_orders is not None else top_of(self.settings.tolerance)

    @property
    def _until_certain(self) -> str:
        most = N_NETS << plan.nets_until_certain(len(self.players), self.settings.max_coalitions)[-1]
        return f"at most {most:,} orders, until the {self._n_leading} highest values of each row are certain"

    def _forms_where(self, observed: Mask, game: Game, players: Players, n_rows: int) -> QuadraticForms | None:
        """Forms of rows with the same cells missing, once there were enough and complete rows have forms.

        Only where complete rows are sampled: otherwise, `share_out_incomplete` has asked `ExactPatterns` already.
        """
        if not self._patterns_may_have_forms(game) or self._is_exact(len(self.players)):
            return None
        rule = None if self._is_exact(len(players)) else self._rule(len(players))
        cost = PatternCost.of(game, players, int(observed.sum()), rule)

        def find() -> QuadraticForms:
            return self._find_forms(game, players, rule, features=np.flatnonzero(observed))

        return self._forms_if_due(self._pattern_forms, observed, cost, n_rows, find)

    def _patterns_may_have_forms(self, game: Game) -> bool:
        return self._forms is not None and self.order is None and self.can_compile and worth_forms(game)

    def _few_missing_forms_if_due(
        self, observed: Mask, cost: PatternCost, n_rows: int, find: Callable[[], QuadraticForms]
    ) -> QuadraticForms | None:
        return self._forms_if_due(self._few_missing_forms, observed, cost, n_rows, find)

    def _forms_if_due(
        self, known: PatternForms, observed: Mask, cost: PatternCost, n_rows: int, find: Callable[[], QuadraticForms]
    ) -> QuadraticForms | None:
        """Forms of a pattern if they are known, or found now that there were enough rows."""
        with self._compiling:
            forms = known.get(observed)
            if forms is None and known.are_due(observed, cost, n_rows):
                assert self._forms is not None
                forms = find()
                known.keep(observed, forms, self.settings.memory_bytes - self._forms.n_bytes)
            return forms

    @property
    def can_compile(self) -> bool:
        """Whether the values that the method computes are quadratic forms of the row, found once."""
        sampled = self._n_leading is not None and not self._is_exact(len(self.players))
        return self.game.quadratic and self.settings.method not in ("algorithm1", "kernel") and not sampled

    def compile(self) -> None:
        """Find the quadratic forms behind the Shapley values of complete rows, unless they are known or lose digits."""
        with self._compiling:  # so that threads that share an explainer do it once
            if self._forms is None and not self._forms_refused:
                forms = self._compile()
                self._forms_refused = self.game.axes is not None and not self._keep_digits(forms)
                self._forms = None if self._forms_refused else forms

    def count_rows(self, n_complete: int) -> None:
        """Note that so many complete rows are being explained: enough of them make compiling worth while."""
        self._n_rows += n_complete

    @property
    def compiling_is_due(self) -> bool:
        """Whether `compile` would have paid for the complete rows counted so far."""
        if not self._may_compile or not self._n_rows:
            return False
        return self._forms_cost is not None and self._forms_cost.pays(self._n_rows)

    def compiles_within(self, operations: float) -> bool:
        """Whether `compile` would take up to so many operations, and pay after many rows."""
        if not self._may_compile or self._forms_cost is None:
            return False
        return self._forms_cost.prepare <= operations and self._forms_cost.evaluate < self._forms_cost.walk

    @property
    def _may_compile(self) -> bool:
        return self._forms is None and not self._forms_refused and self.can_compile

    @cached_property
    def _forms_cost(self) -> plan.FormsCost | None:
        if not plan.forms_fit(self.game, len(self.players), self.settings.memory_bytes):
            return None  # whatever the rule, which takes time to find
        rule = self._rule_of_complete_rows()
        n_down_sets = None if self._down_sets is None else len(self._down_sets)
        return plan.forms_cost(self.game, self.players, rule, self.settings.memory_bytes, n_down_sets)

    def evaluates_few_rows(self, n_rows: int) -> bool:
        """Whether there are forms, and rows can go through them in small portions: a GPU needs many rows at once."""
        if self._forms is None:
            return False
        return not on_gpu.forms_pay(n_rows, self._forms.coefficients.size, self.settings.device)

    @property
    def forms(self) -> QuadraticForms | None:
        """The compiled forms, if there are any; may be set to forms that were saved as plain arrays."""
        return self._forms

    @forms.setter
    def forms(self, forms: QuadraticForms | None) -> None:
        if forms is not None and (forms.n_features, forms.constants.shape[1]) != (
            self.game.n_features,
            len(self.players),
        ):
            raise ValueError(
                f"the forms have {forms.constants.shape[1]} players and {forms.n_features} features, but the model has "
                f"{len(self.players)} and {self.game.n_features}."
            )
        self._forms = forms

    @property
    def _algorithm1_orders(self) -> int:
        return self.settings.n_orders or _ALGORITHM1_ORDERS

    def _share_out_in_order(self, game: Game, rows: Any, players: Players, order: PartialOrder) -> Shares:
        """`share_out`, where some players join before others."""
        down_sets = self._down_sets if order == self.order else self._find_down_sets(order, players)
        if down_sets is not None:
            return asymmetric(game, rows, players, down_sets, progress=self.settings.progress)
        return self._sample(game, rows, players, lambda net: extension_rule(order, net, self.settings.seed))

    @cached_property
    def _down_sets(self) -> DownSets | None:
        """Coalitions of complete rows in which everybody joins after those upstream, if they are few enough to value."""
        return None if self.order is None else self._find_down_sets(self.order, self.players)

    def _find_down_sets(self, order: PartialOrder, players: Players) -> DownSets | None:
        method = self.settings.method
        if method == "permutation":
            return None
        budget = {"budget": self.settings.exact_operations} if method == "auto" else {}
        return DownSets.find(order, plan.most_down_sets(self.game, **budget), self.game.deciding_order(players))

    def _chosen_in_order(self, order: PartialOrder) -> str:
        players = f"{len(order)} players"
        if self._down_sets is not None:
            return f"asymmetric, exact: {len(self._down_sets):,} admissible coalitions of {players}"
        if self._n_leading is not None:
            return f"asymmetric: {self._until_certain}, {players}"
        rule = extension_rule(order, self._net, self.settings.seed)
        return f"asymmetric: {len(rule.orders):,} random orders in {rule.n_replicates} replicates, {players}"

    def _is_exact(self, n_players: int) -> bool:
        if self.settings.method == "auto":
            budget = self.settings.exact_operations
            if plan.affordable(self.game, n_players, budget):
                return True
            return plan.affordable(self.game, n_players, budget, on_gpu.SPEED) and self._device(n_players) == "gpu"
        if self.settings.method == "kernel":
            return values_all(n_players, self._n_pairs, self.settings.max_coalitions)
        return self.settings.method == "exact"

    def _device(self, n_players: int) -> DeviceName:
        """Where exact values are computed; "auto" if the number of rows decides."""
        settings = self.settings
        if settings.device != "auto" or self.game.has_closed_form:
            return settings.device
        if plan.affordable(self.game, n_players, settings.exact_operations):
            return "auto"
        return "gpu" if on_gpu.usable(self.game) else "cpu"

    def _rule(self, n_players: int) -> Rule:
        return default_rule(n_players, self._net, self.settings.seed)

    def _paired_rule(self, n_players: int) -> PairedRule:
        return paired_rule(n_players, pairs_to_draw(n_players, self._n_pairs), self.settings.seed)

    @cached_property
    def _n_pairs(self) -> int:
        """Pairs of coalitions, from what was asked for; found on rows that belong to the model."""
        settings = self.settings
        if settings.n_orders is not None:
            return max(1, settings.n_orders * len(self.players) // 2)
        return pairs_for_tolerance(
            self.game,
            self.players,
            self.reference(),
            float(settings.tolerance),
            seed=settings.seed,
            budget=settings.max_coalitions,
            progress=settings.progress,
        )

    def _rule_of_complete_rows(self) -> Rule | None:
        """The sampling rule; ``None`` where values are exact."""
        if self.order is not None:
            return None if self._down_sets is not None else extension_rule(self.order, self._net, self.settings.seed)
        return None if self._is_exact(len(self.players)) else self._rule(len(self.players))

    @cached_property
    def _net(self) -> int:
        """log2 of the orders per net, from what was asked for; found on rows that belong to the model."""
        settings = self.settings
        if settings.n_orders is not None:
            return plan.net_for_orders(settings.n_orders)
        return plan.net_for_tolerance(
            self.game,
            self.players,
            self.reference(),
            float(settings.tolerance),
            rule=lambda net: (
                default_rule(len(self.players), net, settings.seed)
                if self.order is None
                else extension_rule(self.order, net, settings.seed)
            ),
            budget=settings.max_coalitions,
            n_jobs=settings.n_jobs,
            progress=settings.progress,
            device=settings.device,
        )

    def _keep_digits(self, forms: QuadraticForms) -> bool:
        """Whether forms of a model with tiny noise give reference rows the values that they have without forms."""
        rows = self.reference()
        walked = self.share_out(rows, self.players).values
        size = np.abs(walked).max(axis=1) + abs(self.game.base_value) / len(self.players)
        return bool((np.abs(forms(rows).values - walked).max(axis=1) <= _FORMS_MAY_DIFFER * size).all())

    def _compile(self) -> QuadraticForms:
        """Forms of complete rows."""
        return self._find_forms(self.game, self.players, self._rule_of_complete_rows(), down_sets=self._down_sets)

    def _find_forms(
        self,
        game: Game,
        players: Players,
        rule: Rule | None,
        *,
        down_sets: DownSets | None = None,
        features: Positions | None = None,
    ) -> QuadraticForms:
        """Forms of a rule, or exact ones without; see `culpa.shapley.forms`."""
        how: dict[str, Any] = {
            "features": features,
            "n_jobs": self.settings.n_jobs,
            "progress": self.settings.progress,
        }
        if rule is not None:
            return compile_rule(game, players, rule, device=self.settings.device, **how)
        return compile_exact(game, players, down_sets, device=self._device(len(players)), **how)


def _any_missing(rows: Any) -> bool:
    """Of rows with the same features observed."""
    return isinstance(rows, np.ndarray) and bool(len(rows)) and bool(np.isnan(rows[0]).any())
