"""Which features are at fault? Their log-odds, by adding up every small set of features that might be.

A faulty feature shows its true value plus an error of its own. With faults F, a normal row N(0, C) becomes
N(0, C + E_F), E_F the variances of the errors of F on the diagonal. By Woodbury's formula, against no fault at all,

    log p(x | F) / p(x | nobody) = r_F^T (I + M_FF)^-1 r_F / 2 - log det(I + M_FF) / 2

with M = T C^-1 T, r = T C^-1 x and T the standard deviations of the errors. Weighed by the prior odds of every feature
in F and summed over all F with and without feature j, this gives the odds that j is at fault. For a single fault of
unknown size, they depend on how much the Mahalanobis distance falls if the feature is left out, plus a correction for how
well the other features predict it. That fall alone is misleading if there are two faults: a fault can make a healthy
feature look faulty, or hide a second fault. The sum over all F takes both into account.

References
----------
Box and Tiao (1968), "A Bayesian approach to some outlier problems".
"""

from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from culpa._core.types import Floats

FAULT_SIZE = 2.0  # standard deviation of a fault's error, in standard deviations of the feature
PRIOR_ODDS = 0.1  # of a feature to be at fault, before anything is known about the row
# Faults at once: as many, up to three, as this many sets allow: three up to 44 features, two up to 172.
_MOST_FAULTS, _MOST_SETS = 3, 15_000
_CELLS_PER_CHUNK = 1 << 22  # numbers held at a time
_TO_THE_LAST_DIGIT = 1e-6  # standard deviations given all other features
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
    forms, prior = _evidence_forms(precision * np.outer(size, size))
    r = X @ precision * size
    step = max(1, _CELLS_PER_CHUNK // len(prior))
    parts = [_log_odds(r[at : at + step], forms, prior) for at in range(0, len(X), step)]
    if not parts:
        return np.zeros_like(X)
    odds = np.concatenate(parts)
    # a feature that agrees with all others to the last digit is not at fault, for example a column that never changes
    sound = np.abs(X @ precision) < _TO_THE_LAST_DIGIT * np.sqrt(np.diag(precision))
    return np.where(sound, odds.min(axis=1, keepdims=True), odds)


@lru_cache(maxsize=4)
def _sets(d: int) -> list[NDArray[np.intp]]:
    """All sets of one, two and perhaps three features, an array (sets, size) per size."""
    sizes = [k for k in range(1, min(_MOST_FAULTS, d) + 1) if sum(comb(d, j) for j in range(1, k + 1)) <= _MOST_SETS]
    return [np.array(list(combinations(range(d), k)), dtype=np.intp) for k in sizes or [1]]


def _membership(d: int) -> Any:
    """Which features are in which set, (1 + sets, d) of 0 and 1; the first set is empty."""
    blocks = [sparse.csr_array((1, d))]
    for members in _sets(d):
        at = np.repeat(np.arange(len(members)), members.shape[1])
        blocks.append(sparse.csr_array((np.ones(members.size), (at, members.ravel())), shape=(len(members), d)))
    return sparse.vstack(blocks, format="csr")


def _evidence_forms(M: Floats) -> tuple[Any, Floats]:
    """Log of prior odds times likelihood ratio against nobody, as quadratic forms in r.

    Returns coefficients of the products r_a r_b, a <= b, (1 + sets, products), and constants (1 + sets,).
    """
    d = len(M)
    product = np.zeros((d, d), dtype=np.intp)
    product[np.triu_indices(d)] = np.arange(d * (d + 1) // 2)
    blocks, constants = [sparse.csr_array((1, d * (d + 1) // 2))], [np.zeros(1)]
    for members in _sets(d):
        m, k = members.shape
        block = np.eye(k) + M[members[:, :, None], members[:, None, :]]
        a, b = np.triu_indices(k)
        factors = np.linalg.inv(block)[:, a, b] * np.where(a == b, 0.5, 1.0)
        where = np.repeat(np.arange(m), len(a)), product[members[:, a], members[:, b]].ravel()
        blocks.append(sparse.csr_array((factors.ravel(), where), shape=(m, d * (d + 1) // 2)))
        constants.append(k * np.log(PRIOR_ODDS) - 0.5 * np.linalg.slogdet(block)[1])
    return sparse.vstack(blocks, format="csr"), np.concatenate(constants)


def _log_odds(r: Floats, forms: Any, constants: Floats) -> Floats:
    d = r.shape[1]
    first, second = np.triu_indices(d)
    evidence = forms @ (r.T[first] * r.T[second]) + constants[:, None]  # (1 + sets, n)
    evidence -= evidence.max(axis=0)
    inside = _membership(d)
    weight = np.exp(evidence)
    with_feature = (inside.T @ weight).T
    # the set of a feature alone stands in where all sets with it underflow
    log_with = np.where(with_feature > 0, np.log(np.maximum(with_feature, _TINY)), evidence[1 : d + 1].T)
    # a feature outside the likeliest set: the sets without it hold that one, so the difference loses nothing
    log_without = np.log(np.maximum(weight.sum(axis=0)[:, None] - with_feature, _TINY))
    likeliest = inside[evidence.argmax(axis=0)].toarray() > 0
    for suspect in np.flatnonzero(likeliest.any(axis=0)):
        rows = np.flatnonzero(likeliest[:, suspect])
        without = np.ones(len(constants), dtype=np.bool_)
        without[inside[:, [suspect]].nonzero()[0]] = False
        log_without[rows, suspect] = _log_sum(evidence[:, rows][without])
    return np.asarray(log_with - log_without)


def _log_sum(values: Floats) -> Floats:
    """Log of the sum of exponentials down columns."""
    largest = values.max(axis=0)
    return np.asarray(largest + np.log(np.exp(values - largest).sum(axis=0)))
