"""How many components does a covariance have? Minka's estimate, which needs its eigenvalues alone.

References
----------
Minka (2000), "Automatic choice of dimensionality for PCA".
"""

import numpy as np
from scipy import special

from culpa._core.types import Floats

_FLOOR = 1e-15  # as in scikit-learn, whose PCA("mle") this is


def likeliest_dimension(variances: Floats, n_rows: float) -> int:
    """The number of components, at least 1, that makes the eigenvalues of a sample covariance most likely.

    >>> import numpy as np
    >>> likeliest_dimension(np.array([9.0, 4.0, 1.1, 1.0, 0.9]), 200)
    2
    """
    numbers = [k for k in range(1, len(variances)) if variances[k - 1] >= _FLOOR]
    evidence = [_log_evidence(variances, k, n_rows) for k in numbers]
    return numbers[int(np.argmax(evidence))] if numbers else 1


def _log_evidence(variances: Floats, k: int, n: float) -> float:
    """Laplace's approximation of the log evidence of k components, up to a constant."""
    d = len(variances)
    sizes = d - np.arange(k)
    volume = float((special.gammaln(sizes / 2) - np.log(np.pi) * sizes / 2).sum()) - k * np.log(2)
    noise = max(_FLOOR, float(variances[k:].sum()) / (d - k))
    likelihood = -n / 2 * (float(np.log(variances[:k]).sum()) + (d - k) * np.log(noise))
    free = d * k - k * (k + 1) / 2
    smoothed = np.concatenate([variances[:k], np.full(d - k, noise)])
    first, second = np.triu_indices(k, 1, d)
    gaps = (variances[first] - variances[second]) * (1 / smoothed[second] - 1 / smoothed[first])
    curvature = float(np.log(np.maximum(gaps, np.finfo(np.float64).tiny)).sum()) + len(first) * np.log(n)
    return float(volume + likelihood + np.log(2 * np.pi) * (free + k) / 2 - curvature / 2 - k * np.log(n) / 2)
