"""How many components? As many as make rows that the model did not see most likely.

Every block of rows is judged by the model of the others. With the eigenvalues l_j and eigenvectors u_j of the other rows'
correlation, and m_j the mean of (u_j . x)^2 over the block, the block's mean log-likelihood under PPCA with p components is

    -1/2 [ sum_(j<=p) log l_j + (r - p) log s2_p + sum_(j<=p) m_j / l_j + sum_(p<j<=r) m_j / s2_p ] + constant

with s2_p the mean of the eigenvalues after the p-th. One eigendecomposition per block gives all numbers of components.
r is the number of directions in which rows vary at all: directions without any variance must not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from culpa._core.types import Floats
from culpa.models.blocks import BlockMoments
from culpa.models.moments import Moments, spread

_NO_VARIANCE = 1e-9  # relative to the largest eigenvalue
_FLOOR = 1e-12
_AS_SKLEARN = 1e-15  # the smallest variance of its PCA("mle"), which is `likeliest_dimension`


@dataclass(frozen=True, eq=False)
class ComponentChoice:
    """The number of components with the highest held-out likelihood, and the curve behind it.

    ``log_likelihood`` is the mean held-out log-likelihood per row for 1, 2, ... components, up to a constant.
    """

    n_components: int
    log_likelihood: Floats


def choose_components(blocks: BlockMoments, *, scale: bool = True) -> ComponentChoice:
    """Choose by the held-out likelihood of the blocks.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 10)) + 0.5 * rng.normal(size=(500, 10))
    >>> choose_components(BlockMoments.of(X), scale=False).n_components
    3
    """
    total = blocks.total
    n, d = total.n, total.n_features
    eigenvalues = total.scaled(total.mean, _std(total, scale=scale)).sample.eigenvalues()
    if n < 2 or not eigenvalues[0] > 0:
        return ComponentChoice(1, np.zeros(1))  # whoever fits the model refuses it
    rank = int((eigenvalues > _NO_VARIANCE * eigenvalues[0]).sum()) if n > d else d
    if rank < 2:
        return ComponentChoice(1, np.zeros(1))  # rows vary in one direction only, so there is nothing to compare
    most = max(1, min(rank - 1, round(min(n - block.n for block in blocks.blocks)) - 2))
    curves, weights = [], []
    for k, block in enumerate(blocks.blocks):
        if not block.n:
            continue
        others = blocks.without(k)
        std = _std(others, scale=scale)
        axes, variances = others.scaled(others.mean, std).sample.eigen()
        along = _along(block.scaled(others.mean, std), axes)
        curves.append(_log_likelihood(variances[:rank], along[:rank], most, _FLOOR * float(eigenvalues[0])))
        weights.append(block.n)
    return _best(curves, weights)


def _best(curves: Sequence[Floats], weights: Sequence[float]) -> ComponentChoice:
    curve = np.average(curves, axis=0, weights=weights)
    return ComponentChoice(int(np.argmax(curve)) + 1, curve)


def _std(moments: Moments, *, scale: bool) -> Floats:
    return spread(moments.mean, moments.variances) if scale else np.ones(moments.n_features)


def _along(block: Moments, axes: Floats) -> Floats:
    """m_j of all directions, (d,), for a block that is centred and scaled like the others.

    Where rows are few, there are axes only for the directions in which the others vary. The rest of the squares is spread
    over the remaining directions, because only their sum matters.
    """
    along, d = block.mean_squares(axes), block.n_features
    if len(along) == d:
        return along
    rest = float(block.about_mean.diagonal.sum() / block.n + (block.mean**2).sum() - along.sum())
    return np.concatenate([along, np.full(d - len(along), max(rest, 0.0) / (d - len(along)))])


def _log_likelihood(variances: Floats, along: Floats, most: int, floor: float) -> Floats:
    """For 1 to ``most`` components, per row."""
    p = np.arange(1, most + 1)
    kept = np.maximum(variances[:most], floor)
    noise = np.maximum((variances.sum() - np.cumsum(variances)[:most]) / (len(variances) - p), floor)
    left_over = along.sum() - np.cumsum(along)[:most]
    inside = np.cumsum(np.log(kept)) + np.cumsum(along[:most] / kept)
    return np.asarray(-0.5 * (inside + (len(variances) - p) * np.log(noise) + left_over / noise))


def likeliest_dimension(variances: Floats, n_rows: float) -> int:
    """The number of components, at least 1, that makes the eigenvalues of a sample covariance most likely.

    >>> import numpy as np
    >>> likeliest_dimension(np.array([9.0, 4.0, 1.1, 1.0, 0.9]), 200)
    2

    References
    ----------
    Minka (2000), "Automatic choice of dimensionality for PCA".
    """
    numbers = [k for k in range(1, len(variances)) if variances[k - 1] >= _AS_SKLEARN]
    evidence = [_log_evidence(variances, k, n_rows) for k in numbers]
    return numbers[int(np.argmax(evidence))] if numbers else 1


def _log_evidence(variances: Floats, k: int, n: float) -> float:
    """Laplace's approximation of the log evidence of k components, up to a constant."""
    d = len(variances)
    sizes = d - np.arange(k)
    volume = float((special.gammaln(sizes / 2) - np.log(np.pi) * sizes / 2).sum()) - k * np.log(2)
    noise = max(_AS_SKLEARN, float(variances[k:].sum()) / (d - k))
    likelihood = -n / 2 * (float(np.log(variances[:k]).sum()) + (d - k) * np.log(noise))
    free = d * k - k * (k + 1) / 2
    smoothed = np.concatenate([variances[:k], np.full(d - k, noise)])
    first, second = np.triu_indices(k, 1, d)
    gaps = (variances[first] - variances[second]) * (1 / smoothed[second] - 1 / smoothed[first])
    curvature = float(np.log(np.maximum(gaps, np.finfo(np.float64).tiny)).sum()) + len(first) * np.log(n)
    return float(volume + likelihood + np.log(2 * np.pi) * (free + k) / 2 - curvature / 2 - k * np.log(n) / 2)


def explaining(variances: Floats, share: float) -> int:
    """The smallest number of components that explains a share of the variance."""
    explained = np.cumsum(variances) / (variances.sum() or 1.0)
    # 1e-12: a share that is met exactly should not fail by rounding
    return int(np.searchsorted(explained, share - 1e-12)) + 1
