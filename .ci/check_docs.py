"""The documentation must hold: examples run, links between files lead somewhere."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


def broken_links(page: Path) -> list[str]:
    """Relative links whose target does not exist."""
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    local = [target for target in targets if not re.match(r"[a-z]+:", target)]
    return [f"{page.relative_to(ROOT)}: {target}" for target in local if not (page.parent / target).exists()]


def failing_example(page: Path) -> str | None:
    """All Python blocks of a page, run as one script."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL))
    if not code:
        return None
    with tempfile.TemporaryDirectory() as elsewhere:
        command = [sys.executable, "-W", "error", "-c", code]
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=elsewhere)
    return f"{page.relative_to(ROOT)}:\n{result.stderr}" if result.returncode else None


def failing_script(script: Path) -> str | None:
    """One of the examples, run from elsewhere as a user would."""
    with tempfile.TemporaryDirectory() as elsewhere:
        command = [sys.executable, "-W", "error", str(script)]
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=elsewhere)
    return f"{script.relative_to(ROOT)}:\n{result.stderr}" if result.returncode else None


if __name__ == "__main__":
    problems = [link for page in PAGES for link in broken_links(page)]
    problems += [problem for page in PAGES if (problem := failing_example(page))]
    problems += [problem for script in ROOT.glob("examples/*.py") if (problem := failing_script(script))]
    sys.exit("\n".join(problems) or None)
