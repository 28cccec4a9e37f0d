"""Maximum-likelihood mixtures of PPCA by expectation-maximisation, for tables with missing cells.

Unknown are the modes of the rows and the missing cells, not the latent variables: given the expected mean and covariance
of each mode's rows, the best PPCA of the mode has a closed form. So the likelihood rises at every step, and steps do not
shrink with the noise.

The likelihood of a mixture has no upper bound: a mode that shrinks to a few rows gets an infinite density. Two bounds
prevent this. The noise of a mode is at least a small share of the variance of all rows, and a start that leaves a mode
with hardly more rows than components is given up.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

from culpa._core.types import Floats
from culpa.models.components import explaining
from culpa.models.distribution import Distribution
from culpa.models.em import Filled, Rows
from culpa.models.latent import LatentGaussian, shrunk
from culpa.models.mixture import LatentMixture

LEAST_NOISE = 1e-6  # of the mean variance of all rows, where there are several modes
_SPARE_ROWS = 2  # that a mode has at least beyond its number of components
_SHORT = 15  # steps after which starts are compared
_K_MEANS_STEPS = 50
_FEWEST_PAIRS = 30  # of successive rows of a mode, that tell how alike they are
_LARGEST_CORRELATION = 0.95
_APART = 6.0  # standard deviations between modes; between halves of one cloud there are fewer than four
_FEWEST_APART = 30  # rows of such a mode
_REVISIONS = 3  # of the numbers of components, where these follow from a share of the variance


class StarvedModeError(ValueError):
    """A mode has too few rows for its components."""


class Fitted(NamedTuple):
    """A mixture, what it was fitted to, and how the iteration went."""

    mixture: LatentMixture
    responsibilities: Floats
    log_likelihoods: tuple[float, ...]  # before each step of the last run
    converged: bool
    collapsed: bool  # whether the bound on the noise of a mode is all that keeps its density finite

    @property
    def log_likelihood(self) -> float:
        """Log-likelihood of all rows together."""
        return self.log_likelihoods[-1]


def moments(rows: Rows, weights: Floats, mode: LatentGaussian | None) -> tuple[Floats, Floats]:
    """Weighted mean and covariance; missing cells follow the mode given the others, or else are at their mean."""
    if mode is not None:
        return rows.moments(rows.filled(mode, weights), weights)
    seen, hidden = weights @ ~rows.hidden, rows.hidden[rows.incomplete]
    mean = weights @ np.where(rows.hidden, 0.0, rows.X) / np.where(seen > 0, seen, 1)
    mean = np.where(seen > 0, mean, np.nanmean(rows.X, axis=0))
    return rows.moments(Filled(np.where(hidden, mean, rows.X[rows.incomplete]), np.zeros((len(mean),) * 2)), weights)


def least_noise(rows: Rows, n_modes: int) -> float:
    """The smallest noise variance that a mode may have."""
    return LEAST_NOISE * float(np.nanvar(rows.X, axis=0).mean()) if n_modes > 1 else 0.0


def best_mode(
    mean: Floats, covariance: Floats, p: int, floor: float, *, noise: float = 1.0, shrinkage: float = 0.0
) -> LatentGaussian:
    """Maximum-likelihood PPCA of a covariance, with a noise variance of at least ``floor``."""
    variances, axes = linalg.eigh(shrunk(covariance, shrinkage) if shrinkage else covariance)
    variances, axes = np.maximum(variances[::-1], 0.0), axes[:, ::-1]
    left_over = max(noise * float(variances[p:].mean()), floor)
    return LatentGaussian.from_eigen(mean, axes[:, :p].T, variances[:p], left_over)


def em(
    rows: Rows,
    responsibilities: Floats,
    n_components: Sequence[int],
    *,
    floor: float,
    max_iter: int,
    tol: float,
    before: Distribution | None = None,
) -> Fitted:
    """Improve a mixture until the log-likelihood per row rises by no more than ``tol``.

    It starts from responsibilities; the mixture ``before``, if there is one, tells what missing cells are like.
    """
    mixture = _maximised(rows, responsibilities, n_components, floor, before)
    history: list[float] = []
    converged = False
    while True:
        log_joint = mixture.log_densities(rows.X) + np.log(mixture.weights)
        each = special.logsumexp(log_joint, axis=1)
        history.append(float(each.sum()))
        responsibilities = np.exp(log_joint - each[:, None])
        converged = len(history) > 1 and history[-1] - history[-2] <= tol * len(rows)
        if converged or len(history) > max_iter:
            break
        mixture = _maximised(rows, responsibilities, n_components, floor, mixture)
    lowest = min(float(mode.noise_variance) for mode in mixture.modes)
    return Fitted(mixture, responsibilities, tuple(history), converged, lowest <= floor * (1 + 1e-9))


def _maximised(
    rows: Rows, responsibilities: Floats, n_components: Sequence[int], floor: float, before: Distribution | None
) -> LatentMixture:
    counts = responsibilities.sum(axis=0)
    if (counts < np.array(n_components) + _SPARE_ROWS).any():
        raise StarvedModeError
    modes = []
    for k, p in enumerate(n_components):
        mean, covariance = moments(rows, responsibilities[:, k], None if before is None else before.modes[k])
        modes.append(best_mode(mean, covariance, p, floor))
    return LatentMixture(counts / counts.sum(), tuple(modes))


def choose_numbers(rows: Rows, responsibilities: Floats, share: float, mixture: Distribution | None) -> list[int]:
    """For each mode the smallest number of components that explains the share of its variance."""
    found = []
    for k, count in enumerate(responsibilities.sum(axis=0)):
        covariance = moments(rows, responsibilities[:, k], None if mixture is None else mixture.modes[k])[1]
        variances = np.maximum(linalg.eigvalsh(covariance)[::-1], 0.0)
        found.append(min(explaining(variances, share), max(1, min(int(count) - _SPARE_ROWS, len(variances) - 1))))
    return found


def starts(rows: Rows, n_modes: int, n_init: int, rng: np.random.Generator) -> Iterator[Floats]:
    """First responsibilities: modes around centres by k-means++, the first of them after k-means has moved the centres."""
    if n_modes == 1:
        yield np.ones((len(rows), 1))
        return
    mean, std = np.nanmean(rows.X, axis=0), np.nanstd(rows.X, axis=0)
    Z = np.where(rows.hidden, 0.0, (rows.X - mean) / np.where(std > 0, std, 1.0))
    for attempt in range(n_init):
        yield np.eye(n_modes)[_nearest(Z, n_modes, rng, steps=_K_MEANS_STEPS if attempt == 0 else 1)]


def _nearest(Z: Floats, k: int, rng: np.random.Generator, *, steps: int) -> NDArray[np.intp]:
    """The nearest of k centres for each row: drawn by k-means++, then moved to the means of their rows.

    It is not scikit-learn's, whose sums depend on the number of threads.
    """
    centres = Z[rng.integers(len(Z), size=1)]
    while len(centres) < k:
        nearest = _distances(Z, centres).min(axis=1)
        total = nearest.sum()
        chosen = rng.choice(len(Z), p=nearest / total) if total > 0 else rng.integers(len(Z))
        centres = np.vstack([centres, Z[chosen]])
    label = _distances(Z, centres).argmin(axis=1)
    for _ in range(steps):
        centres = np.array([Z[label == j].mean(axis=0) if (label == j).any() else centres[j] for j in range(k)])
        before, label = label, _distances(Z, centres).argmin(axis=1)
        if (label == before).all():
            break
    return np.asarray(label)


def _distances(Z: Floats, centres: Floats) -> Floats:
    """Squared distances of rows to centres, (n, k)."""
    squares = (Z**2).sum(axis=1)[:, None] - 2 * Z @ centres.T + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(squares, 0.0))


def fit_modes(
    X: Floats,
    n_modes: int,
    wanted: float | Sequence[int],
    *,
    n_init: int,
    max_iter: int,
    tol: float,
    seed: int,
) -> Fitted:
    """The most likely mixture of so many modes, from several starts; ``wanted`` are numbers of components or a share."""
    rows, rng = Rows(X), np.random.default_rng(seed)
    floor = least_noise(rows, n_modes)
    found: list[tuple[Fitted, list[int]]] = []
    for first in starts(rows, n_modes, n_init, rng):
        try:
            numbers = choose_numbers(rows, first, wanted, None) if isinstance(wanted, float) else list(wanted)
            short = em(rows, first, numbers, floor=floor, max_iter=_SHORT, tol=tol)
        except StarvedModeError:
            continue
        found.append((short, numbers))
    if not found:
        raise StarvedModeError(_starved(len(X), n_modes))
    best, numbers = min(found, key=lambda pair: (pair[0].collapsed, -pair[0].log_likelihood))
    for _ in range(_REVISIONS if isinstance(wanted, float) else 1):
        before = numbers
        if isinstance(wanted, float):
            numbers = choose_numbers(rows, best.responsibilities, wanted, best.mixture)
        if numbers == before and best.converged:
            break
        best = _continued(rows, best, numbers, floor=floor, max_iter=max_iter, tol=tol)
    return best


def _continued(rows: Rows, best: Fitted, numbers: list[int], *, floor: float, max_iter: int, tol: float) -> Fitted:
    try:
        return em(rows, best.responsibilities, numbers, floor=floor, max_iter=max_iter, tol=tol, before=best.mixture)
    except StarvedModeError:
        raise StarvedModeError(_starved(len(rows), len(numbers))) from None


def finished(rows: Rows, found: Fitted, *, noise: float = 1.0, shrinkage: float = 0.0) -> tuple[LatentMixture, Floats]:
    """The mixture with divisor n - 1, and the covariance of each mode's rows; n is the sum of its responsibilities."""
    modes, covariances, shares = [], [], found.responsibilities.sum(axis=0)
    floor = least_noise(rows, len(shares))
    for k, mode in enumerate(found.mixture.modes):
        mean, covariance = moments(rows, found.responsibilities[:, k], mode)
        covariances.append(covariance * (shares[k] / (shares[k] - 1)))
        modes.append(best_mode(mean, covariances[k], mode.n_components, floor, noise=noise, shrinkage=shrinkage))
    return LatentMixture(shares / shares.sum(), tuple(modes)), np.array(covariances)


