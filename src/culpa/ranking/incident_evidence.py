"""What a stretch of rows says about its features: what moved, what stayed away, and whether a few features explain it.

With z a standardised row, u its movement (distance from the mean in units of what normal stretches reach, see
`culpa.models.normal_range`) and t the number of rows since the onset:

| evidence | formula | finds |
| --- | --- | --- |
| moved | max over rows of u exp(-t / 50) | everything that moved, early movers first |
| stayed | sum over rows of log(1 + u^2) exp(-t / 50) | what moved early and did not come back |
| explained | sum of |B^T R z|^2 / (sum of |R z|^2 - rows * d) | whether up to three features F explain the excess |

R is a root of the precision of normal rows, so that |R z|^2 is the squared Mahalanobis distance, and B an orthonormal basis
of its columns F. |B^T R z|^2 is how far the distance falls when the features F take the values that suit the other
features best. The precision itself would square the condition of R, and with it lose what nearly collinear columns say.

The weights are measured: `docs/culprits.md` compares these rankings with others on known incidents.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats

FADING = 50.0  # rows after the onset in which the weight of a row falls to 1 / e
_MOST_FEATURES = 3
_WORTH_ADDING = 0.02  # of the excess, from which another feature is added
_RANK = 1e-10  # of a column, below which nothing is left of it but rounding


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


def explained_by_few(Z: Floats, root: Floats, players: Sequence[Sequence[int]]) -> Explained:
    """How much of the rows' excess over normal rows up to three players explain; Z is complete.

    ``root`` (m, d) is R with |R z|^2 the squared Mahalanobis distance.

    >>> import numpy as np
    >>> row = np.array([[6.0, 0.0, 0.0, 0.0, 0.0]])
    >>> explained_by_few(row, np.eye(5), [[j] for j in range(5)])
    Explained(share=1.0, players=(0,), excess=31.0)
    """
    parts = Z @ root.T
    excess = float((parts**2).sum() - Z.size)
    sizes = np.linalg.norm(root, axis=0)
    columns = np.divide(root, sizes, out=np.zeros_like(root), where=sizes > 0)
    chosen: tuple[int, ...] = ()
    best = 0.0
    while len(chosen) < min(_MOST_FEATURES, len(players) - 1):
        gains = _falls(parts, columns, players)
        gains[list(chosen)] = -np.inf
        k = int(np.argmax(gains))
        if chosen and gains[k] < _WORTH_ADDING * abs(excess):
            break
        chosen, best = (*chosen, k), best + float(gains[k])
        basis = _basis(columns[:, list(players[k])])
        parts, columns = parts - parts @ basis @ basis.T, columns - basis @ (basis.T @ columns)
    return Explained(min(best / excess, 1.0) if excess > 0 else np.nan, chosen, excess)


def _falls(parts: Floats, columns: Floats, players: Sequence[Sequence[int]]) -> Floats:
    """How far the sum of squares falls with each player at its best values; 0 where nothing is left of its columns."""
    if all(len(player) == 1 for player in players):
        one = columns[:, [player[0] for player in players]]
        squares = (one**2).sum(axis=0)
        falls = ((parts @ one) ** 2).sum(axis=0)
        return np.asarray(np.divide(falls, squares, out=np.zeros(len(players)), where=squares > _RANK**2))
    return np.array([float(((parts @ _basis(columns[:, list(player)])) ** 2).sum()) for player in players])


def _basis(columns: Floats) -> Floats:
    """Orthonormal basis of columns of length 1 or of what was left of them, (m, rank)."""
    basis, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(basis[:, sizes > _RANK])
