"""The simulation behind docs/flow-sheets.md, on a small scale, and the page itself."""

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from culpa.cli import app
from culpa.experiments import flow_sheets_page, propagation

DOCS = Path(__file__).parents[2] / "docs"
TRAVELLING = [fault for fault in propagation.FAULTS if fault.travels]
TRUE, REVERSED = "asymmetric, true flow sheet", "asymmetric, reversed"


def kept():
    return flow_sheets_page.from_json((DOCS / "flow-sheets.json").read_text())


def test_the_page_is_what_its_numbers_say():
    assert (DOCS / "flow-sheets.md").read_text() == flow_sheets_page.page(kept())
    assert flow_sheets_page.to_json(kept()) == (DOCS / "flow-sheets.json").read_text()


def test_the_example_prints_what_the_page_shows():
    text = (DOCS / "flow-sheets.md").read_text()
    code, shown = re.search(r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", text, re.DOTALL).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == re.sub("^    ", "", shown, flags=re.MULTILINE)


def test_what_the_page_must_show():
    """A true flow sheet helps faults that travel, a reversed one misleads, and either misleads about a wrong sensor."""
    found, sensor = kept(), propagation.FAULTS[-1]
    for d in propagation.SIZES:
        for fault in TRAVELLING:
            shapley = found.first("Shapley", d, fault)
            assert found.first(TRUE, d, fault) >= shapley
            assert found.first(REVERSED, d, fault) < shapley - 0.3
            assert found.first("propagated", d, fault) > found.first("z-score", d, fault)
        assert found.first(TRUE, d, sensor) < found.first("Shapley", d, sensor) - 0.2
        assert found.first("propagated", d, sensor) > 0.9


def test_a_process_does_what_its_relations_say():
    rng = np.random.default_rng(0)
    edges, mixing = propagation.random_process(12, rng)
    shock = np.zeros((1, 12))
    shock[0, 3] = 1.0
    moved = {i for i, value in enumerate((shock @ mixing)[0]) if value}
    reached = {3}
    for _ in range(12):
        reached |= {downstream for upstream, downstream in edges if upstream in reached}
    assert moved == reached


@pytest.mark.parametrize("n_processes", [3])
def test_the_command_writes_both(monkeypatch, tmp_path, n_processes):
    monkeypatch.setattr(propagation, "N_PROCESSES", n_processes)
    monkeypatch.setattr(propagation, "N_TRAINING", 300)
    result = CliRunner().invoke(app, ["reproduce", "propagation", "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "A shock of 4 standard deviations, one row" in result.output
    content = (tmp_path / "flow-sheets.json").read_text()
    found = flow_sheets_page.from_json(content)
    assert found.n_processes == n_processes
    assert len(found.found) == 8 * len(propagation.SIZES) * len(propagation.FAULTS)
    assert (tmp_path / "flow-sheets.md").read_text() == flow_sheets_page.page(found)
