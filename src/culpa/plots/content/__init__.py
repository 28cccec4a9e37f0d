"""What pictures show, computed and ready to draw: plain numbers and names, no drawing library."""

from culpa.plots.content.blame import LEFT_OVER, Bars, Heatmap, Scatter, Waterfall
from culpa.plots.content.monitoring import Components, ControlChart, Distance, Loadings, Span, Statistic
from culpa.plots.content.rows import RowAxis, thin

__all__ = [
    "LEFT_OVER",
    "Bars",
    "Components",
    "ControlChart",
    "Distance",
    "Heatmap",
    "Loadings",
    "RowAxis",
    "Scatter",
    "Span",
    "Statistic",
    "Waterfall",
    "thin",
]
