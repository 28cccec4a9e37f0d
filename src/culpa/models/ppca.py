"""Probabilistic PCA as a scikit-learn estimator."""

import math
import numbers
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from culpa._core.border import entered
from culpa._core.estimators import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ConvergenceWarning,
    TransformerMixin,
    available_if,
    check_is_fitted,
)
from culpa._core.parameter import documented, keeps
from culpa._core.parameters import FORGET, PPCA_PARAMETERS, PPCASettings
from culpa._core.threads import interruptible
from culpa._core.types import Floats
from culpa._core.validation import Table, check_estimator_input, complete_rows
from culpa._core.warning import warn
from culpa._core.words import count_are
from culpa.models.components import explaining, likeliest_dimension
from culpa.models.em import EMResult, NothingVariesError, em, expected
from culpa.models.estimator import Estimator
from culpa.models.latent import LatentGaussian, shrunk
from culpa.models.moments import Moments
from culpa.models.scatter import Scatter, with_signs

ROUGHLY = 1e-4  # tolerance for choosing the number of components
_REFIT = 1e-5  # tolerance where a Student model is fitted again to most of its rows


def _merges(model: "PPCA") -> bool:
    """Whether mean and covariance are all that the model needs, so that it can learn piece by piece."""
    if not hasattr(model, "method"):  # of a subclass, which has but one way to learn
        raise ValueError(f"{type(model).__name__} needs all rows at once: use fit.")
    if model.method == "em":
        raise ValueError("method='em' needs all rows at once: use fit.")
    return True


