"""Pictures as drawn: what is on them, on whose axes, how they look."""

import inspect
import subprocess
import sys
import warnings

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from pictures import BASELINES, differences, explanation, pictures, plant_detector, read, render, shown_texts, write
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from culpa import PPCA, Explainer, PCADetector, plots
from culpa.plots import palette
from culpa.plots.drawing.canvas import diverging, literal

AWKWARD = [
    "price in $ and US$",
    "_hidden",
    "$\\frac{",
    "x" * 200,
    "x" * 201,
    "two\nlines",
    "",
    "<script>alert(1)</script>",
    "100 % of 'it' & \"more\"",
    "a_b^c",
    "ünïcode Ω",
    "\\alpha \\$",
]


@pytest.fixture(scope="module")
def plant():
    return plant_detector()


@pytest.fixture(scope="module")
def why(plant):
    detector, _, new = plant
    return detector.explain(new.iloc[45:85])


@pytest.fixture(autouse=True)
def _no_figures_left():
    matplotlib.use("Agg")
    plt.close("all")  # those of other tests
    yield
    plt.close("all")


def every_plot(detector, normal, new, why):
    return {
        "waterfall": lambda **ax: why.plot.waterfall(len(why) // 2, limit=detector.limit_, **ax),
        "bar": lambda **ax: why.plot.bar(**ax),
        "one bar": lambda **ax: why.plot.bar(0, **ax),
        "heatmap": lambda **ax: why.plot.heatmap(**ax),
        "scatter": lambda **ax: why.plot.scatter(len(why) // 2, normal=normal, **ax),
        "control_chart": lambda **ax: detector.plot.control_chart(new, **ax),
        "log control_chart": lambda **ax: detector.plot.control_chart(new, log=True, **ax),
        "distance": lambda **ax: detector.plot.distance(new, **ax),
        "linear distance": lambda **ax: detector.plot.distance(new, log=False, **ax),
        "loadings": lambda **ax: detector.plot.loadings(**ax),
        "components": lambda **ax: PCADetector(limit="formula").fit(normal).plot.components(**ax),
    }


NAMES = list(every_plot(None, None, None, None))


def figure_of(drawn):
    return (drawn[0] if isinstance(drawn, list) else drawn).figure


# whose axes


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_made_only_when_needed(plant, why, name):
    mine = plt.figure().gca()
    draw = every_plot(*plant, why)[name]
    drawn = draw()
    assert len(plt.get_fignums()) == 2
    assert not mine.has_data()
    several = isinstance(drawn, list)
    assert all(isinstance(ax, Axes) for ax in (drawn if several else [drawn]))
    axes = list(Figure().subplots(2)) if several else Figure().subplots()
    again = draw(ax=axes)
    assert again == axes if several else again is axes
    assert len(plt.get_fignums()) == 2


def test_given_axes_do_without_pyplot():
    code = """
import sys, numpy as np
from matplotlib.figure import Figure
from culpa import PCADetector
rng = np.random.default_rng(0)
detector = PCADetector(2, limit="formula").fit(rng.standard_normal((50, 4)))
new = 3 * rng.standard_normal((9, 4))
figure = Figure()
axes = figure.subplots(4, 2).ravel()
why = detector.explain(new)
why.plot.waterfall(ax=axes[0]); why.plot.bar(ax=axes[1]); why.plot.heatmap(ax=axes[2]); why.plot.scatter(ax=axes[3])
detector.plot.control_chart(new, ax=axes[4:6]); detector.plot.distance(new, ax=axes[6]); detector.plot.loadings(ax=axes[7])
figure.savefig(sys.stdout.buffer, format="svg")
assert "matplotlib.pyplot" not in sys.modules
"""
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, check=False)
    assert result.returncode == 0, result.stderr.decode()
    assert b"</svg>" in result.stdout


def test_content_needs_no_matplotlib():
    code = "import sys, culpa.plots, culpa.plots.content; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_missing_matplotlib_is_one_sentence(why, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"^A plot needs matplotlib: pip install 'culpa\[plots\]'$"):
        why.plot.waterfall()


def test_subfigures_and_styles(plant, why):
    """A colour bar and a strip in inches must find their figure; dark styles keep texts readable."""
    with plt.style.context("dark_background"):
        left, right = plt.figure(layout="constrained").subfigures(1, 2)
        why.plot.heatmap(ax=left.subplots())
        ax = why.plot.waterfall(ax=right.subplots())
        left.figure.canvas.draw()
        assert {to_hex(text.get_color()) for text in ax.texts} == {"#ffffff"}


# the accessor


def test_accessor(plant, why):
    assert dir(why.plot) == ["bar", "heatmap", "scatter", "waterfall"]
    assert dir(plant[0].plot) == ["components", "control_chart", "distance", "loadings"]
    assert repr(why.plot) == "<Plots: waterfall, bar, heatmap, scatter>"
    assert why.plot.waterfall.__doc__ == plots.waterfall.__doc__
    assert list(inspect.signature(why.plot.bar).parameters) == ["row", "max_features", "ax"]
    with pytest.raises(AttributeError, match="did you mean 'waterfall'"):
        _ = why.plot.waterfal
    assert not hasattr(why.plot, "__array__")


def test_every_public_plot_is_tested():
    assert {name.split()[-1] for name in NAMES} == set(plots.__all__) - {"ExplanationPlots", "DetectorPlots"}


# what is on the pictures


def test_bars_of_the_waterfall_are_the_values(why):
    ax = why.plot.waterfall(20, max_features=3, limit=1.5)
    widths = [patch.get_width() for patch in ax.patches]
    assert widths[0] == why.base_value
    assert widths[-1] == why.score[20]
    assert sum(widths[:-1]) == pytest.approx(why.score[20])
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "base value",
        *why.top(3)["feature"][60:63],
        "9 others",
        "SPE",
    ]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # first on top
    assert {to_hex(patch.get_facecolor()) for patch in ax.patches} <= {palette.PLAIN, palette.RAISES, palette.LOWERS}
    assert "limit 1.5" in ax.get_xlabel()


