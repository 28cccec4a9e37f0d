"""Which engine to use, how many orders, and whether to compile. Decided by counting operations, never by a clock.

Whether values are exact or sampled, and by which rule, depends only on the model, the options and the seed. So the same
row gets the same values, whatever other rows come with it. Whether to compile only decides how fast they come. Nothing
here has side effects. The caller counts the rows.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from culpa._core.choices import DeviceName
from culpa._core.parameters import EXACT_OPERATIONS
from culpa._core.types import Floats
from culpa.games import Game
from culpa.shapley.form_evaluation import n_products
from culpa.shapley.permutation import permutation
from culpa.shapley.rules import N_NETS, Rule, smallest_regression_net
from culpa.shapley.shares import Players, Progress
from culpa.shapley.tolerance import Effort, size_for_tolerance

_REFUSED_OPERATIONS = 1e13  # even by method="exact"
_OPERATIONS_PER_SECOND = 1.5e10  # for the estimated time in the error message
_DOWN_SET = 4000.0  # operations that take as long as counting and valuing a down-set, which is done with arrays
_SMALLEST_NET, _LARGEST_NET = 5, 14  # log2 of orders
_LARGEST_CERTAIN_NET = 11  # for rows whose most blamed players may never be certain, since they are equal


def exact_operations(game: Game, n_players: int) -> float:
    """Operations of exact values for one row."""
    return (game.cost.tree_coalition + game.cost.tree_row) * 2.0 ** min(n_players, 1000)


def affordable(game: Game, n_players: int, budget: float = EXACT_OPERATIONS, speed: float = 1.0) -> bool:
    """Whether exact values cost less than ``budget`` operations a row, on a device of that speed."""
    return exact_operations(game, n_players) <= budget * speed


def check_affordable(game: Game, n_players: int, speed: float = 1.0) -> None:
    """Raise an error if exact values would take far too long on a device of that speed."""
    operations = exact_operations(game, n_players)
    if operations > _REFUSED_OPERATIONS * speed:
        duration = _duration(operations / (_OPERATIONS_PER_SECOND * speed))
        raise ValueError(
            f"method='exact' would compute the values of 2^{n_players} coalitions of the {n_players} features, which takes "
            f"about {duration}. Use method='auto' or 'permutation', or put features into groups."
        )


def down_set_operations(game: Game) -> float:
    """Operations for one down-set and one row."""
    return max(game.cost.tree_coalition + game.cost.tree_row, _DOWN_SET)


def most_down_sets(game: Game, budget: float = _REFUSED_OPERATIONS) -> float:
    """How many down-sets cost less than ``budget`` operations a row."""
    return budget / down_set_operations(game)


def net_for_orders(n_orders: int) -> int:
    """log2 of the net size that gives about ``n_orders`` orders in all."""
    return max(0, round(math.log2(max(1, n_orders / N_NETS))))


def net_for_tolerance(
    game: Game,
    players: Players,
    reference: Floats,
    tolerance: float,
    *,
    rule: Callable[[int], Rule],
    budget: int | None,
    n_jobs: int | None,
    progress: Progress | None,
    device: DeviceName = "auto",
) -> int:
    """log2 of the smallest net with which the median reference row meets the tolerance.

    ``rule`` makes a sampling rule of log2 of a net, and ``budget`` limits the number of coalitions whose value is computed.
    """
    first, largest = _first_and_largest_net(len(players), budget, _LARGEST_NET)
    remedy = "Raise the tolerance, or put features into groups."
    return size_for_tolerance(
        lambda net: permutation(game, reference, players, rule(net), n_jobs=n_jobs, device=device),
        # errors fall at least with the square root of the number of orders
        Effort(first, largest, lambda net, ratio: net + max(1, math.floor(2 * math.log2(ratio) - 0.5))),
        tolerance,
        progress,
        warning=(lambda net: (f"{N_NETS << net:,} orders", remedy)) if budget is None else None,
    )


def forms_fit(game: Game, n_players: int, memory: float, replicates: int = 1) -> bool:
    """Whether quadratic forms fit into ``memory`` bytes."""
    return 8.0 * replicates * n_players * game.n_features**2 <= memory


class FormsCost(NamedTuple):
    """Operations of finding quadratic forms, of a row by the forms, and of a row without them."""

    prepare: float
    evaluate: float
    walk: float

    def pays(self, n_rows: int) -> bool:
        """Whether forms are cheaper than walking so many rows."""
        return self.prepare + n_rows * self.evaluate < n_rows * self.walk


def nets_until_certain(n_players: int, budget: int | None) -> list[int]:
    """log2 of nets to try until the most blamed players are certain, each with four times the orders of the one before."""
    first, largest = _first_and_largest_net(n_players, budget, _LARGEST_NET if budget else _LARGEST_CERTAIN_NET)
    return [*range(first, largest, 2), largest]


def _first_and_largest_net(n_players: int, budget: int | None, largest: int) -> tuple[int, int]:
    if budget is not None:
        if budget < N_NETS * n_players:
            raise ValueError(
                f"max_coalitions={budget} is too few for {n_players} players: at least {N_NETS * n_players} are needed. Or "
                "put features into groups."
            )
        largest = min(largest, int(math.log2(budget / (N_NETS * n_players))))
    return min(max(_SMALLEST_NET, smallest_regression_net(n_players)), largest), largest


def form_operations(game: Game, players: Players, n_features: int, rule: Rule | None) -> tuple[float, float]:
    """Operations of finding forms of ``n_features`` features, and of a row without forms; exact without a rule."""
    if rule is None:
        walk = game.cost.tree_row * 2.0 ** len(players)
    else:
        walk = rule.n_evaluations * (game.cost.order_row + 2.0 * rule.n_replicates)
        if game.factorises:
            each = game.cost.order_row * n_features + rule.n_replicates * 2.0 * n_features**2
            return rule.n_evaluations * each, walk
    return walk * n_products(n_features), walk


def forms_cost(
    game: Game, players: Players, rule: Rule | None, memory: float, n_down_sets: int | None = None
) -> FormsCost | None:
    """What quadratic forms cost; ``None`` if they are not accurate, or do not fit into ``memory`` bytes.

    Without a rule values are exact: from all coalitions, or from as many down-sets.
    """
    d, replicates = game.n_features, 1 if rule is None else rule.n_replicates
    if not (game.quadratic and game.forms_keep_digits and forms_fit(game, len(players), memory, replicates)):
        return None
    evaluate = replicates * len(players) * 2.0 * n_products(d)
    prepare, walk = form_operations(game, players, d, rule)
    if n_down_sets is not None:
        walk = down_set_operations(game) * n_down_sets
        prepare = walk * n_products(d)
    return FormsCost(prepare, evaluate, walk)


def _duration(seconds: float) -> str:
    for unit, length in (("years", 3.15e7), ("days", 86400.0), ("hours", 3600.0)):
        if seconds >= length:
            return f"{seconds / length:,.0f} {unit}" if seconds < 1e6 * length else f"{seconds / length:.0e} {unit}"
    return f"{seconds / 60:.0f} minutes"
