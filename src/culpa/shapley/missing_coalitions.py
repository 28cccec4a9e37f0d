"""What rows with a few missing cells differ in from filled-in rows, by coalitions in which all features are paid.

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

from collections.abc import Iterator
from functools import lru_cache
from math import comb
from typing import NamedTuple

import numpy as np
from scipy.stats import beta

from culpa._core.threads import in_threads
from culpa._core.types import Floats, Mask, Positions
from culpa._kernels.contrasts import CONTRASTS, MOST_IN_ALL_SETS, Prepared
from culpa.games.marginals import Marginals, in_columns
from culpa.shapley.missing_orders import share_before
from culpa.shapley.rules import N_NETS, points

_EVENLY = 0.15  # share of coalitions whose q is uniform, so that no weight is large
_DRAW = beta(1.5, 2.5)  # of the others; measured to vary least for 2 to 15 components
_ROWS_PER_TASK = 64
_FEWEST_DRAWN = 512  # so that nets of most sizes share them
_COALITIONS_TOGETHER = 1 << 21  # numbers of prepared coalitions that are held at a time
_NUMBERS_TOGETHER = 1 << 20  # contributions held at a time by arrays


class Drawn(NamedTuple):
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
    numbers = _numbers(n_features + 1, max(_FEWEST_DRAWN, 1 << (n - 1).bit_length()), seed)[:n]
    shares = np.linspace(0, 1, 1 << 12)
    steps = _EVENLY * shares + (1 - _EVENLY) * _DRAW.cdf(shares)
    q = np.interp(numbers[:, 0], steps, shares)
    density = _EVENLY + (1 - _EVENLY) * _DRAW.pdf(q)
    return Drawn(numbers[:, 1:] < q[:, None], 1 / density / net)


@lru_cache(maxsize=2)
def _numbers(n_dimensions: int, n_points: int, seed: int) -> Floats:
    """The first points of a Sobol sequence: a power of 2, because SciPy warns about other numbers."""
    return points(n_dimensions, np.random.default_rng([seed, 1]))((n_points, n_dimensions))


def draw_turns(n_coalitions: int, n_missing: int, seed: int) -> Positions:
    """Random orders of the missing features, one for each coalition."""
    in_order = np.tile(np.arange(n_missing), (n_coalitions, 1))
    return np.random.default_rng([seed, 2]).permuted(in_order, axis=1)


def shares_of_sets(n_present: int, n_missing: int) -> Floats:
    """Weights of contributions to a coalition with a set of r missing features, (k + 1, positions)."""
    n_sets = [comb(n_missing, r) if n_missing <= MOST_IN_ALL_SETS else 1 for r in range(n_missing + 1)]
    shares = -np.stack([share_before(r, n_present, n_missing) / n_sets[r] for r in range(n_missing + 1)])
    shares[0] += 1
    return shares


class MissingCoalitions:
    """Estimates the differences of rows that miss few features. Coalitions are prepared once, if they are few."""

    def __init__(self, marginals: Marginals, seed: int) -> None:
        self.marginals, self.seed = marginals, seed
        self._prepared: dict[int, Prepared] = {}

    def differences(self, filled: Floats, missing: Positions, net: int, n_jobs: int | None) -> Floats:
        """By net, (nets, n, d), of filled-in rows (n, d) that miss features (n, k), with nets of so many coalitions."""
        drawn, k = draw_coalitions(filled.shape[1], net, self.seed), missing.shape[1]
        turns = draw_turns(len(drawn.members), k, self.seed)
        operations = len(drawn.members) * filled.size * (2.0 * len(self.marginals.b) * (3 + 2 * k) + 60.0 * k)
        if not CONTRASTS.pays(operations):
            CONTRASTS.note_work_without(operations)
            return self._by_arrays(filled, missing, drawn, turns)
        found = np.zeros((N_NETS, *filled.shape))
        together = max(N_NETS, _COALITIONS_TOGETHER // max(1, self.marginals.loadings.size))
        for start in range(0, len(drawn.members), together):
            some = slice(start, min(start + together, len(drawn.members)))
            self._add_by_kernel(found, filled, missing, drawn, turns, some, n_jobs)
        return found

    def _add_by_kernel(
        self,
        found: Floats,
        filled: Floats,
        missing: Positions,
        drawn: Drawn,
        turns: Positions,
        some: slice,
        n_jobs: int | None,
    ) -> None:
        """Add the differences that some of the coalitions tell."""
        n_all, d, k = len(drawn.members), filled.shape[1], missing.shape[1]
        prepared = self._prepared.get(n_all)
        if prepared is None:
            prepared = self.marginals.prepare(drawn.members[some])
            if some.stop - some.start == n_all:
                self._prepared[n_all] = prepared
        shares = shares_of_sets(d - k, k)
        # of contributions, by how many of the missing features are among the members
        size = drawn.members[some].sum(axis=1)[:, None] - np.arange(k + 1)
        outside, inside = (shares[:, np.clip(size - own, 0, d - k - 1)].transpose(1, 2, 0) for own in (0, 1))
        weights = np.stack([outside + inside, outside - inside], axis=-1) / 2 * drawn.weights[some, None, None, None]
        model, nets = self.marginals.model, drawn.nets[some]

        def add(rows: slice) -> None:
            result = np.zeros((N_NETS, len(missing[rows]), prepared.side.shape[1]))
            absent = np.ascontiguousarray(missing[rows], dtype=np.int64)
            CONTRASTS(model, prepared, in_columns(filled[rows]), absent, turns[some], weights, nets, result)
            found[:, rows] += result[:, :, :d]

        in_threads(add, [slice(at, at + _ROWS_PER_TASK) for at in range(0, len(filled), _ROWS_PER_TASK)], n_jobs)

    def _by_arrays(self, filled: Floats, missing: Positions, drawn: Drawn, turns: Positions) -> Floats:
        """The same from the contributions to every coalition itself, for rows with the same cells missing at a time."""
        (n, d), k = filled.shape, missing.shape[1]
        found, shares = np.zeros((N_NETS, n, d)), shares_of_sets(d - k, k)
        kinds, kind_of_row = np.unique(missing, axis=0, return_inverse=True)
        for kind, absent in enumerate(kinds):
            rows = np.flatnonzero(kind_of_row.ravel() == kind)
            together = max(1, _NUMBERS_TOGETHER // (d * len(rows)))
            for start in range(0, len(drawn.members), together):
                some = slice(start, start + together)
                members, nets = drawn.members[some].copy(), drawn.nets[some]
                members[:, absent] = False
                others = np.clip(members.sum(axis=1)[:, None] - members, 0, d - k - 1)
                for inside in _sets(turns[some]):
                    members[:, absent] = inside
                    weights = drawn.weights[some, None] * shares[inside[0].sum()][others]
                    paid = weights[:, None, :] * self.marginals.of(filled[rows], members)
                    np.add.at(found, (nets[:, None], rows[None, :]), paid)
        return found


def _sets(turns: Positions) -> Iterator[Mask]:
    """Sets of missing features that are paid in each coalition, (coalitions, k), one size after the other."""
    n, k = turns.shape
    if k <= MOST_IN_ALL_SETS:
        yield from (np.tile(np.array(inside, dtype=bool), (n, 1)) for inside in np.ndindex((2,) * k))
    else:
        yield from (np.argsort(turns, axis=1) < r for r in range(k + 1))
