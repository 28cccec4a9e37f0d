"""A mixture of probabilistic PCAs as a scikit-learn estimator: normal rows that have several operating modes."""

import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from culpa._core.border import entered
from culpa._core.estimators import BaseEstimator, ConvergenceWarning, DensityMixin, check_is_fitted
from culpa._core.parameter import documented, keeps
from culpa._core.parameters import MIXTURE_PARAMETERS, MixtureSettings
from culpa._core.types import Floats
from culpa._core.validation import check_estimator_input
from culpa._core.warning import warn
from culpa.models import mixture_em
from culpa.models.em import Rows
from culpa.models.estimator import Estimator
from culpa.models.mixture import LatentMixture
from culpa.models.ppca import refuse_constant, refuse_empty_columns
from culpa.models.scatter import Scatter

_PATIENCE = 2  # numbers of modes to try after the one with the lowest BIC


def _explained(covariance: Floats, p: int) -> float:
    """Variance along the first p principal axes."""
    return float(np.linalg.eigvalsh(covariance)[::-1][:p].sum())


@entered
@documented(MIXTURE_PARAMETERS)
class MixturePPCA(Estimator, DensityMixin, BaseEstimator):
    """Mixture of probabilistic PCAs, fitted by expectation-maximisation: every operating mode has a PPCA of its own.

    Rows may have missing cells. A mixture of one mode is `PPCA`: variances have the divisor n - 1, with the sum of a
    mode's responsibilities for n.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    n_modes_, n_components_ : int, tuple of int
        Number of modes, and number of components of each.
    mixture_ : LatentMixture
        The fitted distribution, the mode with the largest weight first.
    weights_, means_, noise_variances_ : ndarray
        Share of the rows, mean and noise variance of each mode.
    mean_, covariance_ : ndarray
        Mean and covariance of all rows; with missing cells, their expectation under the fitted model.
    mode_covariances_, within_covariance_ : ndarray
        Covariance of each mode's rows, (modes, d, d), and the mean of these, weighted by the modes' shares.
    explained_variance_ratio_ : ndarray of shape (1,)
        Share of the variance of all rows that modes and components explain.
    log_likelihoods_ : ndarray
        Log-likelihood of the rows before each step of the last run. It never decreases.
    bic_ : dict
        BIC of each number of modes that was tried, as for independent rows.
    n_iter_, converged_ : int, bool
        How expectation-maximisation went.
    n_samples_ : int
        Number of rows.

    References
    ----------
    Tipping and Bishop (1999), "Mixtures of probabilistic principal component analyzers".

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 1)) * [3.0, 2.0, 1.0] + 0.1 * rng.normal(size=(300, 3))
    >>> X[:100] += [0.0, 20.0, 0.0]
    >>> model = MixturePPCA(n_components=1).fit(X)
    >>> model.n_modes_, model.weights_.round(3)
    (2, array([0.667, 0.333]))
    """

    @keeps(MixtureSettings)
    def __init__(self, *_: Any, **__: Any) -> None:
        """Keep the parameters, unchecked until `fit`."""

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn what normal rows look like, mode by mode.

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
        MIXTURE_PARAMETERS.check(self.get_params())
        rows = table.array
        self._check_size(rows)
        missing = np.isnan(rows)
        if missing.any():
            refuse_empty_columns(table, missing)
        centre = np.nanmean(rows, axis=0)
        centred = rows - centre  # so that no digits are lost to a large mean
        refuse_constant(np.nan_to_num(centred))
        found = self._fit_auto(centred) if self.n_modes == "auto" else self._fit_modes(centred, int(self.n_modes))
        self._keep(found, centred, centre)
        self._warn(found)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Probability of each mode for each row, (n, modes): the responsibilities."""
        return self.distribution_.responsibilities(self._read(X))

    def predict(self, X: Any) -> NDArray[np.intp]:
        """The most probable mode of each row, counted from 0."""
        return self.distribution_.mode_of(self._read(X))

    def _refit(self, X: Any, n_components: Sequence[int]) -> Self:
        """The same modes with other numbers of components, from where the fit left off."""
        rows = self._read(X)
        centre = np.nanmean(rows, axis=0)
        first = self.distribution_.responsibilities(rows)
        centred = LatentMixture(
            self.weights_, tuple(replace(mode, mean=mode.mean - centre) for mode in self.mixture_.modes)
        )
        data = Rows(rows - centre)
        found = mixture_em.em(
            data,
            first,
            n_components,
            floor=mixture_em.least_noise(data, self.n_modes_),
            max_iter=self.max_iter,
            tol=self.tol,
            before=centred,
        )
        bic = getattr(self, "bic_", {})
        self._keep(found, data.X, centre)
        self.bic_ = bic
        return self

    def _restore(self, mixture: LatentMixture, mode_covariances: Floats) -> Self:
        """Become fitted again from what a model file keeps."""
        self.mixture_, self.mode_covariances_ = mixture, mode_covariances
        self.n_modes_ = mixture.n_modes
        self.n_components_ = tuple(mode.n_components for mode in mixture.modes)
        self.weights_ = mixture.weights
        self.means_ = np.array([mode.mean for mode in mixture.modes])
        self.noise_variances_ = np.array([float(mode.noise_variance) for mode in mixture.modes])
        self.mean_ = mixture.mean
        offsets = self.means_ - self.mean_
        self.covariance_ = self.within_covariance_ + (offsets.T * self.weights_) @ offsets
        left_over = [
            float(weight * (np.trace(covariance) - _explained(covariance, mode.n_components)))
            for weight, covariance, mode in zip(self.weights_, mode_covariances, mixture.modes, strict=True)
        ]
        self.sample_ = Scatter.of_matrix(self.covariance_)
        self.explained_variance_ratio_ = np.array([1 - sum(left_over) / (float(np.trace(self.covariance_)) or 1.0)])
        return self

    @property
    def distribution_(self) -> LatentMixture:
        """The fitted distribution."""
        check_is_fitted(self)
        return self.mixture_

    @property
    def within_covariance_(self) -> Floats:
        """Mean covariance of the modes' rows, weighted by the modes' shares, (d, d)."""
        return np.asarray(np.einsum("k,kij->ij", self.weights_, self.mode_covariances_))

    def _to_arrays(self) -> dict[str, Floats]:
        """Plain arrays from which a model file makes the mixture again."""
        p = self.mixture_.n_components
        padded = [np.pad(mode.loadings, ((0, 0), (0, p - mode.n_components))) for mode in self.mixture_.modes]
        return {
            "weights": self.weights_,
            "noise": self.noise_variances_,
            "components": np.array(self.n_components_, dtype=np.float64),
            "mean": self.means_,
            "loadings": np.array(padded),
            "covariance": self.mode_covariances_,
        }

    def _check_size(self, rows: Floats) -> None:
        n, d = rows.shape
        if d < 2:
            raise ValueError(f"{d} feature(s) are too few to learn from: at least 2 are needed.")
        many = self.n_components if isinstance(self.n_components, Sequence) else [self.n_components]
        if isinstance(self.n_components, Sequence) and len(self.n_components) != self.n_modes:
            raise ValueError(
                f"n_components lists {len(self.n_components)} numbers, one for each mode, but n_modes is {self.n_modes!r}."
            )
        numbers_wanted = [int(p) for p in many if isinstance(p, numbers.Integral)]
        if any(p >= d for p in numbers_wanted):
            raise ValueError(
                f"n_components={self.n_components} must be less than the number of features, {d} "
                "(with all components every row is reconstructed perfectly)."
            )
        modes = 1 if self.n_modes == "auto" else int(self.n_modes)
        p = numbers_wanted if len(numbers_wanted) == modes else [max(numbers_wanted, default=1)] * modes
        if n < sum(p) + modes:
            raise ValueError(
                f"{n} row(s) are too few for {modes} mode(s): at least {sum(p) + modes} are needed for this number of "
                "components."
            )

    def _fit_modes(self, X: Floats, k: int) -> mixture_em.Fitted:
        wanted = self.n_components
        if isinstance(wanted, numbers.Integral):
            wanted = [int(wanted)] * k
        return mixture_em.fit_modes(
            X,
            k,
            [int(p) for p in wanted] if isinstance(wanted, Sequence) else float(wanted),
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            seed=self.seed,
        )

    def _fit_auto(self, X: Floats) -> mixture_em.Fitted:
        """The number of modes with the lowest BIC, or with a gap between any two; more are tried until some are neither."""
        best = self._fit_modes(X, 1)
        chosen, self.bic_ = 1, {1: mixture_em.bic(best, len(X))}
        for k in range(2, self.max_modes + 1):
            try:
                found = self._fit_modes(X, k)
            except mixture_em.StarvedModeError:
                break
            if found.collapsed:
                break
            self.bic_[k] = mixture_em.bic(found, len(X))
            alike = mixture_em.dependence(X, best)
            lower = self.bic_[k] < self.bic_[chosen] and mixture_em.are_apart(found)
            if lower or mixture_em.bic(found, len(X), alike) < mixture_em.bic(best, len(X), alike):
                best, chosen = found, k
            elif k - chosen >= _PATIENCE:
                break
        return best

    def _keep(self, found: mixture_em.Fitted, centred: Floats, centre: Floats) -> None:
        mixture, covariances = mixture_em.finished(Rows(centred), found, noise=self.noise, shrinkage=self.shrinkage)
        order = np.argsort(-mixture.weights, kind="stable").tolist()
        modes = tuple(replace(mixture.modes[k], mean=centre + mixture.modes[k].mean) for k in order)
        self.n_samples_ = len(centred)
        self.log_likelihoods_ = np.array(found.log_likelihoods)
        self.n_iter_, self.converged_ = len(found.log_likelihoods), found.converged
        if self.n_modes != "auto":
            self.bic_ = {len(order): mixture_em.bic(found, len(centred))}
        self._restore(LatentMixture(mixture.weights[order], modes), covariances[order])

    def _warn(self, found: mixture_em.Fitted) -> None:
        if not found.converged:
            warn(
                f"expectation-maximisation stopped after {self.n_iter_:,} steps without converging: ask for fewer modes or "
                "components, or allow more steps (max_iter of MixturePPCA).",
                ConvergenceWarning,
            )
        if self.n_modes_ > 1 and found.collapsed:
            mode = int(np.argmin(self.noise_variances_))
            warn(
                f"mode {mode + 1} of {self.n_modes_} has hardly any noise: its rows repeat each other, or its components "
                "explain them completely. Ask for fewer modes or components.",
                ConvergenceWarning,
            )
