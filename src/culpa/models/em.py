"""Maximum-likelihood PPCA by expectation-maximisation: missing cells, Gaussian or Student-t rows.

Only the missing cells count as unknown, not the latent variables: given the expected mean and covariance of all
cells, the best model has a closed form. So few missing cells take few steps, however small the noise; with the latent
variables as unknowns too, steps shrink with the noise variance.

A Student-t row is a Gaussian row with a weight u of its own, x = b + (W z + noise) / sqrt(u), u ~ Gamma(nu / 2, nu / 2).
The weights are unknown, too. A step is

    w_i = (nu + k_i) / (nu + m_i), or 1 for Gaussian rows
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

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from culpa._core.types import Floats, Mask
from culpa.models.latent import LatentGaussian

_CHUNK = 1 << 22  # numbers held at once for the rows' p x p moments
_FEW_HIDDEN = 12  # missing cells of a row up to which it pays to condition on the observed ones directly
_LEAST_NOISE = 1e-7  # of the largest variance of a component, below which the precision matrix would lose digits
# Degrees of freedom are sought in this range. Below, variances hardly exist; above, rows are as good as Gaussian.
FEWEST, MOST = 3.0, 1000.0
START = 5.0
_COLLAPSED = 1e-10  # variance relative to that of the first step, from which on nothing is left of it


class NothingVariesError(ValueError):
    """No column of the rows varies, or most rows are equal, so there is no model of them."""


class Filled(NamedTuple):
    """The incomplete rows with their missing cells at the conditional mean, and the sum of the conditional covariances."""

    rows: Floats
    uncertainty: Floats


class Rows:
    """Rows to learn from, some of whose cells may be missing; complete rows without weights are summed up once."""

    def __init__(self, X: Floats) -> None:
        self.X, self.hidden = X, np.isnan(X)
        self.incomplete = self.hidden.any(axis=1)
        self._complete, self._others = X[~self.incomplete], X[self.incomplete]
        self._others_hidden = self.hidden[self.incomplete]
        self._sums: tuple[Floats, Floats] | None = None

    def __len__(self) -> int:
        return len(self.X)

    def filled(self, model: LatentGaussian, weights: Floats | None = None) -> Filled:
        """What a model expects of missing cells given the others; ``weights`` of all rows weigh the covariances."""
        return fill(self._others, self._others_hidden, model, None if weights is None else weights[self.incomplete])

    def whole(self, filled: Filled) -> Floats:
        """All rows, with missing cells filled in by their expectation."""
        result = self.X.copy()
        result[self.incomplete] = filled.rows
        return result

    def moments(self, filled: Filled, weights: Floats | None = None) -> tuple[Floats, Floats]:
        """Mean and covariance of the rows, with the sum of their weights as divisor."""
        if weights is not None:
            own, others, total = weights[~self.incomplete], weights[self.incomplete], float(weights.sum())
            mean = (own @ self._complete + others @ filled.rows) / total
            scatter = filled.uncertainty.copy()
            for X, weight in ((self._complete, own), (filled.rows, others)):
                scatter += _scatter(np.sqrt(weight)[:, None] * (X - mean))
            return mean, scatter / total
        n = len(self._complete)
        reference, scatter = self._sums = self._sums or self._of_complete()
        mean = (n * reference + filled.rows.sum(axis=0)) / len(self)
        scatter = scatter + filled.uncertainty + _scatter(filled.rows - mean)
        return mean, np.asarray((scatter + n * np.outer(reference - mean, reference - mean)) / len(self))

    def _of_complete(self) -> tuple[Floats, Floats]:
        mean = self._complete.mean(axis=0) if len(self._complete) else np.zeros(self.X.shape[1])
        return mean, _scatter(self._complete - mean)


class EMResult(NamedTuple):
    """The model, and how the iteration ended.

    The covariance of ``model`` is that of Gaussian rows, and the scale matrix of Student-t rows. It has divisor n, as
    maximum likelihood does; callers rescale.
    """

    model: LatentGaussian
    degrees_of_freedom: float
    n_iter: int
    converged: bool


def em(
    X: Floats | Rows,
    start: LatentGaussian,
    *,
    max_iter: int,
    tol: float,
    degrees_of_freedom: float | None = math.inf,
    nu: float = START,
) -> EMResult:
    """Improve ``start`` until the parameters move by less than ``tol`` (relative), or ``max_iter`` is reached.

    ``degrees_of_freedom`` are kept if they are given, and otherwise estimated from ``nu`` on.
    """
    rows = X if isinstance(X, Rows) else Rows(X)
    model, first = start, 0.0
    nu = nu if degrees_of_freedom is None else degrees_of_freedom
    for iteration in range(1, max_iter + 1):
        filled, weights, before = rows.filled(model), None, nu
        if not math.isinf(nu):
            distance, seen = _distances(rows, filled, model)
            nu = _best_degrees(distance, seen, nu) if degrees_of_freedom is None else nu
            weights = (nu + seen) / (nu + distance)
        mean, covariance = rows.moments(filled, weights)
        better = LatentGaussian.from_covariance(covariance, start.n_components, mean)
        largest = float((better.loadings**2).sum(axis=0).max(initial=0.0)) + float(better.noise_variance)
        first = first or largest
        if weights is not None and not largest > _COLLAPSED * first:
            raise NothingVariesError(
                "most rows of X are equal, so a Student model of them has no spread: leave out columns that hardly ever "
                "change, or fit a Gaussian model."
            )
        size = np.linalg.norm(model.covariance)
        moved = np.linalg.norm(better.covariance - model.covariance)
        moved_mean = np.linalg.norm(better.mean - model.mean)
        model = better
        if moved <= tol * size and moved_mean <= tol * np.sqrt(size) and abs(1 / nu - 1 / before) <= tol:
            return EMResult(model, nu, iteration, True)
    return EMResult(model, nu, max_iter, False)


class Expected(NamedTuple):
    """What a model expects of rows: all of them filled in, their weights, and the mean and covariance of these."""

    rows: Floats
    weights: Floats
    mean: Floats
    covariance: Floats


def expected(X: Floats, model: LatentGaussian, nu: float = math.inf) -> Expected:
    """By a model as `em` finds it, of rows with so many degrees of freedom."""
    rows = Rows(X)
    filled = rows.filled(model)
    weights = None
    if not math.isinf(nu):
        distance, seen = _distances(rows, filled, model)
        weights = (nu + seen) / (nu + distance)
    return Expected(rows.whole(filled), np.ones(len(X)) if weights is None else weights, *rows.moments(filled, weights))


def _distances(rows: Rows, filled: Filled, model: LatentGaussian) -> tuple[Floats, NDArray[np.int64]]:
    """Squared distances of the rows' observed cells, and how many these are."""
    # missing cells are where the distance of the others is least
    return model.squared_distance(rows.whole(filled)), (~rows.hidden).sum(axis=1)


