"""The sums behind the forms of a sampling rule, on a GPU: see `culpa.shapley.forms.compile_rule`."""

from typing import Any, NamedTuple

import numpy as np

from culpa._core.types import Floats
from culpa._kernels.gpu_orders import OrdersOnGpu
from culpa.shapley.permutation import steps
from culpa.shapley.rules import Rule
from culpa.shapley.shares import Players, Progress

_NUMBERS = 1 << 27  # of weighted linear forms that are held at a time


class FormSums(NamedTuple):
    """Weighted sums over orders of products of linear forms, by player, and their unweighted total."""

    matrices: Floats  # (players, d, replicates, d)
    constants: Floats  # (replicates, players)
    total: Floats  # (d, d)
    total_constant: float


def form_sums_on_gpu(walk: OrdersOnGpu, players: Players, rule: Rule, progress: Progress | None) -> FormSums:
    """Sums of the products of the factors of every step; the walk's rows are those with 1 in one coordinate."""
    xp, d, n_replicates = walk.xp, walk.n_rows, rule.n_replicates
    player_of = np.zeros(d, dtype=np.intp)
    for place, player in enumerate(players):
        player_of[player] = place
    batch = max(1, _NUMBERS // (n_replicates * d**2))
    matrices: Any = xp.zeros((d, d, n_replicates * d))
    total: Any = xp.zeros((d, d))
    constants, total_constant = np.zeros((n_replicates, len(players))), 0.0
    members = sorted(feature for player in players for feature in player)
    for start in range(0, len(rule.orders), batch):
        which = slice(start, start + batch)
        delta, slope, constant = walk.factors(steps(players, rule.orders[which])[0])
        weights = rule.weights[:, which][:, :, player_of]  # (replicates, B, d)
        pay = xp.asarray(np.ascontiguousarray(weights.transpose(2, 1, 0)))
        weighted = (pay[:, :, :, None] * slope[:, :, None, :]).reshape(d, -1, n_replicates * d)
        matrices += xp.matmul(delta.transpose(0, 2, 1), weighted)
        total += xp.matmul(delta.reshape(-1, d).T, slope.reshape(-1, d))
        rest = walk.to_numpy(constant)
        for feature in members:
            constants[:, player_of[feature]] += weights[:, :, feature] @ rest[feature]
        total_constant += float(rest.sum())
        if progress is not None:
            progress(min(1.0, (start + batch) / len(rule.orders)), None)
    by_feature = walk.to_numpy(matrices).reshape(d, d, n_replicates, d)
    result = np.zeros((len(players), d, n_replicates, d))
    np.add.at(result, player_of[members], by_feature[members])
    return FormSums(result, constants, walk.to_numpy(total), total_constant)
