"""How pictures are drawn with matplotlib, which is loaded when something is drawn and not before."""

from culpa.plots.drawing.blame import draw_bars, draw_heatmap, draw_scatter, draw_waterfall
from culpa.plots.drawing.canvas import require_matplotlib
from culpa.plots.drawing.monitoring import draw_components, draw_control_chart, draw_distance, draw_loadings

__all__ = [
    "draw_bars",
    "draw_components",
    "draw_control_chart",
    "draw_distance",
    "draw_heatmap",
    "draw_loadings",
    "draw_scatter",
    "draw_waterfall",
    "require_matplotlib",
]
