"""PCADetector: the scikit-learn estimator around a `culpa.fitted.FittedDetector`."""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import estimator_html_repr
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from culpa._core import markup
from culpa._core.border import entered, entrance
from culpa._core.choices import one_of
from culpa._core.parameter import check_keywords, documented, keeps
from culpa._core.parameters import DETECTOR, FORGET, DetectorSettings
from culpa._core.validation import Table, check_estimator_input, check_width, complete_rows
from culpa._core.warning import without_warnings
from culpa._core.words import count
from culpa.columns import Lagged, Reading
from culpa.columns.groups import plain_groups
from culpa.detecting.pieces import (
    all_or_nothing,
    check_parameters,
    learn,
    recipe_of,
    row_number_columns,
    suspicions,
    tell_oddities,
)
from culpa.detecting.watching import WatchesRows
from culpa.fitted import FittedDetector, charted
from culpa.fitting.adopting import PARAMETERS, adopt, read_pca
from culpa.fitting.compatibility import check_combinations, check_moments, check_weighted
from culpa.fitting.learning import Recipe
from culpa.fitting.limits import InOrder
from culpa.fitting.training_rows import TrainingRows, excess_in
from culpa.fitting.trimming import at_places, without_suspicious_cells
from culpa.fitting.updating import NEED_NO_FIT, check_settings
from culpa.fitting.weighting import fit_weighted, read_weights
from culpa.monitoring.fill_values import COMPLETE_ROWS, about_table
from culpa.scores import Limits, score_by_name
from culpa.scores.stated import OverTime


def _merges(detector: "PCADetector") -> bool:
    """Whether mean and covariance are all that the detector needs, so that it can learn piece by piece."""
    check_moments(DetectorSettings(**detector.get_params(deep=False)), in_pieces=True)
    return True


