"""Count the lines of code of every package of src/culpa: imports count, blank lines, comments and docstrings do not.

Usage: python .ci/count_lines.py [COMMIT]. With a commit, its lines stand beside those of the working tree.
"""

import ast
import io
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "src/culpa"
LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def lines_of_code(text: str) -> int:
    """Lines with code on them; a string over several lines that is not a docstring counts in full."""
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in LAYOUT]
    covered = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    return len(covered - _docstrings(text))


def _docstrings(text: str) -> set[int]:
    first = (node.body[0] for node in ast.walk(ast.parse(text)) if _has_docstring(node))
    return {line for node in first for line in range(node.lineno, node.end_lineno + 1)}


def _has_docstring(node: ast.AST) -> bool:
    kinds = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    return isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None


def by_package(root: Path) -> Counter[str]:
    """Lines of code by package; modules beside the packages count as the top level."""
    counts: Counter[str] = Counter()
    for path in (root / SOURCE).rglob("*.py"):
        package, *rest = path.relative_to(root / SOURCE).parts
        counts[package if rest else "top level"] += lines_of_code(path.read_text(encoding="utf-8"))
    return counts


def by_package_at(commit: str) -> Counter[str]:
    """The same for a commit."""
    archive = subprocess.run(["git", "archive", commit, SOURCE], cwd=ROOT, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
        return by_package(Path(folder))


def table(columns: dict[str, Counter[str]]) -> str:
    """As Markdown, with the total."""
    packages = sorted(set().union(*columns.values()))
    lines = [["package", *columns], ["---", *("---:" for _ in columns)]]
    lines += [[package, *(f"{counts[package]:,}" for counts in columns.values())] for package in packages]
    lines += [["**all**", *(f"{counts.total():,}" for counts in columns.values())]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    before = {commit: by_package_at(commit) for commit in sys.argv[1:]}
    print(table({**before, "now": by_package(ROOT)}))
