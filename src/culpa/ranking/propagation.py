"""Where did a fault enter that then travelled through the process? Log-odds of every feature, without a flow sheet.

In a linear process every feature is a sum of its causes and an error of its own. If the features are taken in an order with
causes before effects, whitening a normal row N(0, C) by the Cholesky factor L of C in that order gives back the errors, in
standard deviations: w = L^-1 x. A fault that enters at one feature and travels on leaves *one* large entry there. In an
unsuitable order it leaves several smaller ones. The sum of w^2 is the same for every order, the Mahalanobis distance. So

    evidence that the fault entered at j, in order o = exp(w_oj^2 / 2),

the likelihood of a free error at j and normal errors elsewhere, compares orders and features alike. It is averaged over
random orders, because the right one is unknown. For several rows of one incident, w^2 is first summed over the rows: the
feature and the order are the same in all of them, the size of the fault is not.

Use it for faults of the process that enter at one feature, such as a feed that fails: what moves follows the normal
correlations from there on. A single wrong sensor is found as well, by the orders in which all others explain it. It is not
for faults that enter in several places, or for several wrong sensors ("fault-odds" weighs sets of features). The result
ranks features and is not a calibrated probability: faults may have any size.

References
----------
Li, Chu, Scheller, Gagneur and Maathuis (2024), "Root cause discovery via permutations and Cholesky decomposition", who
show that the feature can be identified, and search for suitable orders instead of averaging.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np

from culpa._core.types import Floats, Positions

N_ORDERS = 200
_SEED = 0
_CELLS_PER_CHUNK = 1 << 21  # numbers held at a time


def entry_log_odds(X: Floats, root: Floats) -> Floats:
    """Log-odds that the fault of each centred row entered at each feature, (n, d).

    ``root`` is a root F of the Mahalanobis distance: C^-1 = F^T F. The odds are against all other features and no fault.

    >>> import numpy as np
    >>> effect = 2.0  # of the first feature on the second
    >>> F = np.array([[1.0, 0.0], [-effect, 1.0]])  # recovers the errors of both
    >>> odds = entry_log_odds(np.array([[5.0, 5.0 * effect], [0.0, 5.0]]), F)
    >>> odds.argmax(axis=1).tolist()
    [0, 1]
    """
    d = X.shape[1]
    largest, total = np.zeros((len(X), d)), np.zeros((len(X), d))
    triangle = _triangle(root)
    for orders, factors in _factors(triangle, _orders(d)):
        step = max(1, _CELLS_PER_CHUNK // (len(orders) * d))
        for rows in (slice(start, start + step) for start in range(0, len(X), step)):
            evidence = _squares(X[rows], orders, factors) / 2  # (orders, d, rows)
            top = np.maximum(largest[rows], evidence.max(axis=0).T)
            total[rows] *= np.exp(largest[rows] - top)
            total[rows] += np.exp(evidence - top.T).sum(axis=0).T
            largest[rows] = top
    return _log_odds(largest + np.log(total / N_ORDERS))


def shared_entry_log_odds(parts: Iterable[tuple[Floats, Floats, Positions]], n_features: int) -> Floats:
    """The same for the rows of one incident together, (n_features,); NaN for features that no row has.

    A part is what rows with the same features observed have: rows (n, k), a root (m, k), and the positions of the features.
    """
    squares = np.zeros((N_ORDERS, n_features))
    seen = np.zeros(n_features, dtype=np.bool_)
    orders = _orders(n_features)
    for rows, root, observed in parts:
        seen[observed] = True
        place = np.full(n_features, -1)
        place[observed] = np.arange(len(observed))
        here = place[orders]
        triangle, done = _triangle(root), 0
        for some, factors in _factors(triangle, here[here >= 0].reshape(N_ORDERS, len(observed))):
            squares[done : done + len(some), observed] += _squares(rows, some, factors).sum(axis=2)
            done += len(some)
    result = np.full(n_features, np.nan)
    evidence = squares[:, seen] / 2
    top = evidence.max(axis=0)
    result[seen] = _log_odds((top + np.log(np.exp(evidence - top).mean(axis=0)))[None])[0]
    return result


@lru_cache(maxsize=8)
def _orders(d: int) -> Positions:
    rng = np.random.default_rng(_SEED)
    return rng.permuted(np.tile(np.arange(d), (N_ORDERS, 1)), axis=1)


def _factors(triangle: Floats, orders: Positions) -> Iterator[tuple[Positions, Floats]]:
    """Whitening factors (orders, d, d) of the features in each order, some orders at a time.

    The first feature of an order is whitened by all others, the last one by its own standard deviation. QR of the root
    never fails and keeps digits that a Cholesky factor of C or C^-1 would lose.
    """
    step = max(1, _CELLS_PER_CHUNK // max(1, orders.shape[1] ** 2))
    for start in range(0, len(orders), step):
        some = orders[start : start + step]
        yield some, _triangle(np.moveaxis(triangle[:, some], 1, 0))


def _squares(X: Floats, orders: Positions, factors: Floats) -> Floats:
    """Squared whitened entries by feature, (orders, d, n)."""
    white = factors @ X.T[orders]
    return np.asarray(np.take_along_axis(white, np.argsort(orders, axis=1)[:, :, None], axis=1) ** 2)


def _log_odds(evidence: Floats) -> Floats:
    """Log of each evidence over all others in its row and the 1 of no fault, from the logs of evidence (n, d)."""
    n, d = evidence.shape
    everything = np.hstack([evidence, np.zeros((n, 1))])
    largest = everything.max(axis=1, keepdims=True)
    weights = np.exp(everything - largest)
    first = np.arange(n), everything.argmax(axis=1)
    with np.errstate(divide="ignore"):  # of the likeliest, which is next
        others = largest + np.log(weights.sum(axis=1, keepdims=True) - weights)
    # the sum without its largest term would lose the digits of the rest
    rest = everything.copy()
    rest[first] = -np.inf
    others[first] = np.logaddexp.reduce(rest, axis=1)
    return np.asarray((everything - others)[:, :d])


def _triangle(root: Floats) -> Floats:
    """The triangular root of the same form, also of several roots (..., m, d)."""
    return np.asarray(np.linalg.qr(root, mode="r"))