@entered
@documented(DETECTOR)
class PCADetector(WatchesRows, OutlierMixin, BaseEstimator):
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
    false_alarm_rate_ : Rate or None
        How many normal rows exceed ``limit_``, with a 95% interval; ``None`` where nothing can be promised. It is
        about this fixed limit, which ``predict`` uses, not about the limit that follows in incidents and reports.
    mode_limits_ : ndarray of shape (modes,) or None
        With ``modes``, the limit of each mode. Scores are in units of it, so that ``limit_`` is close to 1.
    abnormal_training_rows_ : DataFrame
        Training rows above the limit of SPE or T2 (those that `trim` left out are marked), the worst first: row label,
        position, SPE, T2, and the larger of the two in units of its limit. Of clean rows, expect a share 1 - confidence for
        each of the two. Only ``fit`` sees the rows, so there is none after ``partial_fit``.
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

    @keeps(DetectorSettings)
    def __init__(self, *_: Any, **__: Any) -> None:
        """Keep the parameters, unchecked until `fit`."""

    def fit(self, X: Any, y: None = None, sample_weight: Any = None) -> Self:
        """Learn from normal rows.

        Parameters
        ----------
        X
            Normal rows; missing cells are allowed, except with weights.
        y
            Not used, as in scikit-learn.
        sample_weight
            One weight per row. Whole numbers count rows: a row of weight 2 is the same as two rows. Of other weights
            only the proportions matter. They apply to the model, the number of components, the limit and, if they are
            whole, the range of normal rows.

        Returns
        -------
        self
            The fitted detector.
        """
        with all_or_nothing(self, anew=True) as draft:
            with without_warnings(ConvergenceWarning):  # what is odd about the model is said once, below
                table = draft._fit(X, sample_weight)  # read once, because some tables are streams
            tell_oddities(draft, [*about_table(table), *row_number_columns(draft, table)])
        return self

    def _fit(self, X: Any, sample_weight: Any) -> Table:
        check_parameters(self)
        table = given = check_estimator_input(self, X, reset=True, min_rows=2 + self.lags)
        cells = None
        if self.robust:
            given, cells = without_suspicious_cells(given)  # before lags, so that a cell is missing wherever it appears
        recipe = recipe_of(self, given.usual_step())
        weights = None if sample_weight is None else read_weights(sample_weight, len(table.array))
        used = recipe.columns.whole(given) & (True if weights is None else weights > 0)
        if self.lags and used.sum() < 2:
            raise ValueError(
                f"only {count(int(used.sum()), 'row')} of X follow {count(self.lags, 'other row')} each. If rows whose "
                "labels jump do follow each other, reset the index."
            )
        rows = InOrder(recipe.columns.read(given).features, recipe.columns.missing(given)).pick(used)
        labels = given.row_labels()[used]
        if weights is None:
            fitted = recipe.fit_rows(rows, labels)
        else:
            check_weighted(recipe.settings)
            complete_rows(table, "sample_weight")
            fitted = fit_weighted(recipe, rows.rows, weights[used], labels, np.flatnonzero(used))
        if self.contamination is not None:  # a share of the rows as they will be judged, with all their cells
            fitted = recipe.limited(fitted, score=fitted.values(fitted.columns.read(table))[used])
        abnormal = at_places(fitted.abnormal_training_rows, np.flatnonzero(used))
        order = InOrder(given.array, given.missing_rows(recipe.columns.step)).pick(used)
        learner = TrainingRows(len(rows.rows), self.n_features_in_).add(InOrder(rows.rows, order.missing))
        weighted = weights is not None and bool(np.ptp(weights[used]) > 0)
        fitted = learner.taught(fitted, recipe if weights is None else None, weighted=weighted)
        self.fitted = replace(fitted, abnormal_training_rows=abnormal, suspicious_cells=cells)
        return table

    @available_if(_merges)
    @entrance
    def partial_fit(self, X: Any, y: None = None, *, forget: float = 0.0) -> Self:
        """Learn from more normal rows: the model is that of ``fit`` on all rows so far, to rounding.

        It keeps means and covariances of blocks of rows, and scores, so it needs complete rows. Each new row is scored by
        the model of the blocks that it is not in, and these scores join those of before, so the limit keeps the rate of
        false alarms. As long as 4,096 rows or fewer have come by ``partial_fit`` alone, they are kept, and the limit is
        that of ``fit``. After ``fit``, an automatic number of components is chosen from other blocks than ``fit`` has.
        With lags, the rows of each call must be consecutive, and the first ones serve only as the others' past. Detectors
        with ``smooth`` learn from all rows at once, with ``fit``. Parameters must be those of the calls before: to change
        them, use ``fit``.

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
        with all_or_nothing(self) as draft:
            check_parameters(draft)
            FORGET.check(forget)
            first = not hasattr(draft, "model_")
            table = check_estimator_input(draft, X, reset=first, min_rows=1 + draft.lags)
            complete_rows(table)
            recipe = recipe_of(draft, table.usual_step() if first else draft.fitted.columns.step)
            if not first:  # before rows are read as other settings would have them
                check_settings(recipe, draft.fitted)
            rows = recipe.columns.read(table).features[recipe.columns.whole(table)]
            if not len(rows):
                raise ValueError(
                    f"no row of X follows {count(draft.lags, 'other row')}, so there is nothing to learn from."
                )
            sentences = about_table(table, COMPLETE_ROWS) if first else suspicions(draft, table)
            learn(draft, recipe, rows, forget)
            tell_oddities(draft, sentences, of_the_fit=first)  # what is odd about the model is said once
        return self

    def calibrate_limit(self, X: Any) -> Self:
        """Set a conformal limit from normal rows that the detector was not fitted to.

        A new row from the same distribution exceeds the limit with a probability of at most 1 - confidence, whatever the
        distribution is. You need at least confidence / (1 - confidence) rows: 99 for 99%.
        """
        with all_or_nothing(self) as draft:
            fitted, confidence = draft.fitted, draft.confidence
            table, columns = draft._read(X), _unsmoothed(fitted)
            rows = fitted.columns.read(table).features[columns.whole(table)]
            # a new limit is for what is asked for now
            settings = replace(fitted.settings, statistic=draft.statistic, confidence=confidence)
            DETECTOR.check(vars(settings))
            check_combinations(settings)
            statistic = score_by_name(Recipe(settings, columns).statistic, fitted.model, confidence=confidence)
            tails = Limits.tails_of(charted(fitted.model, statistic).values(), [fitted.model.standardise(rows)])
            limits = Limits(fitted.model, "conformal", tails)
            limit = limits(statistic, confidence)
            fitted = replace(
                fitted,
                statistic=statistic,
                confidence=confidence,
                limits=limits,
                limit=limit,
                limit_source="",
                settings=settings,
                gathered=None,
            )
            excess = excess_in(fitted, {0: InOrder(rows)}, len(rows))
            over_time = OverTime(
                fitted.over_time.alike
            )  # how many later rows exceeded the limit before is no matter now
            draft.fitted = replace(fitted, views=None, normal_excess=excess, over_time=over_time)
        return self

    @classmethod
    def from_pca(cls, pca: Any, normal: Any, **parameters: Any) -> Self:
        """A detector around a PCA of scikit-learn that is fitted already, with limits from normal rows.

        Parameters
        ----------
        pca
            A fitted PCA or IncrementalPCA, or a Pipeline of scalers and one of them. Its model stays as it is, so
            `partial_fit` is refused.
        normal
            Complete normal rows: all those that the PCA was fitted to, or others. Limits are checked on held-out rows in
            both cases. ``limit="conformal"`` needs others. Do not pass a part of the PCA's own rows, which would count as
            others: a PCA reconstructs them better than new rows, so the limit would be too low.
        parameters
            Of the detector: ``statistic``, ``confidence``, ``limit``, ``contamination``, ``groups``, ``game``, ``ranking``
            and ``noun``.

        Returns
        -------
        PCADetector
            A fitted one.

        Examples
        --------
        >>> from sklearn.decomposition import PCA
        >>> from culpa.datasets import make_plant
        >>> plant = make_plant()
        >>> detector = PCADetector.from_pca(PCA(3).fit(plant.normal), plant.normal)
        >>> detector.incidents(plant.new)[0].culprits[0].feature
        'x2'
        """
        check_keywords(parameters, PARAMETERS, "from_pca")
        estimator, model = read_pca(pca)
        scaled = bool((model.scale != 1).any())
        detector = cls(n_components=model.gaussian.n_components, scale=scaled, **parameters)
        check_parameters(detector)
        table = check_estimator_input(detector, normal, reset=True, min_rows=2)
        check_width(table, model.gaussian.n_features, model.feature_names, "normal")
        complete_rows(table, "from_pca")
        fitted = adopt(recipe_of(detector), pca, estimator, model, table)
        detector.fitted = TrainingRows(len(table.array), len(table.array.T)).add(InOrder(table.array)).taught(fitted)
        tell_oddities(detector)
        return detector

    @property
    def fitted(self) -> FittedDetector:
        """The fitted core: what judges and explains rows, as one immutable object."""
        if not hasattr(self, "model_"):  # looked at first, because scikit-learn's check takes longer than scoring a row
            check_is_fitted(self, "model_")
        core = self._fitted
        now = {name: getattr(self, name) for name in NEED_NO_FIT} | {"groups": plain_groups(self.groups)}
        if all(getattr(core.settings, name) == value for name, value in now.items()):
            return core
        return replace(core, settings=replace(core.settings, **now))

    @fitted.setter
    def fitted(self, fitted: FittedDetector) -> None:
        # with the attributes that follow from it
        self._fitted = fitted
        self.mean_, self.scale_, self.model_ = fitted.model.centre, fitted.model.scale, fitted.ppca
        self.abnormal_training_rows_, self.suspicious_cells_ = fitted.abnormal_training_rows, fitted.suspicious_cells
        self.false_alarm_rate_ = fitted.stated and fitted.stated.rate
        self.mode_limits_ = fitted.mode_limits
        self.limit_, self.offset_, self.limit_kind_ = fitted.limit, -fitted.limit, fitted.limit_kind

    @property
    def units_(self) -> dict[str, str]:
        """Units of columns, for texts; may be set after fitting."""
        return dict(self.fitted.units)

    @units_.setter
    def units_(self, units: Mapping[str, str]) -> None:
        columns = self.fitted.columns.inputs
        for name, unit in units.items():
            one_of(name, columns, "column in units_:")
            if not isinstance(unit, str):
                raise ValueError(f"units_[{name!r}] == {unit!r} is no text: units are texts such as 'bar'.")
        with all_or_nothing(self) as draft:
            draft._fitted = replace(draft.fitted, units=units)

    def save(self, path: str | Path) -> None:
        """Write the fitted detector, with the explainer it has compiled, to a model file; `culpa.load` reads it."""
        check_is_fitted(self)
        import_module("culpa.io.model_file").save(self.fitted, path)

    def _read(self, X: Any, min_rows: int = 1) -> Table:
        """Check a table against the columns that the detector was fitted on."""
        if not hasattr(self, "model_"):
            check_is_fitted(self)
        return check_estimator_input(self, X, reset=False, min_rows=min_rows)

    def _held(self) -> Self:
        held = object.__new__(type(self))
        held.__dict__ = self.__dict__  # `all_or_nothing` does not change it, but puts another one in its place
        return held

    def _unsmoothed(self, X: Any) -> Reading:
        return _unsmoothed(self.fitted).read(self._read(X))

    def _html_repr(self) -> str:
        """scikit-learn's diagram in notebooks, and below it what the fit found."""
        diagram: str = estimator_html_repr(self)
        if not hasattr(self, "model_"):
            return diagram
        about = self.fitted
        rate = self.false_alarm_rate_
        facts = [
            ("training rows", f"{about.ppca.n_samples_:,.0f}"),
            ("columns", f"{len(about.columns.names):,}"),
            ("components", f"{about.ppca.n_components_}"),
            ("flagged above", f"{about.limit:.4g} ({about.statistic.name}, {about.limit_kind})"),
            ("false alarms", "no promise" if rate is None else f"{rate.value:.2%} of normal rows"),
        ]
        return diagram + markup.block("", markup.table(("", ""), facts))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _unsmoothed(fitted: FittedDetector) -> Lagged:
    """The columns as they were learned: past values, but no averages."""
    own = fitted.columns
    given = [i for i in range(len(own.inputs)) if i not in own.positions]
    return Lagged(own.known_inputs, len(own.inputs), own.lags, given, own.smooth, step=own.step)