def refined(
    X: Floats, mixture: Distribution, *, steps: int, noise: float = 1.0, shrinkage: float = 0.0
) -> LatentMixture:
    """A mixture of similar rows after a few steps on these rows; its modes stay in their order."""
    rows = Rows(X)
    floor = least_noise(rows, mixture.n_modes)
    numbers = [mode.n_components for mode in mixture.modes]
    first = mixture.responsibilities(X)
    found = em(rows, first, numbers, floor=floor, max_iter=steps, tol=0.0, before=mixture)
    return finished(rows, found, noise=noise, shrinkage=shrinkage)[0]


def _starved(n_rows: int, n_modes: int) -> str:
    return (
        f"{n_rows:,} rows are too few, or too much alike, for {n_modes} modes: from every start, a mode was left with "
        "hardly more rows than components. Ask for fewer modes or fewer components, or pass more rows."
    )


def are_apart(fitted: Fitted) -> bool:
    """Whether a gap is between any two modes, so that slow changes within one mode cannot have made them.

    Along the difference of two means, in units of the variances within, modes are so many standard deviations apart.
    Halves of a uniform cloud are 3.5 apart, and those of a normal one 2.7.
    """
    modes, fewest = fitted.mixture.modes, max(_FEWEST_APART, fitted.mixture.n_features + 1)
    if fitted.responsibilities.sum(axis=0).min() < fewest:
        return False
    for first, second in combinations(modes, 2):
        difference = first.mean - second.mean
        axis = difference / np.maximum(first.variances + second.variances, np.finfo(np.float64).tiny)
        along = [max(float(axis @ mode.covariance @ axis), 0.0) for mode in (first, second)]  # variances
        if not difference @ axis >= _APART * np.sqrt(along).mean():
            return False
    return True


