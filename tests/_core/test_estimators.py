"""What a process loads that only judges rows, and whether it then gives the same answers."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from command_line import run, write
from pandas.testing import assert_frame_equal
from scipy import stats

from culpa import PCADetector
from culpa._core import probability

SLOW = ("sklearn", "scipy.stats", "numba", "matplotlib")
RUN = """
import json, sys
from culpa.cli import app, console
for words in json.load(sys.stdin):
    sys.argv = ["culpa", *words]
    try:
        console.run_to_end(app)
    except SystemExit as end:
        assert not end.code, words
print(json.dumps(list(sys.modules)))
"""


def in_a_process_of_its_own(*commands):
    words = [[str(word) for word in command] for command in commands]
    done = subprocess.run([sys.executable, "-c", RUN], input=json.dumps(words), capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return set(json.loads(done.stdout))


def rows(n, seed):
    X = np.random.default_rng(seed).normal(size=(n, 2)) @ np.random.default_rng(9).normal(size=(2, 4))
    return pd.DataFrame(X + 0.3 * np.random.default_rng(seed + 1).normal(size=X.shape), columns=list("abcd"))


@pytest.fixture(scope="module")
def new(tmp_path_factory):
    table = rows(60, 5)
    table.iloc[20:24, 1] += 6
    table.iloc[30, 2] = np.nan
    return write(table, tmp_path_factory.mktemp("light") / "new.csv")


@pytest.mark.parametrize("job", ["score", "explain", "incidents"])
def test_a_model_file_and_a_table_need_neither_scikit_learn_nor_distributions(job, new, tmp_path):
    PCADetector(2).fit(rows(200, 1)).save(tmp_path / "plant.culpa")
    loaded = in_a_process_of_its_own([job, new, "-m", tmp_path / "plant.culpa", "-o", tmp_path / "out.csv"])
    assert not loaded & set(SLOW)


def test_such_a_process_gives_the_same_answers(new, tmp_path):
    kinds = [
        {},
        {"model": "student"},
        {"model": "copula"},
        {"modes": 2},
        {"lags": 1},
        {"smooth": 0.3},
        {"given": ["d"]},
    ]
    kinds += [{"game": "retraining", "statistic": "spe"}, {"game": "minimal"}, {"robust": "cells"}, {"trim": 0.1}]
    commands = []
    for k, options in enumerate(kinds):
        model = tmp_path / f"{k}.culpa"
        PCADetector(**options).fit(rows(200, 1)).save(model)
        for job in ("score", "explain", "incidents"):
            more = ["--all", "--top", "2"] if job == "explain" else []
            commands.append([job, new, "-m", model, "-q", *more, "-o", tmp_path / f"{job}{k}.csv"])
    assert "sklearn" not in in_a_process_of_its_own(*commands)
    for command in commands:
        other = command[-1].with_name("here-" + command[-1].name)
        run(*command[:-1], other)
        # but for rounding: one of the processes may have compiled what the other has not
        assert_frame_equal(pd.read_csv(command[-1]), pd.read_csv(other), rtol=1e-9)


def test_distributions_are_those_of_scipy():
    q = np.array([1e-12, 0.005, 0.3, 0.5, 0.9, 0.99, 1 - 1e-9])
    pairs = [
        (getattr(probability.norm, name)(q), getattr(stats.norm, name)(q)) for name in ("ppf", "isf", "pdf", "cdf")
    ]
    for df in (0.5, 1, 2, 5, 30, 1e5, np.inf):
        pairs += [(getattr(probability.t, name)(q, df), getattr(stats.t, name)(q, df)) for name in ("ppf", "isf", "sf")]
        pairs += [(probability.chi2.ppf(q, df), stats.chi2.ppf(q, df))] if df < np.inf else []
    for a, b in ((0.5, 2), (3, 7), (1, 100), (50.5, 1e4)):
        pairs += [(probability.f.ppf(q[1:], a, b), stats.f.ppf(q[1:], a, b))]
        pairs += [(probability.beta.ppf(q[1:], a, b), stats.beta.ppf(q[1:], a, b))]
    for own, expected in pairs:
        np.testing.assert_allclose(own, expected, rtol=1e-12)