def fill(rows: Floats, hidden: Mask, model: LatentGaussian, weights: Floats | None = None) -> Filled:
    """Rows with their missing cells at the conditional mean, and the (weighted) sum of the conditional covariances."""
    filled, uncertainty = np.empty_like(rows), np.zeros((rows.shape[1], rows.shape[1]))
    weights = np.ones(len(rows)) if weights is None else weights
    few = hidden.sum(axis=1) <= _FEW_HIDDEN if _is_well_conditioned(model) else np.zeros(len(rows), bool)
    for some, way in ((few, _fill_few), (~few, _fill_many)):
        filled[some] = way(rows[some], hidden[some], weights[some], model, uncertainty)
    return Filled(filled, uncertainty)


def posterior(centred: Floats, observed: Mask, model: LatentGaussian) -> tuple[Floats, Floats]:
    """Mean (n, p) and covariance (n, p, p) of every row's latent variables; ``centred`` is 0 where not observed.

    By normal equations: ten times as fast as `LatentGaussian.posteriors`, which keep the digits that are squared away here.
    """
    W, noise = model.loadings, float(model.noise_variance)
    p = W.shape[1]
    precision = (observed @ pairs_of(W) / noise).reshape(-1, p, p) + np.eye(p)
    spread = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    return np.einsum("npq,nq->np", spread, centred @ W / noise), spread


def pairs_of(loadings: Floats) -> Floats:
    """Outer products of the loadings of each feature, (d, p p)."""
    return (loadings[:, :, None] * loadings[:, None, :]).reshape(len(loadings), -1)


def _is_well_conditioned(model: LatentGaussian) -> bool:
    """Whether the precision matrix keeps enough digits."""
    return float(model.noise_variance) >= _LEAST_NOISE * float((model.loadings**2).sum(axis=0).max(initial=0.0))


def _fill_few(rows: Floats, hidden: Mask, weights: Floats, model: LatentGaussian, uncertainty: Floats) -> Floats:
    """Rows with their missing cells at the conditional mean; adds their covariances to ``uncertainty``.

    With the precision matrix P, missing cells H have the covariance P_HH^-1 and the mean -P_HH^-1 P_HO x_O: small
    systems where few cells are missing.
    """
    precision = np.linalg.inv(model.covariance)
    centred = np.where(hidden, 0.0, rows - model.mean)
    pull = centred @ precision
    filled, count = np.where(hidden, 0.0, rows), hidden.sum(axis=1)
    for h in np.unique(count).tolist():
        at = np.flatnonzero(count == h)
        step = max(1, _CHUNK // (h * h))
        for part in (at[start : start + step] for start in range(0, len(at), step)):
            cells = np.nonzero(hidden[part])[1].reshape(len(part), h)
            covariance = np.linalg.inv(precision[cells[:, :, None], cells[:, None, :]])
            mean = -np.einsum("nij,nj->ni", covariance, np.take_along_axis(pull[part], cells, axis=1))
            filled[part[:, None], cells] = model.mean[cells] + mean
            weighted = covariance * weights[part, None, None]
            np.add.at(uncertainty, (cells[:, :, None], cells[:, None, :]), weighted)
    return np.asarray(filled)


def _fill_many(rows: Floats, hidden: Mask, weights: Floats, model: LatentGaussian, uncertainty: Floats) -> Floats:
    """The same through the latent variables, for any number of missing cells and any noise."""
    d, p = model.loadings.shape
    filled = np.empty_like(rows)
    uncertainty += np.diag(weights @ hidden * float(model.noise_variance))
    step = max(1, _CHUNK // max(p * p, d * p))
    for some in (slice(at, at + step) for at in range(0, len(rows), step)):
        here, missing = rows[some], hidden[some]
        z, spread = posterior(np.where(missing, 0.0, here - model.mean), ~missing, model)
        filled[some] = np.where(missing, model.mean + z @ model.loadings.T, here)
        W_hidden = missing[:, :, None] * model.loadings
        uncertainty += np.tensordot(W_hidden @ (spread * weights[some, None, None]), W_hidden, axes=((0, 2), (0, 2)))
    return filled


def _scatter(X: Floats) -> Floats:
    return X.T @ X


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
        from scipy import optimize

        best = float(np.exp(optimize.brentq(slope, low, high, xtol=1e-12)))
    return best if likelihood(best) >= likelihood(nu) else nu
