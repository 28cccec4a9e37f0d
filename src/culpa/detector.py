"""PCADetector: the scikit-learn estimator around a `culpa.fitted.FittedDetector`."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from culpa import games, scores
from culpa._core.choices import Criterion, GameName, LimitKind, Ranking, Robustness, ScoreName
from culpa._core.kinds import FRACTION
from culpa._core.parameter import documented, known_keywords
from culpa._core.parameters import DETECTOR, FORGET
from culpa._core.types import DataFrame, Floats
from culpa._core.validation import Table, check_estimator_input, complete_rows, frame_like
from culpa.columns import Lagged, lagged_names
from culpa.explainer import Explainer
from culpa.explanation import Explanation
from culpa.fitted import FittedDetector, charted
from culpa.joint_fix import JointFix
from culpa.models import PPCA, FittedModel, Moments
from culpa.models.moments import mean_and_spread, spread
from culpa.monitoring import Incidents, find_incidents, split_time
from culpa.monitoring.comparison import Comparison, compare
from culpa.monitoring.dirty_cells import without_suspicious_cells
from culpa.monitoring.trimming import abnormal_rows, fit_without_worst, in_limit
from culpa.options import BlameOptions, ExplainerOptions, ReportOptions
from culpa.ranking import contributions
from culpa.scores.by_name import named_score
from culpa.scores.limits import FROM_ROWS, Limits

if TYPE_CHECKING:
    import pandas as pd

    from culpa.plots import DetectorPlots
    from culpa.report import Report

_NEED_NO_FIT = ("game", "ranking", "noun")  # parameters that take effect at once


def _merges(detector: "PCADetector") -> bool:
    """Whether mean and covariance are all that the detector needs, so that it can learn piece by piece."""
    if detector.robust:
        raise ValueError(f"robust={detector.robust!r} needs all training rows at once: use fit.")
    if detector.limit in FROM_ROWS or detector.trim or detector.n_components == "mle":
        what = f"limit={detector.limit!r}" if detector.limit in FROM_ROWS else "trim" if detector.trim else "'mle'"
        raise ValueError(f"{what} needs all training rows at once: use fit (a limit can follow by calibrate_limit).")
    return True


@documented(DETECTOR)
class PCADetector(OutlierMixin, BaseEstimator):
    """Detects rows that a PCA of normal rows cannot reconstruct, and says which features are to blame.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : PPCA
        The model of standardised rows.
    mean_, scale_ : ndarray of shape (d,)
        Training mean and standard deviation; with lags, of present values and then of each lag in turn.
    limit_ : float
        Control limit of the score; ``offset_`` is its negative, as in scikit-learn's detectors.
    limit_kind_ : str
        What kind of limit it is: what "auto" chose, or "conformal" after `calibrate_limit`.
    abnormal_training_rows_ : DataFrame
        Training rows above the limit of SPE or T2 (those that `trim` left out are marked), the worst first: row label,
        position, SPE, T2, and the larger of the two in units of its limit. Of clean rows, expect a share 1 - confidence for
        each of the two. Only ``fit`` sees the rows, so there is none after ``fit_moments`` and ``partial_fit``.
    suspicious_cells_ : DataFrame or None
        With ``robust="cells"``, the training cells that were treated as missing, the worst first: row label, position,
        feature, value, expected value, and standardised residual.

    Examples
    --------
    >>> from culpa.datasets import load_wine_outliers
    >>> wine = load_wine_outliers()
    >>> detector = PCADetector().fit(wine.X[wine.y == 0])
    >>> bool((detector.predict(wine.X[wine.y == 1]) == -1).mean() > 0.5)
    True
    """

    _fitted: FittedDetector
    _gathered: Moments | None = None  # of the rows that partial_fit has seen

    @known_keywords
    def __init__(
        self,
        n_components: int | float | Literal["mle"] = 0.95,
        *,
        scale: bool = True,
        statistic: ScoreName = "spe",
        confidence: float = 0.99,
        limit: LimitKind = "auto",
        holdout: float = 0.2,
        trim: float = 0.0,
        robust: Robustness | None = None,
        lags: int = 0,
        noise: float = 1.0,
        shrinkage: float = 0.0,
        game: GameName = "conditional",
        ranking: Ranking = "shapley",
        noun: str = "feature",
    ) -> None:
        self.n_components = n_components
        self.scale = scale
        self.statistic = statistic
        self.confidence = confidence
        self.limit = limit
        self.holdout = holdout
        self.trim = trim
        self.robust = robust
        self.lags = lags
        self.noise = noise
        self.shrinkage = shrinkage
        self.game = game
        self.ranking = ranking
        self.noun = noun

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from normal rows; missing cells are allowed."""
        with _all_or_nothing(self):
            return self._fit(X)

    def _fit(self, X: Any) -> Self:
        self._check_parameters()
        given = check_estimator_input(self, X, reset=True, min_rows=2 + self.lags)
        cells = None
        if self.robust:
            given, cells = without_suspicious_cells(given)  # before lags, so that a cell is missing wherever it appears
        table = self._with_history(given)
        n = len(table.array) - (math.ceil(self.holdout * len(table.array)) if self.limit == "conformal" else 0)
        if n < 2:
            raise ValueError(
                f"limit='conformal' with holdout={self.holdout:g} leaves {n} of {len(table.array)} rows to learn from: "
                "give more rows."
            )
        rows, held_out = table.array[:n], table.array[n:]
        (ppca, model), kept = fit_without_worst(
            lambda rows: self._learn(rows, table.names), rows, self.trim, self.confidence
        )
        judged = rows[in_limit(model, rows, kept, self.confidence)] if self.limit == "empirical" else held_out
        labels = given.row_labels()[self.lags :][:n]
        abnormal = abnormal_rows(model, rows, kept, labels, self.confidence, self.lags)
        judging = self._judging(ppca, model, [judged])
        return self._set_fitted(replace(judging, abnormal_training_rows=abnormal, suspicious_cells=cells))

    @available_if(_merges)
    def partial_fit(self, X: Any, y: None = None, *, forget: float = 0.0) -> Self:
        """Learn from more normal rows: the result is that of ``fit`` on all rows so far, to rounding.

        It keeps only mean and covariance, so it needs complete rows and a limit by formula; `calibrate_limit` can follow.
        With lags, the rows of each call must be consecutive, and the first ones serve only as the others' past.

        Parameters
        ----------
        X
            Normal rows, the oldest first.
        forget
            Share of its weight that every earlier row loses with each row of ``X``. With ``forget=0.001`` a row counts
            half after 693 more rows (log 2 / forget), and the model rests on about 1,000 rows (1 / forget). Mean and
            covariance are those of the weighted rows, however they are cut into calls. 0 forgets nothing.
        """
        self._check_parameters()
        FORGET.check(forget)
        first = not hasattr(self, "model_")
        table = check_estimator_input(self, X, reset=first, min_rows=1 + self.lags)
        complete_rows(table)
        rows = self._with_history(table).array
        moments = (Moments.of(rows[:0]) if first else self.moments_so_far()).then(rows, forget)
        self.fit_moments(moments, table.names if first else self.fitted.columns.known_names)
        self._gathered = moments
        return self

    def calibrate_limit(self, X: Any) -> Self:
        """Set the limit by normal rows that the detector was not fitted to: a conformal limit.

        A new row that comes from where these came from exceeds it with probability 1 - confidence at most, whatever the
        distribution. Ask for at least confidence / (1 - confidence) rows: 99 for 99%.
        """
        fitted = self.fitted
        rows = fitted.read(self.read(X)).features[fitted.columns.lags :]
        statistic = named_score(self.statistic, fitted.model, confidence=self.confidence)
        limits = _limits_from_rows(fitted.model, statistic, "conformal", [rows])
        asked = {"statistic": self.statistic, "confidence": self.confidence}  # a new limit is for what is asked for now
        return self._set_fitted(
            replace(
                fitted,
                statistic=statistic,
                confidence=self.confidence,
                limits=limits,
                limit=limits(statistic, self.confidence),
                parameters={**fitted.parameters, **asked},
                _explainers=[],
                _scores={},
            )
        )

    def fit_moments(
        self, moments: Moments, names: tuple[str, ...] | None = None, batches: Iterable[Floats] | None = None
    ) -> Self:
        """Learn from the mean and covariance of complete rows, gathered in one pass over a table of any size.

        Only ``limit="empirical"`` needs the rows themselves, once more: ``batches``. With lags, moments and batches are
        those of the lag matrix (`culpa.columns.History`), and ``names`` the sensors'.
        """
        with _all_or_nothing(self):
            return self._fit_moments(moments, names, batches)

    def _fit_moments(self, moments: Moments, names: tuple[str, ...] | None, batches: Iterable[Floats] | None) -> Self:
        self._check_parameters()
        if self.limit == "conformal" or self.trim or self.robust:
            what = f"robust={self.robust!r}" if self.robust else "trim" if self.trim else "limit='conformal'"
            raise ValueError(f"{what} needs the rows themselves, not only their moments: use fit.")
        n_columns = moments.n_features // (self.lags + 1)
        check_estimator_input(self, Table(np.empty((0, n_columns)), names), reset=True)
        mean, scale = moments.mean, np.ones(moments.n_features)
        if self.scale:
            scale = spread(moments.mean, np.diag(moments.covariance))
        names = None if names is None else lagged_names(names, self.lags)
        ppca = self._ppca().fit_moments(moments.scaled(mean, scale), names)
        return self._set_fitted(self._judging(ppca, self._model_of(ppca, mean, scale), batches))

    @classmethod
    def from_fitted(cls, fitted: FittedDetector) -> Self:
        """The estimator around a core that was fitted before."""
        detector = cls(**fitted.parameters)
        names = fitted.columns.known_names
        detector.n_features_in_ = len(fitted.columns.names)
        if names is not None:
            detector.feature_names_in_ = np.array(names, dtype=object)
        return detector._set_fitted(fitted)

    @property
    def fitted(self) -> FittedDetector:
        """The fitted core: what judges and explains rows, as one immutable object."""
        check_is_fitted(self, "model_")
        core = self._fitted
        now = {name: getattr(self, name) for name in _NEED_NO_FIT}
        if all(core.parameters.get(name) == value for name, value in now.items()):
            return core
        return replace(core, parameters={**core.parameters, **now})

    @property
    def units_(self) -> dict[str, str]:
        """Units of columns, for texts; may be set after fitting."""
        return dict(self.fitted.units)

    @units_.setter
    def units_(self, units: Mapping[str, str]) -> None:
        self._fitted = replace(self.fitted, units=dict(units))

    def save(self, path: str | Path) -> None:
        """Write the fitted detector, with the explainer it has compiled, to a model file; `culpa.load` reads it."""
        check_is_fitted(self)
        import_module("culpa.io").save(self.fitted, path)

    def read(self, X: Any, min_rows: int = 1) -> Table:
        """Check a table against the columns that the detector was fitted on."""
        check_is_fitted(self)
        return check_estimator_input(self, X, reset=False, min_rows=min_rows)

    def score_samples(self, X: Any) -> Floats:
        """Negative score of each row: higher is more normal."""
        return -self.fitted.score(self.read(X))

    def decision_function(self, X: Any) -> Floats:
        """Limit minus score: negative for anomalies."""
        return np.asarray(self.score_samples(X) - self.offset_)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for anomalies, +1 for normal rows; a row without any observed feature is not flagged."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def statistics(self, X: Any) -> DataFrame:
        """Table of the classical statistics: SPE and T2 with their limits and flags, in the kind of table given.

        ``anomaly`` is what `predict` says: it follows the detector's own ``statistic`` alone. Limits are at the detector's
        ``confidence``; `control_limits` has others.
        """
        table, fitted = self.read(X), self.fitted
        columns: dict[str, Any] = {"row": table.row_labels()}
        values = fitted.statistics(table)
        limits = {
            line.statistic: line.limit for line in fitted.control_limits() if line.confidence == fitted.confidence
        }
        for name in ("spe", "t2"):
            columns |= {name: values[name], f"{name}_limit": np.full(len(table.array), limits[name])}
            columns[f"{name}_flag"] = values[name] > limits[name]
        columns["anomaly"] = fitted.is_flagged(values[fitted.statistic.name])
        return frame_like(table.native, columns)

    def control_limits(
        self, confidences: float | Sequence[float] = (0.95, 0.99), *, training: bool = False
    ) -> "pd.DataFrame":
        """Table of limits for control charts: statistic, confidence, kind, limit.

        One line for SPE, T2 and the detector's own statistic at every confidence; the detector's own confidence is always
        among them, and `limit_`, which `predict` uses, is its line. With ``training``, limits for charts of the training
        rows themselves: the Beta limit for T2. A confidence that held-out rows are too few for is left out.
        """
        asked = np.atleast_1d(np.asarray(confidences, dtype=np.float64)).tolist()
        for level in asked:
            FRACTION.check(level, "confidences")
        lines = self.fitted.control_limits(asked, training=training)
        columns = zip(("statistic", "confidence", "kind", "limit"), zip(*lines, strict=True), strict=True)
        return frame_like(None, dict(columns))

    def explain(self, X: Any, rows: Any = None, **options: Unpack[ExplainerOptions]) -> Explanation:
        """Explain the score of every row, or of those that ``rows`` picks by positions or a mask.

        ``options`` are those of `Explainer`. No rows give an empty explanation. With lags, give whole stretches of
        consecutive rows, and pick: ``explain(X, rows=flags == -1)``.
        """
        return self.fitted.explain(self.read(X, min_rows=0), rows, **options)

    def contributions(self, X: Any, criterion: Criterion = "rbc", *, statistic: ScoreName | None = None) -> Any:
        """Classical contributions of every feature to a statistic, in the shape and kind of ``X``.

        ``criterion`` is one of `culpa.ranking.CRITERIA`; the statistic is the detector's own unless told otherwise, and
        the Mahalanobis distance for "leave-one-out" and "mahalanobis-shapley". They only rank suspects: `explain` gives
        Shapley values, which respect correlations.
        """
        table = self.read(X, min_rows=0)
        if statistic is None and criterion not in contributions.OF_MAHALANOBIS:
            statistic = self.statistic
        return contributions.of_model(self, table, criterion, statistic and self.fitted.named(statistic))

    def explainer(self, **options: Unpack[ExplainerOptions]) -> Explainer:
        """The `Explainer` behind `explain`: kept between calls, with whatever it has compiled, until the next ``fit``."""
        return self.fitted.explainer(**options)

    def fix(self, X: Any, features: Sequence[str | int] | int = 2) -> JointFix:
        """Fix several features of each row at once: what the remaining ones imply for all of them, and the score then.

        ``features`` names them, or is the number of each row's worst culprits to fix.
        """
        return self.fitted.fix(self.read(X, min_rows=0), features)

    def incidents(
        self,
        X: Any,
        *,
        time: Any = None,
        gap: Any = 0,
        min_length: int = 1,
        units: Mapping[str, str] | None = None,
        **options: Unpack[BlameOptions],
    ) -> Incidents:
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
            A sequence of `culpa.monitoring.incidents.Incident` with ``to_frame``, ``to_dict`` and ``to_json``.

        Examples
        --------
        >>> from culpa.datasets import make_plant
        >>> plant = make_plant()
        >>> detector = PCADetector().fit(plant.normal)
        >>> incidents = detector.incidents(plant.new, gap=3, min_length=5)
        >>> incidents[0].culprits[0].feature, incidents[0].n_to_fix
        ('x2', 1)
        """
        features, times, name = split_time(X, time)
        table = self.read(features, min_rows=0)
        return find_incidents(
            self.fitted, table, times=times, time_name=name, gap=gap, min_length=min_length, units=units, **options
        )

    def compare(self, before: Any, after: Any, **options: Unpack[ExplainerOptions]) -> Comparison:
        """Which features account for the change of the mean score between two periods, and which correlations changed.

        The parts of the features are the differences of their mean Shapley values: exact, and they add up to the change.
        Their 95% intervals allow for rows that depend on each other (means of consecutive stretches of rows).

        Parameters
        ----------
        before, after
            Rows of the two periods, each in the order of time.
        options
            Those of `Explainer`, such as ``groups``.

        Returns
        -------
        Comparison
            With ``sentence``, ``features``, ``correlations``, ``to_frame()``, ``correlations_to_frame()`` and
            ``to_json()``.

        Examples
        --------
        >>> from culpa.datasets import make_plant
        >>> plant = make_plant()
        >>> detector = PCADetector().fit(plant.normal)
        >>> comparison = detector.compare(plant.normal, plant.new)
        >>> change = sum(each.change.value for each in comparison.features)
        >>> bool(abs(change - comparison.score.value) < 1e-9)
        True
        """
        periods = (self.fitted.read(self.read(X)) for X in (before, after))
        return compare(self.fitted, *periods, **options)

    def report(self, X: Any, *, time: Any = None, **options: Unpack[ReportOptions]) -> "Report":
        """A report on new rows in one HTML file that opens offline: charts, incidents, culprits, model.

        Parameters
        ----------
        X, time
            As for `incidents`.
        options
            ``title`` of the page; ``source``, a name for the data; ``gap``, ``min_length`` and ``units``, as for
            `incidents`; and those of `Explainer`, such as ``groups``.

        Returns
        -------
        Report
            With ``save(path)``, ``to_html()``, ``to_json()`` and ``to_dict()``, all with the same content.
        """
        check_is_fitted(self)
        features, times, name = split_time(X, time)
        table = self.read(features)
        report: Report = import_module("culpa.report").make_report(self.fitted, table, times, name, **options)
        return report

    @property
    def plot(self) -> "DetectorPlots":
        """Pictures, with matplotlib: ``control_chart(X)``, ``distance(X)`` and ``loadings()``; see `culpa.plots`."""
        plots: DetectorPlots = import_module("culpa.plots").DetectorPlots(self)
        return plots

    def reconstruct(self, X: Any) -> Floats:
        """What the model makes of each row, in the user's units; missing cells are filled in."""
        model = self.fitted.model
        rows = (self.fitted.read(self.read(X)).features - model.centre) / model.scale
        return np.asarray(model.columns.decode(model.centre + model.scale * model.gaussian.reconstruct(rows)))

    def residuals(self, X: Any) -> Floats:
        """Row minus reconstruction, in the user's units."""
        table = self.read(X)
        return np.asarray(table.array - self.reconstruct(table))

    def to_fitted_model(self) -> FittedModel:
        """The fitted model together with scaling and columns."""
        return self.fitted.model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _with_history(self, table: Table) -> Table:
        """Rows to learn from: with lags, those whose whole history is known, beside it."""
        if not self.lags:
            return table
        rows = Lagged(table.names, table.array.shape[1], self.lags).read(table).features[self.lags :]
        return Table(rows, None if table.names is None else lagged_names(table.names, self.lags))

    def _check_parameters(self) -> None:
        DETECTOR.check(self.get_params())
        if self.limit == "f" and self.statistic != "t2":
            raise ValueError(f"limit='f' is for statistic='t2', not {self.statistic!r}: use 'auto'.")
        if self.game == "retraining" and self.statistic not in games.RETRAINABLE:
            raise ValueError(
                f"game='retraining' explains reconstruction errors: use statistic='spe' or 'mse', not {self.statistic!r}."
            )

    def _ppca(self) -> PPCA:
        return PPCA(self.n_components, noise=self.noise, shrinkage=self.shrinkage)

    def _learn(self, X: Floats, names: tuple[str, ...] | None) -> tuple[PPCA, FittedModel]:
        """Scaling and model of some rows."""
        mean, scale = mean_and_spread(X)
        if not self.scale:
            scale = np.ones_like(mean)
        ppca = self._ppca().fit(Table((X - mean) / scale, names))
        return ppca, self._model_of(ppca, mean, scale)

    def _model_of(self, ppca: PPCA, mean: Floats, scale: Floats) -> FittedModel:
        names = getattr(self, "feature_names_in_", None)  # set by scikit-learn, if the table had names
        known = None if names is None else tuple(map(str, names))
        return ppca.scaled(mean, scale, Lagged(known, self.n_features_in_, self.lags))

    def _judging(self, ppca: PPCA, model: FittedModel, batches: Iterable[Floats] | None) -> FittedDetector:
        """A model with statistic and limits; limits that come from scores of rows need the rows."""
        statistic = named_score(self.statistic, model, confidence=self.confidence)
        if self.limit not in FROM_ROWS:
            limits = Limits(model, self.limit)
        elif batches is None:
            raise ValueError(
                f"limit={self.limit!r} needs the training rows' scores: pass the rows again as batches, or use fit."
            )
        else:
            limits = _limits_from_rows(model, statistic, self.limit, batches)
        limit = limits(statistic, self.confidence)
        return FittedDetector(model, ppca, statistic, self.confidence, limits, limit, self.get_params(deep=False))

    def _set_fitted(self, fitted: FittedDetector) -> Self:
        """Take over a new core: forget what followed from the one before."""
        self._fitted, self._gathered = fitted, None
        self.mean_, self.scale_, self.model_ = fitted.model.centre, fitted.model.scale, fitted.ppca
        self.abnormal_training_rows_, self.suspicious_cells_ = fitted.abnormal_training_rows, fitted.suspicious_cells
        self.limit_, self.offset_, self.limit_kind_ = fitted.limit, -fitted.limit, fitted.limit_kind
        return self

    def moments_so_far(self) -> Moments:
        """Mean and covariance of the training rows: as gathered, or as a fitted model has them.

        With lags, of the lag matrix. They start what ``fit_moments`` takes.
        """
        check_is_fitted(self, "model_")
        if self._gathered is not None:
            return self._gathered
        # the model's own mean is what rounding left over, so no digits are lost to a large mean
        model = self.model_.moments_so_far()
        return Moments(
            model.n, self.mean_, self.scale_ * model.mean, model.scatter * np.outer(self.scale_, self.scale_)
        )


def _limits_from_rows(
    model: FittedModel, statistic: scores.QuadraticScore, kind: str, batches: Iterable[Floats]
) -> Limits:
    """Limits that are quantiles of the scores of some rows."""
    rows = (model.standardise(X) for X in batches)
    return Limits(model, kind, Limits.tails_of(charted(model, statistic).values(), rows))


@contextmanager
def _all_or_nothing(detector: PCADetector) -> Iterator[None]:
    """What fails half-way leaves the detector as it was: a new model must not meet an old limit."""
    before = detector.__dict__.copy()
    try:
        yield
    except BaseException:
        detector.__dict__ = before
        raise
