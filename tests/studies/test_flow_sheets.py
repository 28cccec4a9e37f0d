"""The simulation behind docs/flow-sheets.md, on a small scale, and the page itself."""

import contextlib
import io
import json
import re
from pathlib import Path

import numpy as np

from studies import flow_sheets
from studies.runner import page

DOCS = Path(__file__).parents[2] / "docs"
TRAVELLING = [fault for fault in flow_sheets.FAULTS if fault.travels]
TRUE, REVERSED = "asymmetric, true flow sheet", "asymmetric, reversed"


def kept():
    return json.loads((DOCS / "flow-sheets.json").read_text(encoding="utf-8"))


def test_the_example_prints_what_the_page_shows():
    text = (DOCS / "flow-sheets.md").read_text()
    code, shown = re.search(r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", text, re.DOTALL).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == re.sub("^    ", "", shown, flags=re.MULTILINE)


def test_what_the_page_must_show():
    """A true flow sheet helps faults that travel, a reversed one misleads, and either misleads about a wrong sensor."""
    found, sensor = kept(), flow_sheets.FAULTS[-1]
    for d in flow_sheets.SIZES:
        for fault in TRAVELLING:
            shapley = flow_sheets.share(found, "Shapley", d, fault)
            assert flow_sheets.share(found, TRUE, d, fault) >= shapley
            assert flow_sheets.share(found, REVERSED, d, fault) < shapley - 0.3
            assert flow_sheets.share(found, "propagated", d, fault) > flow_sheets.share(found, "z-score", d, fault)
        assert flow_sheets.share(found, TRUE, d, sensor) < flow_sheets.share(found, "Shapley", d, sensor) - 0.2
        assert flow_sheets.share(found, "propagated", d, sensor) > 0.9


def test_a_process_does_what_its_relations_say():
    rng = np.random.default_rng(0)
    edges, mixing = flow_sheets.random_process(12, rng)
    shock = np.zeros((1, 12))
    shock[0, 3] = 1.0
    moved = {i for i, value in enumerate((shock @ mixing)[0]) if value}
    reached = {3}
    for _ in range(12):
        reached |= {downstream for upstream, downstream in edges if upstream in reached}
    assert moved == reached


def test_measured_on_a_small_scale(monkeypatch):
    monkeypatch.setattr(flow_sheets, "N_PROCESSES", 3)
    monkeypatch.setattr(flow_sheets, "N_TRAINING", 300)
    found = flow_sheets.run()
    assert found["n_processes"] == 3
    assert len(found["found"]) == 8 * len(flow_sheets.SIZES) * len(flow_sheets.FAULTS)
    assert "A shock of 4 standard deviations, one row" in page("flow-sheets", found)