def test_colours_tell_the_sign():
    ax = plots.bar(explanation([2.0, -1.0]))
    assert [to_hex(patch.get_facecolor()) for patch in ax.patches] == [palette.RAISES, palette.LOWERS]


def test_missing_cells_are_grey():
    assert to_hex(diverging()(np.ma.masked)) == to_hex(diverging().get_bad()) == palette.NOTHING


def test_a_row_without_anything_is_told_in_words():
    nothing = explanation([[np.nan, np.nan]], data=[[np.nan, np.nan]])
    for draw in (plots.waterfall, plots.bar):
        assert "nothing to blame" in draw(nothing).texts[0].get_text()


def test_control_chart_shades_incidents_and_marks_every_flagged_row(plant):
    detector, _, new = plant
    found = detector.incidents(new)
    axes = detector.plot.control_chart(new, incidents=found)
    assert len(axes) == 2
    flagged = int((detector.predict(new) == -1).sum())
    for ax in axes:  # the detector flags rows, whichever chart they are shown in
        marks = [line for line in ax.lines if line.get_label() == "flagged"]
        assert len(marks[0].get_xdata()) == flagged
    beyond = [line for line in axes[1].lines if line.get_label() == "above this limit only"]
    told = detector.statistics(new)
    assert len(beyond[0].get_xdata()) == (told["t2_flag"] & (detector.predict(new) == 1)).sum() > 0
    assert beyond[0].get_markerfacecolor() == "none"
    assert len(axes[0].collections[0].get_paths()) == len(found)
    limits = {line.get_label().split(" limit")[0] for line in axes[0].lines if "limit" in str(line.get_label())}
    assert limits == {"95%", "99%"}


def test_control_chart_is_logarithmic_by_the_rule_of_the_report(plant):
    detector, _, new = plant
    loud = new.copy()
    loud.iloc[5, 0] += 1e4
    for rows in (new, loud):
        by_rule = detector.plot.control_chart(rows)[0].get_yscale()
        assert (by_rule == "log") == detector.report(rows).content["chart"]["log"]
    assert by_rule == "log"
    assert detector.plot.control_chart(loud, log=False)[0].get_yscale() == "linear"


