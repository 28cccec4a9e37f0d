"""Large steps say how much memory they need, or are refused before they begin."""

import tracemalloc

import numpy as np
import pytest

from culpa import PCADetector
from culpa._core import memory
from culpa.detecting.pieces import fit_moments
from culpa.models import Moments
from culpa.shapley.rules import order_rule


def set_free(monkeypatch, tmp_path, *, machine=None, limit=None, use=0, read=0):
    """A machine with so many bytes available, in a container with a limit."""
    names = ("meminfo", "memory.max", "memory.current", "memory.stat")
    meminfo, maximum, current, parts = (tmp_path / name for name in names)
    if machine is not None:
        meminfo.write_text(f"MemTotal: 99999999 kB\nMemAvailable: {machine // 1024} kB\n")
    if limit is not None:
        maximum.write_text(f"{limit}\n")
        current.write_text(f"{use}\n")
        parts.write_text(f"anon 7\ninactive_file {read}\n")
    monkeypatch.setattr(memory, "_MEMINFO", meminfo)
    monkeypatch.setattr(memory, "_CGROUPS", ((maximum, current, parts),))


def test_available_is_what_machine_and_container_leave(monkeypatch, tmp_path):
    set_free(monkeypatch, tmp_path)
    assert memory.available() is None
    with pytest.warns(memory.MemoryWarning):  # but nothing is refused, because nobody knows
        memory.claim(1e18, "anything", "")
    set_free(monkeypatch, tmp_path, machine=1 << 30)
    assert memory.available() == 1 << 30
    set_free(monkeypatch, tmp_path, machine=1 << 30, limit="max")
    assert memory.available() == 1 << 30
    set_free(monkeypatch, tmp_path, machine=1 << 30, limit=1 << 28, use=1 << 27)
    assert memory.available() == 1 << 27
    # files that were read do not count
    set_free(monkeypatch, tmp_path, machine=1 << 30, limit=1 << 28, use=1 << 28, read=1 << 26)
    assert memory.available() == 1 << 26


def test_large_needs_are_stated_and_too_large_ones_refused(monkeypatch, tmp_path):
    set_free(monkeypatch, tmp_path, machine=8 << 30)
    memory.claim(1e9, "a step", "Do less.")
    with pytest.warns(memory.MemoryWarning, match=r"^a step needs about 5\.0 GB of memory\.$"):
        memory.claim(5e9, "a step", "Do less.")
    with pytest.raises(MemoryError, match=r"^a step needs about 9\.0 GB of memory, and 8\.6 GB are free\. Do less\.$"):
        memory.claim(9e9, "a step", "Do less.")


@pytest.mark.filterwarnings("ignore::culpa.FitWarning")
def test_wide_work_is_refused_in_one_sentence(monkeypatch, tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 600))
    detector = PCADetector(2).fit(X)
    monkeypatch.setattr(memory, "_LITTLE", 1 << 10)
    set_free(monkeypatch, tmp_path, machine=1 << 20)
    steps = {
        "fitting 30 rows x 600 columns": lambda: PCADetector(2).fit(X),
        "explaining 300 rows x 600 columns": lambda: detector.explain(np.repeat(X, 10, axis=0), game="interventional"),
        "the covariance of 600 features": lambda: detector.model_.covariance_,
        r"sampling [\d,]+ times 600 players": lambda: order_rule(600, 10, 0),
    }
    for what, step in steps.items():
        with pytest.raises(memory.NotEnoughMemoryError, match=f"^{what} needs about"):
            step()


@pytest.mark.parametrize("shape", [(150, 900), (900, 150)])
def test_the_estimate_of_a_fit_is_about_right(monkeypatch, shape):
    """Between half and four times what it takes."""
    X, seen = np.random.default_rng(0).normal(size=shape), []
    monkeypatch.setattr(memory, "claim", lambda need, what, remedy: seen.append(need))
    tracemalloc.start()
    PCADetector(3).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.5 * peak < max(seen) < 4 * peak


def test_a_table_that_is_held_is_refused_while_it_is_read(monkeypatch, tmp_path):
    from culpa.io.tables import Options, open_source
    from culpa.jobs import fitting
    from culpa.jobs.fitting import fit

    X = np.random.default_rng(0).normal(size=(3000, 4))
    path = tmp_path / "rows.csv"
    np.savetxt(path, X, delimiter=",", header="a,b,c,d", comments="")
    monkeypatch.setattr(memory, "_LITTLE", 1 << 10)
    monkeypatch.setattr(fitting, "_ROWS_BEFORE_CHECK", 100)
    monkeypatch.setattr(PCADetector, "fit", None)  # would claim its memory as well, but after all rows are read
    set_free(monkeypatch, tmp_path, machine=1 << 16)
    with pytest.raises(memory.NotEnoughMemoryError, match=r"^fitting [\d,]+ rows x 4 columns needs about"):
        fit(PCADetector(2, trim=0.1), open_source(path, Options(), print), ["a", "b", "c", "d"])


def test_rows_that_are_not_held_need_no_memory(monkeypatch, tmp_path):
    from culpa.models.blocks import BlockMoments

    blocks = BlockMoments((Moments.of(np.random.default_rng(0).normal(size=(100, 3))).weighted(1e8),))
    set_free(monkeypatch, tmp_path, machine=1 << 27)
    fit_moments(PCADetector(2, limit="formula"), blocks, ("a", "b", "c"))


def test_parts_that_are_not_computed_need_no_memory(monkeypatch, tmp_path):
    X = np.random.default_rng(0).normal(size=(20_000, 5))
    detector = PCADetector(2).fit(X)
    monkeypatch.setattr(memory, "_LITTLE", 1 << 10)
    set_free(monkeypatch, tmp_path, machine=72 * 100_000 + 8 * 20_000 + 4096)
    detector.explain(X, parts="score")
    with pytest.raises(memory.NotEnoughMemoryError, match=r"^explaining 20,000 rows x 5 columns"):
        detector.explain(X)
