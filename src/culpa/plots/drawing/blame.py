"""How pictures of an explanation are drawn. What they show is decided in `culpa.plots.content`."""

from typing import TYPE_CHECKING

import numpy as np

from culpa._core.types import Floats
from culpa.plots import palette
from culpa.plots.content import LEFT_OVER, Bars, Heatmap, Scatter, Waterfall
from culpa.plots.drawing.canvas import (
    axes_or_new,
    bar_ends,
    colour_bar,
    columns,
    diverging,
    horizontal_bars,
    ink,
    label_positions,
    literal,
    message,
    name_rows,
    sign_colours,
    strip_above,
    tidy,
    title,
    whiskers,
)
from culpa.plots.text import TITLES, number, row_label, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_waterfall(content: Waterfall, ax: "Axes | None" = None) -> "Axes":
    """Base value on top, then the bars that lead to the score at the bottom; actual and expected values at the right."""
    ax = axes_or_new(ax, 7.5, 1.3 + 0.3 * (len(content.names) + 2))
    score_name, row = TITLES.get(content.score_name, content.score_name), row_label(content.label)
    if not content.names:
        message(ax, f"Row {row} has no observed feature,\nso there is nothing to blame.")
        return ax
    names = ("base value", *content.names, score_name)
    values = np.array([content.base_value, *content.values, content.score])
    starts = np.array([0.0, *content.starts, 0.0])
    colours = [palette.PLAIN, *sign_colours(content.values), palette.PLAIN]
    if content.names[-1] == LEFT_OVER:
        colours[-2] = palette.PLAIN  # the shared bar blames no single feature
    horizontal_bars(ax, names, values, colours, starts)
    for place, level in enumerate([*content.starts, content.score]):  # from the end of each bar down to the next one
        ax.plot([level, level], [place, place + 1], color=ink(), linewidth=0.6, zorder=0.5)
    errors = np.array([0.0, *content.errors, 0.0])
    ends = starts + values
    reach = ends + np.copysign(errors, values)
    whiskers(ax, ends - errors, ends + errors)
    texts = [number(values[0]), *(f"{'+' if value >= 0 else ''}{number(value)}" for value in content.values)]
    bar_ends(ax, reach, values, [*texts, number(values[-1])])
    if content.limit is not None:
        ax.axvline(content.limit, color=palette.STRICT, linewidth=1.2, linestyle="--", zorder=0.5)
    ax.axvline(0, color=ink(), linewidth=0.8)
    _room_for_texts(ax, reach, values, content.limit)
    if any(cell == cell for cell in content.expected):  # not NaN
        cells = {"actual": content.actual, "expected": content.expected}
        columns(ax, 0, {name: ["" if x != x else number(x, 4) for x in column] for name, column in cells.items()})
    missing = f" ({len(content.missing)} missing)" if content.missing else ""
    title(ax, f"Row {row}: who is to blame for its {score_name}{missing}")
    limit = "" if content.limit is None else f"; dashed line: limit {number(content.limit)}"
    ax.set_xlabel(score_name + limit, fontsize="small")
    return ax


def draw_bars(content: Bars, ax: "Axes | None" = None) -> "Axes":
    """Blame, largest on top."""
    ax = axes_or_new(ax, 7.0, 1.3 + 0.3 * len(content.names))
    score_name = TITLES.get(content.score_name, content.score_name)
    if not content.names:
        message(ax, "No row has an observed feature,\nso there is nothing to blame.")
        return ax
    horizontal_bars(ax, content.names, content.values, sign_colours(content.values))
    whiskers(ax, content.low, content.high)
    ax.axvline(0, color=ink(), linewidth=0.8)
    one = content.n_rows == 1
    columns(ax, -1, {"blame" if one else "mean": [number(value) for value in content.values]})
    title(ax, f"Row {row_label(content.label)}: blame" if one else f"Mean blame over {content.n_rows:,} rows")
    what = f"Shapley value of {score_name}"
    ax.set_xlabel(what if content.whiskers is None else f"{what}; lines: {content.whiskers}", fontsize="small")
    return ax


