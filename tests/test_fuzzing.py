"""A short campaign with other random numbers in every run. To repeat a finding, pass the seed that the message names."""

import secrets

import numpy as np
import pandas as pd
import pytest
from fuzz.campaign import campaign
from fuzz.finding import Finding
from fuzz.tables import compare_scores, plant, try_table


@pytest.mark.parametrize(("what", "count"), [("tables", 150), ("models", 60), ("kills", 4)])
def test_nothing_is_found(what, count, capsys):
    seed = secrets.randbelow(10**9)
    with capsys.disabled():
        print(f"\nfuzzing {count} {what} with seed {seed}")  # noqa: T201
    tally = campaign(what, seed, 0, count)
    assert sum(tally.outcomes.values()) == count
    assert not tally.findings, "\n".join(tally.lines())
    assert len(tally.outcomes) > 1, "all cases ended in the same way"


def test_a_worker_that_dies_is_found(monkeypatch):
    """A case that ends its process is a finding, and the others are still run."""
    monkeypatch.setenv("CULPA_FUZZ_DIE_AT", "2")
    tally = campaign("tables", 1, 0, 4)
    assert [text for text in tally.findings if "the process ended with -11" in text]
    assert (len(tally.findings), sum(tally.outcomes.values())) == (1, 4)


def test_a_wrong_answer_is_found(tmp_path, monkeypatch):
    """Scores that are off by a little, as if a reader had shifted a cell, do not pass."""
    known, seen = plant(tmp_path), []
    monkeypatch.setattr("fuzz.tables.compare_scores", lambda table, known, case: seen.append((table, case)))
    for seed in range(20):
        try_table(np.random.default_rng(seed), tmp_path)
    table, case = next((table, case) for table, case in seen if case.witness() is not None and len(table) > 1)
    compare_scores(table, known, case)
    with pytest.raises(Finding, match="rows instead of"):
        compare_scores(table[1:], known, case)
    with pytest.raises(Finding, match=r"scores|labels|numbers"):
        compare_scores(table.assign(score=pd.to_numeric(table["score"]).mul(1 + 1e-6).astype(str)), known, case)
