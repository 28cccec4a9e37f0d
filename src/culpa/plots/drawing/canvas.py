"""What all pictures share: axes to draw on, text taken literally, axes along rows, horizontal bars."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from culpa._core.optional import require
from culpa._core.types import Floats
from culpa.plots import palette
from culpa.plots.content import RowAxis
from culpa.plots.text import are_days, number, row_label, shorten_all

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap


BAR_HEIGHT = 0.72


def require_matplotlib() -> None:
    """Say what to install, before anything is computed."""
    require("matplotlib", "A plot", "plots")


def axes_or_new(ax: "Axes | None", width: float, height: float) -> "Axes":
    """The user's axes, or those of a new figure; only the latter touches pyplot."""
    return ax if ax is not None else stacked_axes(1, width, height)[0]


def stacked_axes(n: int, width: float, height: float) -> "list[Axes]":
    """Axes of a new figure, one above the other, that share the horizontal axis."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(n, figsize=(width, height), layout="constrained", sharex=True, squeeze=False)
    return list(axes[:, 0])


def literal(text: str) -> str:
    """Text that matplotlib shows as it is; between dollars it would see a formula."""
    return text.replace("$", r"\$")


def ink() -> str:
    """The colour of text and lines in the user's style, dark or light."""
    import matplotlib

    return str(matplotlib.rcParams["text.color"])


def tidy(ax: "Axes") -> None:
    """Only the spines that carry an axis, small ticks."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize="small")


def title(ax: "Axes", text: str) -> None:
    """A title at the left, where reading starts."""
    ax.set_title(literal(text), loc="left", fontsize="medium")


def message(ax: "Axes", text: str) -> None:
    """Words instead of a picture."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, literal(text), ha="center", va="center", transform=ax.transAxes, wrap=True)


def name_rows(ax: "Axes", names: Sequence[str]) -> None:
    """One name per line at the left, first one on top."""
    ax.set_yticks(range(len(names)), [literal(name) for name in shorten_all(names)])
    ax.tick_params(axis="y", length=0, labelsize="small")
    ax.set_ylim(len(names) - 0.4, -0.6)


def coloured(ax: "Axes", values: Floats, names: Sequence[str], largest: float) -> Any:
    """A coloured cell for each value, one named line of them below the other."""
    scale: dict[str, Any] = {"cmap": diverging(), "vmin": -largest, "vmax": largest}
    image = ax.imshow(values, aspect="auto", interpolation="nearest", **scale)
    name_rows(ax, names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    return image


def legend_above(ax: "Axes", ncols: int = 1) -> None:
    """A legend above the right end of the axes."""
    beyond: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.2}
    ax.legend(ncols=ncols, fontsize="small", frameon=False, **beyond)
    tidy(ax)


def legend_beside(ax: "Axes") -> None:
    """A legend to the right of the axes."""
    ax.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1, 1), handletextpad=0.2)
    tidy(ax)


def horizontal_bars(
    ax: "Axes", names: Sequence[str], values: Floats, colours: Sequence[str], starts: Floats | float = 0.0
) -> None:
    """One named bar per line, first one on top."""
    ax.barh(range(len(names)), values, left=starts, color=list(colours), height=BAR_HEIGHT)
    name_rows(ax, names)
    tidy(ax)


def sign_colours(values: Floats) -> list[str]:
    """Colour of blame by its sign."""
    return [palette.LOWERS if value < 0 else palette.RAISES for value in values]


def whiskers(ax: "Axes", low: Floats, high: Floats) -> None:
    """A thin line over each bar, with caps."""
    places = np.arange(len(low))
    shown = high > low
    ax.hlines(places[shown], low[shown], high[shown], color=ink(), linewidth=1.1)
    for ends in (low[shown], high[shown]):
        ax.plot(ends, places[shown], "|", color=ink(), markersize=5, markeredgewidth=1.1)


