"""What a type checker says about users' scripts: nothing about a correct one, and the mistakes in a wrong one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import culpa

HERE = Path(__file__).parent
CORRECT, WRONG = HERE / "correct_script.py", HERE / "wrong_script.py"


def where_culpa_is():
    """What mypy needs to find culpa: it looks into site-packages by itself, and refuses to be sent there."""
    folder = Path(culpa.__file__).parents[1]
    return {} if folder.name == "site-packages" else {"MYPYPATH": str(folder)}


@pytest.fixture(scope="module")
def reported(request):
    """Errors by file and line, as sets of codes; both scripts are checked at once, because that takes a while."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    cache = request.config.cache.mkdir("mypy")
    # silent: only the scripts are judged, as if culpa were installed
    options = ["--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={cache}", "--no-error-summary"]
    result = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(CORRECT), str(WRONG)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | where_culpa_is(),
    )
    assert not result.stderr, result.stderr
    found = {}
    for path, line, message in re.findall(r"^(.*?):(\d+): error: (.*)$", result.stdout, re.MULTILINE):
        found.setdefault((Path(path).name, int(line)), []).append(message)
    return found


def test_a_correct_script_passes(reported):
    assert {place: found for place, found in reported.items() if place[0] == CORRECT.name} == {}


def test_mistakes_are_caught(reported):
    expected = {
        number: line.split("  # ")[1] for number, line in enumerate(WRONG.read_text().splitlines(), 1) if "  # " in line
    }
    codes = {
        line: re.findall(r"\[([a-z-]+)\]$", found[0]) for (name, line), found in reported.items() if name == WRONG.name
    }
    assert codes == {number: [code] for number, code in expected.items()}
