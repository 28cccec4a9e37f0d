"""How pictures of a detector are drawn. What they show is decided in `culpa.plots.content`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from culpa.monitoring.cusum import Cusum
from culpa.plots import palette
from culpa.plots.content import Components, ControlChart, Distance, Loadings, RowAxis, Statistic, thin
from culpa.plots.drawing.canvas import (
    axes_or_new,
    colour_bar,
    diverging,
    ink,
    literal,
    log_axis,
    name_rows,
    show_rows,
    stacked_axes,
    tidy,
    title,
)
from culpa.plots.text import TITLES, number, row_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEW = 60  # rows that get a mark each
_MANY = 5000  # rows within the limits that a scatter plot shows


def draw_control_chart(
    content: ControlChart, axes: "Sequence[Axes] | None" = None, *, log: bool | None = None
) -> "list[Axes]":
    """One chart per statistic, one above the other, and the CUSUM below; logarithmic where the content needs it."""
    log = content.needs_log if log is None else log
    n = len(content.statistics) + (content.cusum is not None)
    axes = stacked_axes(n, 9.0, 0.6 + 2.1 * n) if axes is None else list(axes)
    for ax, statistic in zip(axes[: len(content.statistics)], content.statistics, strict=True):
        _draw_statistic(ax, content, statistic, log)
    if content.cusum is not None:
        _draw_cusum(axes[-1], content.axis, content.cusum)
    if not content.axis.in_time:
        at_labels = content.axis.labelled or content.axis.named
        axes[-1].set_xlabel("row" if at_labels else "position in the table", fontsize="small")
    return axes


def _draw_statistic(ax: "Axes", content: ControlChart, statistic: Statistic, log: bool) -> None:
    axis, values = content.axis, statistic.values
    flagged, beyond = content.flagged & ~np.isnan(values), content.only_beyond(statistic)
    if content.incidents:
        stretches = [(span.start, span.end - span.start) for span in content.incidents]
        # an edge keeps short incidents visible in long tables
        ax.broken_barh(
            stretches,
            (0, 1),
            transform=ax.get_xaxis_transform(),
            color=palette.RAISES,
            alpha=0.25,
            linewidth=0.8,
            zorder=0,
        )
    at = thin(values, flagged | beyond)
    ax.plot(axis.x[at], values[at], color=ink(), linewidth=0.9, marker="." if len(axis) <= _FEW else "", zorder=2)
    for rows, fill, label in ((flagged, palette.RAISES, "flagged"), (beyond, "none", "above this limit only")):
        if rows.any():
            ax.plot(
                axis.x[rows],
                values[rows],
                "o",
                color=palette.RAISES,
                markersize=3.5,
                markerfacecolor=fill,
                markeredgewidth=0.8,
                zorder=3,
                label=label,
            )
    for place, (confidence, limit) in enumerate(sorted(statistic.limits.items())):
        strict = place == len(statistic.limits) - 1
        colour, dashes = (palette.STRICT, "--") if strict else (palette.MILD, ":")
        text = f"{_percent(confidence)} limit {number(limit)}"
        ax.axhline(limit, color=colour, linestyle=dashes, linewidth=1.2, zorder=2.5, label=text)
    if log:
        log_axis(ax, "y")
    else:
        ax.set_ylim(bottom=0)
    show_rows(ax, axis)
    ax.set_xlim(*axis.span())
    title(ax, TITLES.get(statistic.name, statistic.name))
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4, fontsize="small", frameon=False, borderaxespad=0.2)
    tidy(ax)


def _draw_cusum(ax: "Axes", axis: RowAxis, sums: Cusum) -> None:
    flagged = sums.values > sums.interval
    at = thin(sums.values, flagged)
    ax.plot(axis.x[at], sums.values[at], color=ink(), linewidth=0.9, zorder=2)
    if flagged.any():
        ax.plot(
            axis.x[flagged], sums.values[flagged], "o", color=palette.RAISES, markersize=3.5, zorder=3, label="flagged"
        )
    text = f"interval {number(sums.interval)}, exceeded once in {sums.run_length:,.0f} normal rows"
    ax.axhline(sums.interval, color=palette.STRICT, linestyle="--", linewidth=1.2, zorder=2.5, label=text)
    ax.set_ylim(bottom=0)
    show_rows(ax, axis)
    ax.set_xlim(*axis.span())
    title(ax, "CUSUM")
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4, fontsize="small", frameon=False, borderaxespad=0.2)
    tidy(ax)


def draw_distance(content: Distance, ax: "Axes | None" = None, *, log: bool = True, n_labels: int = 5) -> "Axes":
    """T2 to the right, SPE upwards; the worst rows are named."""
    ax = axes_or_new(ax, 7.5, 5.0)
    x, y, out_x, out_y = content.t2.values, content.spe.values, content.t2.flagged, content.spe.flagged
    within = np.flatnonzero(~(out_x | out_y))
    within = within[:: -(-len(within) // _MANY) or 1]  # they are only the background; all others are shown
    for chosen, marker, colour, label in (
        (within, "o", palette.PLAIN, "within both limits"),
        (np.flatnonzero(out_x & ~out_y), "s", palette.MILD, "far out, but consistent"),
        (np.flatnonzero(~out_x & out_y), "^", palette.RAISES, "inconsistent"),
        (np.flatnonzero(out_x & out_y), "D", ink(), "both"),
    ):
        if len(chosen):
            ax.scatter(x[chosen], y[chosen], s=20, marker=marker, facecolors="none", edgecolors=colour, label=label)
    for line, limits in ((ax.axvline, content.t2.limits), (ax.axhline, content.spe.limits)):
        for place, confidence in enumerate(sorted(limits)):
            strict = place == len(limits) - 1
            colour, dashes = (palette.STRICT, "--") if strict else (palette.MILD, ":")
            line(limits[confidence], color=colour, linestyle=dashes, linewidth=1.1, zorder=0.5)
    if log:
        log_axis(ax, "x")
        log_axis(ax, "y")
    ax.set_xlabel(f"T²: how far out along the correlations ({_limits(content.t2)})", fontsize="small")
    ax.set_ylabel(f"SPE: how far off them ({_limits(content.spe)})", fontsize="small")
    title(ax, f"{int(content.flagged.sum()):,} of {len(x):,} row{'s' if len(x) > 1 else ''} beyond a limit")
    ax.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1, 1), handletextpad=0.2)
    tidy(ax)
    _name_points(ax, content, n_labels)
    return ax


def draw_loadings(content: Loadings, ax: "Axes | None" = None) -> "Axes":
    """Features from top to bottom, components from left to right."""
    features, components = content.values.shape
    ax = axes_or_new(ax, 3.2 + min(max(0.55 * components, 1.5), 7), 1.4 + 0.26 * features)
    largest = np.abs(content.values).max()
    image = ax.imshow(
        content.values, aspect="auto", interpolation="nearest", cmap=diverging(), vmin=-largest, vmax=largest
    )
    name_rows(ax, content.names)
    ax.set_ylim(features - 0.5, -0.5)
    few = components <= 12
    every = 1 if few else -(-components // 12)
    shares = [f"PC{k + 1}" + (f"\n{share:.0%}" if few else "") for k, share in enumerate(content.explained)]
    ax.set_xticks(range(0, components, every), shares[::every], fontsize="small")
    if few:
        for (row, column), value in np.ndenumerate(content.values):
            colour = "white" if abs(value) > 0.7 * largest else ink()
            ax.text(column, row, f"{value:z.2f}", ha="center", va="center", fontsize="x-small", color=colour)
    colour_bar(ax, image, "loading")
    hidden = f", {features} of {features + content.n_other} features" if content.n_other else ""
    title(ax, f"Loadings: {content.explained.sum():.0%} of the variance{hidden}")
    return ax


def draw_components(content: Components, ax: "Axes | None" = None) -> "Axes":
    """The likelihood over the number of components, with the best number marked."""
    from matplotlib.ticker import MaxNLocator

    ax = axes_or_new(ax, 6.5, 3.6)
    n = len(content.log_likelihood)
    ax.plot(
        range(1, n + 1), content.log_likelihood, color=ink(), linewidth=0.9, marker="." if n <= _FEW else "", zorder=2
    )
    ax.plot([content.best], [0.0], "o", color=palette.RAISES, markersize=7, zorder=3, label=f"best: {content.best}")
    ax.axvline(content.best, color=palette.RAISES, linestyle=":", linewidth=1.2, zorder=1)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_xlim(0.5, n + 0.5)
    ax.set_xlabel("number of components", fontsize="small")
    ax.set_ylabel("log-likelihood per row, less the best", fontsize="small")
    title(ax, "Likelihood of held-out rows")
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), fontsize="small", frameon=False, borderaxespad=0.2)
    tidy(ax)
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
            literal(text),
            point,
            xytext=(-5 if x > middle else 5, 3),
            textcoords="offset points",
            ha="right" if x > middle else "left",
            fontsize="x-small",
            color=ink(),
        )


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def _limits(statistic: Statistic) -> str:
    return ", ".join(f"{_percent(level)} limit {number(limit)}" for level, limit in sorted(statistic.limits.items()))


def _percent(confidence: float) -> str:
    return f"{100 * confidence:.6g}%"
