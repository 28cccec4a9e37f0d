"""Probabilistic PCA with Student-t rows as a scikit-learn estimator."""

from typing import Any, Self

import numpy as np

from culpa._core.border import entered
from culpa._core.parameter import documented, keeps
from culpa._core.parameters import STUDENT_PARAMETERS, StudentSettings
from culpa._core.types import Floats
from culpa.models.em import em, expected
from culpa.models.latent import LatentGaussian
from culpa.models.moments import Moments, mean_and_spread
from culpa.models.ppca import PPCA, ROUGHLY
from culpa.models.univariate import location_and_scale, wrap


@entered
@documented(STUDENT_PARAMETERS)
class StudentPPCA(PPCA):
    """Probabilistic PCA with Student-t rows: outliers among the training rows count little.

    Loadings, mean, scale and degrees of freedom are fitted by maximum likelihood (expectation-maximisation, from a robust
    start). The fit is deterministic, and the likelihood never decreases from step to step.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    degrees_of_freedom_ : float
        How heavy the tails are: 3 (the smallest that is tried) for very heavy ones, 1000 (the largest) for Gaussian rows.
    components_, explained_variance_, explained_variance_ratio_, noise_variance_, mean_, n_components_, n_samples_
        As in `PPCA`. Variances are those of the fitted distribution: its scale times nu / (nu - 2).
    covariance_ : ndarray of shape (d, d)
        Covariance of the rows, each with its expected weight.
    gaussian_ : LatentGaussian
        The fitted distribution, with these degrees of freedom.
    n_iter_, converged_ : int, bool
        How expectation-maximisation went.

    References
    ----------
    Archambeau, Delannay and Verleysen (2006), "Robust probabilistic projections".

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1)) * [3.0, 2.0, 1.0] + 0.1 * rng.normal(size=(200, 3))
    >>> X[:20] = [0.0, 0.0, 50.0]  # outliers
    >>> StudentPPCA(1).fit(X).components_.round(1)
    array([[0.8, 0.5, 0.3]])
    """

    _parameters = STUDENT_PARAMETERS

    @keeps(StudentSettings)
    def __init__(self, *_: Any, **__: Any) -> None:
        """Keep the parameters, unchecked until `fit`."""

    def _takes_steps(self, *, incomplete: bool) -> bool:
        return True

    def _fit_moments(self, moments: Moments, names: tuple[str, ...] | None = None) -> Self:
        """Not possible: every row has its own weight."""
        raise ValueError("StudentPPCA needs the rows themselves, not only their moments: use fit.")

    @property
    def _tails(self) -> float | None:
        return None if isinstance(self.degrees_of_freedom, str) else float(self.degrees_of_freedom)

    def _first_model(self, X: Floats, p: int) -> LatentGaussian:
        return robust_start(X, p)

    def _keep(self, gaussian: LatentGaussian) -> None:
        super()._keep(gaussian)
        self.degrees_of_freedom_ = gaussian.degrees_of_freedom


def robust_start(X: Floats, n_components: int) -> LatentGaussian:
    """A first model that outlying cells hardly change: robust scales, and correlations of wrapped cells."""
    location, scale = location_and_scale(X)
    mean, spread = mean_and_spread(X)
    varies = scale > 0
    location, scale = np.where(varies, location, mean), np.where(varies, scale, spread)
    wrapped = wrap((X - location) / scale)
    covariance = wrapped.T @ wrapped / len(X) * np.outer(scale, scale)
    return LatentGaussian.from_covariance(covariance, n_components, location)


def unweighted_gaussian(X: Floats) -> Floats:
    """Rows as Gaussian ones: each minus the mean and times the root of its weight; missing cells are filled in.

    Given their weights, Student-t rows are Gaussian. A model with all components tells the weights.
    """
    n, d = X.shape
    result = em(X, robust_start(X, min(n, d) - 1), max_iter=200, tol=ROUGHLY, degrees_of_freedom=None)
    found = expected(X, result.model, result.degrees_of_freedom)
    return np.asarray(np.sqrt(found.weights)[:, None] * (found.rows - found.mean))
