"""What the scikit-learn estimators of this package have in common once they are fitted."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from culpa._core.border import entered
from culpa._core.estimators import BaseEstimator
from culpa._core.types import Floats
from culpa._core.validation import check_estimator_input
from culpa.columns import Lagged, lagged_names
from culpa.models.context import Context
from culpa.models.distribution import Distribution
from culpa.models.fitted_model import FittedModel
from culpa.models.scatter import Scatter


@entered
class Estimator(BaseEstimator, ABC):
    """The methods of an estimator that follow from the distribution it was fitted to."""

    if TYPE_CHECKING:  # attributes that the estimators set
        shrinkage: float
        mean_: Floats
        sample_: Scatter
        n_samples_: float
        n_components_: Any
        explained_variance_ratio_: Floats
        n_iter_: int
        converged_: bool

    @property
    @abstractmethod
    def distribution_(self) -> Distribution:
        """The fitted distribution."""

    @property
    @abstractmethod
    def within_covariance_(self) -> Floats:
        """Sample covariance, (d, d); with modes, its mean within modes, weighted by the modes' shares."""

    @abstractmethod
    def _to_arrays(self) -> dict[str, Floats]:
        """Plain arrays from which a model file makes the model again."""

    def score_samples(self, X: Any) -> Floats:
        """Log-density of each row."""
        return self.distribution_.log_density(self._read(X))

    def score(self, X: Any, y: None = None) -> float:
        """Mean log-density.

        Parameters
        ----------
        X
            Rows; missing cells are allowed.
        y
            Not used, as in scikit-learn.

        Returns
        -------
        float
            The higher, the more normal the rows are.
        """
        return float(self.score_samples(X).mean())

    def reconstruct(self, X: Any) -> Floats:
        """Each row projected on the principal axes, of its mode if there are several; missing cells are filled in."""
        return self.distribution_.reconstruct(self._read(X))

    def residuals(self, X: Any) -> Floats:
        """Row minus reconstruction."""
        return self.distribution_.residuals(self._read(X))

    def _scaled(self, centre: Floats, scale: Floats, columns: Lagged, context: Context | None = None) -> FittedModel:
        """What normal looks like in the user's units, where this model was fitted to rows of which centre is the mean.

        With a context, these are rows that were adjusted to it.
        """
        lags = columns.lags
        model = FittedModel(
            self.distribution_.centred(),
            centre,
            scale,
            self.sample_,
            self.n_samples_,
            lagged_names(columns.names, lags) if lags else columns.known_names,
            columns if lags or columns.given else None,
            self.shrinkage,
            context,
        )
        if columns.smooth is None:
            return model
        return replace(model, encoding=columns.around(centre if context is None else context.row(centre)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _read(self, X: Any) -> Floats:
        return check_estimator_input(self, X, reset=False).array
