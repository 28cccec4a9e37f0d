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

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

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
    return FaultEvidence(precision, spread).log_odds(X)


class FaultEvidence:
    """The evidence of rows for every small set of faulty features, prepared once for many rows.

    ``precision`` is C^-1, ``spread`` the standard deviation of each feature.
    """

    def __init__(self, precision: Floats, spread: Floats) -> None:
        self._precision, self._size = precision, FAULT_SIZE * spread
        self._forms = _evidence_forms(precision * np.outer(self._size, self._size))

    def log_odds(self, X: Floats) -> Floats:
        """That each feature is at fault, row by row, (n, d)."""
        response = X @ self._precision
        r = response * self._size
        step = max(1, _CELLS_PER_CHUNK // len(self._forms.prior))
        parts = [_log_odds(_evidence(r[at : at + step], self._forms), X.shape[1]) for at in range(0, len(X), step)]
        if not parts:
            return np.zeros_like(X)
        odds = np.concatenate(parts)
        # who reads what all others imply to the last digit is not at fault: so do columns that never change
        sound = np.abs(response) < _TO_THE_LAST_DIGIT * np.sqrt(np.diag(self._precision))
        return np.where(sound, odds.min(axis=1, keepdims=True), odds)

    def shared(self, X: Floats, dependence: float = 1.0) -> "SharedFaults":
        """Of rows that share their faults; ``dependence`` is how many of them are worth one independent row."""
        r = X @ self._precision * self._size
        first, second = np.triu_indices(X.shape[1])
        ratios = self._forms.forms @ (r.T @ r)[first, second] - len(X) * self._forms.log_det
        return SharedFaults(np.asarray(ratios / dependence + self._forms.prior), X.shape[1])


@lru_cache(maxsize=4)
def _sets(d: int) -> list[NDArray[np.intp]]:
    """All sets of one, two and perhaps three features, an array (sets, size) per size."""
    sizes = [k for k in range(1, min(_MOST_FAULTS, d) + 1) if sum(comb(d, j) for j in range(1, k + 1)) <= _MOST_SETS]
    return [np.array(list(combinations(range(d), k)), dtype=np.intp) for k in sizes or [1]]


def _membership(d: int) -> Any:
    """Which features are in which set, (1 + sets, d) of 0 and 1; the first set is empty."""
    return _membership_of_sizes(d, tuple(members.shape[1] for members in _sets(d)))


@lru_cache(maxsize=4)
def _membership_of_sizes(d: int, sizes: tuple[int, ...]) -> Any:
    from scipy import sparse  # takes a tenth of a second to load

    blocks = [sparse.csr_array((1, d))]
    for size in sizes:
        members = np.array(list(combinations(range(d), size)), dtype=np.intp)
        at = np.repeat(np.arange(len(members)), members.shape[1])
        blocks.append(sparse.csr_array((np.ones(members.size), (at, members.ravel())), shape=(len(members), d)))
    return sparse.vstack(blocks, format="csr")


class _Forms(NamedTuple):
    """Log of prior odds times likelihood ratio against nobody, for every set of features, as quadratic forms in r.

    ``forms`` has coefficients of the products r_a r_b, a <= b, (1 + sets, products); the rest is (1 + sets,).
    """

    forms: Any
    log_det: Floats
    prior: Floats


def _evidence_forms(M: Floats) -> _Forms:
    d = len(M)
    product = np.zeros((d, d), dtype=np.intp)
    product[np.triu_indices(d)] = np.arange(d * (d + 1) // 2)
    from scipy import sparse

    blocks, log_det, prior = [sparse.csr_array((1, d * (d + 1) // 2))], [np.zeros(1)], [np.zeros(1)]
    for members in _sets(d):
        m, k = members.shape
        block = np.eye(k) + M[members[:, :, None], members[:, None, :]]
        a, b = np.triu_indices(k)
        factors = np.linalg.inv(block)[:, a, b] * np.where(a == b, 0.5, 1.0)
        where = np.repeat(np.arange(m), len(a)), product[members[:, a], members[:, b]].ravel()
        blocks.append(sparse.csr_array((factors.ravel(), where), shape=(m, d * (d + 1) // 2)))
        log_det.append(0.5 * np.linalg.slogdet(block)[1])
        prior.append(np.full(m, k * np.log(PRIOR_ODDS)))
    return _Forms(sparse.vstack(blocks, format="csr"), np.concatenate(log_det), np.concatenate(prior))


def _evidence(r: Floats, forms: _Forms) -> Floats:
    """Of every set in every row, (1 + sets, n)."""
    first, second = np.triu_indices(r.shape[1])
    return np.asarray(forms.forms @ (r.T[first] * r.T[second]) + (forms.prior - forms.log_det)[:, None])


@dataclass(frozen=True, eq=False)
class SharedFaults:
    """Evidence of rows that share their faults: the same features are at fault in all of them, whatever their errors.

    The log-likelihood ratios of the rows add up, and the prior counts once. Rows that resemble each other are worth fewer
    independent ones.

    >>> import numpy as np
    >>> rows = np.array([[0.0, 0.1, 5.0], [0.2, 0.0, 4.0]])
    >>> faults = FaultEvidence(np.eye(3), np.ones(3)).shared(rows)
    >>> faults.likeliest, faults.probability.round(2).tolist()
    ((2,), [0.02, 0.02, 1.0])
    """

    evidence: Floats  # of no fault, then of every set
    d: int

    @property
    def log_odds(self) -> Floats:
        """That each feature is at fault, (d,)."""
        return np.asarray(_log_odds(self.evidence[:, None].copy(), self.d)[0])

    @property
    def probability(self) -> Floats:
        """That each feature is at fault, (d,)."""
        return np.asarray(special.expit(self.log_odds))

    @property
    def likeliest(self) -> tuple[int, ...]:
        """The set of features with the most evidence; empty where nobody is more likely to be at fault than any set."""
        return _members_of(int(self.evidence.argmax()), self.d)

    def loss_if_swapped(self, feature: int, other: int) -> float:
        """How much less evidence there is if ``other`` takes the place of ``feature`` in the likeliest set."""
        members = self.likeliest
        if other in members:
            return np.inf
        swapped = tuple(sorted({*members} - {feature} | {other}))
        return float(self.evidence.max() - self.evidence[_place_of(swapped, self.d)])


def _members_of(place: int, d: int) -> tuple[int, ...]:
    """The set at a place of the evidence; the first is empty."""
    place -= 1
    for sets in _sets(d):
        if 0 <= place < len(sets):
            return tuple(sets[place].tolist())
        place -= len(sets)
    return ()


def _place_of(members: tuple[int, ...], d: int) -> int:
    before = 1
    for sets in _sets(d):
        if sets.shape[1] == len(members):
            return before + int(np.flatnonzero((sets == np.array(members)).all(axis=1))[0])
        before += len(sets)
    return 0


def _log_odds(evidence: Floats, d: int) -> Floats:
    """Log-odds of each feature, (n, d), from the evidence of all sets, (1 + sets, n), which is overwritten."""
    n_sets = len(evidence)
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
        without = np.ones(n_sets, dtype=np.bool_)
        without[inside[:, [suspect]].nonzero()[0]] = False
        log_without[rows, suspect] = _log_sum(evidence[:, rows][without])
    return np.asarray(log_with - log_without)


def _log_sum(values: Floats) -> Floats:
    """Log of the sum of exponentials down columns."""
    largest = values.max(axis=0)
    return np.asarray(largest + np.log(np.exp(values - largest).sum(axis=0)))
