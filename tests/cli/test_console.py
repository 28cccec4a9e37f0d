"""Exit codes and messages where standard output or standard error is full, closed, or has lost its reader."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from command_line import run, write

from culpa._core.warning import warn
from culpa.cli.console import guarded

pytestmark = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("console")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 5)) + 0.2 * rng.normal(size=(400, 5))
    write(pd.DataFrame(X[:300], columns=list("abcde")), folder / "normal.csv")
    X[350:360, 2] += 6
    write(pd.DataFrame(X[300:], columns=list("abcde")), folder / "new.csv")
    run("fit", folder / "normal.csv", "-o", folder / "m.culpa")
    return folder


def shell(folder, line, **environment):
    """Exit code, standard output and standard error of a command line, in which culpa stands for the command."""
    line = line.replace("culpa ", f"'{sys.executable}' -m culpa ", 1)
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words",
    [
        "score new.csv -m m.culpa",
        "score new.csv -m m.culpa --format ndjson",
        "report new.csv -m m.culpa -o -",
        "--version",
        "--help",
    ],
)
def test_output_that_cannot_be_written_is_an_error(folder, words, unbuffered):
    code, _, said = shell(folder, f"culpa {words} > /dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (code, said) == (2, "Error: standard output: No space left on device\n")


@pytest.mark.parametrize(
    "words",
    ["info m.culpa", "compare normal.csv new.csv -m m.culpa", "incidents new.csv -m m.culpa --text", "--version"],
)
def test_a_closed_output_is_an_error(folder, words):
    code, _, said = shell(folder, f"culpa {words} >&-")
    assert (code, said) == (2, "Error: standard output is closed. Redirect it to a file.\n")


def test_a_reader_that_is_gone_is_no_error(folder):
    for words in ("compare normal.csv new.csv -m m.culpa", "--help"):
        assert shell(folder, f"culpa {words} | true")[0] == 0


def test_calibrate_writes_its_model_before_its_tables(folder):
    line = "culpa calibrate normal.csv --trials 50 -o calibrated.culpa | true"
    assert shell(folder, line)[0] == 0
    assert (folder / "calibrated.culpa").exists()


def test_a_message_that_cannot_be_written_changes_nothing(folder):
    assert shell(folder, "culpa score new.csv -m m.culpa -o x.csv 2>/dev/full")[:2] == (0, "")
    assert len((folder / "x.csv").read_text().splitlines()) == 101
    assert shell(folder, "culpa score nope.csv -m m.culpa 2>/dev/full")[0] == 2
    assert shell(folder, "culpa score --nope 2>/dev/full")[0] == 2


def test_warnings_become_lines_and_those_about_excel_styles_none(capsys):
    before, filters = warnings.showwarning, list(warnings.filters)
    with guarded():
        for _ in range(2):  # culpa's own are all said
            warn("rows are odd")
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.warn_explicit("numbers are odd", RuntimeWarning, "numpy/core.py", 1)
            warnings.warn_explicit("no default style", UserWarning, "site-packages/openpyxl/styles/stylesheet.py", 1)
    assert capsys.readouterr().err.splitlines() == ["Warning: rows are odd"] * 2 + ["Warning: numbers are odd"]
    assert (warnings.showwarning, list(warnings.filters)) == (before, filters)
