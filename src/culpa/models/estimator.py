"""What the scikit-learn estimators of this package have in common once they are fitted."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator

from culpa._core.border import entered
from culpa._core.types import Floats
from culpa._core.validation import check_estimator_input
from culpa.columns import Lagged, lagged_names
from culpa.models.context import Context
from culpa.models.fitted_model import FittedModel
from culpa.models.latent import LatentGaussian
from culpa.models.mixture import LatentMixture
from culpa.models.scatter import Scatter


@entered
class KnowsRows(BaseEstimator, ABC):
    """The methods of an estimator that follow from the distribution it was fitted to."""

    if TYPE_CHECKING:  # attributes that the estimators set
        shrinkage: float
        sample_: Scatter
        n_samples_: float

    @abstractmethod
    def _distribution(self) -> LatentGaussian | LatentMixture:
        """The fitted distribution."""

    def score_samples(self, X: Any) -> Floats:
        """Log-density of each row."""
        return self._distribution().log_density(self._read(X))

    def score(self, X: Any, y: None = None) -> float:
        """Mean log-density."""
        return float(self.score_samples(X).mean())

    def reconstruct(self, X: Any) -> Floats:
        """Each row projected on the principal axes, of its mode if there are several; missing cells are filled in."""
        return self._distribution().reconstruct(self._read(X))

    def residuals(self, X: Any) -> Floats:
        """Row minus reconstruction."""
        return self._distribution().residuals(self._read(X))

    def scaled(self, centre: Floats, scale: Floats, columns: Lagged, context: Context | None = None) -> FittedModel:
        """What normal looks like in the user's units, where this model was fitted to (x - centre) / scale.

        With a context, x is a row that was adjusted to it.
        """
        lags = columns.lags
        model = FittedModel(
            self._distribution(),
            centre,
            scale,
            self.sample_,
            self.n_samples_,
            lagged_names(columns.names, lags) if lags else columns.known_names,
            columns if lags or columns.given else None,
            self.shrinkage,
            context,
        )
        return model if columns.smooth is None else replace(model, encoding=columns.around(model.reference))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _read(self, X: Any) -> Floats:
        return check_estimator_input(self, X, reset=False).array
