"""Pictures of explanations and detectors, with matplotlib.

Every function returns the Axes it drew on; without ``ax`` it makes a new figure. The first argument is an `Explanation`
(``why.plot.waterfall(0)`` is ``waterfall(why, 0)``) or a `PCADetector` (``detector.plot.distance(new)``). What a picture
shows is computed in `culpa.plots.content`, which needs no drawing library. For more, shap's own plots take
``why.to_shap()``.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from culpa._core.choices import suggestion
from culpa.detecting.detector import PCADetector
from culpa.explaining.explanation import Explanation
from culpa.plots import content, drawing
from culpa.plots.content.monitoring import CONFIDENCES
from culpa.plots.drawing import require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "bar",
    "components",
    "control_chart",
    "distance",
    "heatmap",
    "loadings",
    "scatter",
    "waterfall",
]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


def waterfall(
    why: Explanation,
    row: int = 0,
    *,
    max_features: int | None = 12,
    limit: float | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """From the base value to the score of the row at position ``row``, feature by feature.

    Features beyond the ``max_features`` largest share one bar, so that bars always add up. ``limit`` draws the control
    limit, for example ``detector.limit_``.
    """
    require_matplotlib()
    return drawing.draw_waterfall(content.Waterfall.of(why, row, max_features=max_features, limit=limit), ax)


def bar(why: Explanation, row: int | None = None, *, max_features: int | None = 12, ax: "Axes | None" = None) -> "Axes":
    """Blame of the row at position ``row``, or mean blame over all rows.

    The lines over the bars are 95% intervals of one row's sampled values, or the middle 80% of many rows.
    """
    require_matplotlib()
    return drawing.draw_bars(content.Bars.of(why, row, max_features=max_features), ax)


def heatmap(why: Explanation, *, max_features: int | None = 20, ax: "Axes | None" = None) -> "Axes":
    """Blame of every row and feature, with the rows' score above; grey cells are missing."""
    require_matplotlib()
    return drawing.draw_heatmap(content.Heatmap.of(why, max_features=max_features), ax)


def scatter(
    why: Explanation,
    row: int = 0,
    *,
    feature: str | int | None = None,
    against: str | int | None = None,
    normal: Any = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """A culprit against another feature, with the value that was expected.

    ``feature`` is the most blamed one unless named, ``against`` the one that correlates most with it. ``normal`` is a
    table of rows to draw around, such as the training rows; without it the other explained rows are drawn.
    """
    require_matplotlib()
    shown = content.Scatter.of(why, row, feature=feature, against=against, normal=normal)
    return drawing.draw_scatter(shown, ax)


def control_chart(
    detector: PCADetector,
    X: Any,
    *,
    time: Any = None,
    confidences: Sequence[float] = CONFIDENCES,
    incidents: Sequence[Any] | None = None,
    cusum: bool | float = False,
    log: bool | None = None,
    ax: "Sequence[Axes] | None" = None,
) -> "list[Axes]":
    """SPE and T2 of each row with their limits, incidents shaded; one Axes per statistic, SPE first.

    ``time`` names the column of times, or gives one time per row; the index of a pandas table needs no naming.
    ``incidents`` are those of ``detector.incidents``; without them, runs of flagged rows are shaded. Filled marks are rows
    that the detector flags, hollow ones are above the limit of a chart that does not flag. ``log`` chooses a logarithmic
    scale; by default, it is logarithmic if a row is above 50 times the limit. ``ax`` takes as many Axes as are returned.
    ``cusum=True`` adds the CUSUM of the detector's own statistic, which finds faults that are small and last. Independent
    normal rows exceed its interval as seldom as the limit, after 100 rows on average at 99%; give another number instead
    of True.
    """
    require_matplotlib()
    shown = content.ControlChart.of(detector, X, time=time, confidences=confidences, incidents=incidents, cusum=cusum)
    return drawing.draw_control_chart(shown, ax, log=log)


def distance(
    detector: PCADetector,
    X: Any,
    *,
    confidences: Sequence[float] = CONFIDENCES,
    log: bool = True,
    n_labels: int = 5,
    ax: "Axes | None" = None,
) -> "Axes":
    """SPE against T2 with both limits: does a row break the correlations, or is it far out along them?"""
    require_matplotlib()
    shown = content.Distance.of(detector, X, confidences=confidences)
    return drawing.draw_distance(shown, ax, log=log, n_labels=n_labels)


def loadings(
    model: Any, *, n_components: int | None = None, max_features: int | None = 30, ax: "Axes | None" = None
) -> "Axes":
    """How features make up the components; for a detector or any model that `Explainer` takes."""
    require_matplotlib()
    return drawing.draw_loadings(content.Loadings.of(model, n_components=n_components, max_features=max_features), ax)


def components(detector: PCADetector, *, ax: "Axes | None" = None) -> "Axes":
    """How likely held-out rows are for each number of components; for a detector with ``n_components="auto"``."""
    require_matplotlib()
    return drawing.draw_components(content.Components.of(detector), ax)


class _Plots(Generic[S]):
    """What both kinds of plots share: their subject, their names in completion, and the nearest name in errors."""

    _names: tuple[str, ...]

    def __init_subclass__(cls) -> None:
        cls._names = tuple(name for name in vars(cls) if not name.startswith("_"))

    def __init__(self, subject: S) -> None:
        self.subject = subject

    def __dir__(self) -> list[str]:
        return [*self._names]

    def __repr__(self) -> str:
        return f"<Plots: {', '.join(self._names)}>"

    if not TYPE_CHECKING:  # a type checker must see that there are no other names

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"there is no plot {name!r}{suggestion(name, self._names)}")


def _method(function: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[_Plots[S], P], R]:
    """A function of an explanation or a detector as a method of its plots."""

    @wraps(function)
    def method(self: _Plots[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return function(self.subject, *args, **kwargs)

    return method


class ExplanationPlots(_Plots[Explanation]):
    """``why.plot``: the plots of an explanation as methods."""

    waterfall = _method(waterfall)
    bar = _method(bar)
    heatmap = _method(heatmap)
    scatter = _method(scatter)


class DetectorPlots(_Plots[PCADetector]):
    """``detector.plot``: the plots of a detector as methods."""

    control_chart = _method(control_chart)
    distance = _method(distance)
    loadings = _method(loadings)
    components = _method(components)