def draw_heatmap(content: Heatmap, ax: "Axes | None" = None) -> "Axes":
    """Players from top to bottom, rows from left to right, the score above them."""
    ax = axes_or_new(ax, 9.0, 1.6 + 0.24 * len(content.names))
    score_name = TITLES.get(content.score_name, content.score_name)
    scale = content.scale
    image = ax.imshow(
        content.values.T, aspect="auto", interpolation="nearest", cmap=diverging(), vmin=-scale, vmax=scale
    )
    name_rows(ax, content.names)
    ax.set_ylim(len(content.names) - 0.5, -0.5)
    ax.tick_params(labelsize="small")
    label_positions(ax, content.labels)
    with np.errstate(invalid="ignore"):
        beyond = bool((content.values > scale).any()), bool((content.values < -scale).any())
    extend = {(True, True): "both", (True, False): "max", (False, True): "min"}.get(beyond, "neither")
    colour_bar(ax, image, f"Shapley value of {score_name}", extend)
    above = strip_above(ax)
    above.plot(
        np.arange(len(content.score)),
        content.score,
        color=ink(),
        linewidth=1,
        marker=_dots(content.score),
        clip_on=False,
    )
    above.margins(y=0.15)
    above.set_ylim(bottom=0)
    above.tick_params(labelbottom=False, labelsize="small")
    above.set_ylabel(score_name, fontsize="small", rotation=0, ha="right", va="center")
    above.spines[["top", "right"]].set_visible(False)
    ax.set_xlim(-0.5, len(content.score) - 0.5)
    thinned = len(content.score) < content.n_rows
    rows = "one row" if content.n_rows == 1 else f"{content.n_rows:,} rows"
    title(ax, f"Blame over {rows}" + (f", the worst of every {_every(content)}" if thinned else ""))
    ax.set_xlabel("row", fontsize="small")
    return ax


def draw_scatter(content: Scatter, ax: "Axes | None" = None) -> "Axes":
    """The cloud, the row in it, and an arrow to where the row should be."""
    ax = axes_or_new(ax, 6.5, 4.4)
    if len(content.cloud):
        x, y = content.cloud.T
        ax.scatter(x, y, s=16, facecolors="none", edgecolors=palette.PLAIN, linewidths=0.8, label=content.cloud_name)
    where = (content.x, content.expected)
    ax.plot(*where, "D", color=palette.LOWERS, markerfacecolor="white", markeredgewidth=1.6, zorder=3, label="expected")
    if not np.isnan(content.y):
        ax.plot(content.x, content.y, "o", color=palette.RAISES, markersize=7, zorder=4, label="actual")
        arrow = {"arrowstyle": "->", "color": ink(), "shrinkA": 5, "shrinkB": 5}
        ax.annotate("", where, (content.x, content.y), arrowprops=arrow, zorder=3)
    ax.set_xlabel(literal(shorten(content.against, 40)) + ("" if content.x_observed else " (missing: expected value)"))
    ax.set_ylabel(literal(shorten(content.feature, 40)))
    told = f"{shorten(content.feature)} is {number(content.y)}, expected {number(content.expected)}"
    title(ax, f"Row {row_label(content.label)}: {told}")
    ax.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1, 1), handletextpad=0.2)
    tidy(ax)
    return ax


def _room_for_texts(ax: "Axes", ends: Floats, values: Floats, limit: float | None) -> None:
    """Numbers stand beyond the bars' ends, so the axis must reach further than they do."""
    low, high = ends.min(initial=0.0), ends.max(initial=limit or 0.0)
    room = 0.16 * (high - low) or 1.0
    ax.set_xlim(
        (ends[values < 0] - room).min(initial=low),
        max((ends[values >= 0] + room).max(initial=high), high + 0.02 * (high - low)),
    )


def _dots(values: Floats) -> str:
    """Few points are marked, so that a single one can be seen."""
    return "o" if len(values) <= 3 else ""


def _every(content: Heatmap) -> str:
    return f"{-(-content.n_rows // len(content.score))}"
