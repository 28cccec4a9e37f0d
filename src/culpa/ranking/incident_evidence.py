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

The weights are measured: `culpa reproduce culprits` compares these rankings with others on known incidents.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats

FADING = 50.0  # rows after the onset in which the weight of a row falls to 1 / e
_MOST_FEATURES = 3
_WORTH_ADDING = 0.02  # of the excess, from which another feature is added
_UNKNOWN = 1e-9  # precision of a standardised feature that was eliminated


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
    >>> row = np.array([[6.0, 0.0, 0.0, 0.0, 0.0]])
    >>> explained_by_few(row, np.eye(5), [[j] for j in range(5)])
    Explained(share=1.0, players=(0,), excess=31.0)
    """
    r = Z @ precision
    excess = float((r * Z).sum() - len(Z) * Z.shape[1])
    G = r.T @ r
    chosen: tuple[int, ...] = ()
    P, best = precision.copy(), 0.0
    while len(chosen) < min(_MOST_FEATURES, len(players) - 1):
        gains = _falls(G, P, players)
        gains[list(chosen)] = -np.inf
        k = int(np.argmax(gains))
        if chosen and gains[k] < _WORTH_ADDING * abs(excess):
            break
        chosen, best = (*chosen, k), best + float(gains[k])
        G, P = _without(G, P, list(players[k]))
    return Explained(min(best / excess, 1.0) if excess > 0 else np.nan, chosen, excess)


def _falls(G: Floats, P: Floats, players: Sequence[Sequence[int]]) -> Floats:
    """tr(P_BB^-1 G_BB) of every player's block B; 0 for features that P no longer knows."""
    if all(len(player) == 1 for player in players):
        at = [player[0] for player in players]
        known = np.diag(P)[at] > _UNKNOWN
        return np.divide(np.diag(G)[at], np.diag(P)[at], out=np.zeros(len(at)), where=known)
    blocks = [np.ix_(player, player) for player in players]
    return np.array([float(np.trace(np.linalg.pinv(P[block], hermitian=True) @ G[block])) for block in blocks])


def _without(G: Floats, P: Floats, block: list[int]) -> tuple[Floats, Floats]:
    """G and P once a block of features takes the values that suit the others best: both lose it by elimination."""
    gain = P[:, block] @ np.linalg.pinv(P[np.ix_(block, block)], hermitian=True)
    shared = gain @ G[block]
    return G - shared - shared.T + gain @ G[np.ix_(block, block)] @ gain.T, P - gain @ P[block]
