"""culpa score --fdr: the discoveries of the library, over all batches of a table."""

import io

import numpy as np
import pandas as pd
import pytest
from command_line import run, write

import culpa


def frame(n, seed, shifted=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ np.random.default_rng(7).normal(size=(2, 5)) + 0.3 * rng.normal(size=(n, 5))
    X[:shifted, 1] += 3
    return pd.DataFrame(X, columns=list("abcde"))


@pytest.fixture
def folder(tmp_path):
    write(frame(2000, 0), tmp_path / "normal.csv")
    write(frame(300, 1, shifted=30), tmp_path / "new.csv")
    run("fit", tmp_path / "normal.csv", "-o", tmp_path / "plant.culpa")
    return tmp_path


def test_discoveries_are_those_of_the_library(folder):
    model, new = folder / "plant.culpa", folder / "new.csv"
    done = run("score", new, "-m", model, "--fdr", 0.05)
    written = pd.read_csv(io.StringIO(done.stdout))
    expected = culpa.load(model).statistics(pd.read_csv(new), fdr=0.05)
    assert written["discovery"].tolist() == expected["discovery"].tolist()
    assert 25 < written["discovery"].sum() < 40
    assert f"{written['discovery'].sum()} discovered" in done.stderr
    flagged = pd.read_csv(io.StringIO(run("score", new, "-m", model, "--fdr", 0.05, "--flagged").stdout))
    assert flagged["discovery"].tolist() == expected["discovery"][expected["anomaly"]].tolist()
    assert "discovery" not in pd.read_csv(io.StringIO(run("score", new, "-m", model).stdout))


def test_refusals(folder):
    model, new = folder / "plant.culpa", folder / "new.csv"
    assert "--fdr must be" in run("score", new, "-m", model, "--fdr", 2, code=2).stderr
    piped = run("score", "-", "-m", model, "--fdr", 0.1, code=2, stdin=new.read_text())
    assert "reads the rows twice" in piped.stderr
    run("fit", folder / "normal.csv", "-o", folder / "box.culpa", "--limit", "box")
    assert "needs p-values" in run("score", new, "-m", folder / "box.culpa", "--fdr", 0.1, code=2).stderr


def test_p_values_of_single_scores(folder):
    fitted = culpa.load(folder / "plant.culpa").fitted
    scores = fitted.score(frame(50, 3))
    together = fitted.p_values(scores)
    np.testing.assert_array_equal([float(fitted.p_values(one)) for one in scores], together)
    far = np.array([1.3, 1.6]) * fitted.limits.held_out(fitted.statistic).largest[-1]
    low = fitted.p_values(far, extrapolate=True)
    assert (fitted.p_values(far) == 1 / 2001).all()
    assert 0 < low[1] < low[0] < 1 / 2001
    assert float(fitted.p_values(far[0], extrapolate=True)) == low[0]
