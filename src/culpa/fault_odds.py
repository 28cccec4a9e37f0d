"""Which features are at fault? Their log-odds, by adding up every small set of features that might be.

A faulty feature shows its true value plus an error of its own. With faults F, a normal row N(0, C) becomes
N(0, C + E_F), E_F the variances of the errors of F on the diagonal. By Woodbury's formula, against no fault at all,

    log p(x | F) / p(x | nobody) = r_F^T (I + M_FF)^-1 r_F / 2 - log det(I + M_FF) / 2

with M = T C^-1 T, r = T C^-1 x and T the standard deviations of the errors. Weighed by the prior odds of every feature
in F and summed over all F with and without feature j, this gives the odds that j is at fault. For a single fault of
unknown size it is the Mahalanobis distance with the feature left out, plus a correction for how well the other features
know it. Unlike that distance it does not take the shadow of one fault for a second one, nor is a second one hidden by
the first.

References
----------
Box and Tiao (1968), "A Bayesian approach to some outlier problems".
"""

from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FAULT_SIZE = 2.0  # standard deviation of a fault's error, in standard deviations of the feature
PRIOR_ODDS = 0.1  # of a feature to be at fault, before anything is known about the row
# Faults at once: as many, up to three, as this many sets allow.
_MOST_FAULTS, _MOST_SETS = 3, 5_000
_AT_ONCE = 1 << 22  # numbers held at a time
_TINY = np.finfo(np.float64).tiny


def fault_log_odds(X: Floats, precision: Floats, spread: Floats) -> Floats:
    """Log-odds that each feature of centred rows is at fault, (n, d).

    ``precision`` is C^-1, ``spread`` the standard deviation of each feature.

    >>> import numpy as np
    >>> odds = fault_log_odds(np.array([[0.0, 0.0, 5.0]]), np.eye(3), np.ones(3))
    >>> (odds > 0).tolist()
    [[False, False, True]]
    """
    size = FAULT_SIZE * spread
    M = precision * np.outer(size, size)
    sets = _sets(len(M))
    step = max(1, _AT_ONCE // sum(map(len, sets)))
    parts = [_log_odds(X[at : at + step] @ precision * size, M, sets) for at in range(0, len(X), step)]
    return np.concatenate(parts) if parts else np.zeros_like(X)


@lru_cache(maxsize=4)
def _sets(d: int) -> list[NDArray[np.intp]]:
    """All sets of one, two and perhaps three features, an array (sets, size) per size."""
    sizes = [k for k in range(1, min(_MOST_FAULTS, d) + 1) if sum(comb(d, j) for j in range(1, k + 1)) <= _MOST_SETS]
    return [np.array(list(combinations(range(d), k)), dtype=np.intp) for k in sizes or [1]]


def _log_odds(r: Floats, M: Floats, sets: list[NDArray[np.intp]]) -> Floats:
    n, d = r.shape
    evidence = np.hstack([np.zeros((n, 1)), *(_evidence(r, M, members) for members in sets)])
    inside = np.zeros((evidence.shape[1], d))
    at = 1
    for members in sets:
        inside[np.arange(at, at + len(members))[:, None], members] = 1.0
        at += len(members)
    evidence -= evidence.max(axis=1, keepdims=True)
    weight = np.exp(evidence)
    total, with_feature = weight.sum(axis=1), weight @ inside
    # the set of a feature alone stands in where all sets with it underflow
    alone = evidence[:, 1 : d + 1]
    log_with = np.where(with_feature > 0, np.log(np.maximum(with_feature, _TINY)), alone)
    # a feature outside the likeliest set: the sets without it hold that one, so the difference loses nothing
    log_without = np.log(np.maximum(total[:, None] - with_feature, _TINY))
    rows, suspects = inside[evidence.argmax(axis=1)].nonzero()
    for which in np.unique(suspects):
        at_rows = rows[suspects == which]
        log_without[at_rows, which] = _log_sum(evidence[at_rows][:, inside[:, which] == 0])
    return np.asarray(log_with - log_without)


def _evidence(r: Floats, M: Floats, members: NDArray[np.intp]) -> Floats:
    """Log of prior odds times likelihood ratio of every set against nobody, (n, sets)."""
    k = members.shape[1]
    block = np.eye(k) + M[members[:, :, None], members[:, None, :]]
    inverse, log_det = np.linalg.inv(block), np.linalg.slogdet(block)[1]
    result = np.broadcast_to(k * np.log(PRIOR_ODDS) - 0.5 * log_det, (len(r), len(members))).copy()
    for a in range(k):
        for b in range(a, k):
            factor = inverse[:, a, b] * (0.5 if a == b else 1.0)
            result += factor * r[:, members[:, a]] * r[:, members[:, b]]
    return result


def _log_sum(values: Floats) -> Floats:
    """Log of the sum of exponentials along rows."""
    largest = values.max(axis=1)
    return np.asarray(largest + np.log(np.exp(values - largest[:, None]).sum(axis=1)))
