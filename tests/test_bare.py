"""culpa with its required packages alone: no pandas, pyarrow, numba, command line or report.

The tests run in any environment: the packages are hidden from a process of its own. CI also runs them where they are not
installed.
"""

import subprocess
import sys

import pytest

HIDE = """
import sys
HIDDEN = "pandas polars pyarrow numba llvmlite typer click rich jinja2 plotly matplotlib".split()
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
import importlib.util
known = importlib.util.find_spec
def find_spec(name, package=None):
    try:
        return known(name, package)
    except ModuleNotFoundError:
        return None
importlib.util.find_spec = find_spec
"""
ROWS = """
import numpy as np
from culpa import PCADetector, PPCA, Explainer, load
rng = np.random.default_rng(0)
normal = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 12)) + 0.3 * rng.normal(size=(400, 12))
new = normal[:100].copy()
new[5:9, 3] += 8
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", HIDE + ROWS + code], capture_output=True, text=True, check=False)


WORKS = {
    "the detector": """
detector = PCADetector().fit(normal)
assert (detector.predict(new)[5:9] == -1).all()
why = detector.explain(new)
assert np.abs(why.values.sum(axis=1) + why.base_value - why.score).max() < 1e-9
top = why.top(1)
assert top["feature"][5] == "x3" and top["rank"][5] == 1 and len(top) == 100
assert detector.statistics(new)["anomaly"][5]
assert "x3" in why._repr_html_() and "x3" in why.to_json() and len(why.to_frame()) == 100
assert why.shortest().to_frame()["feature"][5 - 5] is not None
why.counterfactual(); why.interactions()
""",
    "incidents": """
detector = PCADetector().fit(normal)
first = detector.incidents(new)[0]
assert (first.first, first.last) == (5, 9) and first.culprits[0].feature == "x3"
assert len(detector.incidents(new).to_frame()) == len(detector.incidents(new))
detector.incidents(new).to_json(); detector.drift(new); detector.compare(normal, new); detector.fix(new, 1)
""",
    "model files": """
import tempfile, os
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "plant.culpa")
    detector = PCADetector(robust="cells", confidence=0.9).fit(normal)
    detector.save(path)
    again = load(path)
assert (again.predict(new) == detector.predict(new)).all()
assert len(again.abnormal_training_rows_) == len(detector.abnormal_training_rows_)
""",
    "other models": """
for options in ({"model": "student"}, {"model": "copula"}, {"modes": 2}, {"lags": 1}, {"given": [0]}):
    PCADetector(**options).fit(normal).explain(new)
wide = rng.normal(size=(200, 40))
assert not Explainer(PPCA(3).fit(wide)).explain(wide[:5]).exact
""",
}


@pytest.mark.parametrize("what", WORKS)
def test_works_with_the_required_packages(what: str) -> None:
    done = run(WORKS[what])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("code", "package"),
    [
        ("PCADetector().fit(normal).report(new)", "pandas"),
        ("PCADetector().fit(normal).incidents(new, time=np.arange(100).astype('datetime64[m]'))", "pandas"),
        ("import runpy; sys.argv = ['culpa', '--help']; runpy.run_module('culpa', run_name='__main__')", "typer"),
    ],
)
def test_what_is_missing_is_said_with_the_command(code: str, package: str) -> None:
    done = run(code)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].endswith(f"needs {package}: pip install 'culpa[app]'")


def test_plots_say_what_is_missing() -> None:
    done = run("PCADetector().fit(normal).explain(new).plot.bar()")
    assert "needs matplotlib: pip install 'culpa[plots]'" in done.stderr
