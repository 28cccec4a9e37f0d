"""The package from outside: public names, what importing costs, the command line."""

import subprocess
import sys
from pathlib import Path

import docstrings
import public_api
import pytest

import culpa


def test_public_names():
    names = (
        "Calibration Comparison Counterfactual Culprit Drift Explainer Explanation FitWarning Incident Incidents "
        "Interactions JointFix Lags LatentGaussian LatentMixture MixturePPCA Moment PCADetector PPCA PipelineDetector "
        "Report Shortest StudentPPCA __version__ calibrate load"
    )
    assert dir(culpa) == names.split()
    for name in dir(culpa):
        assert getattr(culpa, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = culpa.nonsense


def test_the_public_api_is_pinned():
    assert public_api.public_api() == public_api.FILE.read_text(), "if this is meant, run: python tests/public_api.py"


def test_the_public_names_are_few():
    names = [name for package in public_api.PACKAGES for name in public_api.importlib.import_module(package).__all__]
    assert len(set(names)) <= 60


def test_public_docstrings_have_sections_and_examples():
    assert docstrings.problems() == []


def described(a: int, b: int = 0) -> int:
    """Add.

    Parameters
    ----------
    a
        A number.
    b
        Another.

    Returns
    -------
    int
        Their sum.

    Examples
    --------
    >>> described(1, 2)
    3
    """
    return a + b


@pytest.mark.parametrize(
    ("good", "bad", "problem"),
    [
        ("Add.", "Add", "summary that is no sentence"),
        ("    b\n        Another.\n", "", "describes the parameters ['a'], but takes ['a', 'b']"),
        ("        Another.\n", "", "entries under Parameters that say nothing"),
        ("    Returns\n    -------\n    int\n        Their sum.\n", "", "no section Returns"),
        (">>> described(1, 2)\n    3", "described(1, 2)", "example that does not run"),
        ("Returns\n    -------", "Result\n    ------", "unknown section 'Result'"),
    ],
)
def test_the_check_of_docstrings_finds_what_it_looks_for(monkeypatch, good, bad, problem):
    assert list(docstrings.of_function(described, examples=True)) == []
    assert good in described.__doc__
    monkeypatch.setattr(described, "__doc__", described.__doc__.replace(good, bad))
    assert any(problem in found for found in docstrings.of_function(described, examples=True))


def loaded_after(code):
    script = f"{code}\nimport sys\nprint(' '.join(sys.modules))"
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )


def test_imports_are_lazy():
    assert not {"sklearn", "numpy", "pandas"} & loaded_after("import culpa, culpa.cli")
    heavy = {"pandas", "polars", "pyarrow", "matplotlib", "plotly", "jinja2", "rich", "typer", "numba", "torch"}
    ours = loaded_after("from culpa import PCADetector, PPCA, Explainer, Explanation")
    assert not heavy & (ours - loaded_after("from sklearn.decomposition import PCA"))


def run(*arguments, cwd=None):
    command = [sys.executable, "-m", "culpa", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def test_demo(tmp_path):
    result = run("demo", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    # the numbers of components, of held-out rows (4 of 109) and of flagged wines are those of scikit-learn's PCA in folds
    for text in (
        "109 normal wines",
        "The model keeps 4 components",
        "Mahalanobis distance above 44.69 (95% limit)",
        "held-out rows: 4% above the 95% limit",
        "6 wines are flagged, 6 of them from the other cultivar",
        "proline",
        "8,192 coalitions",
    ):
        assert text in " ".join(result.stdout.split())
    for step in (
        "culpa fit normal.csv",
        "detector.explain(new[detector.predict(new) == -1]).top(3)",
    ):  # both kinds of users
        assert step in result.stdout
    shown = (Path(__file__).parents[1] / "README.md").read_text().partition("```text\n")[2].partition("...\n")[0]
    assert shown in result.stdout  # as README shows it
    assert result.stdout.splitlines()[-1].endswith(": culpa-demo-report.html")
    assert [entry.name for entry in tmp_path.iterdir()] == ["culpa-demo-report.html"]
    assert "Strange wines" in (tmp_path / "culpa-demo-report.html").read_text()
    refused = run("demo", "-o", "no/where.html", cwd=tmp_path)
    assert refused.returncode == 2
    assert "does not exist" in refused.stderr


def test_help_and_version():
    assert "demo" in run("--help").stdout
    assert run("--version").stdout.strip() == f"culpa {culpa.__version__}"
    assert run("nonsense").returncode == 2
