"""PCADetector: scaling, model, score, limit and explanation in one scikit-learn estimator."""

from collections.abc import Iterable, Mapping, Sequence
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
from culpa.explainer import Explainer
from culpa.explanation import Explanation
from culpa.limits import KINDS, control_limit, named_score
from culpa.models import PPCA, Moments, Normal
from culpa.together import Together, fix_together

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

    Attributes
    ----------
    model_ : PPCA
        The model of standardised rows.
    mean_, scale_ : ndarray of shape (d,)
        Training mean and standard deviation.
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
    ) -> None:
        self.n_components = n_components
        self.scale = scale
        self.statistic = statistic
        self.confidence = confidence
        self.limit = limit

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from normal rows; missing cells are allowed."""
        self._check_parameters()
        table = check_estimator_input(self, X, reset=True, min_rows=2)
        self.mean_, self.scale_ = _moments(table.array, self.scale)
        scaled = (table.array - self.mean_) / self.scale_
        self.model_ = PPCA(self.n_components).fit(Table(scaled, table.names))
        return self._prepare(self._limit([table.array]))

    def fit_moments(
        self, moments: Moments, names: tuple[str, ...] | None = None, batches: Iterable[Floats] | None = None
    ) -> Self:
        """Learn from the mean and covariance of complete rows, gathered in one pass over a table of any size.

        Only ``limit="empirical"`` needs the rows themselves, once more: ``batches``.
        """
        self._check_parameters()
        check_estimator_input(self, Table(np.empty((0, moments.n_features)), names), reset=True)
        self.mean_, self.scale_ = moments.mean, np.ones(moments.n_features)
        if self.scale:
            self.scale_ = _scale(moments.mean, np.diag(moments.covariance))
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
        rows = self.to_normal().standardise(table.array)
        columns: dict[str, Any] = {"row": table.row_labels()}
        for build in (scores.spe, scores.t2):
            score = build(self.to_normal().centred)
            values, limit = score(rows), control_limit(score, self.to_normal(), self.confidence)
            columns |= {score.name: values, f"{score.name}_limit": np.full(len(rows), limit)}
            columns[f"{score.name}_flag"] = values > limit
        columns["anomaly"] = self._score_table(table) > self.limit_
        return frame_like(table.native, columns)

    def control_limits(self, confidences: Sequence[float] = (0.95, 0.99)) -> Any:
        """Table of limits for control charts: statistic, confidence, kind, limit.

        One line for SPE, T2 and the detector's own statistic at every confidence. The limit that `predict` uses, `limit_`,
        is the line of the detector's ``statistic`` at its ``confidence``, which is always among them.
        """
        check_is_fitted(self)
        lines = []
        for name in dict.fromkeys(("spe", "t2", self.statistic)):
            own = name == self.statistic
            for confidence in sorted({*confidences, *((self.confidence,) if own else ())}):
                fitted = own and confidence == self.confidence
                kind = self.limit if fitted else "auto"
                score = self._score if own else named_score(name, self.to_normal())
                limit = self.limit_ if fitted else control_limit(score, self.to_normal(), confidence)
                lines.append((name, float(confidence), kind, limit))
        return frame_like(
            None, dict(zip(("statistic", "confidence", "kind", "limit"), zip(*lines, strict=True), strict=True))
        )

    def explain(self, X: Any, **options: Any) -> Explanation:
        """Explain the score of every row; ``options`` are those of `Explainer`. No rows give an empty explanation."""
        table = self._read(X, min_rows=0)
        return self.explainer(**options).explain(table)

    def explainer(self, **options: Any) -> Explainer:
        """The `Explainer` behind `explain`: kept between calls, with whatever it has compiled, until the next ``fit``."""
        check_is_fitted(self)
        if options.setdefault("score", self.statistic) == self.statistic and "features" not in options:
            options["score"] = self._score  # the one that was fitted, with its weights
        for known, explainer in self._explainers:
            if _same(known, options):
                return explainer
        explainer = Explainer(self, **options)
        self._explainers = [*self._explainers[1 - _KEPT :], (options, explainer)]
        return explainer

    def together(self, X: Any, features: Sequence[str | int] | int = 2) -> Together:
        """Fix several features of each row at once: what the remaining ones imply for all of them, and the score then.

        ``features`` names them, or is the number of each row's worst culprits to fix.
        """
        return fix_together(self.explainer(), self._read(X, min_rows=0), self.limit_, features)

    def incidents(
        self,
        X: Any,
        *,
        time: Any = None,
        gap: Any = 0,
        min_length: int = 1,
        units: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Any:
        """Flagged rows that follow each other, as incidents: when, whose fault, what was expected, in one sentence each.

        Parameters
        ----------
        X
            New rows in the order of time.
        time
            Name of the column of ``X`` that holds the rows' times (it is not a feature then), or the times themselves:
            dates, durations, ISO 8601 texts or numbers, ascending. The index of a pandas table is used by itself if it
            holds times. Without times, incidents are told by row labels.
        gap
            What may lie between two flagged rows of one incident: a number of rows that are not flagged, or a span of
            time such as ``"5min"``.
        min_length
            Flagged rows that an incident has at least; shorter ones are left out.
        units
            Units of features for the sentences, such as ``{"flow_3": "m3/h"}``; those of a model file are known.
        options
            Those of `Explainer`, such as ``groups``; only flagged rows are explained.

        Returns
        -------
        Incidents
            A sequence of `culpa.incidents.Incident` with ``to_frame``, ``to_dict`` and ``to_json``.

        Examples
        --------
        >>> from culpa.datasets import make_plant
        >>> plant = make_plant()
        >>> detector = PCADetector().fit(plant.normal)
        >>> incidents = detector.incidents(plant.new, gap=3, min_length=5)
        >>> incidents[0].culprits[0].feature, incidents[0].n_to_fix
        ('x2', 1)
        """
        find = import_module("culpa.incidents").find_incidents
        return find(self, X, time=time, gap=gap, min_length=min_length, units=units, **options)

    @property
    def plot(self) -> Any:
        """Pictures, with matplotlib: ``control_chart(X)``, ``distance(X)`` and ``loadings()``; see `culpa.plots`."""
        return import_module("culpa.plots").Plots(self)

    def reconstruct(self, X: Any) -> Floats:
        """What the model makes of each row, in the user's units; missing cells are filled in."""
        rows = (self._read(X).array - self.mean_) / self.scale_
        return np.asarray(self.mean_ + self.scale_ * self.model_.gaussian_.reconstruct(rows))

    def residuals(self, X: Any) -> Floats:
        """Row minus reconstruction, in the user's units."""
        table = self._read(X)
        return np.asarray(table.array - self.reconstruct(table))

    def to_normal(self) -> Normal:
        """The fitted model together with the scaling, for `Explainer`."""
        check_is_fitted(self, "model_")
        names = getattr(self, "feature_names_in_", None)
        return Normal(
            self.model_.gaussian_,
            self.mean_,
            self.scale_,
            self.model_.covariance_,
            self.model_.n_samples_,
            None if names is None else tuple(map(str, names)),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _read(self, X: Any, min_rows: int = 1) -> Table:
        check_is_fitted(self)
        return check_estimator_input(self, X, reset=False, min_rows=min_rows)

    def _score_table(self, table: Table) -> Floats:
        with one_blas_thread(len(table.array)):
            result = self._score(self.to_normal().standardise(table.array))
        if np.isnan(result).any():
            warn_about_empty_rows(table.row_labels()[np.isnan(result)])
        return result

    def _check_parameters(self) -> None:
        one_of(self.statistic, scores.NAMES, "statistic")
        one_of(self.limit, KINDS, "limit")
        fraction(self.confidence, "confidence")

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
