"""Outputs and inputs: no command writes over what it reads, and a command that fails replaces nothing."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from command_line import run

from culpa import load


@pytest.fixture
def folder(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 2)) @ random.normal(size=(2, 4)) + 0.3 * random.normal(size=(300, 4))
    pd.DataFrame(X, columns=list("abcd")).to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.chdir(tmp_path)
    run("fit", "t.csv", "-o", "m.culpa")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "symbolic.csv").symlink_to(tmp_path / "t.csv")
    os.link(tmp_path / "t.csv", tmp_path / "links" / "hard.csv")
    return tmp_path


COMMANDS = {
    "score": ("score", "t.csv", "-m", "m.culpa"),
    "explain": ("explain", "t.csv", "-m", "m.culpa"),
    "incidents": ("incidents", "t.csv", "-m", "m.culpa"),
    "report": ("report", "t.csv", "-m", "m.culpa", "--json"),
    "fit": ("fit", "t.csv"),
    "calibrate": ("calibrate", "t.csv"),
    "update": ("update", "m.culpa", "t.csv"),
    "init": ("init", "t.csv"),
}
TARGETS = ("t.csv", "./t.csv", "links/../t.csv", "links/symbolic.csv", "links/hard.csv", "m.culpa")


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_writes_over_what_it_reads(folder, name):
    before = {each: (folder / each).read_bytes() for each in ("t.csv", "m.culpa")}
    for target in TARGETS:
        if target == "m.culpa" and ("m.culpa" not in COMMANDS[name] or name == "update"):
            continue
        if name == "report":  # whose files end in .html or .json
            os.link(folder / target, folder / "r.json")
            target = "r.json"
        assert "input" in run(*COMMANDS[name], "-o", target, "--force", code=2).stderr
        (folder / "r.json").unlink(missing_ok=True)
    assert {each: (folder / each).read_bytes() for each in before} == before
    assert sorted(path.name for path in folder.iterdir()) == ["links", "m.culpa", "t.csv"]


def test_an_update_replaces_its_own_model_when_it_is_complete(folder):
    before = (folder / "m.culpa").read_bytes()
    (folder / "bad.csv").write_text("a,b,c,d\n" + "1,2,3,4\n" * 5 + "1,,3,4\n")
    command = "update", "m.culpa"
    assert "already exists" in run(*command, "t.csv", "-o", "m.culpa", code=2).stderr
    run(*command, "bad.csv", "-o", "m.culpa", "--force", code=2)
    run("update", "m.culpa", "m.culpa", "-o", "m.culpa", "--force", "--input-format", "csv", code=2)
    assert (folder / "m.culpa").read_bytes() == before
    run(*command, "t.csv", "-o", "u.culpa")
    (folder / "link.culpa").symlink_to(folder / "m.culpa")
    run(*command, "t.csv", "-o", "link.culpa", "--force")
    assert (folder / "m.culpa").read_bytes() != before
    updated, elsewhere = (load(folder / name) for name in ("m.culpa", "u.culpa"))  # bytes differ by the order of fields
    assert updated.limit_ == elsewhere.limit_
    assert updated.model_.n_samples_ == elsewhere.model_.n_samples_ == 600
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []


def test_tables_of_a_pattern_and_other_inputs(folder):
    run("score", "t.csv", "-m", "m.culpa", "-o", "s.csv")
    assert "s.csv is one of the inputs" in run("score", "*.csv", "-m", "m.culpa", "-o", "s.csv", "-f", code=2).stderr
    (folder / "culpa.toml").write_text("new = 't.csv'\nmodel = 'm.culpa'\n")
    told = run("score", "-o", "culpa.toml", "--format", "csv", "--force", code=2).stderr
    assert "culpa.toml is one of the inputs" in told


def shell(line):
    return subprocess.run(
        line.replace("culpa ", f"{sys.executable} -m culpa ", 1), shell=True, capture_output=True, text=True
    )


@pytest.mark.skipif(os.name != "posix", reason="for shells")
@pytest.mark.parametrize(
    "line",
    [
        "culpa score t.csv -m m.culpa >> t.csv",
        "culpa score - -m m.culpa < t.csv >> t.csv",
        "culpa incidents t.csv -m m.culpa --text >> links/hard.csv",
        "culpa score t.csv -m m.culpa -f -o /dev/stdout >> t.csv",
    ],
)
def test_standard_output_that_the_shell_appends_to_an_input(folder, line):
    before = (folder / "t.csv").read_bytes()
    done = shell(line)
    assert done.returncode == 2
    assert "input" in done.stderr
    assert (folder / "t.csv").read_bytes() == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_model_is_not_replaced_if_the_tables_cannot_be_printed(folder):
    run("fit", "t.csv", "-o", "other.culpa", "--components", 1)
    before = (folder / "other.culpa").read_bytes()
    line = "culpa calibrate t.csv -o other.culpa --force --kinds 'bias 3 sd' --at-once 1 --trials 20"
    assert shell(f"{line} > /dev/full").returncode == 2
    assert (folder / "other.culpa").read_bytes() == before
    assert "Which setting" in shell(f"{line} | head -1").stdout
    assert (folder / "other.culpa").read_bytes() != before
