"""Which engine to use, and whether to compile. Decided by counting operations, never by a clock.

Whether values are exact or sampled depends only on the model, the options and the seed. So the same row gets the same
values, whatever other rows come with it. Whether to compile only decides how fast they come. Nothing here has side
effects. The caller counts the rows.
"""

from typing import NamedTuple

from culpa._core.choices import DeviceName, Method
from culpa._core.kinds import top_of
from culpa._core.parameters import EXACT_OPERATIONS
from culpa.games import Game
from culpa.shapley.form_evaluation import n_products
from culpa.shapley.shares import Progress

_REFUSED_OPERATIONS = 1e13  # even by method="exact"
_OPERATIONS_PER_SECOND = 1.5e10  # for the estimated time in the error message
_DOWN_SET = 4000.0  # operations that take as long as counting and valuing a down-set, which is done with arrays
_CALL = 4e6  # operations that take as long as everything around a kernel: what one call costs beside its rows


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

    @property
    def algorithm1_orders(self) -> int:
        """Number of orders that Algorithm 1 draws for each player."""
        return self.n_orders or 1000

    def check(self, n_players: int, *, in_order: bool) -> None:
        """Raise an error if these cannot be combined."""
        k, cannot = top_of(self.tolerance), self.method in ("algorithm1", "kernel")
        if k is not None and cannot and self.n_orders is None:
            raise ValueError(f"tolerance={self.tolerance!r} needs sampled values. Use method='auto' or 'permutation'.")
        if k is not None and k > n_players:
            raise ValueError(
                f"tolerance={self.tolerance!r} asks for the order of {k} features, but there are only {n_players} to blame."
            )
        if in_order and cannot:
            raise ValueError(f"method={self.method!r} does not support upstream. Use method='auto' or 'permutation'.")


class FormsCost(NamedTuple):
    """Operations of finding quadratic forms, and of a row by the forms; of all rows together without forms, and of each."""

    prepare: float
    together: float
    evaluate: float
    walk: float

    def pays(self, n_rows: int) -> bool:
        """Whether forms are cheaper than walking so many rows."""
        return self.prepare + n_rows * self.evaluate < self.together + n_rows * self.walk

    def of_rows(self, n_rows: int) -> float:
        """Operations of so many rows without forms, and of everything around them."""
        return _CALL + self.together + n_rows * self.walk

    @property
    def of_forms(self) -> float:
        """Operations of finding forms, and of everything around that."""
        return _CALL + self.together + self.prepare


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


def forms_fit(game: Game, n_players: int, memory: float, replicates: int = 1) -> bool:
    """Whether quadratic forms fit into ``memory`` bytes."""
    return 8.0 * replicates * n_players * game.n_features**2 <= memory


def cost_of_probes(n_players: int, n_features: int, replicates: int, together: float, walk: float) -> FormsCost:
    """Cost of forms that are found from the values of probes."""
    evaluate = replicates * n_players * 2.0 * n_products(n_features)
    return FormsCost(walk * n_products(n_features), together, evaluate, walk)


def exact_cost(game: Game, n_players: int, n_features: int, n_down_sets: int | None = None) -> FormsCost:
    """Cost of exact forms of rows that have so many features: from all coalitions, or from as many down-sets."""
    together, walk = game.cost.tree_coalition * 2.0**n_players, game.cost.tree_row * 2.0**n_players
    if n_down_sets is not None:
        together, walk = 0.0, down_set_operations(game) * n_down_sets
    return cost_of_probes(n_players, n_features, 1, together, walk)


def _duration(seconds: float) -> str:
    for unit, length in (("years", 3.15e7), ("days", 86400.0), ("hours", 3600.0)):
        if seconds >= length:
            return f"{seconds / length:,.0f} {unit}" if seconds < 1e6 * length else f"{seconds / length:.0e} {unit}"
    return f"{seconds / 60:.0f} minutes"
