"""Pictures of explanations and detectors, with matplotlib.

Every function returns the Axes it drew on; without ``ax`` it makes a new figure. The first argument is an `Explanation`
(``why.plot.waterfall(0)`` is ``waterfall(why, 0)``) or a `PCADetector` (``detector.plot.distance(new)``). What a picture
shows is computed in `culpa.plots.content`, which needs no drawing library. For more, shap's own plots take
``why.to_shap()``.
"""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from culpa._core.choices import suggestion
from culpa.detecting.detector import PCADetector
from culpa.explaining.explanation import Explanation
from culpa.plots.drawing.blame import bar, heatmap, scatter, waterfall
from culpa.plots.drawing.monitoring import components, control_chart, distance, loadings

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
