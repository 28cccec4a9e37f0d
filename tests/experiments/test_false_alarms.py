"""The measurements behind docs/limits.md, on a small scale, and the page itself."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from culpa.cli import app
from culpa.datasets import load_wine_outliers
from culpa.experiments import false_alarms, limits_page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def small(monkeypatch):
    """One real data set, that ships with scikit-learn, and few new rows."""
    monkeypatch.setattr(false_alarms, "ODDS_NAMES", ("wine",))
    monkeypatch.setattr(false_alarms, "load_odds", lambda name, data: load_wine_outliers())
    monkeypatch.setattr(false_alarms, "_NEW", 200)


def test_the_page_is_what_its_numbers_say():
    found = limits_page.from_json((DOCS / "limits.json").read_text())
    assert (DOCS / "limits.md").read_text() == limits_page.page(found)
    assert limits_page.to_json(found) == (DOCS / "limits.json").read_text()


def test_what_the_page_must_show():
    """Bounds of the conformal limit where its assumption holds, with room for the scatter of the runs."""
    found = limits_page.from_json((DOCS / "limits.json").read_text())
    assert sum(source.real for source in found.sources) == 10
    for source in found.sources:
        if "memory" in source.name:
            continue
        for score in false_alarms.KINDS:
            for confidence in false_alarms.CONFIDENCES:
                rate = source.alarms(score, "conformal", confidence)
                assert rate is None or rate <= 1.25 * (1 - confidence)
    for name in ("Gaussian, 1000 rows", "Gaussian, one component too few"):  # what the exact distribution is for
        for score in false_alarms.KINDS:
            for confidence in false_alarms.CONFIDENCES:
                assert found.source(name).alarms(score, "imhof", confidence) == pytest.approx(1 - confidence, rel=0.1)
    for rate in found.training:
        assert rate.beta == pytest.approx(1 - rate.confidence, rel=0.15)
        assert rate.f < rate.beta


def test_the_command_writes_both(small, tmp_path):
    result = CliRunner().invoke(app, ["reproduce", "limits", "-o", str(tmp_path), "--seeds", "2"])
    assert result.exit_code == 0, result.output
    assert "False alarms of SPE at 95% / 99%" in result.output
    content = (tmp_path / "limits.json").read_text()
    assert (tmp_path / "limits.md").read_text() == limits_page.page(limits_page.from_json(content))
    sources = json.loads(content)["sources"]
    assert [source["name"] for source in sources][-1] == "wine"
    gaussian = limits_page.from_json(content).source("Gaussian, 1000 rows")
    assert gaussian.alarms("spe", "jackson-mudholkar", 0.95) == pytest.approx(0.05, abs=0.02)
    heavy = limits_page.from_json(content).source("heavy tails (t, 4 degrees of freedom)")
    assert heavy.alarms("spe", "box", 0.99) > 0.03
