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
TOLERANT = "import warnings; from culpa._core.warning import FitWarning as F; warnings.simplefilter('ignore', F)\n"
# Python code, and what it prints as the page shows it: indented text after a blank line
EXAMPLE = re.compile(r"^```python\n([\s\S]*?)^```\n(?:\n((?:(?: {4}[^\n]*)?\n)+))?", re.MULTILINE)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
END = "\x1e"
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
    """Error of the Python blocks of a page, run as one script, or how the page differs from what they print."""
    examples = EXAMPLE.findall(page.read_text())
    if not examples:
        return None
    code = "".join(f"{code}\nprint({END!r})\n" for code, _ in examples)
    with tempfile.TemporaryDirectory() as elsewhere:
        command = [sys.executable, *STRICT, TOLERANT + code]
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=elsewhere)
    if result.returncode:
        return f"{page.relative_to(ROOT)}:\n{result.stderr}"
    for (_, shown), printed in zip(examples, result.stdout.split(f"{END}\n"), strict=False):
        if shown.strip() and not same_output(shown, printed):
            return f"{page.relative_to(ROOT)} shows\n{shown}\nbut its example prints\n{printed}"
    return None


def same_output(shown: str, printed: str) -> bool:
    """Whether words agree, and numbers to about a percent, as they do on other machines; "..." stands for anything."""
    pattern = r"[\s\S]*?".join(map(_as_pattern, shown.strip().split("...")))
    found = re.fullmatch(pattern, printed.strip())
    if found is None:
        return False
    numbers = NUMBER.findall(shown.replace("...", ""))
    return all(
        abs(float(a) - float(b)) <= 0.011 * abs(float(a)) + 1e-9 for a, b in zip(numbers, found.groups(), strict=True)
    )


def _as_pattern(text: str) -> str:
    """A regular expression for a text with other numbers and other blanks."""
    pieces = [r"\s+".join(map(re.escape, re.split(r"\s+", piece))) for piece in NUMBER.split(text)]
    return r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)".join(pieces)


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