def test_control_chart_of_a_filtered_table_has_positions(plant):
    detector, _, new = plant
    rows = new.reset_index(drop=True)
    filtered = rows[rows.iloc[:, 0] > rows.iloc[:, 0].median()]
    ax = detector.plot.control_chart(filtered)[-1]
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), np.arange(len(filtered)))
    ax.figure.canvas.draw()
    assert ax.get_xlabel() == "position in the table"
    ticks = ax.get_xticks()
    assert 0 in ticks
    assert (ticks == ticks.round()).all()
    report = detector.report(filtered).content["chart"]
    assert (report["x"], report["axis"]) == (None, "position in the table")
    assert report["label"] == filtered.index.tolist()


def test_the_best_number_of_components_is_marked(plant):
    _, normal, _ = plant
    detector = PCADetector(limit="formula").fit(normal)
    ax = detector.plot.components()
    curve, mark = ax.lines[:2]
    assert curve.get_xdata().tolist() == list(range(1, normal.shape[1]))
    best = detector.model_.n_components_
    assert curve.get_ydata().argmax() + 1 == best == mark.get_xdata()[0]
    assert curve.get_ydata()[best - 1] == mark.get_ydata()[0] == 0
    assert mark.get_label() == f"best: {best}"


def test_long_tables_are_thinned_but_keep_their_flags(plant):
    detector, normal, _ = plant
    many = pd.DataFrame(np.tile(normal.to_numpy(), (200, 1)), columns=normal.columns)
    many.iloc[123_456, 2] += 100
    ax = detector.plot.control_chart(many)[0]
    line, marks = ax.lines[0], ax.lines[1]
    flagged = np.flatnonzero(detector.predict(many) == -1)
    assert len(line.get_xdata()) < 6000 + len(flagged)
    np.testing.assert_array_equal(marks.get_xdata(), flagged)
    assert 123_456 in line.get_xdata()


# texts


def drawn_in_full(figure):
    """Draw, and check that every text lies within the figure."""
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    for text in shown_texts(figure):
        box = text.get_window_extent()
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
        assert inside, f"{text.get_text()!r} is cut off: {box}"


def side_by_side(figure):
    """Names at the left must not overlap, nor numbers at the bottom."""
    for ax in figure.axes:
        for labels in (ax.get_xticklabels(), ax.get_yticklabels()):
            boxes = [text.get_window_extent() for text in labels if text in shown_texts(figure)]
            for k, box in enumerate(boxes):
                overlapping = [other for other in boxes[k + 1 :] if _area(box, other) > 8]
                assert not overlapping, [text.get_text() for text in labels]


def _area(a, b):
    width, height = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
    return max(width, 0) * max(height, 0)


@pytest.mark.parametrize("name", NAMES)
def test_awkward_names_and_missing_cells_look_right(plant, name):
    _, normal, new = plant
    normal = normal.set_axis(AWKWARD, axis=1)
    new = new.set_axis(AWKWARD, axis=1).set_axis([f"batch_{i}$x$" for i in range(len(new))]).iloc[45:85].copy()
    new.iloc[3, [1, 4]] = np.nan
    new.iloc[6] = np.nan
    detector = PCADetector(3).fit(normal)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no observed", UserWarning)
        figure = figure_of(every_plot(detector, normal, new, detector.explain(new))[name]())
    drawn_in_full(figure)
    side_by_side(figure)


@pytest.mark.parametrize("name", NAMES)
def test_one_row_looks_right(plant, name):
    detector, normal, new = plant
    one = new.iloc[60:61]
    figure = figure_of(every_plot(detector, normal, one, detector.explain(one))[name]())
    drawn_in_full(figure)
    side_by_side(figure)


@pytest.mark.parametrize("name", NAMES)
def test_166_features_look_right(name):
    rng = np.random.default_rng(0)
    loadings = rng.standard_normal((6, 166))
    columns = [f"a sensor with quite a long name, number {i}" for i in range(166)]
    normal = pd.DataFrame(rng.standard_normal((400, 6)) @ loadings + rng.standard_normal((400, 166)), columns=columns)
    new = normal.iloc[:30] + 3 * (rng.random((30, 166)) < 0.02)
    detector = PCADetector(6).fit(normal)
    why = explanation(rng.standard_normal((30, 166)) ** 3, data=new, feature_names=tuple(columns), std_error=0.01)
    figure = figure_of(every_plot(detector, normal, new, why)[name]())
    drawn_in_full(figure)
    side_by_side(figure)


