"""Average run lengths: limits with the run length asked for, and what the page says about small faults."""

from pathlib import Path

import numpy as np
import pytest

from culpa.experiments.run_lengths import Chart, run_lengths, same_run_length, table

DOCS = Path(__file__).parents[2] / "docs"


def test_limits_have_the_run_length_asked_for():
    rng = np.random.default_rng(0)
    runs = [rng.random((1000, 1)) for _ in range(400)]
    limit = same_run_length(Chart(lambda rows: rows[:, 0], 0.0), runs, 50.0)
    assert limit == pytest.approx(1 - 1 / 50, abs=0.003)  # uniform rows exceed it once in 50


def test_smooth_and_cusum_find_small_shifts_sooner_at_the_same_rate_of_false_alarms():
    default, same = run_lengths(n_models=2, n_runs=10)
    assert table(default).count("|") == table(same).count("|")
    mean = {one.chart: {shift: np.mean(lengths) for shift, lengths in one.rows.items()} for one in same}
    assert all(60 < lengths[0.0] < 160 for lengths in mean.values())
    alone = mean["each row alone"]
    assert mean["`smooth=0.1`"][0.5] < 0.5 * alone[0.5]
    assert mean["`cusum=True`"][1.0] < alone[1.0]
    assert (
        list(mean)
        == [
            line.split(" | ")[0][2:]
            for line in (DOCS / "slow-faults.md").read_text().splitlines()
            if line.startswith(("| each row alone", "| `cusum", "| `smooth="))
        ][:5]
    )
