"""What docs/security.md promises and no other test covers: no network, no unpickling, formulas."""

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "culpa"

# a job from table to report in a process in which every connection and every unpickling is an error
PROGRAM = """
import sys
import numpy as np
import pandas as pd

def forbid(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "urllib.Request", "pickle.find_class"):
        raise RuntimeError(f"forbidden: {event} {arguments}")

rng = np.random.default_rng(0)
X = rng.normal(size=(100, 2)) @ rng.normal(size=(2, 5)) + rng.normal(size=(100, 5))
pd.DataFrame(X, columns=list("abcde")).to_csv("plant.csv", index=False)
import culpa
from culpa.cli import app

sys.addaudithook(forbid)
for words in (
    ["fit", "plant.csv", "-o", "plant.culpa"],
    ["explain", "plant.csv", "-m", "plant.culpa", "-o", "why.csv", "--all"],
    ["report", "plant.csv", "-m", "plant.culpa", "-o", "report.html"],
):
    app([*words, "--quiet"], standalone_mode=False)
culpa.load("plant.culpa").explain(X)
{attack}
print("done")
"""
ATTACKS = {
    "": (0, "done\n"),
    "import socket; socket.create_connection(('127.0.0.1', 9))": (1, ""),
    "import pickle, fractions; pickle.loads(pickle.dumps(fractions.Fraction(1)))": (1, ""),
}


@pytest.mark.parametrize("attack", ATTACKS, ids=["culpa", "connection", "pickle"])
def test_a_job_opens_no_connection_and_unpickles_nothing(attack, tmp_path):
    command = [sys.executable, "-c", PROGRAM.replace("{attack}", attack)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == ATTACKS[attack], result.stderr
    assert ("forbidden" in result.stderr) == bool(attack)


def test_nothing_in_the_source_unpickles_or_evaluates():
    found = [
        f"{path.relative_to(SOURCE)}: {word}"
        for path in SOURCE.rglob("*.py")
        for word in ("pickle.load", "joblib.load", "allow_pickle=True", " eval(", "yaml.load", "shell=True")
        if word in path.read_text()
    ]
    assert not found
