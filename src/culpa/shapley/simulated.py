"""Shapley values of a score that is any function of the row, from random orders and random draws at once.

Each order comes with a draw of all features. As players join, the draw is updated to what is known by then, and the score
is evaluated at the draw and at its mirror image. The players are paid the differences. Four ways reduce the variance:

- All coalitions of an order share its draw.
- Draws come in mirrored pairs.
- Orders come in pairs, one the reverse of the other.
- The value of nobody is known well from many other draws. What the draws of an order get wrong about it is regressed out
  of the payments (a control variate). The same holds for the value of everybody, where cells are missing.

A pair of orders with its four draws is a replicate. Replicates are independent, and everything that is random is inside
them, so their spread gives standard errors that include the draws. The error of the value of nobody is added.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from culpa._core.choices import Method
from culpa._core.types import Floats, Positions
from culpa.games import Game, Given
from culpa.games.simulated import Draw, Drawn, Simulated
from culpa.models.draws import Chances
from culpa.scores.function import FEWEST_DRAWS, N_DRAWS
from culpa.shapley.forms import QuadraticForms
from culpa.shapley.partial_order import PartialOrder
from culpa.shapley.shares import Players, Progress, Served, Shares

N_PAIRS = 128  # of orders, by default
_FEWEST_PAIRS = 8  # for a standard error
_DRAWS = 2  # per order
_CELLS_PER_CALL = 1 << 20  # numbers in the rows that the score gets at a time
_ROWS_PER_TASK = 64


class Simulation:
    """Shares out a simulated game: the counterpart of `culpa.shapley.engine.Engine` for functions."""

    def __init__(
        self,
        game: Game,
        players: Players,
        *,
        seed: int,
        n_orders: int | None = None,
        max_evaluations: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.game, self.players, self.seed, self.progress = game, players, seed, progress
        self.n_orders, self.max_evaluations = n_orders, max_evaluations
        self.n_pairs = self._affordable(len(players), complete=True, given=isinstance(game, Given))

    @staticmethod
    def check(method: Method, tolerance: float | str, order: PartialOrder | None) -> None:
        """Raise an error if a score that is a function cannot be shared out so."""
        if method not in ("auto", "permutation"):
            raise ValueError(f"method={method!r} is not available for a score that is a function: use 'auto'.")
        if order is not None:
            raise ValueError("upstream is not available for a score that is a function.")
        if isinstance(tolerance, str):
            raise ValueError(f"tolerance={tolerance!r} is not available for a score that is a function: use n_orders.")

    def _affordable(self, n_players: int, *, complete: bool, given: bool) -> int:
        """Pairs of orders for a row: as many as were asked for, and as the budget allows beside everything else."""
        wanted = N_PAIRS if self.n_orders is None else max(_FEWEST_PAIRS, -(-self.n_orders // 2))
        if self.max_evaluations is None:
            return wanted
        steps, other = n_players + (not complete), self._other_evaluations(n_players, complete=complete, given=given)
        n_pairs = (self.max_evaluations - other) // (2 * _DRAWS * steps)
        if n_pairs < _FEWEST_PAIRS:
            least = 2 * _FEWEST_PAIRS * _DRAWS * steps + other
            what = "" if complete else " and a row with missing cells"
            raise ValueError(
                f"max_evaluations={self.max_evaluations} is too few for {n_players} players{what}: at least {least} are "
                "needed. Or put features into groups."
            )
        return n_pairs if self.n_orders is None else min(n_pairs, wanted)

    def _other_evaluations(self, n_players: int, *, complete: bool, given: bool) -> int:
        """Of the score for one row, beside the orders: the score itself, with each player fixed, and given features."""
        each = self._score.evaluations(complete)
        return (2 + n_players) * each + 2 * given * self._score.n_draws

    @property
    def _score(self) -> Drawn:
        game = self.game.game if isinstance(self.game, Given) else self.game
        assert isinstance(game, Simulated)
        return game.score

    @property
    def chosen(self) -> str:
        """How many orders, and how many evaluations of the score."""
        n = len(self.players)
        other = self._other_evaluations(n, complete=True, given=isinstance(self.game, Given))
        return (
            f"simulated: {2 * self.n_pairs:,} orders of {n} players, "
            f"{2 * self.n_pairs * _DRAWS * n + other:,} evaluations of the score per row"
        )

    def method_used(self, *, exact: bool) -> str:
        """Name of the method, as explanations state it."""
        return "simulated"

    def share_out(self, rows: Any, players: Players, present: Sequence[int] | None = None) -> Shares:
        """Shapley values of rows with the same features observed."""
        if not isinstance(rows, np.ndarray):
            raise TypeError("the score is a function of NumPy rows, so pass a NumPy array.")
        observed = np.flatnonzero(~np.isnan(rows[0])) if len(rows) else np.arange(rows.shape[1])
        known: Positions = np.empty(0, dtype=np.intp)
        game = self.game
        if isinstance(game, Given):
            known = np.intersect1d(game.known, observed)
            game = game.game
        assert isinstance(game, Simulated)
        complete, given = len(observed) == game.n_features, isinstance(self.game, Given)
        n_pairs = self._affordable(len(players), complete=complete, given=given)
        plan = _Plan(game, players, known, observed, self.seed, n_pairs)
        step = max(1, min(_ROWS_PER_TASK, _CELLS_PER_CALL // (_DRAWS * len(players) * game.n_features)))
        parts = []
        for start in range(0, len(rows), step):
            parts.append(_shares(plan, np.where(np.isnan(rows[start : start + step]), 0.0, rows[start : start + step])))
            if self.progress is not None:
                self.progress(min(1.0, (start + step) / len(rows)), None)
        nothing = np.empty((0, len(players)))
        values, errors = (np.concatenate([nothing, *(part[k] for part in parts)]) for k in (0, 1))
        evaluations = 2 * n_pairs * _DRAWS * (len(players) + (not complete)) + game.score.evaluations(complete)
        return Shares(values, errors, evaluations + bool(len(known)) * game.score.n_draws, n_pairs - plan.n_controls)

    def share_out_incomplete(self, rows: Floats) -> Served:
        """Patterns of missing cells share nothing: none is served here."""
        return Served.none(len(rows), len(self.players))

    compiling_is_due = False
    can_compile = False
    forms: QuadraticForms | None = None  # a function has none

    def evaluates_few_rows(self, n_rows: int) -> bool:
        """Whether a few rows cost no more than their share of many: without forms, they do."""
        return False

    def count_rows(self, n_complete: int) -> None:
        """Take no note of rows, because nothing is ever compiled."""

    def compiles_within(self, operations: float) -> bool:
        """Nothing is ever compiled."""
        return False

    def compile(self) -> None:
        """Nothing is ever compiled; `culpa.Explainer` says so."""


class _Plan(NamedTuple):
    """What all rows have in common: orders, draws and the numbers of both."""

    game: Simulated
    players: Players
    known: Positions  # features that are in every coalition
    observed: Positions
    seed: int
    n_pairs: int

    @property
    def is_complete(self) -> bool:
        """Whether the value of everybody is the score itself."""
        return len(self.observed) == self.game.n_features

    @property
    def n_controls(self) -> int:
        """Values that are known better than from the draws: that of nobody, and that of everybody unless it is exact."""
        return 2 - self.is_complete

    def orders(self) -> Iterator[tuple[int, Positions, Chances]]:
        """Pair, order and what is random about its draw."""
        rng, normal = np.random.default_rng([self.seed, 3]), self.game.score.normal
        for pair in range(self.n_pairs):
            order = rng.permutation(len(self.players))
            chances = normal.chances(2, rng)
            for k, each in enumerate((order, order[::-1])):
                yield pair, each, chances.of_draw(k)


def _shares(plan: _Plan, rows: Floats) -> tuple[Floats, Floats]:
    """Values and standard errors of a few rows."""
    base, score = plan.game.estimate(rows, plan.known), plan.game.estimate(rows, plan.observed)
    paid, nobody, everybody = _pairs(plan, rows, score.value)
    controls = np.stack([nobody - base.value, everybody - score.value], axis=2)  # (pairs, n, 2)
    slopes, leverage = _regression(paid, controls)  # (n, 2, players) and (n,)
    paid = paid - np.einsum("unk,nkp->unp", controls, slopes)
    values = paid.mean(axis=0)
    # what is left over is rounding, unless the draws never differ
    values += ((score.value - base.value) - values.sum(axis=1))[:, None] / values.shape[1]
    # slopes are estimated too: residuals have fewer degrees of freedom, and the mean has the error of the slopes
    variance = paid.var(axis=0, ddof=1 + plan.n_controls) * (1 / len(paid) + leverage[:, None])
    known_error = np.stack([base.std_error, score.std_error], axis=1)[:, :, None]
    return values, np.sqrt(variance + ((slopes * known_error) ** 2).sum(axis=1))


def _pairs(plan: _Plan, rows: Floats, score: Floats) -> tuple[Floats, Floats, Floats]:
    """What each pair of orders pays (pairs, n, players), and its values of nobody and of everybody (pairs, n)."""
    n, n_players, d = len(rows), len(plan.players), rows.shape[1]
    paid = np.zeros((plan.n_pairs, n, n_players))
    ends = np.zeros((2, plan.n_pairs, n))
    full = score if plan.is_complete else None
    at_once = max(1, _CELLS_PER_CALL // (n * _DRAWS * (n_players + 1) * d))
    waiting: list[tuple[int, Positions, Floats]] = []

    def evaluate() -> None:
        blocks = plan.game.score.normal.to_user(np.stack([block for _, _, block in waiting]), rows)
        scores = plan.game.score.evaluate(blocks.reshape(-1, d)).reshape(*blocks.shape[:-1]).mean(axis=-1)
        for (pair, order, _), value in zip(waiting, scores, strict=True):
            value = value if full is None else np.vstack([value, full])
            paid[pair][:, order] += 0.5 * np.diff(value, axis=0).T
            ends[0, pair] += 0.5 * value[0]
            ends[1, pair] += 0.5 * value[-1]
        waiting.clear()

    for pair, order, chances in plan.orders():
        waiting.append((pair, order, _walk(plan, plan.game.draw(rows, chances), order)))
        if len(waiting) == at_once:
            evaluate()
    if waiting:
        evaluate()
    return paid, ends[0], ends[1]


def _walk(plan: _Plan, draw: Draw, order: Positions) -> Floats:
    """Draws before each player joins, and after the last where that is not the row itself: (steps, n, 2, d)."""
    for feature in plan.known:
        draw.join(feature)
    steps = [draw.both()]
    for player in order if not plan.is_complete else order[:-1]:
        for feature in plan.players[player]:
            draw.join(feature)
        steps.append(draw.both())
    return np.stack(steps)


def _regression(paid: Floats, controls: Floats) -> tuple[Floats, Floats]:
    """Slopes (n, 2, players) of payments (pairs, n, players) on controls (pairs, n, 2), and by how much their variance, in
    units of that of the residuals, adds to that of the mean, (n,)."""
    mean = controls.mean(axis=0)
    centred = controls - mean
    products = np.einsum("unk,unl->nkl", centred, centred)
    cross = np.einsum("unk,unp->nkp", centred, paid - paid.mean(axis=0))
    inverse = np.linalg.pinv(products, rcond=1e-10, hermitian=True)
    return np.asarray(inverse @ cross), np.einsum("nk,nkl,nl->n", mean, inverse, mean)


def draws_within(max_evaluations: int | None, n_players: int) -> int:
    """Draws for the expected score of a row with missing cells, so that scores take at most half of the budget."""
    if max_evaluations is None:
        return N_DRAWS
    left = min(max_evaluations // 2, max_evaluations - 2 * _FEWEST_PAIRS * _DRAWS * (n_players + 1))
    return min(N_DRAWS, max(FEWEST_DRAWS, 2 * (left // (2 * (n_players + 4)))))
