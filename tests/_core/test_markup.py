"""What notebooks show: tables with bars, escaped texts, and never the user's table."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context

from culpa import Explainer, Explanation, PCADetector
from culpa._core import markup
from culpa.datasets import make_plant

EVIL = '<script>alert("1")</script>'


@pytest.fixture(scope="module")
def plant():
    plant = make_plant()
    names = [EVIL if i == 2 else f"tag {i}" for i in range(12)]
    return [pd.DataFrame(np.asarray(X), columns=names) for X in (plant.normal, plant.new)]


@pytest.fixture(scope="module")
def detector(plant):
    return PCADetector().fit(plant[0])


class Checked(HTMLParser):
    """Counts tags, and that every one of them is closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.seen, self.words = [], [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br", "img", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def count(self, tag):
        return sum(name == tag for name, _ in self.seen)


def test_explanation(detector, plant):
    new = plant[1]
    why = detector.explain(new, rows=slice(50, 65))
    page = Checked(why._repr_html_())
    assert page.count("tr") == 1 + 10 * 3
    assert EVIL in page.words
    assert not page.count("script")
    assert "5 more rows" in " ".join(page.words)
    first = why.top(1).iloc[0]
    assert {f"{first['score']:.4g}", f"{first['value']:.4g}", f"{first['expected']:.4g}"} <= set(page.words)
    widths = [float(found) for found in re.findall(r"width:([0-9.]+)%", why._repr_html_())]
    values = np.abs(why[:10].top(3)["value"])
    np.testing.assert_allclose(widths, 100 * values / values.max(), atol=0.06)


@pytest.mark.parametrize("rows", [[], [0], slice(0, 3)])
def test_explanations_of_any_size(detector, plant, rows):
    why = detector.explain(plant[1], rows=rows)
    Checked(why._repr_html_())
    restored = Explanation.from_dict(why.to_dict())
    assert Checked(restored._repr_html_()).count("tr") == 1 + 3 * len(why)


def test_rows_without_cells(detector, plant):
    empty = plant[1][:2] * np.nan
    with pytest.warns(UserWarning, match="2 rows have no observed feature, so they get no score"):
        why = detector.explain(empty)
    assert Checked(why._repr_html_()).count("tr") == 1


def test_sampled_values_say_so(plant):
    why = Explainer(PCADetector().fit(plant[0]), method="permutation", n_orders=24).explain(plant[1][:2])
    assert "Permutation, " in why._repr_html_()


def test_incidents(detector, plant):
    incidents = detector.incidents(plant[1], gap=3, min_length=5)
    page = Checked(incidents._repr_html_())
    assert page.count("tr") == 1 + len(incidents)
    assert not page.count("script")
    assert f"{len(incidents)} incidents in 400 rows" in " ".join(page.words)
    one = Checked(incidents[0]._repr_html_())
    assert EVIL in one.words
    assert not one.count("script")
    first = incidents[0]
    assert first.first == 50
    assert repr(first) == f"<Incident of rows 50 to {first.last}, {first.n_flagged} flagged: {EVIL}>"
    none = detector.incidents(plant[0][:20], min_length=15)
    assert Checked(none._repr_html_()).words[0] == f"0 incidents in 20 rows, {none.n_flagged} of them flagged"


def test_singular(detector, plant):
    one = detector.incidents(plant[1].iloc[[60]])
    assert repr(one) == "<Incidents: 1 in 1 row, 1 of them flagged>"
    assert repr(one[0]).startswith("<Incident of row 60, 1 flagged:")
    assert "1 incident in 1 row, 1 of them flagged" in one._repr_html_()
    assert repr(detector.explain(plant[1], rows=3)) == "<Explanation of mahalanobis: 1 row x 12 players, exact>"


def test_report_is_a_page_of_its_own(detector, plant):
    report = detector.report(plant[1], title=EVIL)
    page = Checked(report._repr_html_())
    ((tag, attributes),) = page.seen
    assert tag == "iframe"
    assert attributes["srcdoc"] == report.to_html()
    assert "allow-same-origin" not in attributes["sandbox"]


def test_detector(detector, plant):
    page = detector._repr_mimebundle_()["text/html"]
    assert "1,000" in page
    assert f"{detector.limit_:.4g} (mahalanobis, held-out)" in page
    assert "flagged above" in detector._repr_html_()
    assert "flagged above" not in PCADetector()._repr_html_()
    with config_context(display="text"):
        assert not hasattr(detector, "_repr_html_")


def test_nothing_dumps_the_table(detector, plant):
    new = plant[1]
    results = [
        detector.explain(new),
        detector.incidents(new, gap=3),
        detector.drift(new),
        detector.compare(plant[0], new),
        detector.fix(new[:50]),
        detector.report(new),
    ]
    cell = f"{new.iloc[0, 0]:.4f}"
    for result in results:
        assert cell not in repr(result)
        assert len(repr(result)) < 2000, type(result)


def test_texts_are_escaped_once():
    assert markup.text("<") == "&lt;"
    assert markup.text(markup.text("<")) == "&lt;"
    assert [markup.text(value) for value in (None, float("nan"), 0.123456, 3, "a&b")] == [
        "",
        "",
        "0.1235",
        "3",
        "a&amp;b",
    ]
