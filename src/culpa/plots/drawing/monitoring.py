"""How pictures of a detector are drawn. What they show is decided in `culpa.plots.content`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from culpa._core.types import Floats, Mask
from culpa.detecting.detector import PCADetector
from culpa.monitoring.cusum import Cusum
from culpa.plots import palette
from culpa.plots.content import Components, ControlChart, Distance, Loadings, RowAxis, Statistic, thin
from culpa.plots.content.monitoring import CONFIDENCES
from culpa.plots.drawing import canvas
from culpa.plots.text import TITLES, number, row_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEW = 60  # rows that get a mark each
_MANY = 5000  # rows within the limits that a scatter plot shows


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
    """SPE and T2 of each row with their limits, incidents shaded.

    Filled marks are rows that the detector flags, hollow ones are above the limit of a chart that does not flag.

    Parameters
    ----------
    detector
        A fitted detector.
    X
        Rows in the order of time.
    time
        Name of the column of times, or one time per row; the index of a pandas table needs no naming.
    confidences
        Of the limits that are drawn.
    incidents
        Those of ``detector.incidents``; without them, runs of flagged rows are shaded.
    cusum
        True adds the CUSUM of the detector's own statistic, which finds faults that are small and last. Independent
        normal rows exceed its interval as seldom as the limit, after 100 rows on average at 99%; give another number
        instead of True.
    log
        Whether the scale is logarithmic; by default, it is if a row is above 50 times the limit.
    ax
        As many axes as are returned; by default those of a new figure.

    Returns
    -------
    list of matplotlib.axes.Axes
        One per statistic, SPE first.

    Examples
    --------
    >>> from culpa import PCADetector
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> detector = PCADetector().fit(plant.normal)
    >>> axes = control_chart(detector, plant.new, incidents=detector.incidents(plant.new))
    """
    canvas.require_matplotlib()
    content = ControlChart.of(detector, X, time=time, confidences=confidences, incidents=incidents, cusum=cusum)
    log = content.needs_log if log is None else log
    n = len(content.statistics) + (content.cusum is not None)
    axes = canvas.stacked_axes(n, 9.0, 0.6 + 2.1 * n) if ax is None else list(ax)
    for own, statistic in zip(axes[: len(content.statistics)], content.statistics, strict=True):
        _draw_statistic(own, content, statistic, log)
    if content.cusum is not None:
        _draw_cusum(axes[-1], content.axis, content.cusum)
    if not content.axis.in_time:
        at_labels = content.axis.labelled or content.axis.named
        axes[-1].set_xlabel("row" if at_labels else "position in the table", fontsize="small")
    return axes


def _draw_statistic(ax: "Axes", content: ControlChart, statistic: Statistic, log: bool) -> None:
    if content.incidents:
        stretches = [(span.start, span.end - span.start) for span in content.incidents]
        # an edge keeps short incidents visible in long tables
        where: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "zorder": 0}
        ax.broken_barh(stretches, (0, 1), color=palette.RAISES, alpha=0.25, linewidth=0.8, **where)
    marks = {
        "flagged": content.flagged & ~np.isnan(statistic.values),
        "above this limit only": statistic.flagged & ~content.flagged,
    }
    limits = {
        f"{_percent(confidence)} limit {number(limit)}": limit for confidence, limit in sorted(statistic.limits.items())
    }
    _draw_along(ax, content.axis, statistic.values, marks, limits, log=log)
    canvas.title(ax, TITLES.get(statistic.name, statistic.name))


def _draw_cusum(ax: "Axes", axis: RowAxis, sums: Cusum) -> None:
    text = f"interval {number(sums.interval)}, exceeded once in {sums.run_length:,.0f} normal rows"
    _draw_along(ax, axis, sums.values, {"flagged": sums.values > sums.interval}, {text: sums.interval})
    canvas.title(ax, "CUSUM")


def _draw_along(
    ax: "Axes",
    axis: RowAxis,
    values: Floats,
    marks: Mapping[str, Mask],
    limits: Mapping[str, float],
    *,
    log: bool = False,
) -> None:
    """Values along the rows, with marks on some of them, filled and then hollow, and with limits, the strictest last."""
    at = thin(values, np.any(list(marks.values()), axis=0))
    ax.plot(
        axis.x[at], values[at], color=canvas.ink(), linewidth=0.9, marker="." if len(axis) <= _FEW else "", zorder=2
    )
    style: dict[str, Any] = {"color": palette.RAISES, "markersize": 3.5, "markeredgewidth": 0.8, "zorder": 3}
    for (label, rows), fill in zip(marks.items(), (palette.RAISES, "none"), strict=False):
        if rows.any():
            ax.plot(axis.x[rows], values[rows], "o", markerfacecolor=fill, label=label, **style)
    for (text, limit), (colour, dashes) in zip(limits.items(), _styles(limits), strict=True):
        ax.axhline(limit, color=colour, linestyle=dashes, linewidth=1.2, zorder=2.5, label=text)
    if log:
        canvas.log_axis(ax, "y")
    else:
        ax.set_ylim(bottom=0)
    canvas.show_rows(ax, axis)
    ax.set_xlim(*axis.span())
    canvas.legend_above(ax, ncols=4)


def _styles(limits: Mapping[Any, float]) -> list[tuple[str, str]]:
    """Colours and dashes of limits, the strictest last."""
    return [(palette.MILD, ":")] * (len(limits) - 1) + [(palette.STRICT, "--")]


def distance(
    detector: PCADetector,
    X: Any,
    *,
    confidences: Sequence[float] = CONFIDENCES,
    log: bool = True,
    n_labels: int = 5,
    ax: "Axes | None" = None,
) -> "Axes":
    """SPE against T2 with both limits: does a row break the correlations, or is it far out along them?

    Parameters
    ----------
    detector
        A fitted detector.
    X
        Rows to show.
    confidences
        Of the limits that are drawn.
    log
        Whether both scales are logarithmic.
    n_labels
        Number of the worst rows to label.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the picture.

    Examples
    --------
    >>> from culpa import PCADetector
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> detector = PCADetector().fit(plant.normal)
    >>> axes = distance(detector, plant.new)
    """
    canvas.require_matplotlib()
    content = Distance.of(detector, X, confidences=confidences)
    ax = canvas.axes_or_new(ax, 7.5, 5.0)
    x, y, out_x, out_y = content.t2.values, content.spe.values, content.t2.flagged, content.spe.flagged
    within = np.flatnonzero(~(out_x | out_y))
    within = within[:: -(-len(within) // _MANY) or 1]  # they are only the background; all others are shown
    for chosen, marker, colour, label in (
        (within, "o", palette.PLAIN, "within both limits"),
        (np.flatnonzero(out_x & ~out_y), "s", palette.MILD, "far out, but consistent"),
        (np.flatnonzero(~out_x & out_y), "^", palette.RAISES, "inconsistent"),
        (np.flatnonzero(out_x & out_y), "D", canvas.ink(), "both"),
    ):
        if len(chosen):
            ax.scatter(x[chosen], y[chosen], s=20, marker=marker, facecolors="none", edgecolors=colour, label=label)
    for line, limits in ((ax.axvline, content.t2.limits), (ax.axhline, content.spe.limits)):
        for (_, limit), (colour, dashes) in zip(sorted(limits.items()), _styles(limits), strict=True):
            line(limit, color=colour, linestyle=dashes, linewidth=1.1, zorder=0.5)
    if log:
        canvas.log_axis(ax, "x")
        canvas.log_axis(ax, "y")
    ax.set_xlabel(f"T²: how far out along the correlations ({_limits(content.t2)})", fontsize="small")
    ax.set_ylabel(f"SPE: how far off them ({_limits(content.spe)})", fontsize="small")
    canvas.title(ax, f"{int(content.flagged.sum()):,} of {len(x):,} row{'s' if len(x) > 1 else ''} beyond a limit")
    canvas.legend_beside(ax)
    _name_points(ax, content, n_labels)
    return ax


def loadings(
    model: Any, *, n_components: int | None = None, max_features: int | None = 30, ax: "Axes | None" = None
) -> "Axes":
    """How features make up the components.

    Parameters
    ----------
    model
        A detector, or any model that `Explainer` takes.
    n_components
        Number of components to show; None shows all.
    max_features
        Number of features to show, those with the largest loadings; None shows all.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the picture.

    Examples
    --------
    >>> from culpa import PCADetector
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> detector = PCADetector().fit(plant.normal)
    >>> axes = loadings(detector, n_components=2)
    """
    canvas.require_matplotlib()
    content = Loadings.of(model, n_components=n_components, max_features=max_features)
    features, components = content.values.shape
    ax = canvas.axes_or_new(ax, 3.2 + min(max(0.55 * components, 1.5), 7), 1.4 + 0.26 * features)
    largest = np.abs(content.values).max()
    image = canvas.coloured(ax, content.values, content.names, largest)
    few = components <= 12
    every = 1 if few else -(-components // 12)
    shares = [f"PC{k + 1}" + (f"\n{share:.0%}" if few else "") for k, share in enumerate(content.explained)]
    ax.set_xticks(range(0, components, every), shares[::every], fontsize="small")
    if few:
        for (row, column), value in np.ndenumerate(content.values):
            colour = "white" if abs(value) > 0.7 * largest else canvas.ink()
            ax.text(column, row, f"{value:z.2f}", ha="center", va="center", fontsize="x-small", color=colour)
    canvas.colour_bar(ax, image, "loading")
    hidden = f", {features} of {features + content.n_other} features" if content.n_other else ""
    canvas.title(ax, f"Loadings: {content.explained.sum():.0%} of the variance{hidden}")
    return ax


def components(detector: PCADetector, *, ax: "Axes | None" = None) -> "Axes":
    """How likely held-out rows are for each number of components.

    Parameters
    ----------
    detector
        A detector fitted with ``n_components="auto"``.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the picture.

    Examples
    --------
    >>> from culpa import PCADetector
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> detector = PCADetector().fit(plant.normal)
    >>> axes = components(detector)
    """
    canvas.require_matplotlib()
    from matplotlib.ticker import MaxNLocator

    content = Components.of(detector)
    ax = canvas.axes_or_new(ax, 6.5, 3.6)
    n = len(content.log_likelihood)
    ax.plot(
        range(1, n + 1),
        content.log_likelihood,
        color=canvas.ink(),
        linewidth=0.9,
        marker="." if n <= _FEW else "",
        zorder=2,
    )
    ax.plot([content.best], [0.0], "o", color=palette.RAISES, markersize=7, zorder=3, label=f"best: {content.best}")
    ax.axvline(content.best, color=palette.RAISES, linestyle=":", linewidth=1.2, zorder=1)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_xlim(0.5, n + 0.5)
    ax.set_xlabel("number of components", fontsize="small")
    ax.set_ylabel("log-likelihood per row, less the best", fontsize="small")
    canvas.title(ax, "Likelihood of held-out rows")
    canvas.legend_above(ax)
    return ax


def _name_points(ax: "Axes", content: Distance, n_labels: int) -> None:
    """Labels of the worst rows, on the side where there is room; one that would cover another is left out."""
    taken: list[tuple[float, float, float, float]] = []
    middle = ax.transAxes.transform((0.5, 0.5))[0]
    for row in content.worst(8 * n_labels):
        point = (content.t2.values[row], content.spe.values[row])
        x, y = ax.transData.transform(point)
        text = row_label(content.labels[row])
        width, height = 8.0 * len(text) + 10, 16.0  # generous: axes shrink when the figure makes room for their labels
        left = x - width if x > middle else x
        box = (left, left + width, y, y + height)
        if len(taken) == n_labels or any(_overlap(box, other) for other in taken):
            continue
        taken.append(box)
        ax.annotate(
            canvas.literal(text),
            point,
            xytext=(-5 if x > middle else 5, 3),
            textcoords="offset points",
            ha="right" if x > middle else "left",
            fontsize="x-small",
            color=canvas.ink(),
        )


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def _limits(statistic: Statistic) -> str:
    return ", ".join(f"{_percent(level)} limit {number(limit)}" for level, limit in sorted(statistic.limits.items()))


def _percent(confidence: float) -> str:
    return f"{100 * confidence:.6g}%"