@pytest.mark.parametrize("name", [name for name in AWKWARD if name])
def test_names_are_taken_literally(name):
    """The same pixels as when matplotlib is told not to look for formulas."""

    def pixels(text, **options):
        figure = Figure(figsize=(9, 0.5), dpi=60)
        figure.text(0.02, 0.4, text, **options)
        return render_figure(figure)

    np.testing.assert_array_equal(pixels(literal(name)), pixels(name, parse_math=False))


def render_figure(figure):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def test_sampled_values_have_whiskers(plant):
    detector, _, new = plant
    explain = Explainer(detector, method="permutation", n_orders=64, exact_operations=0).explain
    exact, sampled = detector.explain(new.iloc[60:61]), explain(new.iloc[60:61])
    assert sampled.std_error.any()
    for name in ("waterfall", "bar"):
        lines = [len(getattr(why.plot, name)().collections[0].get_segments()) for why in (exact, sampled)]
        assert lines[0] == 0
        assert lines[1] == 12


def test_texts_among_the_cells(plant):
    """A column of texts, one-hot encoded on the way to the model, shows as text; it has no place in a scatter plot."""
    _, normal, new = plant
    rng = np.random.default_rng(0)
    normal, new = (rows.iloc[:300].assign(grade=rng.choice(["$A$", "B_1"], 300)) for rows in (normal, new))
    scale = ColumnTransformer(
        [("number", StandardScaler(), list(normal.columns[:-1])), ("text", OneHotEncoder(), ["grade"])]
    )
    why = Explainer(make_pipeline(scale, PPCA(4)).fit(normal)).explain(new.iloc[60:70])
    ax = why.plot.waterfall(max_features=None)
    drawn_in_full(ax.figure)
    assert {text.get_text() for text in ax.texts} & {r"\$A\$", "B_1"}
    shown = why.plot.scatter(normal=normal)
    assert "grade" not in (shown.get_xlabel(), shown.get_ylabel())
    with pytest.raises(ValueError, match="'grade' contains text"):
        why.plot.scatter(feature="grade")


def test_lags(plant):
    _, normal, new = plant
    detector = PCADetector(5, lags=2).fit(normal)
    axes = detector.plot.control_chart(new)
    assert len(axes[0].lines[0].get_xdata()) == len(new)
    assert detector.plot.loadings().get_yticklabels()
    why = detector.explain(new.iloc[45:60])
    for draw in (why.plot.waterfall, why.plot.bar, why.plot.heatmap, why.plot.scatter):
        drawn_in_full(draw().figure)


# the look

# one pixel of a cell's edge may fall to its neighbour, depending on how an image is scaled
TOLERANCE = {"heatmap": 4.0, "loadings": 7.0}


@pytest.fixture(scope="module")
def drawings():
    return pictures()


@pytest.mark.parametrize("name", sorted(path.stem for path in BASELINES.glob("*.png")))
def test_look(drawings, name, tmp_path):
    pixels, boxes = render(*drawings[name])
    write(tmp_path / f"{name}.png", pixels)
    outside, in_texts = differences(pixels, read(name), boxes)
    told = f"{tmp_path / name}.png differs from the baseline; if it looks right: python tests/pictures.py"
    assert outside <= TOLERANCE.get(name, 1.5), told
    assert in_texts <= 35, told


def test_every_picture_has_a_baseline(drawings):
    assert {path.stem for path in BASELINES.glob("*.png")} == set(drawings)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("waterfall", {"RAISES": palette.LOWERS}),
        ("bar", {"RAISES": "#c05500"}),
        ("heatmap", {"RAISES": palette.LOWERS}),
        ("scatter", {"PLAIN": "#ffffff"}),
        ("control_chart", {"MILD": "#ffffff"}),
        ("distance", {"MILD": "#ffffff"}),
        ("loadings", {"LOWERS": palette.RAISES}),
    ],
)
def test_baselines_can_fail(drawings, name, broken, monkeypatch):
    for colour, other in broken.items():
        monkeypatch.setattr(palette, colour, other)
    pixels, boxes = render(*drawings[name])
    assert differences(pixels, read(name), boxes)[0] > TOLERANCE.get(name, 1.5)
