"""Maximum-likelihood PPCA with Student-t rows, by expectation-maximisation: loadings, mean, scale and degrees of freedom.

A Student-t row is a Gaussian row with a weight u of its own, x = b + (W z + noise) / sqrt(u), u ~ Gamma(nu / 2, nu / 2).
The weights and the missing cells are unknown. Given the expected weights w_i and the expected weighted scatter of all
cells, the best mean and scale matrix have a closed form, as those of PPCA. A step is

    w_i = (nu + k_i) / (nu + m_i)
    b   = sum w_i x_i / sum w_i
    S   = (sum w_i (x_i - b)(x_i - b)^T + sum V_i) / sum w_i,   W and noise from the eigenvalues of S

with k_i the number of observed cells of row i, m_i their squared distance, missing cells of x_i at their conditional mean,
and V_i their conditional covariance. To divide by the sum of the weights instead of the number of rows is parameter
expansion: it takes fewer steps, and the likelihood still never decreases. Degrees of freedom maximise the likelihood given
the distances.

References
----------
Liu and Rubin (1995), "ML estimation of the t distribution using EM and its extensions, ECM and ECME". Liu, Rubin and Wu
(1998), "Parameter expansion to accelerate EM: the PX-EM algorithm".
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from culpa._core.types import Floats
from culpa.models.em import NothingVariesError, fill
from culpa.models.latent import LatentGaussian
from culpa.models.moments import mean_and_spread
from culpa.models.univariate import location_and_scale, wrap

# Degrees of freedom are sought in this range. Below, variances hardly exist; above, rows are as good as Gaussian.
FEWEST, MOST = 3.0, 1000.0
START = 5.0
_COLLAPSED = 1e-10  # variance relative to that of the first step, from which on nothing is left of it


class StudentResult(NamedTuple):
    """The model, with the rows' scale matrix as covariance, and how the iteration ended."""

    scale: LatentGaussian
    degrees_of_freedom: float
    n_iter: int
    converged: bool


class WeightedRows(NamedTuple):
    """Rows with their missing cells filled in, the sum of these cells' covariances, and the rows' expected weights."""

    filled: Floats
    uncertainty: Floats
    weights: Floats

    @property
    def mean(self) -> Floats:
        """Of the weighted rows."""
        return np.asarray(self.weights @ self.filled / self.weights.sum())

    @property
    def scatter(self) -> Floats:
        """Their scatter matrix, (d, d)."""
        centred = self.filled - self.mean
        return np.asarray((self.weights[:, None] * centred).T @ centred + self.uncertainty)


def student_em(
    X: Floats, start: LatentGaussian, degrees_of_freedom: float | None, *, nu: float = START, max_iter: int, tol: float
) -> StudentResult:
    """Improve ``start`` until the parameters move by less than ``tol`` (relative), or ``max_iter`` is reached.

    ``degrees_of_freedom`` are kept if they are given, and otherwise estimated from ``nu`` on. ``start`` has the rows' scale
    matrix as its covariance. The result has divisor n; callers rescale.
    """
    hidden = np.isnan(X)
    observed = (~hidden).sum(axis=1)
    model, first = start, 0.0
    nu = nu if degrees_of_freedom is None else degrees_of_freedom
    for iteration in range(1, max_iter + 1):
        filled, uncertainty = _filled(X, hidden, model)
        distance = model.squared_distance(filled)
        before = nu
        if degrees_of_freedom is None:
            nu = _best_degrees(distance, observed, nu)
        rows = WeightedRows(filled, uncertainty, (nu + observed) / (nu + distance))
        better = LatentGaussian.from_covariance(rows.scatter / rows.weights.sum(), start.n_components, rows.mean)
        largest = _largest_variance(better)
        first = first or largest
        if not largest > _COLLAPSED * first:
            raise NothingVariesError(
                "most rows of X are equal, so a Student model of them has no spread: leave out columns that hardly ever "
                "change, or fit a Gaussian model."
            )
        size = np.linalg.norm(model.covariance)
        moved = np.linalg.norm(better.covariance - model.covariance)
        moved_mean = np.linalg.norm(better.mean - model.mean)
        model = better
        if moved <= tol * size and moved_mean <= tol * np.sqrt(size) and abs(1 / nu - 1 / before) <= tol:
            return StudentResult(model, nu, iteration, True)
    return StudentResult(model, nu, max_iter, False)


def weighted_rows(X: Floats, scale: LatentGaussian, nu: float) -> WeightedRows:
    """What a model expects of rows and their weights."""
    hidden = np.isnan(X)
    filled, uncertainty = _filled(X, hidden, scale)
    weights = (nu + (~hidden).sum(axis=1)) / (nu + scale.squared_distance(filled))
    return WeightedRows(filled, uncertainty, weights)


def robust_start(X: Floats, n_components: int) -> LatentGaussian:
    """A first model that outlying cells hardly change: robust scales, and correlations of wrapped cells."""
    location, scale = location_and_scale(X)
    mean, spread = mean_and_spread(X)
    varies = scale > 0
    location, scale = np.where(varies, location, mean), np.where(varies, scale, spread)
    wrapped = wrap((X - location) / scale)
    covariance = wrapped.T @ wrapped / len(X) * np.outer(scale, scale)
    return LatentGaussian.from_covariance(covariance, n_components, location)


def _filled(X: Floats, hidden: NDArray[np.bool_], model: LatentGaussian) -> tuple[Floats, Floats]:
    """Rows without missing cells, at whose places the distance of the others is least; and what is uncertain about them."""
    incomplete = hidden.any(axis=1)
    filled = X.copy()
    filled[incomplete], uncertainty = fill(X[incomplete], hidden[incomplete], model)
    return filled, uncertainty


def _largest_variance(model: LatentGaussian) -> float:
    return float((model.loadings**2).sum(axis=0).max(initial=0.0)) + float(model.noise_variance)


def _best_degrees(distance: Floats, observed: NDArray[np.int64], nu: float) -> float:
    """The degrees of freedom with the highest likelihood, given distances; never worse than ``nu``."""
    seen = observed > 0
    m, (k, which) = distance[seen], np.unique(observed[seen], return_inverse=True)
    counts = np.bincount(which, minlength=len(k)).astype(np.float64)
    k_of_row = k[which].astype(np.float64)

    def likelihood(nu: float) -> float:
        by_count = special.gammaln((nu + k) / 2) - special.gammaln(nu / 2) - k / 2 * np.log(nu)
        return float(counts @ by_count - ((nu + k_of_row) / 2 * np.log1p(m / nu)).sum())

    def slope(log_nu: float) -> float:
        nu = float(np.exp(log_nu))
        by_count = special.digamma((nu + k) / 2) - special.digamma(nu / 2) - k / nu
        return float(counts @ by_count + ((nu + k_of_row) * m / (nu * (nu + m)) - np.log1p(m / nu)).sum())

    low, high = np.log(FEWEST), np.log(MOST)
    if slope(low) <= 0:
        best = FEWEST
    elif slope(high) >= 0:
        best = MOST
    else:
        best = float(np.exp(optimize.brentq(slope, low, high, xtol=1e-12)))
    return best if likelihood(best) >= likelihood(nu) else nu