def n_parameters(n_features: int, n_components: Sequence[int]) -> int:
    """Free parameters of a mixture of PPCA: weights, means, loadings up to rotations, and noise variances."""
    d = n_features
    return len(n_components) - 1 + sum(d + d * p - p * (p - 1) // 2 + 1 for p in n_components)


def bic(fitted: Fitted, n_rows: int, dependence: float = 1.0) -> float:
    """Bayesian information criterion; the lowest is best (Schwarz, 1978).

    If ``dependence`` rows are worth one independent row, likelihood and number of rows count by so much less.
    """
    numbers = [mode.n_components for mode in fitted.mixture.modes]
    penalty = n_parameters(fitted.mixture.n_features, numbers) * float(np.log(max(n_rows / dependence, 2.0)))
    return -2 * fitted.log_likelihood / dependence + penalty


def dependence(X: Floats, fitted: Fitted) -> float:
    """How many successive rows are worth one independent row: (1 + r) / (1 - r), as for autoregressive rows.

    r is the largest correlation of a latent variable with itself one row later, within modes. Without it, slow changes
    within a mode would pass for further modes.
    """
    which, largest = fitted.responsibilities.argmax(axis=1), 0.0
    for k, mode in enumerate(fitted.mixture.modes):
        first = np.flatnonzero((which[:-1] == k) & (which[1:] == k))
        if len(first) < _FEWEST_PAIRS:
            continue
        z = mode.latent(X)
        now, next_ = z[first] - z[first].mean(axis=0), z[first + 1] - z[first + 1].mean(axis=0)
        size = np.sqrt((now**2).sum(axis=0) * (next_**2).sum(axis=0))
        largest = max(largest, float(((now * next_).sum(axis=0) / np.where(size > 0, size, 1.0)).max(initial=0.0)))
    r = min(largest, _LARGEST_CORRELATION)
    return (1 + r) / (1 - r)
