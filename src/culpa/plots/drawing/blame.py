"""How pictures of an explanation are drawn. What they show is decided in `culpa.plots.content`."""

from typing import TYPE_CHECKING, Any

import numpy as np

from culpa._core.types import Floats
from culpa.explaining.explanation import Explanation
from culpa.plots import palette
from culpa.plots.content import LEFT_OVER, Bars, Heatmap, Scatter, Waterfall
from culpa.plots.drawing import canvas
from culpa.plots.text import TITLES, number, row_label, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def waterfall(
    why: Explanation,
    row: int = 0,
    *,
    max_features: int | None = 12,
    limit: float | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """From the base value to the score of one row, feature by feature.

    Parameters
    ----------
    why
        The explanation.
    row
        Position of the row in the explanation.
    max_features
        Features beyond this many of the largest values share one bar, so that bars always add up; None shows all.
    limit
        Draw this control limit, for example ``detector.limit_``.
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
    >>> axes = waterfall(detector.explain(plant.new[60:61]), limit=detector.limit_)
    """
    canvas.require_matplotlib()
    content = Waterfall.of(why, row, max_features=max_features, limit=limit)
    ax = canvas.axes_or_new(ax, 7.5, 1.3 + 0.3 * (len(content.names) + 2))
    score_name, name = TITLES.get(content.score_name, content.score_name), row_label(content.label)
    if not content.names:
        canvas.message(ax, f"Row {name} has no observed feature,\nso there is nothing to blame.")
        return ax
    names = ("base value", *content.names, score_name)
    values = np.array([content.base_value, *content.values, content.score])
    starts = np.array([0.0, *content.starts, 0.0])
    colours = [palette.PLAIN, *canvas.sign_colours(content.values), palette.PLAIN]
    if content.names[-1] == LEFT_OVER:
        colours[-2] = palette.PLAIN  # the shared bar blames no single feature
    canvas.horizontal_bars(ax, names, values, colours, starts)
    for place, level in enumerate([*content.starts, content.score]):  # from the end of each bar down to the next one
        ax.plot([level, level], [place, place + 1], color=canvas.ink(), linewidth=0.6, zorder=0.5)
    errors = np.array([0.0, *content.errors, 0.0])
    ends = starts + values
    reach = ends + np.copysign(errors, values)
    canvas.whiskers(ax, ends - errors, ends + errors)
    texts = [number(values[0]), *(f"{'+' if value >= 0 else ''}{number(value)}" for value in content.values)]
    canvas.bar_ends(ax, reach, values, [*texts, number(values[-1])])
    if content.limit is not None:
        ax.axvline(content.limit, color=palette.STRICT, linewidth=1.2, linestyle="--", zorder=0.5)
    ax.axvline(0, color=canvas.ink(), linewidth=0.8)
    _room_for_texts(ax, reach, values, content.limit)
    if any(cell == cell for cell in content.expected):  # not NaN
        cells = {"actual": content.actual, "expected": content.expected}
        canvas.columns(
            ax, 0, {name: ["" if x != x else number(x, 4) for x in column] for name, column in cells.items()}
        )
    missing = f" ({len(content.missing)} missing)" if content.missing else ""
    canvas.title(ax, f"Row {name}: who is to blame for its {score_name}{missing}")
    dashed = "" if content.limit is None else f"; dashed line: limit {number(content.limit)}"
    ax.set_xlabel(score_name + dashed, fontsize="small")
    return ax


def bar(why: Explanation, row: int | None = None, *, max_features: int | None = 12, ax: "Axes | None" = None) -> "Axes":
    """Blame of one row, or mean blame over all rows.

    The lines over the bars are 95% intervals of one row's sampled values, or the middle 80% of many rows.

    Parameters
    ----------
    why
        The explanation.
    row
        Position of the row in the explanation; None for the mean over all rows.
    max_features
        Number of features to show; None shows all.
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
    >>> axes = bar(detector.explain(plant.new[50:80]))
    """
    canvas.require_matplotlib()
    content = Bars.of(why, row, max_features=max_features)
    ax = canvas.axes_or_new(ax, 7.0, 1.3 + 0.3 * len(content.names))
    score_name = TITLES.get(content.score_name, content.score_name)
    if not content.names:
        canvas.message(ax, "No row has an observed feature,\nso there is nothing to blame.")
        return ax
    canvas.horizontal_bars(ax, content.names, content.values, canvas.sign_colours(content.values))
    canvas.whiskers(ax, content.low, content.high)
    ax.axvline(0, color=canvas.ink(), linewidth=0.8)
    one = content.n_rows == 1
    canvas.columns(ax, -1, {"blame" if one else "mean": [number(value) for value in content.values]})
    canvas.title(ax, f"Row {row_label(content.label)}: blame" if one else f"Mean blame over {content.n_rows:,} rows")
    what = f"Shapley value of {score_name}"
    ax.set_xlabel(what if content.whiskers is None else f"{what}; lines: {content.whiskers}", fontsize="small")
    return ax


def heatmap(why: Explanation, *, max_features: int | None = 20, ax: "Axes | None" = None) -> "Axes":
    """Blame of every row and feature, with the rows' score above; grey cells are missing.

    Parameters
    ----------
    why
        The explanation.
    max_features
        Number of features to show, those with the most blame; None shows all.
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
    >>> axes = heatmap(detector.explain(plant.new[40:90]))
    """
    canvas.require_matplotlib()
    content = Heatmap.of(why, max_features=max_features)
    ax = canvas.axes_or_new(ax, 9.0, 1.6 + 0.24 * len(content.names))
    score_name = TITLES.get(content.score_name, content.score_name)
    scale = content.scale
    image = canvas.coloured(ax, content.values.T, content.names, scale)
    ax.tick_params(labelsize="small")
    canvas.label_positions(ax, content.labels)
    with np.errstate(invalid="ignore"):
        beyond = bool((content.values > scale).any()), bool((content.values < -scale).any())
    extend = {(True, True): "both", (True, False): "max", (False, True): "min"}.get(beyond, "neither")
    canvas.colour_bar(ax, image, f"Shapley value of {score_name}", extend)
    above = canvas.strip_above(ax)
    dots = "o" if len(content.score) <= 3 else ""  # so that a single point can be seen
    above.plot(
        np.arange(len(content.score)), content.score, color=canvas.ink(), linewidth=1, marker=dots, clip_on=False
    )
    above.margins(y=0.15)
    above.set_ylim(bottom=0)
    above.tick_params(labelbottom=False, labelsize="small")
    above.set_ylabel(score_name, fontsize="small", rotation=0, ha="right", va="center")
    above.spines[["top", "right"]].set_visible(False)
    ax.set_xlim(-0.5, len(content.score) - 0.5)
    rows = "one row" if content.n_rows == 1 else f"{content.n_rows:,} rows"
    every = -(-content.n_rows // len(content.score))
    canvas.title(ax, f"Blame over {rows}" + (f", the worst of every {every}" if every > 1 else ""))
    ax.set_xlabel("row", fontsize="small")
    return ax


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

    Parameters
    ----------
    why
        The explanation.
    row
        Position of the row in the explanation.
    feature
        Name or position of the culprit; by default the most blamed feature.
    against
        The other feature; by default the one that correlates most with the culprit.
    normal
        Rows to draw around, such as the training rows; by default the other explained rows.
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
    >>> axes = scatter(detector.explain(plant.new[60:61]), normal=plant.normal)
    """
    canvas.require_matplotlib()
    content = Scatter.of(why, row, feature=feature, against=against, normal=normal)
    return draw_scatter(content, ax)


def draw_scatter(content: Scatter, ax: "Axes | None" = None) -> "Axes":
    """The cloud, the row in it, and an arrow to where the row should be."""
    ax = canvas.axes_or_new(ax, 6.5, 4.4)
    if len(content.cloud):
        x, y = content.cloud.T
        ax.scatter(x, y, s=16, facecolors="none", edgecolors=palette.PLAIN, linewidths=0.8, label=content.cloud_name)
    where = (content.x, content.expected)
    ax.plot(*where, "D", color=palette.LOWERS, markerfacecolor="white", markeredgewidth=1.6, zorder=3, label="expected")
    if not np.isnan(content.y):
        ax.plot(content.x, content.y, "o", color=palette.RAISES, markersize=7, zorder=4, label="actual")
        arrow = {"arrowstyle": "->", "color": canvas.ink(), "shrinkA": 5, "shrinkB": 5}
        ax.annotate("", where, (content.x, content.y), arrowprops=arrow, zorder=3)
    ax.set_xlabel(
        canvas.literal(shorten(content.against, 40)) + ("" if content.x_observed else " (missing: expected value)")
    )
    ax.set_ylabel(canvas.literal(shorten(content.feature, 40)))
    told = f"{shorten(content.feature)} is {number(content.y)}, expected {number(content.expected)}"
    canvas.title(ax, f"Row {row_label(content.label)}: {told}")
    canvas.legend_beside(ax)
    return ax


def _room_for_texts(ax: "Axes", ends: Floats, values: Floats, limit: float | None) -> None:
    """Numbers stand beyond the bars' ends, so the axis must reach further than they do."""
    low, high = ends.min(initial=0.0), ends.max(initial=limit or 0.0)
    room = 0.16 * (high - low) or 1.0
    ax.set_xlim(
        (ends[values < 0] - room).min(initial=low),
        max((ends[values >= 0] + room).max(initial=high), high + 0.02 * (high - low)),
    )
