"""Maximum-likelihood PPCA by expectation-maximisation, for tables with missing cells.

Only the missing cells count as unknown, not the latent variables: given the expected mean and covariance of all
cells, the best model has a closed form. So few missing cells take few steps, however small the noise; with the latent
variables as unknowns too, steps shrink with the noise variance.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.models.latent import LatentGaussian

_CHUNK = 1 << 22  # numbers held at once for the rows' p x p moments
_FEW_HIDDEN = 12  # missing cells of a row up to which it pays to condition on the observed ones directly
_LEAST_NOISE = 1e-7  # of the largest variance of a component, below which the precision matrix would lose digits


class NothingVariesError(ValueError):
    """No column of the rows varies, or most rows are equal, so there is no model of them."""


class EMResult(NamedTuple):
    """The model, and how the iteration ended."""

    model: LatentGaussian
    n_iter: int
    converged: bool


def em(X: Floats, start: LatentGaussian, *, max_iter: int, tol: float) -> EMResult:
    """Improve ``start`` until the parameters move by less than ``tol`` (relative), or ``max_iter`` is reached.

    The result has divisor n, as maximum likelihood does; callers rescale.
    """
    moments = _Moments(X)
    model = start
    for iteration in range(1, max_iter + 1):
        mean, covariance = moments.expected(model)
        better = LatentGaussian.from_covariance(covariance, start.n_components, mean)
        size = np.linalg.norm(model.covariance)
        moved = np.linalg.norm(better.covariance - model.covariance)
        moved_mean = np.linalg.norm(better.mean - model.mean)
        model = better
        if moved <= tol * size and moved_mean <= tol * np.sqrt(size):
            return EMResult(model, iteration, True)
    return EMResult(model, max_iter, False)


def expected_covariance(X: Floats, model: LatentGaussian) -> Floats:
    """Sample covariance (divisor n) with every missing cell replaced by its conditional moments."""
    return _Moments(X).expected(model)[1]


class _Moments:
    """Mean and covariance (divisor n) of rows some of whose cells are missing; the complete rows are summed up once."""

    def __init__(self, X: Floats) -> None:
        hidden = np.isnan(X)
        incomplete = hidden.any(axis=1)
        complete = X[~incomplete]
        self.n = len(X)
        self.n_complete = len(complete)
        self.reference = complete.mean(axis=0) if len(complete) else np.zeros(X.shape[1])
        self.scatter = (complete - self.reference).T @ (complete - self.reference)
        self.rows, self.hidden = X[incomplete], hidden[incomplete]

    def expected(self, model: LatentGaussian) -> tuple[Floats, Floats]:
        """What they are on average, if missing cells follow the model given the others."""
        filled, uncertainty = fill(self.rows, self.hidden, model)
        scatter = self.scatter + uncertainty
        mean = (self.n_complete * self.reference + filled.sum(axis=0)) / self.n
        offset = self.reference - mean
        scatter += self.n_complete * np.outer(offset, offset) + (filled - mean).T @ (filled - mean)
        return mean, np.asarray(scatter / self.n)


def fill(rows: Floats, hidden: NDArray[np.bool_], model: LatentGaussian) -> tuple[Floats, Floats]:
    """Rows with their missing cells at the conditional mean, and the sum of the conditional covariances, (d, d)."""
    filled, scatter = np.empty_like(rows), np.zeros((rows.shape[1], rows.shape[1]))
    few = hidden.sum(axis=1) <= _FEW_HIDDEN if _is_well_conditioned(model) else np.zeros(len(rows), bool)
    filled[few] = _fill_few(rows[few], hidden[few], model, scatter)
    filled[~few] = _fill_many(rows[~few], hidden[~few], model, scatter)
    return filled, scatter


def _is_well_conditioned(model: LatentGaussian) -> bool:
    """Whether the precision matrix keeps enough digits."""
    return float(model.noise_variance) >= _LEAST_NOISE * float((model.loadings**2).sum(axis=0).max(initial=0.0))


def _fill_few(rows: Floats, hidden: NDArray[np.bool_], model: LatentGaussian, scatter: Floats) -> Floats:
    """Rows with their missing cells at the conditional mean; adds the conditional covariances to ``scatter``.

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
            np.add.at(scatter, (cells[:, :, None], cells[:, None, :]), covariance)
    return np.asarray(filled)


def _fill_many(rows: Floats, hidden: NDArray[np.bool_], model: LatentGaussian, scatter: Floats) -> Floats:
    """The same through the latent variables, for any number of missing cells and any noise."""
    d, p = model.loadings.shape
    filled = np.empty_like(rows)
    scatter += np.diag(hidden.sum(axis=0) * float(model.noise_variance))
    step = max(1, _CHUNK // max(p * p, d * p))
    for at in range(0, len(rows), step):
        here, missing = rows[at : at + step], hidden[at : at + step]
        z, spread = _posterior(np.where(missing, 0.0, here - model.mean), ~missing, model)
        filled[at : at + step] = np.where(missing, model.mean + z @ model.loadings.T, here)
        W_hidden = missing[:, :, None] * model.loadings
        scatter += np.tensordot(W_hidden @ spread, W_hidden, axes=((0, 2), (0, 2)))
    return filled


def _posterior(centred: Floats, observed: NDArray[np.bool_], model: LatentGaussian) -> tuple[Floats, Floats]:
    """Mean (n, p) and covariance (n, p, p) of every row's latent variables; ``centred`` is 0 where not observed."""
    W, noise = model.loadings, float(model.noise_variance)
    p = W.shape[1]
    pairs = (W[:, :, None] * W[:, None, :]).reshape(len(W), p * p)
    precision = (observed @ pairs / noise).reshape(-1, p, p) + np.eye(p)
    spread = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    return np.einsum("npq,nq->np", spread, centred @ W / noise), spread