def bar_ends(ax: "Axes", ends: Floats, values: Floats, texts: Sequence[str]) -> None:
    """A text just beyond the end of each bar, on the side that the bar points to."""
    for place, (end, value, text) in enumerate(zip(ends, values, texts, strict=True)):
        side = -1 if value < 0 else 1
        ax.annotate(
            text,
            (end, place),
            xytext=(4 * side, 0),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            va="center",
            fontsize="small",
            color=ink(),
            bbox={"facecolor": ax.get_facecolor(), "edgecolor": "none", "alpha": 0.8, "pad": 0.5},
        )


def columns(ax: "Axes", first: float, texts: "dict[str, Sequence[str]]") -> None:
    """Columns of texts to the right of the bars, one text per bar, with headings at height ``first``."""
    for right, (heading, cells) in zip(range(58, 1000, 55), texts.items(), strict=False):
        for place, text in enumerate([heading, *cells]):
            ax.annotate(
                literal(text),
                (1, first + place),
                xycoords=ax.get_yaxis_transform(),
                xytext=(right, 0),
                textcoords="offset points",
                ha="right",
                va="center",
                fontsize="small",
                fontweight="normal" if place else "bold",
                color=ink(),
            )


def show_rows(ax: "Axes", axis: RowAxis) -> None:
    """Ticks along the rows: times, numbers, or what the user calls rows that lie one after the other."""
    if axis.in_time:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    elif axis.named:
        label_positions(ax, axis.labels)
    elif not axis.labelled:
        from matplotlib.ticker import MaxNLocator

        ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def label_positions(ax: "Axes", labels: NDArray[Any]) -> None:
    """Ticks at whole positions that carry row labels, as many as fit."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    daily = are_days(labels)

    def label(x: float, _: int | None = None) -> str:
        return literal(row_label(labels[round(x)], daily=daily)) if x == round(x) and 0 <= x < len(labels) else ""

    longest = max((len(row_label(label, daily=daily)) for label in labels[:: max(len(labels) // 50, 1)]), default=1)
    ax.xaxis.set_major_locator(MaxNLocator(min(max(80 // (longest + 3), 2), 12), integer=True, min_n_ticks=1))
    ax.xaxis.set_major_formatter(FuncFormatter(label))


def log_axis(ax: "Axes", which: Literal["x", "y"]) -> None:
    """A logarithmic axis with plain numbers, as many as are useful."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set(**{f"{which}scale": "log"})
    axis = ax.xaxis if which == "x" else ax.yaxis
    low, high = axis.get_view_interval()
    decades = np.log10(high / low)
    steps = (1,) if decades > 1.6 else (1, 2, 5) if decades > 0.7 else tuple(range(1, 10))
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axis.set_minor_formatter(NullFormatter())


def diverging() -> "Colormap":
    """Blue for what lowers, orange for what raises, white for nothing, grey for missing."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("blame", [palette.LOWERS, "#ffffff", palette.RAISES])
    return colours.with_extremes(bad=palette.NOTHING)


def strip_above(ax: "Axes", gap: float = 0.07, height: float = 0.5) -> "Axes":
    """Small axes above the given ones, sharing their rows; sizes in inches, whatever the size of the axes."""
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    figure, axes = _anchors(ax)
    place = blended_transform_factory(axes, figure.dpi_scale_trans + ScaledTranslation(0, 1, axes))
    return ax.inset_axes((0.0, gap, 1.0, height), transform=place, sharex=ax)


def colour_bar(ax: "Axes", image: Any, label: str, extend: str = "neither") -> None:
    """A scale of colours beside the axes, without taking room from them; its width in inches."""
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    figure, axes = _anchors(ax)
    place = blended_transform_factory(figure.dpi_scale_trans + ScaledTranslation(1, 0, axes), axes)
    beside = ax.inset_axes((0.1, 0.0, 0.13, 1.0), transform=place)
    figure.colorbar(image, cax=beside, label=label, extend=extend)
    beside.tick_params(labelsize="small")
    beside.yaxis.label.set_fontsize("small")


def _anchors(ax: "Axes") -> tuple[Any, Any]:
    """The figure (or subfigure) of axes, and the transform that spans the axes."""
    return ax.figure, ax.transAxes
