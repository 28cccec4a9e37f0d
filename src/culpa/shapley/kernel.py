"""Shapley values by regression on the values of sampled coalitions (kernel regression).

Shapley values are the coefficients of a weighted least-squares fit of an additive game to the values of all coalitions,
with the weight 1 / (|S| (P - |S|)) per size, the same for all coalitions of one size, and with the sum fixed to the value
of everybody (Charnes and others 1988). Here coalitions are sampled, in three steps:

1. *Pairs.* A coalition and its complement are valued together, because only the odd part of a game,
   h(S) = (v(S) - v(complement of S)) / 2, determines its Shapley values. Sizes are spread evenly from 1 to P - 1.
2. *A surrogate.* What an additive game leaves of h is smoothed by a regression on all odd interactions: single players,
   triples, sets of five and so on, each order with a prior variance rho^order per interaction. There are far too many
   interactions to list, but the covariance of h at two coalitions depends only on how many players tell them apart, so as
   many equations as pairs are enough (a Gaussian process on coalitions). The Shapley values of the surrogate follow in
   closed form.
3. *Kernel regression of what is left.* The pairs are divided into folds. Each fold is predicted by a surrogate that has
   not seen it, and the least-squares fit above is applied to the prediction errors of all folds. Its result is added to
   the mean of the surrogates' Shapley values. So a poor surrogate costs precision, but does not bias the result.

With many pairs the surrogate is fitted to the first ones only, and the others count as further folds that it has not seen.

The spread between folds gives standard errors: each fold has its own surrogate and its own share of the least-squares fit.
Coalitions do not depend on the model or the rows, and all steps are linear in the values.

With s_i = 1 for members and -1 for others, delta(s, t) the number of players in which s and t differ:

    covariance of h(s) and h(t)   ((1+rho)^(P-delta) (1-rho)^delta - (1+rho)^delta (1-rho)^(P-delta)) / 2
    covariance of phi_i and h(s)  2 s_i times the integral, over r from 0 to rho, of the even part in r of
                                  (1+r)^a (1-r)^b,  a and b the numbers of members and of others, without i

since phi_i is twice the sum of coefficients of odd interactions of i, each divided by its order.

| symbol | code | meaning |
| --- | --- | --- |
| P | ``n_players`` | |
| s | ``signs`` | (pairs, P) |
| | ``fitted`` | number of pairs that the surrogate is fitted to |
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from culpa._core.copies import CopiedInUse
from culpa._core.threads import interruptible, one_blas_thread
from culpa._core.types import Floats
from culpa.games import Game
from culpa.games.arrays import row_chunks
from culpa.shapley.exact import exact
from culpa.shapley.plan import Settings
from culpa.shapley.shares import Players, Progress, Shares, summarise
from culpa.shapley.tolerance import Effort, size_for_tolerance

N_FOLDS = 10
_SHARE = 4  # at most one of so many pairs is drawn
_MOST_FITTED = 2000  # pairs that a surrogate is fitted to; it takes about their number to the third operations
_INTERACTION = 1.25  # rho times P, measured to be about best with 33 and with 166 features
_NUGGET = 1e-3  # variance of what no interaction explains, relative to the rest
_NODES = 24  # of the quadrature over r: exact enough for what is a polynomial in r
_CELLS_PER_CHUNK = 1 << 22  # numbers held at a time
_CELLS_PER_CALL = 1 << 19  # numbers that one call of numpy sorts or looks up, which takes about a twentieth of a second
_FEW_PRODUCTS = 4  # of one call; these are so large that threads of BLAS are worth it
_ROWS_PER_CHUNK = 256
_FEWEST_PAIRS, _MOST_PAIRS = 100, 1 << 16
_FEWEST_FOR_ERRORS = 20
_FEWEST_COALITIONS = 128  # a budget: all of seven players, of which so few pairs cannot be drawn
_FEW_PLAYERS = 12  # whose coalitions are all valued, unless fewer were asked for


@dataclass(frozen=True, eq=False)
class PairedRule:
    """Pairs of coalitions, and what the regressions need to know about them."""

    signs: Floats  # (pairs, P): 1 for members of the first coalition of a pair, -1 for those of the second
    weights: Floats  # (pairs,): of the least-squares fit
    solve: Floats  # (P, P): inverse of its normal equations
    precision: Floats  # (fitted, fitted): inverse covariance of h
    cross: Floats  # (P, fitted): covariance of Shapley values and h

    @property
    def n_evaluations(self) -> int:
        """Coalitions that are valued: both of each pair, nobody and everybody."""
        return 2 * len(self.signs) + 2

    def coalitions(self) -> Floats:
        """Members (coalitions, P) as 0 and 1: the first of each pair, the second, nobody and everybody."""
        n_players = self.signs.shape[1]
        first = (self.signs + 1) / 2
        return np.vstack([first, 1 - first, np.zeros((1, n_players)), np.ones((1, n_players))])

    def replicates(self, values: Floats) -> Floats:
        """Estimates (folds, n, P) from values (coalitions, n), each adding up; their mean is the result."""
        m, n_players = self.signs.shape
        h, total = (values[:m] - values[m : 2 * m]) / 2, values[-1] - values[-2]
        fold = np.arange(m) % N_FOLDS
        normal = self.signs * self.weights[:, None]
        k = self.solve.sum(axis=1) / self.solve.sum()  # shares out what a sum lacks
        # an additive game has h = sum of phi s / 2. It is taken out first, so that surrogates need not learn it
        additive = (self.solve @ (normal.T @ (2 * h))).T
        error, by_fold = self._surrogates(h - self.signs @ additive.T / 2, fold)
        by_fold += additive
        surrogate = by_fold.mean(axis=0)
        slopes = (self.solve @ (normal.T @ (2 * error))).T
        slopes = slopes + (total - surrogate.sum(axis=1) - slopes.sum(axis=1))[:, None] * k
        left = 2 * error - self.signs @ slopes.T
        parts = np.stack([(self.solve @ (normal[fold == r].T @ left[fold == r])).T for r in range(N_FOLDS)])
        apart = by_fold - surrogate + N_FOLDS * parts
        apart -= apart.sum(axis=2, keepdims=True) * k
        # the fit has used up as many degrees of freedom as there are players
        return np.asarray(surrogate + slopes + math.sqrt(m / max(1, m - n_players)) * apart)

    def _surrogates(self, h: Floats, fold: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Prediction errors of h (pairs, n) by surrogates that have not seen them, and Shapley values (folds, n, P).

        The surrogate without fold r follows from the one with all: its errors in r are B (precision h)_r, where B is the
        inverse of the precision's block of r.
        """
        fitted = len(self.precision)
        seen, later = fold[:fitted], fold[fitted:]
        solved = self.precision @ h[:fitted]
        gain = self.cross @ self.precision
        whole = (self.cross @ solved).T
        error = np.empty_like(h)
        by_fold = np.empty((N_FOLDS, h.shape[1], self.signs.shape[1]))
        for r in range(N_FOLDS):
            at = np.flatnonzero(seen == r)
            error[at] = linalg.solve(self.precision[np.ix_(at, at)], solved[at], assume_a="pos")
            without = whole - (gain[:, at] @ error[at]).T
            n_later = (later == r).sum()
            by_fold[r] = (len(at) * without + n_later * whole) / (len(at) + n_later)
        step = max(1, _CELLS_PER_CHUNK // fitted)
        for start in range(fitted, len(h), step):
            there = slice(start, start + step)
            error[there] = h[there] - _covariance(self.signs[there], self.signs[:fitted]) @ solved
        return error, by_fold


@lru_cache(maxsize=4)
def paired_rule(n_players: int, n_pairs: int, seed: int) -> PairedRule:
    """At most ``n_pairs`` pairs of random coalitions: a multiple of the number of folds, of which there is at least one."""
    rng = np.random.default_rng(seed)
    n_pairs = N_FOLDS * max(1, n_pairs // N_FOLDS)
    # sizes spread evenly, then who is in at random
    sizes = 1 + ((np.arange(n_pairs) + rng.random()) * (n_players - 1) / n_pairs).astype(np.intp)
    rng.shuffle(sizes)
    signs = np.empty((n_pairs, n_players))
    for there in _slices(n_pairs, n_players):
        rank = np.argsort(np.argsort(rng.random((len(sizes[there]), n_players)), axis=1), axis=1)
        signs[there] = np.where(rank < sizes[there, None], 1.0, -1.0)
    weights = 1 / (sizes * (n_players - sizes))
    weights /= weights.mean()
    # with few pairs some player may always be together with another: the ridge decides then
    normal = interruptible(np.matmul, signs.T, weights[:, None] * signs) + 1e-9 * n_pairs * np.eye(n_players)
    fitted = signs[:_MOST_FITTED]
    covariance = _covariance(fitted, fitted) + _NUGGET * np.eye(len(fitted))
    # SciPy would hold Python's lock, and Ctrl-C would have to wait
    solve, precision = (interruptible(np.linalg.inv, matrix) for matrix in (normal, covariance))
    return PairedRule(signs, weights, solve, precision, _cross(fitted))


def fewest_pairs(n_players: int) -> int:
    """With fewer pairs than this, standard errors are too small: some folds hardly tell players apart.

    >>> [fewest_pairs(n) for n in (8, 16, 17, 40)]
    [20, 20, 30, 50]
    """
    return N_FOLDS * math.ceil(max(_FEWEST_FOR_ERRORS, n_players + 4) / N_FOLDS)


def values_all(n_players: int, n_pairs: int, budget: int | None = None) -> bool:
    """Whether all pairs are valued: there are at most four times as many, and the budget of coalitions allows it."""
    every = _all_pairs(n_players)
    return every <= _SHARE * fewest_pairs(n_players) or (
        every <= _SHARE * n_pairs and (budget is None or 2 * (every + 1) <= budget)
    )


def pairs_to_draw(n_players: int, n_pairs: int) -> int:
    """At most a quarter of all pairs: standard errors assume that draws are independent, and would be too small."""
    return min(max(fewest_pairs(n_players), n_pairs), _all_pairs(n_players) // _SHARE)


def _all_pairs(n_players: int) -> int:
    """Pairs of coalitions, without that of nobody and everybody."""
    return (1 << max(0, n_players - 1)) - 1


def kernel(game: Game, X: Floats, players: Players, rule: PairedRule, *, progress: Progress | None = None) -> Shares:
    """Shapley values by regression on the coalitions of the rule, with standard errors from its folds."""
    coalitions = rule.coalitions()
    members = np.zeros((len(coalitions), game.n_features))
    for k, player in enumerate(players):
        members[:, player] = coalitions[:, k : k + 1]
    everybody = members[-1] > 0
    chunks, parts = row_chunks(X, _ROWS_PER_CHUNK), []
    for done, rows in enumerate(chunks):
        step = max(1, _CELLS_PER_CHUNK // (game.n_features * (len(rows) + game.n_features)))
        values = np.empty((len(members), len(rows)))
        # a call makes a product for each coalition. Next to busy processes, the threads of BLAS would wait for each other
        # in every one of them, and Ctrl-C for all
        with one_blas_thread() if step > _FEW_PRODUCTS else nullcontext():
            for start in range(0, len(members), step):
                values[start : start + step] = game.values(rows, members[start : start + step])
        if not game.base_varies:  # the score itself has more digits than its value as a coalition
            total = game.total(np.where(everybody, rows, np.nan), np.flatnonzero(everybody))
            values[-1] = values[-2] + (total - game.base_value)
        with one_blas_thread():
            parts.append(interruptible(rule.replicates, values))
        if progress is not None:
            progress((done + 1) / len(chunks), None)
    empty = np.zeros((N_FOLDS, 0, len(players)))
    return summarise(np.concatenate([empty, *parts], axis=1), rule.n_evaluations)


class PairedSampling(CopiedInUse):
    """Kernel regression with as many pairs as were asked for, or as ``reference`` rows need."""

    def __init__(self, game: Game, players: Players, settings: Settings, reference: Callable[[], Floats]) -> None:
        self.game, self.players, self.settings, self.reference = game, players, settings, reference

    def values_all(self, n_players: int) -> bool:
        """Whether all pairs of so many players are valued, so that values are exact."""
        return values_all(n_players, self._n_pairs, self.settings.max_coalitions)

    def rule(self, n_players: int) -> PairedRule:
        """Pairs of coalitions of so many players."""
        return paired_rule(n_players, pairs_to_draw(n_players, self._n_pairs), self.settings.seed)

    def share_out(self, game: Game, rows: Floats, players: Players) -> Shares:
        """Shapley values of rows by regression on pairs of coalitions."""
        return kernel(game, rows, players, self.rule(len(players)), progress=self.settings.progress)

    @cached_property
    def _n_pairs(self) -> int:
        if self.settings.n_orders is not None:
            return max(1, self.settings.n_orders * len(self.players) // 2)
        n_players, budget = len(self.players), self.settings.max_coalitions
        least = min(1 << n_players, max(_FEWEST_COALITIONS, 2 * (fewest_pairs(n_players) + 1)))
        if budget is not None and budget < least:
            raise ValueError(
                f"max_coalitions={budget} is too few for {n_players} players: at least {least} are needed."
            )
        largest = _MOST_PAIRS if budget is None else budget // 2 - 1
        few = _all_pairs(n_players) if n_players <= _FEW_PLAYERS else 0
        remedy = "Raise the tolerance, use method='permutation', or put features into groups."
        return size_for_tolerance(
            self._try,
            Effort(
                min(max(_FEWEST_PAIRS, 4 * n_players, few), largest),
                largest,
                lambda pairs, ratio: math.ceil(pairs * min(4.0, max(1.4, ratio**1.5))),
            ),
            float(self.settings.tolerance),
            self.settings.progress,
            warning=(lambda pairs: (f"{2 * pairs:,} coalitions", remedy)) if budget is None else None,
        )

    def _try(self, n_pairs: int) -> Shares:
        n_players, seed = len(self.players), self.settings.seed
        if values_all(n_players, n_pairs, self.settings.max_coalitions):
            return exact(self.game, self.reference(), self.players)
        rule = paired_rule(n_players, pairs_to_draw(n_players, n_pairs), seed)
        return kernel(self.game, self.reference(), self.players, rule)


def _slices(n_rows: int, n_columns: int) -> list[slice]:
    """Of rows, so few that numpy soon returns to Python, where Ctrl-C is answered."""
    step = max(1, _CELLS_PER_CALL // n_columns)
    return [slice(start, start + step) for start in range(0, n_rows, step)]


def _rho(n_players: int) -> float:
    return min(0.5, _INTERACTION / n_players)


def _covariance(first: Floats, second: Floats) -> Floats:
    """Of h at coalitions given by signs, (first, second), relative to its variance."""
    n_players = first.shape[1]
    # by the number of players that differ, of which there are few values
    table = _odd(np.arange(n_players, -1, -1), np.arange(n_players + 1), _rho(n_players))
    apart = np.rint((n_players - first @ second.T) / 2).astype(np.intp)
    covariance = np.empty(apart.shape)
    for there in _slices(*apart.shape):
        covariance[there] = (table / table[0])[apart[there]]
    return covariance


def _cross(signs: Floats) -> Floats:
    """Covariance of Shapley values and h at coalitions given by signs, (P, coalitions), in the same unit."""
    n_players = signs.shape[1]
    rho = _rho(n_players)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    members = np.rint((signs.sum(axis=1) + n_players) / 2).astype(np.intp)
    others = n_players - members
    integral: list[Floats] = []
    for i_is_in in (1, 0):  # without player i
        a, b = members - i_is_in, others - (1 - i_is_in)
        even = [_even(a, b, rho * (node + 1) / 2) for node in nodes]
        integral.append(rho / 2 * (weights[:, None] * np.array(even)).sum(axis=0))
    variance = _odd(np.array([n_players]), np.array([0]), rho)[0]
    return np.asarray(2 * signs.T * np.where(signs.T > 0, integral[0], integral[1]) / variance)


def _odd(a: NDArray[np.intp], b: NDArray[np.intp], r: float) -> Floats:
    """Odd part in r of (1+r)^a (1-r)^b."""
    return np.asarray(((1 + r) ** a * (1 - r) ** b - (1 - r) ** a * (1 + r) ** b) / 2)


def _even(a: NDArray[np.intp], b: NDArray[np.intp], r: float) -> Floats:
    """Even part in r of (1+r)^a (1-r)^b."""
    return np.asarray(((1 + r) ** a * (1 - r) ** b + (1 - r) ** a * (1 + r) ** b) / 2)
