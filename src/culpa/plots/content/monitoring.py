"""What pictures of a detector show: statistics over rows with their limits, components and how many are best."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa._core.validation import Table, default_names
from culpa.detecting.detector import PCADetector
from culpa.detecting.watching import WatchesRows
from culpa.fitted import FittedDetector, charted
from culpa.models import as_fitted_model
from culpa.monitoring import split_time
from culpa.monitoring.cusum import Cusum
from culpa.monitoring.cusum import cusum as sum_up
from culpa.monitoring.times import Times, in_order, refuse_times
from culpa.plots.content.blame import Selection
from culpa.plots.content.rows import RowAxis, wall_clock
from culpa.scores.following import FOLLOWING

CONFIDENCES = (0.95, 0.99)
_NOTHING = 1e-6  # of the variance
_TALL = 50  # multiple of the limit from which the highest point presses all others to the floor of a linear chart


@dataclass(frozen=True, eq=False)
class Statistic:
    """One statistic over rows. ``limits`` go from confidence to limit; rows above ``alarm`` are ``flagged``."""

    name: str
    values: Floats
    limits: dict[float, float]
    alarm: float

    @property
    def flagged(self) -> NDArray[np.bool_]:
        """Rows above the limit that raises the alarm; missing values are not."""
        return np.asarray(self.values > self.alarm)


class Span(NamedTuple):
    """An incident on the axis: positions of its first and last row, and the stretch of axis that they own."""

    first: int
    last: int
    start: Any
    end: Any


@dataclass(frozen=True, eq=False)
class ControlChart:
    """Statistics along the rows with their limits, and incidents; perhaps the CUSUM of the detector's own statistic.

    ``own`` names the statistic that flags, and ``flagged`` are the rows that it flags.
    """

    axis: RowAxis
    statistics: tuple[Statistic, ...]
    own: str
    flagged: NDArray[np.bool_]
    incidents: tuple[Span, ...]
    cusum: Cusum | None = None

    @property
    def own_statistic(self) -> Statistic:
        """The statistic that flags rows."""
        return next(one for one in self.statistics if one.name == self.own)

    @property
    def needs_log(self) -> bool:
        """Whether a linear chart of the detector's own statistic would show its highest points only."""
        one = self.own_statistic
        seen = one.values[~np.isnan(one.values)]
        return bool(len(seen) and one.alarm > 0 and seen.max() > _TALL * one.alarm and seen.min() > 0)

    @classmethod
    def of(
        cls,
        detector: PCADetector,
        X: Any,
        *,
        time: Any = None,
        confidences: Sequence[float] = CONFIDENCES,
        incidents: Sequence[Any] | None = None,
        cusum: bool | float = False,
    ) -> "ControlChart":
        """SPE and T2 of the rows of ``X``, and the detector's own statistic where it is another one.

        SPE is left out where the components leave next to nothing of the variance, so that it would show rounding.

        ``time`` is that of `PCADetector.incidents`. ``incidents`` are objects with positions ``first`` and ``last``;
        without them, runs of flagged rows are. ``cusum`` adds a CUSUM; a number is its average run length in control.
        """
        features, times, _ = split_time(X, time)
        fitted, table = _checked(detector, features)
        table = in_order(table, times, fitted.columns.step)
        return cls.of_table(fitted, table, times, confidences=confidences, incidents=incidents, cusum=cusum)

    @classmethod
    def of_table(
        cls,
        fitted: FittedDetector,
        table: Table,
        times: Times | None = None,
        *,
        confidences: Sequence[float] = CONFIDENCES,
        incidents: Sequence[Any] | None = None,
        cusum: bool | float = False,
    ) -> "ControlChart":
        """The same for a table that was checked, with the times of its rows."""
        labels, statistics, flagged = _statistics(fitted, table, confidences)
        own = fitted.statistic.name
        left = 1 - float(fitted.ppca.explained_variance_ratio_.sum())
        statistics = tuple(one for one in statistics if one.name in (own, "t2") or left > _NOTHING)
        if times is not None and len(times) != len(labels):
            refuse_times(len(times), len(labels))
        axis = RowAxis.of_table(labels) if times is None else RowAxis.of(times)
        if table.order is not None and (places := table.order.places) is not None:
            axis = replace(axis, places=places, x=axis.x if axis.labelled else places)
        spans = _runs(flagged) if incidents is None else [(one.first, one.last) for one in incidents]
        shown = tuple(Span(first, last, *axis.span(first, last)) for first, last in spans)
        chart = cls(axis, statistics, own, flagged, shown)
        if cusum is not False:
            length = None if cusum is True else cusum
            chart = replace(chart, cusum=sum_up(fitted, chart.own_statistic.values, length, table.missing_rows()))
        course = getattr(incidents, "course", None)
        if fitted.views is None or course is None:
            return chart
        following = Statistic(FOLLOWING, course.score, {fitted.confidence: 1.0}, 1.0)  # of the limit of each row
        return replace(chart, statistics=(*statistics, following), own=FOLLOWING, flagged=course.flagged)


