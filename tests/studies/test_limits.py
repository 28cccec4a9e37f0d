"""The measurements behind docs/limits.md, on a small scale, and what the page must show."""

import json
from itertools import product
from pathlib import Path

import pytest

from culpa.datasets import load_wine_outliers
from studies import limits
from studies.runner import page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def small(monkeypatch):
    """One real data set, that ships with scikit-learn, and few new rows."""
    monkeypatch.setattr(limits, "ODDS_NAMES", ("wine",))
    monkeypatch.setattr(limits, "load_odds", lambda name, data: load_wine_outliers())
    monkeypatch.setattr(limits, "_NEW", 200)


def test_what_the_page_must_show():
    """Bounds of the conformal limit where its assumption holds, with room for the scatter of the runs."""
    found = json.loads((DOCS / "limits.json").read_text(encoding="utf-8"))
    assert sum(source["real"] for source in found["sources"]) == 10
    every = list(product(limits.KINDS, limits.CONFIDENCES))
    for source in found["sources"]:
        for score, confidence in () if "memory" in source["name"] else every:
            rate = limits.alarms(found, source["name"], score, "conformal", confidence)
            assert rate is None or rate <= 1.25 * (1 - confidence)
    for rate in found["training"]:
        assert rate["beta"] == pytest.approx(1 - rate["confidence"], rel=0.15)
        assert rate["f"] < rate["beta"]


def test_measured_on_a_small_scale(small):
    found = limits.run(n_seeds=2)
    assert found["sources"][-1]["name"] == "wine"
    by_formula = limits.alarms(found, "Gaussian, 1000 rows", "spe", "jackson-mudholkar", 0.95)
    assert by_formula == pytest.approx(0.05, abs=0.02)
    assert limits.alarms(found, "heavy tails (t, 4 degrees of freedom)", "spe", "box", 0.99) > 0.03
    assert "False alarms of SPE at 95% / 99%" in page("limits", found)
