"""PCADetector: scaling, model, score, limit and explanation in one scikit-learn estimator."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from culpa import games, scores
from culpa._core.choices import Criterion, GameName, LimitKind, Ranking, ScoreName
from culpa._core.kinds import FRACTION
from culpa._core.missing import warn_about_empty_rows
from culpa._core.parameters import DETECTOR, EXPLAINER, check_keywords, documented, known_keywords
from culpa._core.threads import one_blas_thread
from culpa._core.types import Floats
from culpa._core.validation import Table, check_estimator_input, complete_rows, frame_like
from culpa.columns import Lagged, Reading, lagged_names
from culpa.explainer import Explainer
from culpa.explanation import Explanation
from culpa.models import PPCA, FittedModel, Moments
from culpa.models.moments import mean_and_spread, spread
from culpa.monitoring.fixing import JointFix, fix_jointly
from culpa.monitoring.trimming import abnormal_rows, fit_without_worst, in_limit
from culpa.ranking import contributions
from culpa.scores.by_name import named_score
from culpa.scores.limits import FROM_ROWS, Limits

_KEPT = 8  # explainers that a detector remembers
_ROWS_PER_CHUNK = 1 << 16  # rows scored at a time, so that memory beyond the result does not grow with their number


def _merges(detector: "PCADetector") -> bool:
    """Whether mean and covariance are all that the detector needs, so that it can learn piece by piece."""
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

    Examples
    --------
    >>> from culpa.datasets import load_wine_outliers
    >>> wine = load_wine_outliers()
    >>> detector = PCADetector().fit(wine.X[wine.y == 0])
    >>> bool((detector.predict(wine.X[wine.y == 1]) == -1).mean() > 0.5)
    True
    """

    _explainers: list[tuple[dict[str, Any], Explainer]]
    _scores: dict[tuple[str, float], scores.QuadraticScore]
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
        table = self._with_history(given)
        n = len(table.array) - (math.ceil(self.holdout * len(table.array)) if self.limit == "conformal" else 0)
        if n < 2:
            raise ValueError(
                f"limit='conformal' with holdout={self.holdout:g} leaves {n} of {len(table.array)} rows to learn from: "
                "give more rows."
            )
        rows, held_out = table.array[:n], table.array[n:]
        kept = fit_without_worst(
            lambda rows: self._fit_model(rows, table.names).to_fitted_model(), rows, self.trim, self.confidence
        )
        judged = (
            rows[in_limit(self.to_fitted_model(), rows, kept, self.confidence)]
            if self.limit == "empirical"
            else held_out
        )
        self._set_limit(self._limits_from([judged]))
        labels = given.row_labels()[self.lags :][:n]
        self.abnormal_training_rows_ = abnormal_rows(
            self.to_fitted_model(), rows, kept, labels, self.confidence, self.lags
        )
        return self

    @available_if(_merges)
    def partial_fit(self, X: Any, y: None = None) -> Self:
        """Learn from more normal rows: the result is that of ``fit`` on all rows so far, to rounding.

        It keeps only mean and covariance, so it needs complete rows and a limit by formula; `calibrate_limit` can follow.
        With lags, the rows of each call must be consecutive, and the first ones serve only as the others' past.
        """
        self._check_parameters()
        first = not hasattr(self, "model_")
        table = check_estimator_input(self, X, reset=first, min_rows=1 + self.lags)
        complete_rows(table)
        moments = Moments.of(self._with_history(table).array)
        if not first:
            moments = self._moments_so_far().merge(moments)
        self.fit_moments(moments, table.names if first else self._columns.known_names)
        self._gathered = moments
        return self

    def calibrate_limit(self, X: Any) -> Self:
        """Set the limit by normal rows that the detector was not fitted to: a conformal limit.

        A new row that comes from where these came from exceeds it with probability 1 - confidence at most, whatever the
        distribution. Ask for at least confidence / (1 - confidence) rows: 99 for 99%.
        """
        table = self._read(X)
        return self._set_limit(self._limits_from([self._features(table)[self._columns.lags :]], "conformal"))

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
        if self.limit == "conformal" or self.trim:
            what = "trim" if self.trim else "limit='conformal'"
            raise ValueError(f"{what} needs the rows themselves, not only their moments: use fit.")
        n_columns = moments.n_features // (self.lags + 1)
        check_estimator_input(self, Table(np.empty((0, n_columns)), names), reset=True)
        self.mean_, self.scale_ = moments.mean, np.ones(moments.n_features)
        if self.scale:
            self.scale_ = spread(moments.mean, np.diag(moments.covariance))
        names = None if names is None else lagged_names(names, self.lags)
        self._take(self._model().fit_moments(moments.scaled(self.mean_, self.scale_), names))
        if hasattr(self, "abnormal_training_rows_"):
            del self.abnormal_training_rows_
        return self._set_limit(self._limits_from(batches))

    def save(self, path: str | Path) -> None:
        """Write the fitted detector, with the explainer it has compiled, to a model file; `culpa.load` reads it."""
        check_is_fitted(self)
        import_module("culpa.io.model_file").save(self, path)

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

        ``anomaly`` is what `predict` says: it follows the detector's own ``statistic`` alone. Limits are at the detector's
        ``confidence``; `control_limits` has others.
        """
        table = self._read(X)
        rows = self.to_fitted_model().standardise(self._features(table))
        columns: dict[str, Any] = {"row": table.row_labels()}
        for build in (scores.spe, scores.t2):
            score = build(self.to_fitted_model().centred)
            values, limit = score(rows), self._limits(score, self._confidence)
            columns |= {score.name: values, f"{score.name}_limit": np.full(len(rows), limit)}
            columns[f"{score.name}_flag"] = values > limit
        columns["anomaly"] = self._score_table(table) > self.limit_
        return frame_like(table.native, columns)

    def control_limits(self, confidences: float | Sequence[float] = (0.95, 0.99), *, training: bool = False) -> Any:
        """Table of limits for control charts: statistic, confidence, kind, limit.

        One line for SPE, T2 and the detector's own statistic at every confidence; the detector's own confidence is always
        among them, and `limit_`, which `predict` uses, is its line. With ``training``, limits for charts of the training
        rows themselves: the Beta limit for T2. A confidence that held-out rows are too few for is left out.
        """
        check_is_fitted(self)
        asked = np.atleast_1d(np.asarray(confidences, dtype=np.float64)).tolist()
        for level in asked:
            FRACTION.check(level, "confidences")
        levels = sorted({float(level) for level in (*asked, self._confidence)})
        lines = [
            (name, level, self._limits.kind_of(score, training=training), self._limits(score, level, training=training))
            for name, score in self._charted(self._score).items()
            for level in levels
            if self._limits.knows(score, level)
        ]
        columns = zip(("statistic", "confidence", "kind", "limit"), zip(*lines, strict=True), strict=True)
        return frame_like(None, dict(columns))

    def explain(self, X: Any, rows: Any = None, **options: Any) -> Explanation:
        """Explain the score of every row, or of those that ``rows`` picks by positions or a mask.

        ``options`` are those of `Explainer`. No rows give an empty explanation. With lags, give whole stretches of
        consecutive rows, and pick: ``explain(X, rows=flags == -1)``.
        """
        table = self._read(X, min_rows=0)
        return self.explainer(**options).explain(table, rows)

    def contributions(self, X: Any, criterion: Criterion = "rbc", *, statistic: ScoreName | None = None) -> Any:
        """Classical contributions of every feature to a statistic, in the shape and kind of ``X``.

        ``criterion`` is one of `culpa.ranking.CRITERIA`; the statistic is the detector's own unless told otherwise, and
        the Mahalanobis distance for "leave-one-out" and "mahalanobis-shapley". They only rank suspects: `explain` gives
        Shapley values, which respect correlations.
        """
        table = self._read(X, min_rows=0)
        if statistic is None and criterion not in contributions.OF_MAHALANOBIS:
            statistic = self.statistic
        return contributions.of_model(self, table, criterion, statistic and self._score_named(statistic))

    def explainer(self, **options: Any) -> Explainer:
        """The `Explainer` behind `explain`: kept between calls, with whatever it has compiled, until the next ``fit``."""
        check_is_fitted(self)
        check_keywords(options, EXPLAINER.keywords, "explain")
        own = {"score": self._score.name, "game": self.game, "ranking": self.ranking}
        options = own | EXPLAINER.without_aliases(options)
        if options["score"] in scores.SCORE_NAMES and "features" not in options:
            options["score"] = self._score_named(options["score"])
        for known, explainer in self._explainers:
            if _same(known, options):
                return explainer
        explainer = Explainer(self, **options)
        self._explainers = [*self._explainers[1 - _KEPT :], (options, explainer)]
        return explainer

    def together(self, X: Any, features: Sequence[str | int] | int = 2) -> JointFix:
        """Fix several features of each row at once: what the remaining ones imply for all of them, and the score then.

        ``features`` names them, or is the number of each row's worst culprits to fix.
        """
        return fix_jointly(self.explainer(), self._read(X, min_rows=0), self.limit_, features)

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
        find = import_module("culpa.monitoring.incidents").find_incidents
        return find(self, X, time=time, gap=gap, min_length=min_length, units=units, **options)

    def report(self, X: Any, *, time: Any = None, title: str = "Whose fault is it?", **options: Any) -> Any:
        """A report on new rows in one HTML file that opens offline: charts, incidents, culprits, model.

        Parameters
        ----------
        X, time
            As for `incidents`.
        title
            What the page is called.
        options
            ``source``, a name for the data; ``gap``, ``min_length`` and ``units``, as for `incidents`; and those of
            `Explainer`, such as ``groups``.

        Returns
        -------
        Report
            With ``save(path)``, ``to_html()``, ``to_json()`` and ``to_dict()``, all with the same content.
        """
        check_is_fitted(self)
        return import_module("culpa.report").make_report(self, X, time=time, title=title, **options)

    @property
    def plot(self) -> Any:
        """Pictures, with matplotlib: ``control_chart(X)``, ``distance(X)`` and ``loadings()``; see `culpa.plots`."""
        return import_module("culpa.plots").Plots(self)

    def reconstruct(self, X: Any) -> Floats:
        """What the model makes of each row, in the user's units; missing cells are filled in."""
        rows = (self._features(self._read(X)) - self.mean_) / self.scale_
        return self._columns.decode(self.mean_ + self.scale_ * self.model_.gaussian_.reconstruct(rows))

    def residuals(self, X: Any) -> Floats:
        """Row minus reconstruction, in the user's units."""
        table = self._read(X)
        return np.asarray(table.array - self.reconstruct(table))

    def to_fitted_model(self) -> FittedModel:
        """The fitted model together with the scaling, for `Explainer`."""
        check_is_fitted(self, "model_")
        columns = self._columns
        return FittedModel(
            self.model_.gaussian_,
            self.mean_,
            self.scale_,
            self.model_.covariance_,
            self.model_.n_samples_,
            lagged_names(columns.names, columns.lags) if columns.lags else columns.known_names,
            columns if columns.lags else None,
            self.model_.shrinkage,
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
        return self._score_reading(self._columns.read(table))

    def _score_reading(self, reading: Reading) -> Floats:
        X, normal = reading.features, self.to_fitted_model()
        starts = range(0, len(X), _ROWS_PER_CHUNK)
        with one_blas_thread(len(X)):
            parts = [self._score(normal.standardise(X[start : start + _ROWS_PER_CHUNK])) for start in starts]
        result = np.concatenate([np.empty(0), *parts])
        if np.isnan(result).any():
            warn_about_empty_rows(reading.labels[np.isnan(result)])
        return result

    def _check_parameters(self) -> None:
        DETECTOR.check(self.get_params())
        if self.limit == "f" and self.statistic != "t2":
            raise ValueError(f"limit='f' is for statistic='t2', not {self.statistic!r}: use 'auto'.")
        if self.game == "retraining" and self.statistic not in games.RETRAINABLE:
            raise ValueError(
                f"game='retraining' explains reconstruction errors: use statistic='spe' or 'mse', not {self.statistic!r}."
            )

    def _model(self) -> PPCA:
        return PPCA(self.n_components, noise=self.noise, shrinkage=self.shrinkage)

    def _fit_model(self, X: Floats, names: tuple[str, ...] | None) -> Self:
        """Scaling and model."""
        self.mean_, self.scale_ = mean_and_spread(X)
        if not self.scale:
            self.scale_ = np.ones_like(self.mean_)
        return self._take(self._model().fit(Table((X - self.mean_) / self.scale_, names)))

    def _take(self, model: PPCA) -> Self:
        """A new model: forget what followed from the one before."""
        self.model_ = model
        self._gathered, self._explainers, self._scores = None, [], {}
        return self

    def _moments_so_far(self) -> Moments:
        """Mean and covariance of the training rows: as gathered, or as a fitted model has them."""
        if self._gathered is not None:
            return self._gathered
        # the model's own mean is what rounding left over, so no digits are lost to a large mean
        model = self.model_.moments_so_far()
        return Moments(
            model.n, self.mean_, self.scale_ * model.mean, model.scatter * np.outer(self.scale_, self.scale_)
        )

    def _score_named(self, name: str, confidence: float | None = None) -> scores.QuadraticScore:
        """The score weighed by the detector's confidence: always the same object, so that explainers are known again."""
        key = name, self._confidence if confidence is None else confidence
        if key not in self._scores:
            self._scores[key] = named_score(name, self.to_fitted_model(), confidence=key[1])
        return self._scores[key]

    def _set_limit(self, limits: Limits, limit: float | None = None) -> Self:
        """Score and limit of the model; model files know the limit already."""
        score = self._score_named(self.statistic, self.confidence)
        self.limit_ = limits(score, self.confidence) if limit is None else limit
        self._score, self._confidence, self._limits = score, self.confidence, limits
        self.offset_ = -self.limit_
        self.limit_kind_ = limits.kind_of(score)
        return self

    def _charted(self, own: scores.QuadraticScore) -> dict[str, scores.QuadraticScore]:
        """SPE, T2 and the detector's own score."""
        centred = self.to_fitted_model().centred
        return {score.name: score for score in (scores.spe(centred), scores.t2(centred), own)}

    def _limits_from(self, batches: Iterable[Floats] | None, kind: str | None = None) -> Limits:
        """Limits of the fitted model; those that come from scores of rows need the rows."""
        normal, kind = self.to_fitted_model(), kind or self.limit
        if kind not in FROM_ROWS:
            return Limits(normal, kind)
        if batches is None:
            raise ValueError(
                f"limit={kind!r} needs the training rows' scores: pass the rows again as batches, or use fit."
            )
        rows = (normal.standardise(X) for X in batches)
        charted = self._charted(self._score_named(self.statistic, self.confidence))
        return Limits(normal, kind, Limits.tails_of(charted.values(), rows))


def _same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    try:
        return a == b
    except ValueError:  # arrays do not say in one word whether they are equal; look again rather than guess
        return False


@contextmanager
def _all_or_nothing(detector: PCADetector) -> Iterator[None]:
    """What fails half-way leaves the detector as it was: a new model must not meet an old limit."""
    before = detector.__dict__.copy()
    try:
        yield
    except BaseException:
        detector.__dict__ = before
        raise
