"""Check the documentation: examples run, and links between files lead to an existing file and heading."""

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# warnings fail an example, except for those about the data, which examples show on purpose; -W cannot name these, because
# Python reads it before it can import installed packages
STRICT = ("-W", "error", "-c")
TOLERANT = "import warnings; from culpa._core.fit_warning import FitWarning as F; warnings.simplefilter('ignore', F)\n"
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """Relative links to a file or a heading that does not exist."""
    links = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text())
    broken = []
    for target, anchor in links:
        if re.match(r"[a-z]+:", target):
            continue
        path = page.parent / target if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(f"{page.relative_to(ROOT)}: {target}{'#' * bool(anchor)}{anchor}")
    return broken


def failing_example(page: Path) -> str | None:
    """Error of the Python blocks of a page, run as one script."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL))
    if not code:
        return None
    with tempfile.TemporaryDirectory() as elsewhere:
        command = [sys.executable, *STRICT, TOLERANT + code]
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=elsewhere)
    return f"{page.relative_to(ROOT)}:\n{result.stderr}" if result.returncode else None


def failing_script(script: Path) -> str | None:
    """Error of an example script, run from another folder as a user would."""
    with tempfile.TemporaryDirectory() as elsewhere:
        code = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
        command = [sys.executable, *STRICT, TOLERANT + code]
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=elsewhere)
    return f"{script.relative_to(ROOT)}:\n{result.stderr}" if result.returncode else None


def problem_of(path: Path) -> str | None:
    """Error of the examples of a page, or of a script."""
    print(path.relative_to(ROOT), flush=True)
    return failing_example(path) if path.suffix == ".md" else failing_script(path)


if __name__ == "__main__":
    problems = [link for page in PAGES for link in broken_links(page)]
    with ThreadPoolExecutor(os.cpu_count()) as threads:  # each waits for a process of its own
        found = threads.map(problem_of, [*PAGES, *ROOT.glob("examples/*.py")])
    problems += [problem for problem in found if problem]
    sys.exit("\n".join(problems) or None)