@entered
@documented(PPCA_PARAMETERS)
class PPCA(Estimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Probabilistic PCA: x = W z + b + noise, fitted by maximum likelihood (divisor n - 1 throughout).

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    components_, explained_variance_, explained_variance_ratio_, noise_variance_, mean_, n_components_, n_samples_
        As in scikit-learn's PCA, but with the maximum-likelihood noise variance. ``n_samples_`` is the sum of the rows'
        weights if ``partial_fit`` forgets rows, so it need not be a whole number.
    covariance_ : ndarray of shape (d, d)
        Sample covariance; with missing cells, its expectation under the fitted model.
    sample_ : Scatter
        The same, kept as a factor where rows are fewer than features.
    gaussian_ : LatentGaussian
        The fitted distribution.
    n_iter_, converged_ : int, bool
        How expectation-maximisation went (1 and True for the closed form).

    References
    ----------
    Tipping and Bishop (1999), "Probabilistic principal component analysis".

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 1)) * [3.0, 2.0, 1.0]
    >>> X += 0.1 * np.random.default_rng(1).normal(size=X.shape)
    >>> model = PPCA(n_components=1).fit(X)
    >>> bool(abs(model.noise_variance_ - 0.01) < 0.002)
    True
    """

    _parameters = PPCA_PARAMETERS
    _moments: Moments | None = None  # of the rows that partial_fit has seen

    @keeps(PPCASettings)
    def __init__(self, *_: Any, **__: Any) -> None:
        """Keep the parameters, unchecked until `fit`."""

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn what normal rows look like.

        Parameters
        ----------
        X
            Normal rows; missing cells are allowed.
        y
            Not used, as in scikit-learn.

        Returns
        -------
        self
            The fitted model.
        """
        table = check_estimator_input(self, X, reset=True, min_rows=2)
        self._parameters.check(self.get_params())
        missing = np.isnan(table.array)
        refuse_empty_columns(table, missing)
        self.n_samples_: float = len(table.array)
        self._moments = None
        if self._takes_steps(incomplete=bool(missing.any())):
            self._fit_em(table.array)
        else:
            self._fit_closed_form(table.array)
        return self

    def _takes_steps(self, *, incomplete: bool) -> bool:
        """Whether expectation-maximisation fits the rows."""
        if incomplete and self.method == "closed-form":
            raise ValueError("method='closed-form' needs complete rows, but X has missing cells: use method='em'.")
        return incomplete or self.method == "em"

    def _fit_moments(self, moments: Moments, names: tuple[str, ...] | None = None) -> Self:
        """Learn from the mean and covariance of complete rows, as gathered in one pass over a large table."""
        check_estimator_input(self, Table(np.empty((0, moments.n_features)), names), reset=True)
        self._parameters.check(self.get_params())
        _refuse_few(moments)
        if self.method == "em":
            raise ValueError("method='em' needs the rows themselves: use fit.")
        self.n_samples_ = moments.n
        self._moments = None
        self._keep_closed_form(moments.mean, *moments.sample.eigen())
        return self

    @available_if(_merges)
    def partial_fit(self, X: Any, y: None = None, *, forget: float = 0.0) -> Self:
        """Learn from more rows: the result is that of ``fit`` on all rows so far, to rounding. Rows must be complete.

        With ``forget``, each row takes this share off the weight of every row before it, as in `PCADetector.partial_fit`.
        """
        FORGET.check(forget)
        first = not hasattr(self, "gaussian_")
        table = check_estimator_input(self, X, reset=first)
        rows = complete_rows(table)
        moments = (Moments.of(rows[:0]) if first else self._moments_so_far()).then(rows, forget)
        names = getattr(self, "feature_names_in_", None)
        self._fit_moments(moments, None if names is None else tuple(names))
        self._moments = moments
        return self

    def _moments_so_far(self) -> Moments:
        """Mean and covariance of the rows learned from: as gathered, or as the fitted model has them."""
        check_is_fitted(self)
        if self.n_iter_ > 1:
            raise ValueError(
                "the model was fitted by expectation-maximisation, to rows with missing cells, and cannot learn from "
                "more rows. Use fit on all rows, or fit the model to complete rows only."
            )
        n = self.n_samples_
        return self._moments or Moments(n, self.mean_, np.zeros_like(self.mean_), self.sample_.times(n - 1))

    def transform(self, X: Any) -> Floats:
        """Coordinates of each row along the principal axes, (n, p)."""
        filled = self.distribution_.impute(self._read(X))
        return np.asarray((filled - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: Any) -> Floats:
        """Rows with the given coordinates along the principal axes."""
        check_is_fitted(self)
        return np.asarray(self.mean_ + np.asarray(X, dtype=np.float64) @ self.components_)

    def _restore(self, gaussian: LatentGaussian, axes: Floats, sample: Scatter) -> Self:
        """Become fitted again from what a model file keeps."""
        self.mean_, self.sample_, self.components_ = gaussian.mean, sample, axes
        self._keep(gaussian)
        return self

    def get_covariance(self) -> Floats:
        """Covariance of the fitted model, C = W W^T + s2 I."""
        return self.distribution_.covariance

    @property
    def covariance_(self) -> Floats:
        """Sample covariance, (d, d)."""
        return self.sample_.matrix

    within_covariance_ = covariance_  # there is one mode

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    @property
    def distribution_(self) -> LatentGaussian:
        """The fitted distribution."""
        check_is_fitted(self)
        return self.gaussian_

    def _to_arrays(self) -> dict[str, Floats]:
        """Plain arrays from which a model file makes the model again."""
        return {
            "mean": self.mean_,
            "loadings": self.gaussian_.loadings,
            "axes": self.components_,
            "factor" if self.sample_.is_thin else "covariance": self.sample_.kept,
        }

    def _fit_closed_form(self, X: Floats) -> None:
        mean = X.mean(axis=0)
        centred = X - mean
        refuse_constant(centred)
        rounding = centred.mean(axis=0)
        # of the rows, not of their covariance, which would square them; by NumPy, because a decomposition of SciPy holds
        # Python's lock, and Ctrl-C would have to wait for its end
        _, sizes, axes = interruptible(_thin_svd, centred - rounding)
        variances = np.zeros(X.shape[1])
        variances[: len(sizes)] = sizes**2 / (len(X) - 1)
        self._keep_closed_form(mean + rounding, with_signs(axes), variances)

    def _keep_closed_form(self, mean: Floats, axes: Floats, variances: Floats) -> None:
        """The maximum-likelihood model, from all principal axes and the variances along them."""
        self.mean_ = mean
        if len(axes) < len(mean):
            self.sample_ = Scatter.of_factor(np.sqrt(variances[: len(axes)])[:, None] * axes)
        else:
            self.sample_ = Scatter.of_matrix((axes.T * variances) @ axes)
        p = self._choose_n_components(variances)
        self.n_iter_, self.converged_ = 1, True
        self._keep_eigen(axes, variances, p)

    def _fit_em(self, X: Floats) -> None:
        refuse_constant(np.nanmax(X, axis=0) - np.nanmin(X, axis=0))
        centre = np.nanmean(X, axis=0)
        rows = X - centre
        start, roughly = self._start(rows)
        result = em(rows, start, max_iter=self.max_iter, tol=self.tol, degrees_of_freedom=self._tails)
        self._keep_em(result, rows, centre)
        self.n_iter_ = roughly + result.n_iter
        if not self.converged_:
            warn(
                f"expectation-maximisation stopped after {self.n_iter_:,} steps without converging. Use fewer components, "
                "leave out columns or rows with many missing cells, or allow more steps "
                f"(max_iter of {type(self).__name__}).",
                ConvergenceWarning,
            )

    @property
    def _tails(self) -> float | None:
        """Degrees of freedom of the rows; ``None`` if they are to be estimated."""
        return math.inf

    def _first_model(self, X: Floats, p: int) -> LatentGaussian:
        """The model from which expectation-maximisation starts."""
        filled = np.nan_to_num(X, nan=0.0)
        return LatentGaussian.from_covariance(filled.T @ filled / len(X), p)

    def _start(self, X: Floats) -> tuple[LatentGaussian, int]:
        """The same with the wanted number of components, and the steps it took to choose it."""
        n, d = X.shape
        if isinstance(self.n_components, numbers.Integral):
            return self._first_model(X, self._choose_n_components(np.empty(d))), 0
        # the spectrum of mean-imputed data is shrunk; let a saturated model tell how many components matter
        start, tol = self._first_model(X, min(n, d) - 1), max(self.tol, ROUGHLY)
        rough = em(X, start, max_iter=self.max_iter, tol=tol, degrees_of_freedom=self._tails)
        found = expected(X, rough.model, rough.degrees_of_freedom)
        p = self._choose_n_components(np.asarray(np.linalg.eigvalsh(found.covariance)[::-1], np.float64))
        return LatentGaussian.from_covariance(found.covariance, p, found.mean), rough.n_iter

    def _refine(self, X: Floats, start: LatentGaussian, *, steps: int) -> Self:
        """A few steps of expectation-maximisation on rows, from a model of similar rows."""
        self.n_samples_, nu = len(X), start.degrees_of_freedom
        if math.isinf(nu):
            result = em(X, start, max_iter=steps, tol=0.0)
        else:  # from the Gaussian that has the scale matrix as its covariance
            shrink = (nu - 2) / nu
            scale = LatentGaussian(start.mean, start.loadings * np.sqrt(shrink), start.noise_variance * shrink)
            result = em(X, scale, max_iter=steps, tol=_REFIT, degrees_of_freedom=self._tails, nu=nu)
        self._keep_em(result, X, np.zeros(X.shape[1]))
        return self

    def _keep_em(self, result: EMResult, X: Floats, centre: Floats) -> None:
        """The model of X - centre that expectation-maximisation found."""
        model, nu = result.model, result.degrees_of_freedom
        stretch, p = len(X) / (len(X) - 1) * (1.0 if math.isinf(nu) else nu / (nu - 2)), model.n_components
        self.sample_ = Scatter.of_matrix(expected(X, model, nu).covariance * stretch)
        self.mean_, self.n_iter_, self.converged_ = centre + model.mean, result.n_iter, result.converged
        variances = np.full(X.shape[1], float(model.noise_variance) * stretch)
        variances[:p] += (model.loadings**2).sum(axis=0) * stretch
        self._keep_eigen(with_signs(np.linalg.svd(model.loadings, full_matrices=False)[0].T), variances, p, nu)

    def _keep_eigen(self, axes: Floats, variances: Floats, p: int, degrees_of_freedom: float = math.inf) -> None:
        """The model with p components, from at least the p leading axes and the variances along all of them."""
        if self.shrinkage:
            axes, variances = Scatter.of_matrix(shrunk(self.covariance_, self.shrinkage)).eigen()
        noise = self.noise * float(variances[p:].mean())
        self.components_ = axes[:p]
        self._keep(LatentGaussian.from_eigen(self.mean_, axes[:p], variances[:p], noise, degrees_of_freedom))

    def _keep(self, gaussian: LatentGaussian) -> None:
        self.gaussian_ = gaussian
        self.n_components_ = gaussian.n_components
        self.noise_variance_ = float(gaussian.noise_variance)
        self.explained_variance_ = self.sample_.along(self.components_)
        total = float(self.sample_.diagonal.sum())
        self.explained_variance_ratio_ = self.explained_variance_ / (total if total > 0 else 1.0)

    def _choose_n_components(self, variances: Floats) -> int:
        n, d = round(self.n_samples_), len(variances)
        wanted: Any = self.n_components
        most: int = d - 1 if self.shrinkage else min(n, d) - 1  # a shrunk covariance has full rank
        if isinstance(wanted, str):
            if n < d:
                raise ValueError(
                    f"n_components='mle' needs at least as many rows as features, got {n} rows and {d} features."
                )
            return min(likeliest_dimension(variances, n), most)
        if isinstance(wanted, numbers.Integral):
            p = int(wanted)
            if p >= d:
                raise ValueError(
                    f"n_components={wanted} must be less than the number of features, {d} "
                    "(with all components every row is reconstructed perfectly)."
                )
            if p > most:
                raise ValueError(f"n_components={wanted} needs at least {p + 1} rows, got {n}.")
            return p
        return min(explaining(variances, wanted), most)


def _thin_svd(X: Floats) -> tuple[Floats, Floats, Floats]:
    return np.linalg.svd(X, full_matrices=False)


def _refuse_few(moments: Moments) -> None:
    for n, noun in ((moments.n, "complete row"), (moments.n_features, "feature")):
        if n < 2:
            raise ValueError(f"{count_are(n, noun)} too few to learn from: at least 2 are needed.")
    refuse_constant(moments.variances)


def refuse_constant(centred: Floats) -> None:
    """Raise an error where nothing varies."""
    if not centred.any():
        raise NothingVariesError("no column of X varies, so there is nothing to learn: pass rows that differ.")


def refuse_empty_columns(table: Table, missing: NDArray[np.bool_]) -> None:
    """Raise an error for a column without any number."""
    empty = np.flatnonzero(missing.all(axis=0))
    if len(empty):
        raise ValueError(
            f"column {table.feature_names()[empty[0]]!r} of X contains only NaN, so nothing can be learned from "
            "it. Drop it."
        )