@dataclass(frozen=True, eq=False)
class Distance:
    """SPE against T2: does a row break the correlations, or is it merely far out along them?"""

    spe: Statistic
    t2: Statistic
    labels: NDArray[Any]

    @classmethod
    def of(cls, detector: PCADetector, X: Any, *, confidences: Sequence[float] = CONFIDENCES) -> "Distance":
        """Content for the rows of ``X``."""
        labels, statistics, _ = _statistics(*_checked(detector, X), confidences)
        named = {statistic.name: statistic for statistic in statistics}
        return cls(named["spe"], named["t2"], wall_clock(labels))

    @property
    def flagged(self) -> NDArray[np.bool_]:
        """Rows above either limit."""
        return self.spe.flagged | self.t2.flagged

    def worst(self, k: int) -> NDArray[np.intp]:
        """Positions of the ``k`` flagged rows that lie furthest beyond a limit, furthest first."""
        beyond = np.fmax(*(one.values / one.alarm if one.alarm else one.values for one in (self.spe, self.t2)))
        flagged = np.flatnonzero(self.flagged)
        return flagged[np.argsort(-beyond[flagged], kind="stable")][:k]


@dataclass(frozen=True, eq=False)
class Loadings:
    """Principal axes of a model of scaled features, (features, components), each of length 1.

    The sign of an axis is arbitrary; here its largest entry is positive. ``explained`` is the share of variance along each
    axis. With ``n_other`` > 0 only the features with the largest entries (weighed by variance) are shown.
    """

    names: tuple[str, ...]
    values: Floats
    explained: Floats
    n_other: int

    @classmethod
    def of(cls, model: Any, *, n_components: int | None = None, max_features: int | None = 30) -> "Loadings":
        """Content for a detector or any model that `culpa.Explainer` takes."""
        fitted = as_fitted_model(model)
        loadings = fitted.gaussian.loadings[:, :n_components]
        lengths = np.linalg.norm(loadings, axis=0)
        axes = loadings / np.where(lengths > 0, lengths, 1.0)
        axes = axes * np.where(np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0) < 0, -1.0, 1.0)
        explained = fitted.scatter.along(axes.T) / fitted.scatter.diagonal.sum()
        select = Selection.largest(axes**2 @ explained, max_features)
        shown = np.sort(select.shown)
        names = fitted.feature_names or default_names(len(axes))
        return cls(tuple(names[i] for i in shown), axes[shown], explained, len(select.others))


@dataclass(frozen=True, eq=False)
class Components:
    """How likely models with 1, 2, ... components find rows that they did not see.

    ``log_likelihood`` is the mean per held-out row minus the highest one, so that it is 0 at ``best`` components.
    """

    log_likelihood: Floats
    best: int

    @classmethod
    def of(cls, detector: PCADetector) -> "Components":
        """Content for a detector that chose the number of components itself."""
        content = cls.of_fitted(_fitted(detector))
        if content is None:
            raise ValueError(
                "there is no held-out likelihood for each number of components: fit with n_components='auto' and a "
                "statistic other than the reconstruction error."
            )
        return content

    @classmethod
    def of_fitted(cls, fitted: FittedDetector) -> "Components | None":
        """The same for a fitted core; ``None`` where the number of components was not chosen by likelihood."""
        choice = fitted.components
        if choice is None:
            return None
        return cls(choice.log_likelihood - choice.log_likelihood.max(), choice.n_components)


def _fitted(detector: PCADetector) -> FittedDetector:
    if not isinstance(detector, WatchesRows):
        raise TypeError(f"this picture needs a fitted PCADetector, not {type(detector).__name__}.")
    return detector.fitted


def _checked(detector: PCADetector, X: Any) -> tuple[FittedDetector, Table]:
    if not isinstance(detector, WatchesRows):
        raise TypeError(f"a control chart needs a fitted PCADetector, not {type(detector).__name__}.")
    return detector._checked(X)


def _statistics(
    fitted: FittedDetector, table: Table, confidences: Sequence[float]
) -> tuple[NDArray[Any], tuple[Statistic, ...], NDArray[np.bool_]]:
    """Row labels, statistics, and which rows the detector flags."""
    values = fitted.statistics(table)
    limits: dict[str, dict[float, float]] = {}
    for line in fitted.control_limits(confidences):
        limits.setdefault(line.statistic, {})[line.confidence] = line.limit
    for name, score in charted(fitted.model, fitted.statistic).items():
        if fitted.confidence not in limits.get(name, {}):
            fitted.limits(score, fitted.confidence)  # an error that says why there is none
    statistics = tuple(
        Statistic(name, cells, limits[name], limits[name][fitted.confidence]) for name, cells in values.items()
    )
    return table.row_labels(), statistics, fitted.is_flagged(values[fitted.statistic.name])


def _runs(flagged: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and last position of every run of flagged rows."""
    steps = np.diff(np.concatenate([[False], flagged, [False]]).astype(np.int8))
    return list(zip(np.flatnonzero(steps == 1).tolist(), (np.flatnonzero(steps == -1) - 1).tolist(), strict=True))
