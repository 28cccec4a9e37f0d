"""PCADetector: scaling, model, score, limit and explanation in one scikit-learn estimator."""

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from culpa import scores
from culpa._compiled import one_blas_thread
from culpa._missing import warn_about_empty_rows
from culpa._validation import Table, check_estimator_input, fraction, frame_like, one_of
from culpa.columns import Lagged, check_lags, lagged_names
from culpa.explainer import Explainer
from culpa.explanation import Explanation
from culpa.limits import KINDS, control_limit, named_score
from culpa.models import PPCA, Moments, Normal

Floats = NDArray[np.float64]

_KEPT = 8  # explainers that a detector remembers


class PCADetector(OutlierMixin, BaseEstimator):
    """Detects rows that a PCA of normal rows cannot reconstruct, and says which features are to blame.

    Parameters
    ----------
    n_components : int, float or "mle"
        Number of components, or the share of variance that they must explain.
    scale : bool
        Standardise every column by its training mean and standard deviation (divisor n - 1, where scikit-learn's
        StandardScaler divides by n). A constant column keeps scale 1.
    statistic : {"spe", "mse", "t2", "mahalanobis", "combined"}
        The score that is compared with the limit, and that `explain` explains.
    confidence : float
        Share of normal rows that should stay below the limit.
    limit : {"auto", "jackson-mudholkar", "box", "f", "empirical"}
        How the limit is found; "empirical" is the quantile of the training rows' scores.
    lags : int
        Dynamic PCA: every row is judged together with the ``lags`` rows before it, and each sensor is blamed for its
        present and past values together. Rows must be consecutive then.

    Attributes
    ----------
    model_ : PPCA
        The model of standardised rows.
    mean_, scale_ : ndarray of shape (d,)
        Training mean and standard deviation; with lags, of present values and then of each lag in turn.
    limit_ : float
        Control limit of the score; ``offset_`` is its negative, as in scikit-learn's detectors.

    Examples
    --------
    >>> from culpa.datasets import load_wine_outliers
    >>> wine = load_wine_outliers()
    >>> detector = PCADetector().fit(wine.X[wine.y == 0])
    >>> bool((detector.predict(wine.X[wine.y == 1]) == -1).mean() > 0.5)
    True
    """

    _explainers: list[tuple[dict[str, Any], Explainer]]

    def __init__(
        self,
        n_components: int | float | Literal["mle"] = 0.95,
        *,
        scale: bool = True,
        statistic: str = "spe",
        confidence: float = 0.99,
        limit: str = "auto",
        lags: int = 0,
    ) -> None:
        self.n_components = n_components
        self.scale = scale
        self.statistic = statistic
        self.confidence = confidence
        self.limit = limit
        self.lags = lags

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from normal rows; missing cells are allowed."""
        self._check_parameters()
        table = self._with_history(check_estimator_input(self, X, reset=True, min_rows=2 + self.lags))
        self.mean_, self.scale_ = _moments(table.array, self.scale)
        scaled = (table.array - self.mean_) / self.scale_
        self.model_ = PPCA(self.n_components).fit(Table(scaled, table.names))
        return self._prepare(self._limit([table.array]))

    def fit_moments(
        self, moments: Moments, names: tuple[str, ...] | None = None, batches: Iterable[Floats] | None = None
    ) -> Self:
        """Learn from the mean and covariance of complete rows, gathered in one pass over a table of any size.

        Only ``limit="empirical"`` needs the rows themselves, once more: ``batches``. With lags, moments and batches are
        those of the lag matrix (`culpa.columns.History`), and ``names`` the sensors'.
        """
        self._check_parameters()
        n_columns = moments.n_features // (self.lags + 1)
        check_estimator_input(self, Table(np.empty((0, n_columns)), names), reset=True)
        self.mean_, self.scale_ = moments.mean, np.ones(moments.n_features)
        if self.scale:
            self.scale_ = _scale(moments.mean, np.diag(moments.covariance))
        names = None if names is None else lagged_names(names, self.lags)
        self.model_ = PPCA(self.n_components).fit_moments(moments.scaled(self.mean_, self.scale_), names)
        return self._prepare(self._limit(batches))

    def save(self, path: str | Path) -> None:
        """Write the fitted detector, with the explainer it has compiled, to a model file; `culpa.load` reads it."""
        check_is_fitted(self)
        import_module("culpa.store").save(self, path)

    def score_samples(self, X: Any) -> Floats:
        """Negative score of each row: higher is more normal."""
        return -self._score_table(self._read(X))

    def decision_function(self, X: Any) -> Floats:
        """Limit minus score: negative for anomalies."""
        return np.asarray(self.score_samples(X) - self.offset_)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for anomalies, +1 for normal rows; a row without any observed feature is not flagged."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def statistics(self, X: Any) -> Any:
        """Table of the classical statistics: SPE and T2 with their limits and flags, in the kind of table given.

        ``anomaly`` is what `predict` says: it follows the detector's own ``statistic`` alone.
        """
        table = self._read(X)
        rows = self.to_normal().standardise(self._features(table))
        columns: dict[str, Any] = {"row": table.row_labels()}
        for build in (scores.spe, scores.t2):
            score = build(self.to_normal().centred)
            values, limit = score(rows), control_limit(score, self.to_normal(), self.confidence)
            columns |= {score.name: values, f"{score.name}_limit": np.full(len(rows), limit)}
            columns[f"{score.name}_flag"] = values > limit
        columns["anomaly"] = self._score_table(table) > self.limit_
        return frame_like(table.native, columns)

    def explain(self, X: Any, rows: Any = None, **options: Any) -> Explanation:
        """Explain the score of every row, or of those that ``rows`` picks by positions or a mask.

        ``options`` are those of `Explainer`. No rows give an empty explanation. With lags, give whole stretches of
        consecutive rows, and pick: ``explain(X, rows=flags == -1)``.
        """
        table = self._read(X, min_rows=0)
        return self.explainer(**options).explain(table, rows)

    def explainer(self, **options: Any) -> Explainer:
        """The `Explainer` behind `explain`: kept between calls, with whatever it has compiled, until the next ``fit``."""
        check_is_fitted(self)
        options = {"score": self._score.name} | options  # the one that was fitted
        for known, explainer in self._explainers:
            if _same(known, options):
                return explainer
        explainer = Explainer(self, **options)
        self._explainers = [*self._explainers[1 - _KEPT :], (options, explainer)]
        return explainer

    def reconstruct(self, X: Any) -> Floats:
        """What the model makes of each row, in the user's units; missing cells are filled in."""
        rows = (self._features(self._read(X)) - self.mean_) / self.scale_
        return self._columns.decode(self.mean_ + self.scale_ * self.model_.gaussian_.reconstruct(rows))

    def residuals(self, X: Any) -> Floats:
        """Row minus reconstruction, in the user's units."""
        table = self._read(X)
        return np.asarray(table.array - self.reconstruct(table))

    def to_normal(self) -> Normal:
        """The fitted model together with the scaling, for `Explainer`."""
        check_is_fitted(self, "model_")
        columns = self._columns
        return Normal(
            self.model_.gaussian_,
            self.mean_,
            self.scale_,
            self.model_.covariance_,
            self.model_.n_samples_,
            lagged_names(columns.names, columns.lags) if columns.lags else columns.known_names,
            columns if columns.lags else None,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _read(self, X: Any, min_rows: int = 1) -> Table:
        check_is_fitted(self)
        return check_estimator_input(self, X, reset=False, min_rows=min_rows)

    @property
    def _columns(self) -> Lagged:
        """The columns that the detector was fitted on."""
        names = getattr(self, "feature_names_in_", None)
        known = None if names is None else tuple(map(str, names))
        return Lagged(known, self.n_features_in_, len(self.mean_) // self.n_features_in_ - 1)

    def _features(self, table: Table) -> Floats:
        """Rows as the model takes them: with lags, beside the rows before them."""
        return self._columns.read(table).features

    def _with_history(self, table: Table) -> Table:
        """Rows to learn from: with lags, those whose whole history is known, beside it."""
        if not self.lags:
            return table
        rows = Lagged(table.names, table.array.shape[1], self.lags).read(table).features[self.lags :]
        return Table(rows, None if table.names is None else lagged_names(table.names, self.lags))

    def _score_table(self, table: Table) -> Floats:
        with one_blas_thread(len(table.array)):
            result = self._score(self.to_normal().standardise(self._features(table)))
        if np.isnan(result).any():
            warn_about_empty_rows(table.row_labels()[np.isnan(result)])
        return result

    def _check_parameters(self) -> None:
        one_of(self.statistic, scores.NAMES, "statistic")
        one_of(self.limit, KINDS, "limit")
        fraction(self.confidence, "confidence")
        check_lags(self.lags)

    def _prepare(self, limit: float) -> Self:
        """Everything that follows from the model and the limit; model files start from here, too."""
        self._score = named_score(self.statistic, self.to_normal(), confidence=self.confidence)
        self.limit_ = limit
        self.offset_ = -limit
        self._explainers = []
        return self

    def _limit(self, batches: Iterable[Floats] | None) -> float:
        normal = self.to_normal()
        score = named_score(self.statistic, normal, confidence=self.confidence)
        training_scores = None
        if self.limit == "empirical" and batches is not None:
            training_scores = np.concatenate([score(normal.standardise(X)) for X in batches])
        return control_limit(score, normal, self.confidence, self.limit, training_scores)


def _same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    try:
        return a == b
    except ValueError:  # arrays do not say in one word whether they are equal; look again rather than guess
        return False


def _moments(X: Floats, scale: bool) -> tuple[Floats, Floats]:
    """Mean and standard deviation (divisor n - 1) of every column; scale 1 for columns that do not vary."""
    counts = np.maximum((~np.isnan(X)).sum(axis=0), 1)
    mean = np.nansum(X, axis=0) / counts
    centred = X - mean
    mean = mean + np.nansum(centred, axis=0) / counts  # second pass: exact for large means
    if not scale:
        return mean, np.ones_like(mean)
    return mean, _scale(mean, np.nansum((X - mean) ** 2, axis=0) / np.maximum(counts - 1, 1))


def _scale(mean: Floats, variance: Floats) -> Floats:
    """Standard deviations, and 1 for columns that do not vary."""
    std = np.sqrt(variance)
    return np.where(std <= 10 * np.finfo(np.float64).eps * np.abs(mean), 1.0, std)
