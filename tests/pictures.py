"""Pictures whose look is guarded, in a fixed style. `python tests/pictures.py` draws the baselines anew: look at them."""

from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text

from culpa import Explanation, PCADetector, plots
from culpa.datasets import make_plant

BASELINES = Path(__file__).parent / "baselines"

_STYLE = {"font.family": "DejaVu Sans", "font.size": 9.0}


def explanation(values, *, data=None, groups=None, std_error=0.0, base=1.0, **known):
    """An explanation with given Shapley values."""
    values = np.atleast_2d(np.asarray(values, dtype=np.float64))
    n, players = values.shape
    data = np.ones((n, players)) if data is None else np.asarray(data, dtype=np.float64)
    exact = not np.any(std_error)
    return Explanation(
        **{
            "values": values,
            "std_error": np.broadcast_to(std_error, values.shape).astype(np.float64),
            "score": values.sum(axis=1) + base,
            "base_value": base,
            "data": data,
            "expected": data + 0.5,
            "score_if_fixed": np.zeros(values.shape) if groups else np.where(np.isnan(data), np.nan, 0.0),
            "feature_names": tuple(f"f{i}" for i in range(data.shape[1])),
            "row_labels": np.arange(n),
            "exact": exact,
            "n_evaluations": 1,
            "score_name": "spe",
            "game": "conditional",
            "method": "exact" if exact else "permutation",
            "n_replicates": 0 if exact else 6,
            "groups": groups,
        }
        | known
    )


def plant_detector():
    """A fitted detector, normal rows, and new rows in time."""
    plant = make_plant()
    normal = pd.DataFrame(plant.normal, columns=list(plant.feature_names))
    times = pd.date_range("2024-03-01", periods=len(plant.new), freq="10min")
    return (
        PCADetector(3, limit="formula").fit(normal),
        normal,
        pd.DataFrame(plant.new.copy(), columns=normal.columns, index=times),
    )


def sampled():
    """Values of both signs with errors, more features than bars, and a missing cell."""
    values = [3.0, -1.2, 0.8, 0.0, 0.3, -0.2, 0.1]
    data = [[10.0, 2.5, 1234.5, np.nan, 0.1, 0.2, 0.3]]
    return explanation(values, data=data, std_error=np.abs(values) / 10 + 0.05)


def pictures():
    """Pictures by name, each a function that draws on given axes; how many axes it needs."""
    detector, normal, new = plant_detector()
    why = detector.explain(new.iloc[45:85])
    holes = np.where(np.arange(40 * 12).reshape(40, 12) % 37 == 0, np.nan, why.data)
    return {
        "waterfall": (1, lambda axes: plots.waterfall(sampled(), max_features=4, limit=2.5, ax=axes[0])),
        "bar": (1, lambda axes: plots.bar(why, max_features=6, ax=axes[0])),
        "heatmap": (
            1,
            lambda axes: plots.heatmap(
                explanation(why.values, data=holes, feature_names=why.feature_names), max_features=6, ax=axes[0]
            ),
        ),
        "scatter": (1, lambda axes: plots.scatter(why, 20, normal=normal, ax=axes[0])),
        "control_chart": (2, lambda axes: plots.control_chart(detector, new, log=True, ax=axes)),
        "distance": (1, lambda axes: plots.distance(detector, new, ax=axes[0])),
        "loadings": (1, lambda axes: plots.loadings(detector, ax=axes[0])),
        "components": (
            1,
            lambda axes: plots.components(PCADetector(limit="formula").fit(normal.iloc[::10]), ax=axes[0]),
        ),
    }


def render(n_axes, draw):
    """Pixels of a picture on axes of fixed size, (height, width, 3), and where its texts are."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        figure = Figure(figsize=(7.2, 4.2), dpi=60)
        canvas = FigureCanvasAgg(figure)
        places = [(0.26, 0.12, 0.42, 0.66)] if n_axes == 1 else [(0.08, 0.6, 0.88, 0.3), (0.08, 0.1, 0.88, 0.3)]
        draw([figure.add_axes(place) for place in places])
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba())[..., :3].astype(np.float64)
        words = [*shown_texts(figure), *figure.findobj(Legend)]
        return pixels, [_box(part.get_window_extent(), len(pixels)) for part in words]


def shown_texts(figure):
    """Texts that are drawn: ticks beyond the ends of an axis are not."""
    outside = set()
    for axes in [*figure.axes, *(inset for outer in figure.axes for inset in outer.child_axes)]:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            slack = 1e-9 * (high - low)
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not axes.axison or not low - slack <= tick.get_loc() <= high + slack:
                    outside |= {tick.label1, tick.label2}
            if not axes.axison:
                outside |= {axis.label, axis.offsetText}
    return [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip() and t not in outside]


def differences(a, b, boxes):
    """How far two pictures are apart, of 255: root mean square outside the texts, and the largest mean within a text.

    The shape of letters differs between versions of matplotlib, so within a text only the mean colour counts.
    """
    assert a.shape == b.shape
    apart = a - b
    in_texts = [np.abs(apart[box].mean(axis=(0, 1))).max() for box in boxes if apart[box].size]
    for box in boxes:
        apart[box] = 0
    return float(np.sqrt((apart**2).mean())), float(max(in_texts))


def _box(extent, height):
    """Rows and columns of pixels that a text covers, and some around it, because the width of letters differs, too."""
    wider = 3 + 0.1 * extent.width
    top, bottom, left, right = height - extent.y1 - 3, height - extent.y0 + 3, extent.x0 - wider, extent.x1 + wider
    return slice(max(int(top), 0), max(int(bottom), 0)), slice(max(int(left), 0), max(int(right), 0))


def read(name):
    """Pixels of a baseline."""
    from PIL import Image

    return np.asarray(Image.open(BASELINES / f"{name}.png").convert("RGB"), dtype=np.float64)


def write(path, pixels):
    """Save pixels as a small PNG."""
    from PIL import Image

    Image.fromarray(pixels.astype(np.uint8)).save(path, optimize=True)


if __name__ == "__main__":
    BASELINES.mkdir(exist_ok=True)
    for name, (n_axes, draw) in pictures().items():
        write(BASELINES / f"{name}.png", render(n_axes, draw)[0])
