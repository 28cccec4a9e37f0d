"""Maximum-likelihood PPCA by expectation-maximisation, for tables with missing cells.

Each row's latent posterior uses its observed cells only; the noise variance divides by the number of observed cells
and includes the posterior variance of W z, so that missing cells do not shrink it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa.models.latent import RELATIVE_FLOOR, LatentGaussian

Floats = NDArray[np.float64]

_CHUNK = 1 << 22  # numbers held at once for the rows' p x p moments


class EMResult(NamedTuple):
    """The model, and how the iteration ended."""

    model: LatentGaussian
    n_iter: int
    converged: bool


def em(X: Floats, start: LatentGaussian, *, max_iter: int, tol: float) -> EMResult:
    """Improve ``start`` until the parameters move by less than ``tol`` (relative), or ``max_iter`` is reached.

    The result has divisor n, as maximum likelihood does; callers rescale.
    """
    observed = ~np.isnan(X)
    filled = np.where(observed, X, 0.0)
    mean, W, noise = start.mean, start.loadings, float(start.noise_variance)
    floor = RELATIVE_FLOOR * (np.nanvar(X, axis=0).max() or 1.0)
    for iteration in range(1, max_iter + 1):
        new_mean, new_W, new_noise = _step(filled, observed, mean, W, noise)
        new_noise = max(new_noise, floor)
        size = np.linalg.norm(W @ W.T) + noise
        moved = np.linalg.norm(new_W @ new_W.T - W @ W.T) + abs(new_noise - noise)
        moved_mean = np.linalg.norm(new_mean - mean) / np.sqrt(size)
        mean, W, noise = new_mean, new_W, new_noise
        if moved <= tol * size and moved_mean <= tol:
            return EMResult(LatentGaussian(mean, W, noise), iteration, True)
    return EMResult(LatentGaussian(mean, W, noise), max_iter, False)


def expected_covariance(X: Floats, model: LatentGaussian) -> Floats:
    """Sample covariance (divisor n) with every missing cell replaced by its conditional moments."""
    hidden = np.isnan(X)
    filled = model.impute(X) - model.mean
    total = filled.T @ filled
    incomplete = np.flatnonzero(hidden.any(axis=1))
    centred = np.where(hidden, 0.0, X - model.mean)
    for rows in _chunks(len(incomplete), model.n_features**2):
        at = incomplete[rows]
        _, spread = _posterior(centred[at], ~hidden[at], model.loadings, float(model.noise_variance))
        W_hidden = hidden[at][:, :, None] * model.loadings
        total += np.einsum("nip,npq,njq->ij", W_hidden, spread, W_hidden, optimize=True)
    total[np.diag_indices_from(total)] += hidden.sum(axis=0) * model.noise_variance
    return np.asarray(total / len(X))


def _posterior(centred: Floats, observed: NDArray[np.bool_], W: Floats, noise: float) -> tuple[Floats, Floats]:
    """Mean (n, p) and covariance (n, p, p) of every row's latent variables; ``centred`` is 0 where not observed."""
    p = W.shape[1]
    pairs = (W[:, :, None] * W[:, None, :]).reshape(len(W), p * p)
    precision = (observed @ pairs / noise).reshape(-1, p, p) + np.eye(p)
    spread = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    return np.einsum("npq,nq->np", spread, centred @ W / noise), spread


def _step(
    filled: Floats, observed: NDArray[np.bool_], mean: Floats, W: Floats, noise: float
) -> tuple[Floats, Floats, float]:
    d, p = W.shape
    # moments of the latent variables with a constant 1 appended, so that the mean is fitted along with W
    second = np.zeros((d, (p + 1) ** 2))
    first = np.zeros((d, p + 1))
    square = 0.0
    for rows in _chunks(len(filled), (p + 1) ** 2):
        seen = observed[rows]
        centred = np.where(seen, filled[rows] - mean, 0.0)
        z, spread = _posterior(centred, seen, W, noise)
        z1 = np.column_stack([z, np.ones(len(z))])
        moments = z1[:, :, None] * z1[:, None, :]
        moments[:, :p, :p] += spread
        second += seen.T.astype(np.float64) @ moments.reshape(len(z), -1)
        first += centred.T @ z1
        square += float((centred**2).sum())
    moment = second.reshape(d, p + 1, p + 1)
    solution = np.linalg.solve(moment, first[:, :, None])[:, :, 0]
    # sum over observed cells of E(x - w z - m)^2 at the new parameters
    error = square - 2 * (solution * first).sum() + np.einsum("ip,ipq,iq->", solution, moment, solution)
    return mean + solution[:, p], solution[:, :p], float(error) / float(observed.sum())


def _chunks(n_rows: int, width: int) -> Iterator[slice]:
    size = max(1, _CHUNK // width)
    for start in range(0, n_rows, size):
        yield slice(start, start + size)
