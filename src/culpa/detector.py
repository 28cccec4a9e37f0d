"""PCADetector: the scikit-learn estimator around a `culpa.fitted.FittedDetector`."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from culpa import games
from culpa._core.choices import (
    Criterion,
    GameName,
    LimitKind,
    ModelName,
    Ranking,
    Robustness,
    ScoreName,
    StatisticName,
)
from culpa._core.fit_warning import FitWarning
from culpa._core.parameter import documented, known_keywords
from culpa._core.parameters import DETECTOR, FORGET
from culpa._core.types import DataFrame, Floats
from culpa._core.validation import (
    Table,
    check_estimator_input,
    complete_rows,
    default_names,
    feature_positions,
)
from culpa.columns import Lagged, Reading
from culpa.columns.groups import named_groups, plain_groups
from culpa.explainer import Explainer
from culpa.explanation import Explanation
from culpa.fitted import FittedDetector
from culpa.joint_fix import JointFix
from culpa.learning import Recipe, limits_from_rows
from culpa.models import PPCA, FittedModel, MixturePPCA, Moments
from culpa.models.blocks import BlockGatherer, BlockMoments
from culpa.models.ties import SuggestedGroup
from culpa.modes import has_modes
from culpa.monitoring import Incidents, Search, find_incidents, split_time
from culpa.monitoring.comparison import Comparison, compare
from culpa.monitoring.diagnostics import oddities
from culpa.monitoring.dirty_cells import without_suspicious_cells
from culpa.monitoring.drift import Drift
from culpa.monitoring.drift_measures import DriftGatherer
from culpa.monitoring.fill_values import about_table
from culpa.monitoring.statistics import limits_table, statistics_table
from culpa.options import BlameOptions, ExplainerOptions, ReportOptions
from culpa.ranking import contributions
from culpa.scores import score_by_name
from culpa.scores.limits import FROM_ROWS
from culpa.updating import Update, learn_more

if TYPE_CHECKING:
    import pandas as pd

    from culpa.plots import DetectorPlots
    from culpa.report import Report

_NEED_NO_FIT = ("game", "ranking", "groups", "noun")  # parameters that take effect at once


def _merges(detector: "PCADetector") -> bool:
    """Whether mean and covariance are all that the detector needs, so that it can learn piece by piece."""
    for name in ("model", "modes", "robust"):
        if getattr(detector, name) not in ("ppca", None):
            raise ValueError(f"{name}={getattr(detector, name)!r} needs all training rows at once. Use fit.")
    if detector.limit in FROM_ROWS or detector.trim or detector.n_components == "mle":
        what = f"limit={detector.limit!r}" if detector.limit in FROM_ROWS else "trim" if detector.trim else "'mle'"
        raise ValueError(
            f"{what} needs all training rows at once. Use fit, or set the limit with calibrate_limit later."
        )
    return True


@documented(DETECTOR)
class PCADetector(OutlierMixin, BaseEstimator):
    """Detects rows that a PCA of normal rows cannot reconstruct, and says which features are to blame.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : PPCA or MixturePPCA
        The model of standardised rows: a `StudentPPCA` with ``model="student"``, a mixture with ``modes``.
    mean_, scale_ : ndarray of shape (d,)
        Training mean and standard deviation; with lags, of present values and then of each lag in turn. Robust ones with
        ``model="student"``, and those of normal scores with ``model="copula"``.
    limit_ : float
        Control limit of the score; ``offset_`` is its negative, as in scikit-learn's detectors.
    limit_kind_ : str
        What kind of limit it is: what "auto" chose, or "conformal" after `calibrate_limit`.
    mode_limits_ : ndarray of shape (modes,) or None
        With ``modes``, the limit of each mode. Scores are in units of it, so that ``limit_`` is close to 1.
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
    >>> detector = PCADetector(confidence=0.95).fit(wine.X[wine.y == 0])
    >>> bool((detector.predict(wine.X[wine.y == 1]) == -1).mean() > 0.5)
    True
    """

    _fitted: FittedDetector
    # of the rows that partial_fit has seen
    _gatherer: BlockGatherer | None = None

    @known_keywords
    def __init__(
        self,
        n_components: int | float | Literal["auto", "mle"] = "auto",
        *,
        model: ModelName = "ppca",
        modes: int | Literal["auto"] | None = None,
        scale: bool = True,
        statistic: StatisticName = "auto",
        confidence: float = 0.99,
        limit: LimitKind = "auto",
        holdout: float = 0.2,
        trim: float = 0.0,
        robust: Robustness | None = None,
        lags: int = 0,
        given: Sequence[str | int] | None = None,
        groups: Mapping[str, Sequence[str | int]] | None = None,
        smooth: float | None = None,
        noise: float = 1.0,
        shrinkage: float = 0.0,
        game: GameName = "conditional",
        ranking: Ranking = "shapley",
        noun: str = "feature",
    ) -> None:
        self.n_components = n_components
        self.model = model
        self.modes = modes
        self.scale = scale
        self.statistic = statistic
        self.confidence = confidence
        self.limit = limit
        self.holdout = holdout
        self.trim = trim
        self.robust = robust
        self.lags = lags
        self.given = given
        self.groups = groups
        self.smooth = smooth
        self.noise = noise
        self.shrinkage = shrinkage
        self.game = game
        self.ranking = ranking
        self.noun = noun

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from normal rows; missing cells are allowed."""
        with _all_or_nothing(self), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # what is odd about the model is said once, below
            self._fit(X)
        return self._warned(about_table(self.read(X)))

    def _fit(self, X: Any) -> Self:
        self._check_parameters()
        given = check_estimator_input(self, X, reset=True, min_rows=2 + self.lags)
        cells = None
        if self.robust:
            given, cells = without_suspicious_cells(given)  # before lags, so that a cell is missing wherever it appears
        recipe = self._recipe()
        rows = recipe.columns.read(given).features[self.lags :]
        fitted = recipe.fit_rows(rows, given.row_labels()[self.lags :])
        return self._set_fitted(replace(fitted, suspicious_cells=cells))

    @available_if(_merges)
    def partial_fit(self, X: Any, y: None = None, *, forget: float = 0.0) -> Self:
        """Learn from more normal rows: the model is that of ``fit`` on all rows so far, to rounding.

        It keeps means and covariances of blocks of rows, and scores, so it needs complete rows. Each new row is scored by
        the model of the blocks that it is not in, and these scores join those of before, so the limit keeps the rate of
        false alarms. As long as 4,096 rows or fewer have come by ``partial_fit`` alone, it is that of ``fit``. After
        ``fit`` or `culpa.load`, an automatic number of components is chosen from other blocks than ``fit`` has. With lags,
        the rows of each call must be consecutive, and the first ones serve only as the others' past.

        Parameters
        ----------
        X
            Normal rows, the oldest first.
        forget
            Share of its weight that every earlier row loses with each row of ``X``. With ``forget=0.001`` a row counts
            half after 693 more rows (log 2 / forget), and the model rests on about 1,000 rows (1 / forget). Mean and
            covariance are those of the weighted rows, however they are cut into calls. 0 forgets nothing. Scores of
            earlier rows lose weight likewise.
        """
        self._check_parameters()
        FORGET.check(forget)
        first = not hasattr(self, "model_")
        table = check_estimator_input(self, X, reset=first, min_rows=1 + self.lags)
        complete_rows(table)
        rows = self._recipe().columns.read(table).features[self.lags :]
        self.learn_features(rows, forget)
        if first:  # once is enough
            self._warned([])
        return self

    def learn_features(self, rows: Floats, forget: float = 0.0) -> Self:
        """`partial_fit` for complete rows as the model sees them: with lags, rows of the lag matrix."""
        first = not hasattr(self, "model_")
        gatherer = None if forget else BlockGatherer(rows.shape[1]) if first else self._gatherer
        with _all_or_nothing(self):
            units = {} if first else self.units_  # which may have been set by hand
            fitted = self._learned_more(rows, forget, gatherer)
            self._set_fitted(replace(fitted, units={**fitted.units, **units}))
        self._gatherer = gatherer
        return self

    def _learned_more(self, rows: Floats, forget: float, gatherer: BlockGatherer | None) -> FittedDetector:
        recipe, fitted = self._recipe(), self.fitted if hasattr(self, "model_") else None
        before = BlockMoments.of(rows[:0]) if fitted is None else self.blocks_so_far()
        if gatherer is None:
            return learn_more(recipe, fitted, Update(rows, before, before.then_placed(rows, forget), forget))
        seen = gatherer.n
        gatherer.add(rows)
        blocks, held = gatherer.finish(), gatherer.rows if seen else rows
        if held is not None:
            return recipe.fit_blocks(blocks, [held])
        return learn_more(recipe, fitted, Update(rows, before, before.cut_anew(blocks, len(rows))))

    def calibrate_limit(self, X: Any) -> Self:
        """Set a conformal limit from normal rows that the detector was not fitted to.

        A new row from the same distribution exceeds the limit with a probability of at most 1 - confidence, whatever the
        distribution is. You need at least confidence / (1 - confidence) rows: 99 for 99%.
        """
        fitted = self.fitted
        rows = self._recipe().columns.read(self.read(X)).features[fitted.columns.lags :]
        statistic = score_by_name(self._recipe().statistic, fitted.model, confidence=self.confidence)
        limits = limits_from_rows(fitted.model, statistic, "conformal", [rows])
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
        self,
        moments: Moments | BlockMoments,
        names: tuple[str, ...] | None = None,
        batches: Iterable[Floats] | None = None,
    ) -> Self:
        """Learn from the mean and covariance of complete rows, gathered in one pass over a table of any size.

        ``batches`` are the rows themselves, for a second pass: ``limit="empirical"`` needs them, and ``limit="auto"`` uses
        them. With lags, moments and batches are those of the lag matrix (`culpa.columns.History`), and ``names`` are those
        of the columns.
        """
        with _all_or_nothing(self):
            self._check_parameters()
            for name in ("model", "modes", "robust"):
                if getattr(self, name) not in ("ppca", None):
                    raise ValueError(
                        f"{name}={getattr(self, name)!r} needs the rows themselves, not only their moments. Use fit."
                    )
            blocks = BlockMoments((moments,)) if isinstance(moments, Moments) else moments
            n_columns = blocks.total.n_features // (self.lags + 1)
            p = self.model_.n_components_ if hasattr(self, "model_") and isinstance(self.model_, PPCA) else None
            check_estimator_input(self, Table(np.empty((0, n_columns)), names), reset=True)
            self._set_fitted(self._recipe().fit_blocks(blocks, batches, p))
        return self._warned([])

    @classmethod
    def from_fitted(cls, fitted: FittedDetector) -> Self:
        """The estimator around a core that was fitted before."""
        detector = cls(**fitted.parameters)
        names = fitted.columns.known_inputs
        detector.n_features_in_ = len(fitted.columns.inputs)
        if names is not None:
            detector.feature_names_in_ = np.array(names, dtype=object)
        return detector._set_fitted(fitted)

    @property
    def fitted(self) -> FittedDetector:
        """The fitted core: what judges and explains rows, as one immutable object."""
        check_is_fitted(self, "model_")
        core = self._fitted
        parameters = self._parameters()
        now = {name: parameters[name] for name in _NEED_NO_FIT}
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

    def operating_modes(self, X: Any) -> NDArray[np.int64]:
        """The operating mode of each row, counted from 1; the mode of the most training rows is 1.

        It needs a detector with ``modes``. A row without any observed feature gets the most frequent mode.
        """
        if self.fitted.n_modes is None:
            raise ValueError("the detector does not tell modes apart: fit it with modes='auto' or a number of modes.")
        return self.fitted.operating_modes(self.fitted.read(self.read(X)))

    def statistics(self, X: Any, *, fdr: float | None = None) -> DataFrame:
        """Table of statistics: SPE, T2 and the detector's own, with limits and flags, in the kind of table given.

        ``p_value`` says how often a normal row has a score as high as this one or higher, from held-out training rows; it
        is missing where the limit is a formula. ``anomaly`` is what `predict` says: it follows the detector's own statistic
        alone. With ``fdr``, ``discovery`` marks as many rows as can be reported so that the expected share of false alarms
        among them is at most ``fdr`` (Benjamini and Hochberg). Limits are at the detector's ``confidence``;
        `control_limits` has others.
        """
        return statistics_table(self.fitted, self.read(X), fdr)

    def control_limits(
        self, confidences: float | Sequence[float] = (0.95, 0.99), *, training: bool = False
    ) -> "pd.DataFrame":
        """Table of limits for control charts: statistic, confidence, kind, limit.

        One line for SPE, T2 and the detector's own statistic at every confidence; the detector's own confidence is always
        among them, and `limit_`, which `predict` uses, is its line. With ``training``, limits for charts of the training
        rows themselves: the Beta limit for T2. A confidence that held-out rows are too few for is left out.
        """
        table: pd.DataFrame = limits_table(self.fitted, confidences, training=training)
        return table

    def explain(self, X: Any, rows: Any = None, **options: Unpack[ExplainerOptions]) -> Explanation:
        """Explain the score of every row, or of those that ``rows`` picks by positions or a mask.

        ``options`` are those of `Explainer`. A detector with ``groups`` blames these; ``groups=None`` opens them and blames
        single features. No rows give an empty explanation. With lags, give whole stretches of consecutive rows, and pick:
        ``explain(X, rows=flags == -1)``.
        """
        return self.fitted.explain(self.read(X, min_rows=0), rows, **options)

    def contributions(self, X: Any, criterion: Criterion = "rbc", *, statistic: ScoreName | None = None) -> Any:
        """Classical contributions of every feature to a statistic, in the shape and kind of ``X``.

        ``criterion`` is one of `culpa.ranking.CRITERIA`; the statistic is the detector's own unless told otherwise, and
        the Mahalanobis distance for "leave-one-out", "mahalanobis-shapley", "fault-odds" and "propagated". They only rank
        suspects: `explain` gives Shapley values, which respect correlations.
        """
        table = self.read(X, min_rows=0)
        name = statistic or (None if criterion in contributions.OF_MAHALANOBIS else self.fitted.statistic.name)
        return contributions.of_model(self, table, criterion, name and self.fitted.named(name))

    def explainer(self, **options: Unpack[ExplainerOptions]) -> Explainer:
        """The `Explainer` behind `explain`. It is kept until the next ``fit``, with the forms that it has compiled."""
        return self.fitted.explainer(**options)

    def fix(self, X: Any, features: Sequence[str | int] | int = 2) -> JointFix:
        """Fix several features of each row at once: what the remaining ones imply for all of them, and the score then.

        ``features`` names them, or is the number of each row's worst culprits to fix. The name of a group stands for its
        features; worst culprits are single features.
        """
        return self.fitted.fix(self.read(X, min_rows=0), features)

    def suggested_groups(self) -> list[SuggestedGroup]:
        """Columns that imply each other, so that faults in one cannot be told from faults in the other, strongest first.

        Two columns imply each other where their partial correlation in the training rows, given all other columns, is at
        least 0.85 in absolute value; with lags, that of present values. (With fewer than 5 rows per column, it is that in
        the model.) Columns that share a partner are joined. What is in a group of the detector is not suggested again.

        Examples
        --------
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> flow, others = rng.normal(size=500), rng.normal(size=(500, 3))
        >>> X = np.column_stack([flow, flow + 0.01 * rng.normal(size=500), others])
        >>> [group.features for group in PCADetector().fit(X).suggested_groups()]
        [('x0', 'x1')]
        """
        return self.fitted.suggested_groups()

    def incidents(
        self,
        X: Any,
        *,
        time: Any = None,
        gap: Any = 0,
        min_length: int = 1,
        units: Mapping[str, str] | None = None,
        baseline: int = 0,
        stretches: Sequence[tuple[int, int]] | None = None,
        **options: Unpack[BlameOptions],
    ) -> Incidents:
        """Flagged rows that follow each other, as incidents: how they began and spread, whose fault, what was expected.

        Parameters
        ----------
        X
            New rows in the order of time.
        time
            Name of the column of ``X`` that holds the rows' times (it is not a feature then), or the times themselves:
            dates, durations, ISO 8601 texts or numbers, ascending. The index of a pandas table is used by itself if it
            holds times. Without times, sentences name row labels.
        gap
            Maximum gap between flagged rows of one incident: a number of rows that are not flagged, or a time span such
            as ``"5min"``.
        min_length
            Minimum number of flagged rows; shorter incidents are left out.
        units
            Units of features for the sentences, such as ``{"flow_3": "m3/h"}``; those of a model file are known.
        baseline
            Where normal operation drifts: judge how far features moved against the mean of this many normal rows before
            the incident (100 to 500 are sensible) instead of the mean of the training rows. 0 for the training rows.
        stretches
            Incidents that you know, as positions of their first and last rows: these are explained, flagged or not,
            instead of those that the detector finds.
        options
            Those of `Explainer`; only flagged rows are explained. A detector with ``groups`` blames these, and
            ``groups=None`` blames single features. Culprits of incidents are found by evidence over their rows, so
            ``ranking`` does not apply.

        Returns
        -------
        Incidents
            A sequence of `culpa.monitoring.incident.Incident` with ``to_frame``, ``to_dict`` and ``to_json``.

        Examples
        --------
        >>> from culpa.datasets import make_plant
        >>> plant = make_plant()
        >>> detector = PCADetector().fit(plant.normal)
        >>> incidents = detector.incidents(plant.new, gap=3, min_length=5)
        >>> incidents[0].culprits[0].feature, list(incidents[0].onset.to_fix)
        ('x2', ['x2'])
        """
        if "ranking" in options:
            raise TypeError(
                "incidents always rank features by the evidence of all their rows, so you cannot pass 'ranking'."
            )
        features, times, name = split_time(X, time)
        search = Search(times, name, gap, min_length, units, baseline, stretches)
        return find_incidents(self.fitted, self.read(features, min_rows=0), search, **options)

    def drift(self, X: Any) -> Drift:
        """Whether recent rows still look like the training rows: directions, variances, mean and score, with p-values.

        Blocks of training rows are compared with each other, to see how much rows differ if nothing has changed.

        Parameters
        ----------
        X
            Recent rows in the order of time; rows with missing cells are left out.

        Returns
        -------
        Drift
            With ``drifted``, ``p_value``, ``sentence``, the measures ``angle``, ``variance``, ``mean`` and ``score``,
            ``features``, ``to_frame()``, ``features_to_frame()`` and ``to_json()``.

        Examples
        --------
        >>> from culpa.datasets import make_plant
        >>> plant = make_plant()
        >>> detector = PCADetector().fit(plant.normal)
        >>> detector.drift(plant.new).drifted  # eight faults in 400 rows
        True
        """
        if self.fitted.n_modes is not None:
            raise ValueError("drift is not available with modes: it compares rows with one mean and one covariance.")
        reading = self._recipe().columns.read(self.read(X))
        return DriftGatherer.of(self.fitted).add(reading.features).finish(reading.native)

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
        """Plots with matplotlib: ``control_chart(X)``, ``distance(X)``, ``loadings()`` and ``components()``."""
        plots: DetectorPlots = import_module("culpa.plots").DetectorPlots(self)
        return plots

    def reconstruct(self, X: Any) -> Floats:
        """The reconstruction of each row by the model, in the user's units; missing cells are filled in.

        Given columns stay as they are, and smoothed rows are reconstructed as averages.
        """
        table = self.read(X)
        return self._reconstructed(table, self.fitted.read(table))

    def _reconstructed(self, table: Table, reading: Reading) -> Floats:
        model = self.fitted.model
        rows = model.standard.reconstruct(model.standardise(reading.features))
        result = table.array.copy()
        result[:, model.columns.positions] = model.to_cells(rows, reading, model.columns)
        return result

    def residuals(self, X: Any) -> Floats:
        """Row minus reconstruction, in the user's units."""
        table = self.read(X)
        reading = self.fitted.read(table)
        residuals = table.array - self._reconstructed(table, reading)
        at = self.fitted.columns.positions
        residuals[:, at] += reading.cells - table.array[:, at]  # smoothed cells are averages
        return np.asarray(residuals)

    def to_fitted_model(self) -> FittedModel:
        """The fitted model together with scaling, columns, and what the detector decides by."""
        return self.fitted.deciding_model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check_parameters(self) -> None:
        DETECTOR.check(self.get_params())
        if self.limit == "f" and self.statistic != "t2":
            raise ValueError(f"limit='f' is for statistic='t2', not {self.statistic!r}: use 'auto'.")
        if self.game == "retraining" and self.statistic not in ("auto", *games.RETRAINABLE):
            raise ValueError(
                f"game='retraining' explains reconstruction errors: use statistic='spe' or 'mse', not {self.statistic!r}."
            )
        self._check_model()
        if has_modes(self.get_params(deep=False)):
            self._check_modes()
        if self.lags and self._smooth is not None:
            raise ValueError(
                f"lags={self.lags} and smooth={self.smooth:g} both look back in time and cannot be combined: choose one."
            )

    def _check_model(self) -> None:
        """Refuse what does not go with the distribution of normal rows."""
        if self.model in ("ppca", "mixture"):
            return
        own = f"model={self.model!r}"
        if self.modes is not None:
            raise ValueError(f"modes={self.modes!r} are a mixture of PPCA, and do not go with {own}: choose one.")
        if self._smooth is not None:
            raise ValueError(f"smooth averages rows, and averages do not follow {own}: use one without the other.")
        if self.n_components == "mle":
            raise ValueError(f"n_components='mle' is for Gaussian rows, not for {own}: use 'auto'.")
        if self.model == "student" and self.game == "retraining":
            raise ValueError(
                "game='retraining' retrains a PCA, and model='student' is none: use game='conditional' or "
                "'interventional', or model='ppca'."
            )
        if self.model == "student" and self.limit in ("jackson-mudholkar", "imhof", "f"):
            raise ValueError(f"limit={self.limit!r} assumes Gaussian rows: with {own}, use 'auto' or 'formula'.")

    def _check_modes(self) -> None:
        """Refuse what has no meaning with several modes."""
        refused = {
            "game": (self.game, self.game != "conditional", "use 'conditional'"),
            "statistic": (self.statistic, self.statistic == "combined", "use 'mahalanobis'"),
            "n_components": (self.n_components, self.n_components == "mle", "use 'auto'"),
            "limit": (self.limit, self.limit not in ("auto", "empirical", "conformal"), "use 'auto'"),
            "smooth": (self.smooth, self._smooth is not None, "averages would mix rows of different modes"),
        }
        own = "model='mixture'" if self.modes is None else f"modes={self.modes!r}"
        for name, (value, wrong, advice) in refused.items():
            if wrong:
                raise ValueError(f"{name}={value!r} is not available with {own}: {advice}.")

    @property
    def _smooth(self) -> float | None:
        """The weight of the present row; a weight of 1 is no smoothing."""
        return None if self.smooth == 1 else self.smooth

    def _recipe(self) -> Recipe:
        names = getattr(self, "feature_names_in_", None)  # set by scikit-learn, if the table had names
        known = None if names is None else tuple(map(str, names))
        n = self.n_features_in_
        given = [] if self.given is None else feature_positions(self.given, known or default_names(n), "given")
        if given and n - len(set(given)) < 2:
            raise ValueError(f"given leaves {n - len(set(given))} column(s) to judge: at least 2 are needed.")
        columns = Lagged(known, n, self.lags, sorted(set(given)), self._smooth)
        named_groups(self.groups, columns.inputs, columns.names)
        return Recipe(self._parameters(), columns)

    def _parameters(self) -> dict[str, Any]:
        """All parameters, with groups as a plain dict of lists."""
        return {**self.get_params(deep=False), "groups": plain_groups(self.groups)}

    def _set_fitted(self, fitted: FittedDetector) -> Self:
        """Use a new core, and set the attributes that follow from it."""
        self._fitted, self._gatherer = fitted, None
        self.mean_, self.scale_, self.model_ = fitted.model.centre, fitted.model.scale, fitted.ppca
        self.abnormal_training_rows_, self.suspicious_cells_ = fitted.abnormal_training_rows, fitted.suspicious_cells
        self.false_alarm_rate_ = fitted.false_alarm_rate
        self.mode_limits_ = fitted.mode_limits
        self.limit_, self.offset_, self.limit_kind_ = fitted.limit, -fitted.limit, fitted.limit_kind
        return self

    def _warned(self, more: Sequence[str]) -> Self:
        for text in [*more, *oddities(self.fitted)]:
            warnings.warn(text, FitWarning, stacklevel=3)
        return self

    def blocks_so_far(self) -> BlockMoments:
        """Moments of blocks of the training rows, or one block where the model knows no more of them.

        With lags, those of the lag matrix. They start what ``fit_moments`` takes.
        """
        check_is_fitted(self, "model_")
        if self.fitted.parameters.get("model", "ppca") != "ppca":
            raise ValueError(f"model={self.model!r} needs all training rows at once. Use fit.")
        if self.fitted.blocks is not None:
            return self.fitted.blocks
        # the model's own mean is what rounding left over, so no digits are lost to a large mean
        if isinstance(self.model_, MixturePPCA):
            raise ValueError("a detector with modes cannot learn from more rows: use fit on all of them.")
        model, context = self.model_.moments_so_far(), self.fitted.model.context
        scatter = model.scatter * np.outer(self.scale_, self.scale_)
        moments = Moments(model.n, self.mean_, self.scale_ * model.mean, scatter)
        return BlockMoments((moments if context is None else context.joint_moments(moments),))


@contextmanager
def _all_or_nothing(detector: PCADetector) -> Iterator[None]:
    """If a fit fails, restore the detector, so that a new model is never combined with an old limit."""
    before = detector.__dict__.copy()
    try:
        yield
    except BaseException:
        detector.__dict__ = before
        raise
