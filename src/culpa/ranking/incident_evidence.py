"""What a stretch of rows says about its features: what moved, what stayed away, and whether a few features explain it.

With z a standardised row, u its movement (distance from the mean in units of what normal stretches reach, see
`culpa.models.normal_range`) and t the number of rows since the onset:

| evidence | formula | finds |
| --- | --- | --- |
| moved | max over rows of u exp(-t / 50) | everything that moved, early movers first |
| stayed | sum over rows of log(1 + u^2) exp(-t / 50) | what moved early and did not come back |
| explained | tr(P_FF^-1 G_FF) / (sum of z^T P z - rows * d) | whether a set F of up to three features explains the excess |

P is the precision of normal rows and G the sum of P z z^T P over the rows. tr(P_FF^-1 G_FF) is how far the sum of squared
Mahalanobis distances falls when the features F take, in every row, the values that suit the other features best.

The weights are measured: `culpa reproduce culprits` compares these rankings with others on real incidents.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats

FADING = 50.0  # rows after the onset in which the weight of a row falls to 1 / e
_MOST_FEATURES = 3


class Explained(NamedTuple):
    """The share of the excess that a few players explain, these players, and the excess itself."""

    share: float
    players: tuple[int, ...]
    excess: float


def weights_since_onset(n_rows_since: NDArray[np.int64]) -> Floats:
    """Weights of rows by the number of rows since the onset."""
    return np.asarray(np.exp(-np.maximum(n_rows_since, 0) / FADING))


def stayed(movement: Floats, weights: Floats) -> Floats:
    """The sum of weighted movements, each on a logarithmic scale, (d,)."""
    return np.asarray(np.nan_to_num(np.log1p(movement**2) * weights[:, None]).sum(axis=0))


def explained_by_few(Z: Floats, precision: Floats, players: Sequence[Sequence[int]]) -> Explained:
    """How much of the rows' excess over normal rows up to three players explain; Z is complete.

        >>> import numpy as np
    from numpy.typing import NDArray
        >>> row = np.array([[6.0, 0.0, 0.0, 0.0, 0.0]])
        >>> explained_by_few(row, np.eye(5), [[j] for j in range(5)])
        Explained(share=1.16..., players=(0,), excess=31.0)
    """
    r = Z @ precision
    excess = float((r * Z).sum() - len(Z) * Z.shape[1])
    G = r.T @ r
    chosen: tuple[int, ...] = ()
    best = 0.0
    while len(chosen) < min(_MOST_FEATURES, len(players) - 1):
        gains = {
            k: _fall(G, precision, [j for player in (*chosen, k) for j in players[player]])
            for k in range(len(players))
            if k not in chosen
        }
        k = max(gains, key=lambda player: gains[player])
        if chosen and gains[k] - best < 0.02 * abs(excess):
            break
        chosen, best = (*chosen, k), gains[k]
    return Explained(best / excess if excess > 0 else np.inf, chosen, excess)


def _fall(G: Floats, precision: Floats, block: list[int]) -> float:
    at = np.ix_(block, block)
    return float(np.trace(np.linalg.solve(precision[at], G[at])))
