"""Tables for people on a terminal, full precision elsewhere, and help on one screen."""

import os
import pty
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from command_line import run, write
from typer.testing import CliRunner

from culpa._core.parameters import EXPLAINER
from culpa.cli import app
from culpa.cli.terminal import sheet

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a terminal")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("terminal"), np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 5)) + 0.2 * rng.normal(size=(400, 5))
    X[350:353, 2] += 6
    table = pd.DataFrame(X, columns=["flow", "power", "valve_position_of_the_reactor_feed", "d", "e"])
    table.insert(0, "time", pd.date_range("2026-03-01", periods=400, freq="min"))
    write(table[:300], folder / "normal.csv")
    write(table[300:], folder / "new.csv")
    table.loc[310, "d"] = -9999
    write(table[300:], folder / "spoiled.csv")
    run("fit", folder / "normal.csv", "-o", folder / "m.culpa")
    return folder


def on_a_terminal(folder, *words):
    """What a terminal of 80 columns shows of standard output."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": "80", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "culpa", *words]
    with subprocess.Popen(command, cwd=folder, stdout=theirs, stderr=subprocess.PIPE, env=environment) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 1 << 16):
                shown += piece
        except OSError:  # how Linux tells that a terminal was closed
            pass
        said = process.stderr.read().decode()
    os.close(ours)
    assert not process.returncode, said
    return shown.decode().replace("\r\n", "\n").splitlines()


def test_explain_shows_culprits_first_and_rounds(folder):
    shown = on_a_terminal(folder, "explain", "new.csv", "-m", "m.culpa")
    assert shown[0].split() == ["time", "score", "culprit", "share", "actual", "expected", "if", "fixed"]
    assert max(map(len, shown)) <= 80
    run("explain", folder / "new.csv", "-m", folder / "m.culpa", "--top", "3", "-o", folder / "why.csv")
    table = pd.read_csv(folder / "why.csv")
    lines = [line for line in shown[1:] if re.search(r"\d%", line)]
    assert len(lines) == len(table)
    first, line = table.iloc[0], lines[0]
    assert line.split()[:3] == [*first["time"].split(), f"{first['score']:.4g}"]
    assert f"{first['share']:.0%}" in line
    assert f"{first['actual']:#.4g}" in line
    assert ("✓" in line) == (first["score_if_fixed"] <= first["limit"])
    assert not any(line.startswith("2026") for line, rank in zip(lines, table["rank"], strict=True) if rank > 1)
    assert "share: part of the score" in " ".join(shown)


@pytest.mark.parametrize("job", ["score", "incidents"])
def test_other_answers_are_tables_too(folder, job):
    shown = on_a_terminal(folder, job, "new.csv", "-m", "m.culpa")
    assert '"' not in "".join(shown)
    assert max(map(len, shown)) <= 80
    if job == "incidents":
        assert "culprit" in shown[0]
        assert "valve_pos" in shown[1]


def test_pipes_and_named_formats_get_every_digit(folder):
    run("explain", folder / "new.csv", "-m", folder / "m.culpa", "-o", folder / "all.csv")
    piped = run("explain", folder / "new.csv", "-m", folder / "m.culpa").stdout
    assert piped == (folder / "all.csv").read_text()
    shown = on_a_terminal(folder, "explain", "new.csv", "-m", "m.culpa", "--format", "csv")
    for line, same in zip(shown, piped.splitlines(), strict=True):  # but for rounding: processes may compile or not
        for cell, number in zip(line.split(","), same.split(","), strict=True):
            assert cell == number or float(cell) == pytest.approx(float(number), rel=1e-10)
    assert max(len(cell) for cell in shown[1].split(",")[1:]) > 14


def test_warnings_name_times(folder):
    said = " ".join(
        run("score", folder / "spoiled.csv", "-m", folder / "m.culpa", "-o", folder / "s.csv").stderr.split()
    )
    assert "contains -9999 at 2026-03-01 05:10:00, far from" in said


def test_sheets_are_aligned_and_cut_texts_only():
    shown = sheet(["name", "value"], [["x" * 200, "1.5"], ["b", "-10"]]).splitlines()
    assert all(len(line) == 140 for line in shown)
    assert shown[1].endswith("   1.5")
    assert "…" in shown[1]
    assert shown[2].startswith("b  ")


def help_of(*words):
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "80"})
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("name", ["fit", "calibrate", "update", "score", "explain", "incidents", "compare", "report"])
def test_short_help_is_one_screen_and_long_help_is_whole(name):
    short, long = help_of(name, "-h"), help_of(name, "--help")
    assert len(short.splitlines()) <= 40
    assert max(map(len, [*short.splitlines()])) <= 80
    assert "<" not in short + long
    flags = [set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE)) for text in (short, long)]
    assert flags[0] < flags[1]
    assert f"All {len(flags[1])} options: root {name} --help" in short
    assert long.index("\nOptions:") < long.index("\nReading the table:")


def test_short_help_of_fit_has_ten_options():
    assert len(re.findall(r"^  (?:-\w, )?--", help_of("fit", "-h"), re.MULTILINE)) == 10


def test_every_option_of_an_explanation_that_a_text_can_give_is_an_option():
    text = help_of("explain", "--help")
    not_texts = {"score", "features", "groups", "given", "normal", "reconstruct", "reconstruct_matrix", "progress"}
    for parameter in EXPLAINER.values():
        assert (parameter.flag in text) == (parameter.name not in {*not_texts, "max_evaluations"}), parameter.name


def test_labels_may_have_the_names_of_answers_and_are_shown_as_they_are(folder):
    table = pd.read_csv(folder / "new.csv")
    labels = {"limit": "L7", "rank": 20260301.25, "sentence": "s", "feature": "pump", "share": 0.5, "score": True}
    for name, label in labels.items():
        table[name] = label
    write(table, folder / "labelled.csv")
    ids = [word for name in labels for word in ("--id", name)]
    for job in ("score", "explain"):
        shown = on_a_terminal(folder, job, "labelled.csv", "-m", "m.culpa", *ids)
        assert shown[0].split()[:7] == [*labels, "score"]
        assert shown[1].split()[:6] == [str(label) for label in labels.values()]
    assert any("✓" in line for line in shown)
    assert "culprit" in shown[0]
