"""Draw the figures. `culpa.paper.figures` computes what they show."""

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from culpa._core.optional import require
from culpa.paper.figures import AGAINST, N_ORDERS, Figure, Figures
from culpa.paper.table1 import SweepPoint
from culpa.plots import palette
from culpa.plots.content import Scatter
from culpa.plots.drawing import canvas as shared
from culpa.plots.drawing.blame import draw_scatter

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

FORMATS = ("png", "svg")


def require_matplotlib() -> None:
    """Raise an error that says what to install, before anything is computed."""
    require("matplotlib", "A figure of the paper", "reproduce")


def draw(figures: Figures) -> dict[str, bytes]:
    """Every picture in every format, by file name."""
    canvases = {f"figure{figure.figure}": draw_figure(figure) for figure in figures.figures}
    canvases["noise-variance"] = draw_sweep(figures.sweep)
    return {f"{name}.{kind}": _render(canvas, kind) for name, canvas in canvases.items() for kind in FORMATS}


def draw_figure(figure: Figure) -> "Canvas":
    """Scatter plot with the corrupted car, errors per feature, Shapley values with Algorithm 1's error bars."""
    canvas = _canvas(12.0, 3.9)
    canvas.subplots_adjust(left=0.055, right=0.985, top=0.86, bottom=0.12, wspace=0.34)
    scatter, errors, shapley = canvas.subplots(1, 3)
    _scatter(scatter, figure)
    _bars(errors, figure, figure.errors)
    errors.set_xlabel("squared residual of the standardised feature", fontsize=8)
    errors.set_title("(b) reconstruction error of each feature", fontsize=10, loc="left")
    _bars(shapley, figure, figure.shapley)
    shapley.errorbar(
        figure.algorithm1,
        np.arange(len(figure.algorithm1)),
        xerr=figure.algorithm1_sd,
        fmt="o",
        markersize=3,
        linewidth=1.2,
        capsize=2.5,
        color=palette.INK,
    )
    shapley.axvline(0, color="black", linewidth=0.8)
    shapley.set_xlabel(f"dots: Algorithm 1, Q = {N_ORDERS}, mean ± s.d.", fontsize=8)
    shapley.set_title("(c) Shapley value of the error, exact", fontsize=10, loc="left")
    name = figure.feature_names[figure.feature - 1]
    canvas.suptitle(
        f"Figure {figure.figure}: test car {figure.row}, feature {figure.feature} ({name}) set to its maximum",
        x=0.01,
        ha="left",
        fontsize=11,
        fontweight="bold",
    )
    return canvas


def draw_sweep(sweep: tuple[SweepPoint, ...]) -> "Canvas":
    """Hits@1 of the exact Shapley values against the noise variance."""
    canvas = _canvas(7.0, 4.0)
    canvas.subplots_adjust(left=0.09, right=0.98, top=0.92, bottom=0.13)
    axes = canvas.subplots()
    factors = [point.factor for point in sweep]
    for label, values, colour, marker in (
        ("MAX", [point.max for point in sweep], palette.RAISES, "o"),
        ("MIN", [point.min for point in sweep], palette.INK, "s"),
    ):
        axes.plot(factors, values, marker=marker, markersize=4, color=colour, label=label)
    axes.axvline(1.0, color="black", linewidth=0.8, linestyle=":")
    axes.annotate(
        "maximum likelihood", (1.0, 0.02), xycoords=("data", "axes fraction"), fontsize=8, ha="right", rotation=90
    )
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    axes.set_xlabel("noise variance, as a multiple of its maximum-likelihood estimate")
    axes.set_ylabel("Hits@1")
    axes.set_title("Exact Shapley values depend on the assumed noise variance", fontsize=10, loc="left")
    axes.legend(frameon=False)
    shared.tidy(axes)
    return canvas


def _canvas(width: float, height: float) -> "Canvas":
    from matplotlib.figure import Figure as Canvas

    # margins are set by hand: automatic layouts differ in the last bit from run to run
    return Canvas(figsize=(width, height))


def _scatter(axes: Any, figure: Figure) -> None:
    culprit, other = (_label(figure, position) + ", standardised" for position in (figure.feature - 1, AGAINST))
    x, y = figure.point
    cloud = np.array(figure.scatter)
    content = Scatter(culprit, other, x, y, figure.expected, True, cloud, "other test cars", figure.row)
    draw_scatter(content, axes)
    axes.set_title("(a) test cars, the corrupted one filled", fontsize=10, loc="left")
    axes.legend(fontsize=8, frameon=False, handletextpad=0.2, labelspacing=0.3)


def _bars(axes: Any, figure: Figure, values: tuple[float, ...]) -> None:
    names = [_label(figure, place) for place in range(len(values))]
    colours = [palette.RAISES if place == figure.feature - 1 else palette.PLAIN for place in range(len(values))]
    shared.horizontal_bars(axes, names, np.array(values), colours)


def _label(figure: Figure, position: int) -> str:
    return f"{position + 1} {figure.feature_names[position]}"


def _render(canvas: "Canvas", kind: str) -> bytes:
    import matplotlib

    buffer = io.BytesIO()
    # no date, no random identifiers: the same numbers give the same file
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with matplotlib.rc_context({"svg.hashsalt": "culpa", "svg.fonttype": "path"}):
        canvas.savefig(buffer, format=kind, dpi=110, metadata=metadata)
    return buffer.getvalue()
