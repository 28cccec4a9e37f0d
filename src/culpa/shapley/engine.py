"""The choice of an engine for a game, and its use: exact values, down-sets, samples, or compiled forms.

`culpa.Explainer` makes one `Engine` of its game, its players and its options. The engine decides with the help of
`culpa.shapley.plan`, and remembers what it found: down-sets, what is sampled, and compiled forms.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from culpa._core.choices import DeviceName
from culpa._core.types import Floats
from culpa.games import Game
from culpa.shapley import on_gpu, plan
from culpa.shapley.algorithm1 import algorithm1
from culpa.shapley.asymmetric import asymmetric
from culpa.shapley.coalitions import SampledCoalitions
from culpa.shapley.down_sets import DownSets
from culpa.shapley.exact import exact
from culpa.shapley.form_cache import Finding, FormCache, Pattern, worth_forms
from culpa.shapley.forms import QuadraticForms, compile_exact
from culpa.shapley.kernel import PairedSampling
from culpa.shapley.partial_order import PartialOrder
from culpa.shapley.permutation import SampledOrders
from culpa.shapley.plan import Settings
from culpa.shapley.sampling import Part, Sampling
from culpa.shapley.shares import Players, Served, Shares

_FORMS_MAY_DIFFER = 1e-9  # from values without forms, relative to the largest value of a row


class Engine:
    """Shares out the values of a game among its players.

    ``order`` says who joins before whom, if anybody. ``reference`` draws the rows on which the size of a sample is found,
    so that it does not depend on the rows to explain.
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
        self._cache = FormCache(game, players, settings.memory_bytes)
        self._pairs = PairedSampling(game, players, settings, reference)
        self._n_rows = 0  # explained so far

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in dict(vars(self)).items() if name != "_down_sets"}  # may take much room

    @property
    def chosen(self) -> str:
        """What the method means for this game: how many coalitions are valued, and how."""
        n_players = len(self.players)
        if self.order is not None:
            if self._down_sets is not None:
                return f"asymmetric, exact: {len(self._down_sets):,} admissible coalitions of {n_players} players"
            return f"asymmetric: {self._sampling.chosen}, {n_players} players"
        if self._is_exact(n_players):
            if self.game.has_closed_form:
                return "exact: closed form"
            where = ", on the GPU" if self._device(n_players) == "gpu" else ""
            return f"exact: {1 << n_players:,} coalitions of {n_players} players{where}"
        if self.settings.method == "algorithm1":
            return f"algorithm1: {self.settings.algorithm1_orders:,} orders for each of {n_players} players"
        if self.settings.method == "kernel":
            return f"kernel: {self._pairs.rule(n_players).n_evaluations:,} coalitions of {n_players} players"
        return f"permutation: {self._sampling.chosen}, {n_players} players"

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
        n_players = len(self.players)
        self.settings.check(n_players, in_order=self.order is not None)
        if self.settings.method != "exact":
            return
        if self.order is None:
            speed = on_gpu.SPEED if self._device(n_players) == "gpu" else 1.0
            plan.check_affordable(self.game, n_players, speed)
        elif self._down_sets is None:
            raise ValueError(
                f"method='exact' is too slow here, because upstream allows too many coalitions of the {n_players} "
                "players. Use method='auto' or 'permutation', or put features into groups."
            )

    def share_out(self, rows: Any, players: Players, present: Sequence[int] | None = None) -> Shares:
        """Shapley values of rows with the same features observed; ``present`` tells which players these are, if not all."""
        complete = sum(map(len, players)) == sum(map(len, self.players)) and not _any_missing(rows)
        if complete and self._cache.complete is not None:
            return self._cache.complete(rows, n_jobs=self.settings.n_jobs, device=self.settings.device)
        present = range(len(self.players)) if present is None else present
        if complete or not rows.shape[0]:
            return self._without_forms(Part(self.game, rows, players, present))
        game = self.game.where(~np.isnan(rows[0]))
        # missing features are nobody's members, so any number will do
        return self._without_forms(Part(game, np.where(np.isnan(rows), 0.0, rows), players, present))

    def _without_forms(self, part: Part) -> Shares:
        game, rows, players, present, _ = part
        settings, n_players = self.settings, len(players)
        order = None if self.order is None else self.order.among(present)
        if order is not None and order.constrains:
            down_sets = (
                self._down_sets if n_players == len(self.players) else _find_down_sets(game, settings, order, players)
            )
            if down_sets is not None:
                return asymmetric(game, rows, players, down_sets, progress=settings.progress)
        elif self._is_exact(n_players):
            device = self._device(n_players)
            return exact(game, rows, players, n_jobs=settings.n_jobs, progress=settings.progress, device=device)
        elif settings.method == "algorithm1":
            return algorithm1(game, rows, players, n_orders=self.settings.algorithm1_orders, seed=settings.seed)
        elif settings.method == "kernel":
            return self._pairs.share_out(game, rows, players)
        return self._sampling.share_out(part)

    def share_out_incomplete(self, rows: Floats) -> Served:
        """Shapley values of rows with missing cells, of many patterns at once. Rows without any need `share_out`."""
        served = Served.none(len(rows), len(self.players))
        if self.order is not None or not (self.can_compile and worth_forms(self.game)):
            return served
        exactly = self._is_exact(len(self.players))
        if self._cache.complete is not None:
            served = self._cache.share_out(rows, Finding(self._cost, self._find_forms, exactly), self.settings.n_jobs)
        left = np.flatnonzero(~served.rows)
        if exactly or not len(left):
            return served
        left = left[self._sampling.serves(self.game, rows[left])]
        sizes = (~np.isnan(rows[left])).sum(axis=1)  # few enough players are walked exactly
        left = left[[not self._is_exact(size) for size in sizes.tolist()]]
        if len(left):
            part = Part(self.game, rows[left], self.players, range(len(self.players)), ~np.isnan(rows[left]))
            served = served.with_rows(left, self._sampling.share_out(part))
        return served

    @cached_property
    def _sampling(self) -> Sampling[Any]:
        """Coalitions if the game knows contributions to them, and orders otherwise."""
        if self.order is None and self.game.marginals is not None:
            return SampledCoalitions(self.game, self.players, self.settings, self.reference)
        return SampledOrders(self.game, self.players, self.settings, self.reference, self.order)

    @property
    def can_compile(self) -> bool:
        """Whether the values that the method computes are quadratic forms of the row, found once."""
        by_row = self._sampling.n_leading is not None and not self._is_exact(len(self.players))
        return self.game.quadratic and self.settings.method not in ("algorithm1", "kernel") and not by_row

    def compile(self) -> None:
        """Find the quadratic forms behind the Shapley values of complete rows, unless they are known or lose digits."""
        with self._cache.finding:  # so that threads that share an explainer do it once
            if self._cache.complete is None and not self._cache.refused:
                forms = self._find_forms(self._cache.whole)
                self._cache.refused = self.game.axes is not None and not self._keep_digits(forms)
                self._cache.complete = None if self._cache.refused else forms

    def count_rows(self, n_complete: int) -> None:
        """Note that so many complete rows are being explained: enough of them make compiling worth while."""
        self._n_rows += n_complete

    @property
    def compiling_is_due(self) -> bool:
        """Whether `compile` would have paid for the complete rows counted so far."""
        cost = self._forms_cost if self._n_rows else None  # once: another thread may find the forms at any time
        return cost is not None and cost.pays(self._n_rows)

    def compiles_within(self, operations: float) -> bool:
        """Whether `compile` would take up to so many operations, and pay after many rows."""
        cost = self._forms_cost
        return cost is not None and cost.prepare <= operations and cost.evaluate < cost.walk

    @property
    def _forms_cost(self) -> plan.FormsCost | None:
        """Cost of forms of complete rows; ``None`` if there are any, or none that are accurate or fit into memory."""
        known = self._cache.complete is not None or self._cache.refused
        return None if known or not self.can_compile else self._cost_of_complete

    @cached_property
    def _cost_of_complete(self) -> plan.FormsCost | None:
        game, n_players, memory = self.game, len(self.players), self.settings.memory_bytes
        # whatever is sampled, which takes time to find
        if not game.forms_keep_digits or not plan.forms_fit(game, n_players, memory):
            return None
        sampled = self._down_sets is None if self.order is not None else not self._is_exact(n_players)
        if sampled and not plan.forms_fit(game, n_players, memory, self._sampling.rule.n_replicates):
            return None
        return self._cost(self._cache.whole)

    def _cost(self, pattern: Pattern) -> plan.FormsCost:
        n_players, n_features = len(pattern.players), int(pattern.observed.sum())
        if self.order is not None and self._down_sets is not None:
            return plan.exact_cost(self.game, n_players, n_features, len(self._down_sets))
        if self.order is None and self._is_exact(n_players):
            return plan.exact_cost(self.game, n_players, n_features)
        return self._sampling.cost(n_features)

    def evaluates_few_rows(self, n_rows: int) -> bool:
        """Whether there are forms, and rows can go through them in small portions: a GPU needs many rows at once."""
        forms = self._cache.complete
        return forms is not None and not on_gpu.forms_pay(n_rows, forms.coefficients.size, self.settings.device)

    @property
    def forms(self) -> QuadraticForms | None:
        """The compiled forms, if there are any; may be set to forms that were saved as plain arrays."""
        return self._cache.complete

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
        self._cache.complete = forms

    @cached_property
    def _down_sets(self) -> DownSets | None:
        """Coalitions of complete rows in which everybody joins after those upstream, if they are few enough to value."""
        return None if self.order is None else _find_down_sets(self.game, self.settings, self.order, self.players)

    def _is_exact(self, n_players: int) -> bool:
        method, budget = self.settings.method, self.settings.exact_operations
        if method == "auto":
            if plan.affordable(self.game, n_players, budget):
                return True
            return plan.affordable(self.game, n_players, budget, on_gpu.SPEED) and self._device(n_players) == "gpu"
        return self._pairs.values_all(n_players) if method == "kernel" else method == "exact"

    def _device(self, n_players: int) -> DeviceName:
        """Where exact values are computed; "auto" if the number of rows decides."""
        settings = self.settings
        if settings.device != "auto" or self.game.has_closed_form:
            return settings.device
        if plan.affordable(self.game, n_players, settings.exact_operations):
            return "auto"
        return "gpu" if on_gpu.usable(self.game) else "cpu"

    def _keep_digits(self, forms: QuadraticForms) -> bool:
        """Whether forms of a model with tiny noise give reference rows the values that they have without forms."""
        rows = self.reference()
        walked = self._without_forms(Part(self.game, rows, self.players, range(len(self.players)))).values
        size = np.abs(walked).max(axis=1) + abs(self.game.base_value) / len(self.players)
        return bool((np.abs(forms(rows).values - walked).max(axis=1) <= _FORMS_MAY_DIFFER * size).all())

    def _find_forms(self, pattern: Pattern) -> QuadraticForms:
        """Forms of rows like those of the pattern."""
        features = None if pattern.observed.all() else pattern.features
        n_players = len(pattern.players)
        exactly = self._down_sets is not None if self.order is not None else self._is_exact(n_players)
        if not exactly:
            return self._sampling.forms(pattern.game, pattern.players, pattern.present.tolist(), features)
        how: dict[str, Any] = {"n_jobs": self.settings.n_jobs, "progress": self.settings.progress}
        device = self._device(n_players)
        return compile_exact(pattern.game, pattern.players, self._down_sets, features=features, device=device, **how)


def _find_down_sets(game: Game, settings: Settings, order: PartialOrder, players: Players) -> DownSets | None:
    if settings.method == "permutation":
        return None
    budget = {"budget": settings.exact_operations} if settings.method == "auto" else {}
    return DownSets.find(order, plan.most_down_sets(game, **budget), game.deciding_order(players))


def _any_missing(rows: Any) -> bool:
    """Of rows with the same features observed."""
    return isinstance(rows, np.ndarray) and bool(len(rows)) and bool(np.isnan(rows[0]).any())
