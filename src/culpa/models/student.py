"""Probabilistic PCA with Student-t rows as a scikit-learn estimator."""

import numbers
from typing import Any, Literal, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from culpa._core.border import entered
from culpa._core.parameter import documented, known_keywords
from culpa._core.parameters import STUDENT_PARAMETERS
from culpa._core.types import Floats
from culpa._core.validation import check_estimator_input
from culpa._core.warning import warn
from culpa.models.latent import LatentGaussian
from culpa.models.moments import Moments
from culpa.models.ppca import PPCA, refuse_constant, refuse_empty_columns
from culpa.models.scatter import Scatter, with_signs
from culpa.models.student_em import StudentResult, robust_start, student_em, weighted_rows

_ROUGHLY = 1e-4  # tolerance for choosing the number of components
_REFIT = 1e-5  # tolerance where a model is fitted again to most of its rows


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

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1)) * [3.0, 2.0, 1.0] + 0.1 * rng.normal(size=(200, 3))
    >>> X[:20] = [0.0, 0.0, 50.0]  # outliers
    >>> StudentPPCA(1).fit(X).components_.round(1)
    array([[0.8, 0.5, 0.3]])

    References
    ----------
    Archambeau, Delannay and Verleysen (2006), "Robust probabilistic projections".
    """

    @known_keywords
    def __init__(
        self,
        n_components: int | float = 0.95,
        *,
        degrees_of_freedom: float | Literal["auto"] = "auto",
        noise: float = 1.0,
        shrinkage: float = 0.0,
        max_iter: int = 1000,
        tol: float = 1e-8,
    ) -> None:
        self.n_components, self.degrees_of_freedom = n_components, degrees_of_freedom
        self.noise, self.shrinkage = noise, shrinkage
        self.max_iter, self.tol = max_iter, tol

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn what normal rows look like; missing cells are allowed."""
        table = check_estimator_input(self, X, reset=True, min_rows=2)
        self._check_parameters()
        refuse_empty_columns(table, np.isnan(table.array))
        self.n_samples_ = len(table.array)
        refuse_constant(np.nanmax(table.array, axis=0) - np.nanmin(table.array, axis=0))
        centre = np.nanmean(table.array, axis=0)
        rows = table.array - centre
        start, roughly = self._start(rows)
        result = student_em(rows, start, self._fixed_degrees, max_iter=self.max_iter, tol=self.tol)
        self._keep_student(result._replace(n_iter=roughly + result.n_iter), rows, centre)
        if not self.converged_:
            warn(
                f"expectation-maximisation stopped after {self.n_iter_:,} steps without converging: take fewer components, "
                "leave out columns or rows with many missing cells, or allow more steps (max_iter of StudentPPCA).",
                ConvergenceWarning,
            )
        return self

    def fit_moments(self, moments: Moments, names: tuple[str, ...] | None = None) -> Self:
        """Not possible: every row has its own weight."""
        raise ValueError("StudentPPCA needs the rows themselves, not only their moments: use fit.")

    def refine(self, X: Floats, start: LatentGaussian, *, steps: int) -> Self:
        """Fit rows from a model of similar rows, in at most so many steps."""
        self.n_samples_ = len(X)
        nu = start.degrees_of_freedom
        result = student_em(X, _scale_of(start), self._fixed_degrees, nu=nu, max_iter=steps, tol=_REFIT)
        self._keep_student(result, X, np.zeros(X.shape[1]))
        return self

    @property
    def _fixed_degrees(self) -> float | None:
        return None if isinstance(self.degrees_of_freedom, str) else float(self.degrees_of_freedom)

    def _start(self, X: Floats) -> tuple[LatentGaussian, int]:
        """Where expectation-maximisation starts, and the steps it took to choose the number of components."""
        n, d = X.shape
        if isinstance(self.n_components, numbers.Integral):
            return robust_start(X, self._choose_n_components(np.empty(d))), 0
        # a model with all components tells how many of them matter
        result = student_em(
            X, robust_start(X, min(n, d) - 1), self._fixed_degrees, max_iter=self.max_iter, tol=max(self.tol, _ROUGHLY)
        )
        rows = weighted_rows(X, result.scale, result.degrees_of_freedom)
        covariance = rows.scatter / rows.weights.sum()
        p = self._choose_n_components(np.asarray(np.linalg.eigvalsh(covariance)[::-1], np.float64))
        return LatentGaussian.from_covariance(covariance, p, rows.mean), result.n_iter

    def _keep_student(self, result: StudentResult, X: Floats, centre: Floats) -> None:
        """The model of X - centre; the result has divisor n, and the rows' scale matrix instead of their covariance."""
        scale, nu = result.scale, result.degrees_of_freedom
        stretch = len(X) / (len(X) - 1) * nu / (nu - 2)
        rows = weighted_rows(X, scale, nu)
        self.sample_ = Scatter.of_matrix(rows.scatter / rows.weights.sum() * stretch)
        self.mean_ = centre + scale.mean
        p = scale.n_components
        variances = np.full(X.shape[1], float(scale.noise_variance) * stretch)
        variances[:p] += (scale.loadings**2).sum(axis=0) * stretch
        self.n_iter_, self.converged_ = result.n_iter, result.converged
        self._keep_eigen(with_signs(np.linalg.svd(scale.loadings, full_matrices=False)[0].T), variances, p, nu)

    def _keep(self, gaussian: LatentGaussian) -> None:
        super()._keep(gaussian)
        self.degrees_of_freedom_ = gaussian.degrees_of_freedom

    def _check_parameters(self) -> None:
        STUDENT_PARAMETERS.check(self.get_params())


def unweighted_gaussian(X: Floats) -> Floats:
    """Rows as Gaussian ones: each minus the mean and times the root of its weight; missing cells are filled in.

    Given their weights, Student-t rows are Gaussian. A model with all components tells the weights.
    """
    n, d = X.shape
    result = student_em(X, robust_start(X, min(n, d) - 1), None, max_iter=200, tol=_ROUGHLY)
    rows = weighted_rows(X, result.scale, result.degrees_of_freedom)
    return np.asarray(np.sqrt(rows.weights)[:, None] * (rows.filled - rows.mean))


def _scale_of(model: LatentGaussian) -> LatentGaussian:
    """The Gaussian that has the scale matrix of a Student model as its covariance."""
    nu = model.degrees_of_freedom
    shrink = 1.0 if np.isinf(nu) else (nu - 2) / nu
    return LatentGaussian(model.mean, model.loadings * np.sqrt(shrink), model.noise_variance * shrink)
