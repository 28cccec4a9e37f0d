"""Average run lengths: limits with the run length asked for, and what the page says about small faults."""

import json
from pathlib import Path

import numpy as np
import pytest

from studies.slow_faults import Chart, run, same_run_length

DOCS = Path(__file__).parents[2] / "docs"


def test_limits_have_the_run_length_asked_for():
    rng = np.random.default_rng(0)
    runs = [rng.random((1000, 1)) for _ in range(400)]
    limit = same_run_length(Chart(lambda rows: rows[:, 0], 0.0), runs, 50.0)
    assert limit == pytest.approx(1 - 1 / 50, abs=0.003)  # uniform rows exceed it once in 50


def test_smooth_and_cusum_find_small_shifts_sooner_at_the_same_rate_of_false_alarms():
    found = run(n_models=2, n_runs=10)
    assert list(found["default"]) == list(found["same"]) == list(kept()["same"])
    mean = found["same"]
    assert all(60 < chart["shift 0"] < 160 for chart in mean.values())
    assert mean["`smooth=0.1`"]["shift 0.5"] < 0.5 * mean["each row alone"]["shift 0.5"]
    assert mean["`cusum=True`"]["shift 1"] < mean["each row alone"]["shift 1"]


def test_what_the_page_says():
    """In words, about the tables."""
    same, default = kept()["same"], kept()["default"]
    alone = same["each row alone"]
    for name in ("`smooth=0.2`", "`smooth=0.1`", "`smooth=0.05`"):
        assert same[name]["shift 0.5"] < alone["shift 0.5"] / 3
        assert 1.8 < default[name]["shift 0"] / default["each row alone"]["shift 0"] < 5
        assert default[name]["shift 0.5"] < default["each row alone"]["shift 0.5"] / 2
    assert alone["shift 0.5"] / same["`cusum=True`"]["shift 0.5"] == pytest.approx(1.4, abs=0.05)
    assert alone["shift 1"] / same["`cusum=True`"]["shift 1"] == pytest.approx(2, abs=0.2)


def kept():
    return json.loads((DOCS / "slow-faults.json").read_text(encoding="utf-8"))
