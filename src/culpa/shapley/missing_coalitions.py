"""How rows with a few missing cells differ from filled-in rows, by coalitions to which all features contribute.

`culpa.shapley.few_missing` says what is estimated. If a game knows the contributions of all features to a coalition
(`culpa.games.marginals`), there is no need to walk orders. Draw a share q between 0 and 1 and a coalition S of features,
each a member with probability q. Then S without feature i has the distribution of those who come before i in a random
order. So does S without the missing features among those present, and the coalitions of all rows can be the same, whatever
cells they miss. What takes time is done once for all rows.

With D(T) the contribution of i to a coalition T of present features, and R any r of the k missing ones, the difference is
the mean of

    D(T) - sum over R of share_r(t) / C(k, r) D(T and R),   t = number of others in T,

where share_r is that of `culpa.shapley.few_missing`. If up to three features are missing, all sets R take part, so only T
is left to chance. If more are missing, one set of each size is drawn.

Contributions differ most if few features are known. So q is drawn more often between 0.1 and 0.5, and the differences are
weighted accordingly.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np
from scipy import special

from culpa._core.threads import in_threads
from culpa._core.types import Floats, Mask, Positions
from culpa._kernels.contrasts import CONTRASTS, MOST_IN_ALL_SETS, Prepared
from culpa.games.marginals import Marginals, Seen, in_columns, whole_vectors
from culpa.shapley.missing_orders import share_before
from culpa.shapley.rules import N_NETS, points

_EVENLY = 0.15  # share of coalitions whose q is uniform, so that no weight is large
_DRAW = 1.5, 2.5  # parameters of the beta distribution of the others; measured to vary least for 2 to 15 components
_ROWS_PER_TASK = 64
_CALL = 4e6  # operations that take as long as a call of many array functions
_FEWEST_DRAWN = 512  # so that nets of most sizes share them
_OPERATIONS_PER_CALL = 1e9  # a thirtieth of a second
_COALITIONS_TOGETHER = 1 << 21  # numbers of prepared coalitions that are held at a time
_NUMBERS_TOGETHER = 1 << 20  # contributions, or gains of latent variables, held at a time by arrays


@dataclass(frozen=True, eq=False)
class Drawn:
    """Coalitions in nets of the same size, one after the other."""

    members: Mask  # (coalitions, d)
    weights: Floats  # (coalitions,): of a mean over each net

    @property
    def nets(self) -> Positions:
        """The net of each coalition, (coalitions,)."""
        return np.arange(len(self.members)) * N_NETS // len(self.members)


@lru_cache(maxsize=16)
def draw_coalitions(n_features: int, net: int, seed: int) -> Drawn:
    """Nets of so many coalitions each, from pieces of one Sobol sequence."""
    n = N_NETS * net
    if n <= _FEWEST_DRAWN:
        numbers = _few_numbers(n_features + 1, seed)[:n]
    else:
        numbers = _numbers(n_features + 1, 1 << (n - 1).bit_length(), seed)[:n]
    shares = np.linspace(0, 1, 1 << 12)
    steps = _EVENLY * shares + (1 - _EVENLY) * special.betainc(*_DRAW, shares)
    q = np.interp(numbers[:, 0], steps, shares)
    density = _EVENLY + (1 - _EVENLY) * np.sqrt(q) * (1 - q) ** 1.5 / special.beta(*_DRAW)
    return Drawn(numbers[:, 1:] < q[:, None], 1 / density / net)


@lru_cache(maxsize=1)
def _few_numbers(n_dimensions: int, seed: int) -> Floats:
    return _numbers(n_dimensions, _FEWEST_DRAWN, seed)


def _numbers(n_dimensions: int, n_points: int, seed: int) -> Floats:
    """The first points of a Sobol sequence: a power of 2, because SciPy warns about other numbers."""
    return points(n_dimensions, np.random.default_rng([seed, 1]))((n_points, n_dimensions))


@lru_cache(maxsize=16)
def draw_turns(n_coalitions: int, n_missing: int, seed: int) -> Positions:
    """Random orders of the missing features, one for each coalition."""
    in_order = np.tile(np.arange(n_missing), (n_coalitions, 1))
    return np.random.default_rng([seed, 2]).permuted(in_order, axis=1)


@lru_cache(maxsize=16)
def shares_of_sets(n_present: int, n_missing: int) -> Floats:
    """Weights of contributions to a coalition with a set of r missing features, (k + 1, positions)."""
    n_sets = [comb(n_missing, r) if n_missing <= MOST_IN_ALL_SETS else 1 for r in range(n_missing + 1)]
    shares = -np.stack([share_before(r, n_present, n_missing) / n_sets[r] for r in range(n_missing + 1)])
    shares[0] += 1
    return shares


@lru_cache(maxsize=16)
def _weights_of_sets(drawn: Drawn, n_missing: int) -> Floats:
    """Weights of contributions as `CONTRASTS` takes them."""
    d, k = drawn.members.shape[1], n_missing
    shares = shares_of_sets(d - k, k)
    # by how many of the missing features are among the members
    size = drawn.members.sum(axis=1)[:, None] - np.arange(k + 1)
    outside, inside = (shares[:, np.clip(size - own, 0, d - k - 1)].transpose(1, 2, 0) for own in (0, 1))
    return np.stack([outside + inside, outside - inside], axis=-1) / 2 * drawn.weights[:, None, None, None]


def n_sets_paid(n_missing: int) -> int:
    """How many sets of missing features take part in each coalition."""
    return 1 << n_missing if n_missing <= MOST_IN_ALL_SETS else n_missing + 1


class MissingCoalitions:
    """Estimates the differences of rows that miss few features. Coalitions are prepared once, if they are few."""

    def __init__(self, marginals: Marginals, seed: int) -> None:
        self.marginals, self.seed, self._model = marginals, seed, marginals.model
        # of as many coalitions as were ever needed, if they take little room
        self._prepared: Prepared | None = None
        self._gains: Floats | None = None

    def operations(self, n_missing: int, net: int, n_features: int) -> float:
        """About how many operations a row takes."""
        each = 2.0 * len(self.marginals.b) * (3 + 2 * n_missing) + 60.0 * n_missing
        return N_NETS * net * n_features * each

    def differences(self, filled: Floats, missing: Positions, net: int, n_jobs: int | None) -> Floats:
        """By net, (nets, n, d), of filled-in rows (n, d) that miss features (n, k), with nets of so many coalitions."""
        (n, d), k = filled.shape, missing.shape[1]
        drawn = draw_coalitions(d, net, self.seed)
        turns, operations = draw_turns(len(drawn.members), k, self.seed), self.operations(k, net, d)
        by_arrays = _CALL + n * operations
        if not CONTRASTS.pays(by_arrays):
            CONTRASTS.note_work_without(by_arrays)
            return self._by_arrays(filled, missing, drawn, turns)
        found = np.zeros((N_NETS, n, d))
        room = whole_vectors(d) * whole_vectors(len(self.marginals.b))
        together = max(
            1, min(_COALITIONS_TOGETHER // max(1, room), int(_OPERATIONS_PER_CALL * N_NETS * net / operations))
        )
        for start in range(0, len(drawn.members), together):
            some = slice(start, min(start + together, len(drawn.members)))
            # Ctrl-C is answered between two calls of the kernel
            per_row = operations * (some.stop - start) / len(drawn.members)
            n_rows = max(1, min(_ROWS_PER_TASK, int(_OPERATIONS_PER_CALL / per_row)))
            self._add_by_kernel(found, filled, missing, drawn, turns, some, n_rows, n_jobs)
        return found

    def _prepare(self, members: Mask) -> Prepared:
        """All coalitions of a net; those of a smaller net are the first of a larger one."""
        prepared = self._prepared
        if prepared is None or len(prepared.side) < len(members):
            self._prepared = prepared = self.marginals.prepare(members)
        return Prepared(*(part[: len(members)] for part in prepared))

    def _add_by_kernel(
        self,
        found: Floats,
        filled: Floats,
        missing: Positions,
        drawn: Drawn,
        turns: Positions,
        some: slice,
        n_rows: int,
        n_jobs: int | None,
    ) -> None:
        """Add the differences estimated from some of the coalitions, so many rows at a time."""
        d, k = filled.shape[1], missing.shape[1]
        whole = some.stop - some.start == len(drawn.members)
        prepared = self._prepare(drawn.members) if whole else self.marginals.prepare(drawn.members[some])
        weights, nets, model = _weights_of_sets(drawn, k)[some], drawn.nets[some], self._model

        def add(rows: slice) -> None:
            result = np.zeros((N_NETS, len(missing[rows]), prepared.side.shape[1]))
            absent = np.ascontiguousarray(missing[rows], dtype=np.int64)
            CONTRASTS(model, prepared, in_columns(filled[rows]), absent, turns[some], weights, nets, result)
            found[:, rows] += result[:, :, :d]

        in_threads(add, [slice(at, at + n_rows) for at in range(0, len(filled), n_rows)], n_jobs)

    def _kept_gains(self, members: Mask) -> Floats:
        """The same for arrays."""
        gains = self._gains
        if gains is None or len(gains) < len(members):
            self._gains = gains = self.marginals.gains(members)
        return gains[: len(members)]

    def _by_arrays(self, filled: Floats, missing: Positions, drawn: Drawn, turns: Positions) -> Floats:
        """The same, some coalitions and rows at a time."""
        n, d = filled.shape
        found = np.zeros((N_NETS, n, d))
        coalitions = max(1, _NUMBERS_TOGETHER // (d * max(1, len(self.marginals.b))))
        for start in range(0, len(drawn.members), coalitions):
            some = slice(start, min(start + coalitions, len(drawn.members)))
            whole = some.stop - start == len(drawn.members)
            gains = self._kept_gains(drawn.members) if whole else self.marginals.gains(drawn.members[some])
            together = max(1, _NUMBERS_TOGETHER // ((some.stop - start) * d * (missing.shape[1] + 2)))
            for first in range(0, n, together):
                rows = slice(first, first + together)
                seen = self.marginals.look(filled[rows], drawn.members[some], gains)
                # a missing feature that has left still counts as inside for its own contribution, which nobody reads
                with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                    paid = drawn.weights[some, None, None] * _paid(seen, missing[rows], turns[some])
                np.add.at(found[:, rows], drawn.nets[some], paid)
        return found


def _paid(seen: Seen, missing: Positions, turns: Positions) -> Floats:
    """Weighted contributions to coalitions with sets of missing features, (coalitions, n, d): `CONTRASTS` in arrays."""
    k, d, members = missing.shape[1], seen.r.shape[2], seen.side[:, 0] < 0
    inside = members[:, missing.T].swapaxes(0, 1)  # (k, coalitions, n)
    size = (members.sum(axis=1)[:, None] - inside.sum(axis=0))[:, :, None] - members[:, None, :]
    shares = shares_of_sets(d - k, k)[:, np.clip(size, 0, d - k - 1)]
    moving = _Moving(seen, missing, inside, *seen.across(missing))
    if k <= MOST_IN_ALL_SETS:
        total = moving.pay(shares)
        for move in range(1, 1 << k):
            moving.move(np.full(len(turns), (move & -move).bit_length() - 1), np.ones(inside.shape[1:], dtype=bool))
            total += moving.pay(shares)
        return total
    for m in range(k):
        moving.move(np.full(len(turns), m), moving.inside[m])
    total = moving.pay(shares)
    for turn in range(k):
        moving.move(turns[:, turn], np.ones(inside.shape[1:], dtype=bool))
        total += moving.pay(shares)
    return total


class _Moving:
    """Coalitions whose missing features (n, k) join and leave."""

    def __init__(self, seen: Seen, missing: Positions, inside: Mask, K: Floats, L: Floats) -> None:
        self.seen, self.missing, self.inside, self.K, self.L = seen, missing, inside.copy(), K, L

    def pay(self, shares: Floats) -> Floats:
        """Contributions to the coalitions as they are now, times their shares (k + 1, coalitions, n, d)."""
        n_inside = self.inside.sum(axis=0)[None, :, :, None]
        return np.asarray(np.take_along_axis(shares, n_inside, axis=0)[0] * self.seen.contributions())

    def move(self, which: Positions, moves: Mask) -> None:
        """One missing feature of each coalition (coalitions,) joins or leaves, where it does (coalitions, n)."""
        seen, at = self.seen, np.arange(len(which))
        K, L, inside = self.K[which, at], self.L[which, at], self.inside[which, at]
        feature = self.missing[:, which].T[:, :, None]
        r_j, t_j, g_j, q_j = (np.take_along_axis(part, feature, axis=2) for part in seen[3:])
        sign = np.where(inside, -1.0, 1.0)[:, :, None]
        c = np.where(moves[:, :, None], sign / (seen.game.psi + sign * g_j), 0.0)
        others = np.broadcast_to(self.missing.T[:, None, :, None], (*self.inside.shape, 1))
        K_m, L_m = (np.take_along_axis(np.broadcast_to(part, self.K.shape), others, axis=3) for part in (K, L))
        self.seen = seen._replace(
            r=seen.r - c * r_j * K,
            t=seen.t + c * r_j * L - c * K * (t_j + c * r_j * q_j),
            g=seen.g - c * K**2,
            q=seen.q - 2 * c * K * L + c**2 * K**2 * q_j,
        )
        self.L = self.L - c * K * L_m - c * K_m * L + c**2 * K * K_m * q_j
        self.K = self.K - c * K * K_m
        self.inside[which, at] = inside ^ moves
