"""Do the tests notice a bug? Small deliberate bugs, one at a time, each against the tests of its own room.

``python tests/mutate.py [NUMBER] [ROOM ...]`` draws so many of all possible bugs, always the same ones, and says
which of them no test noticed. It works on a copy of the package, so the checkout is never changed.
"""

import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS = 240  # for the tests of one bug; a run that takes longer says nothing, and is counted apart
ROOMS = ("monitoring", "scores", "calibration", "fitting")
FLIPPED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def bugs_of(node):
    """What may be put in place of a node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in FLIPPED:
        yield ast.Compare(node.left, [FLIPPED[type(node.ops[0])]()], node.comparators)
    if (
        isinstance(node, ast.BinOp)
        and type(node.op) in FLIPPED
        and not isinstance(node.left, (ast.JoinedStr, ast.List))
    ):
        yield ast.BinOp(node.left, FLIPPED[type(node.op)](), node.right)
        yield node.left  # without the second term
    if isinstance(node, ast.BoolOp):
        yield ast.BoolOp(FLIPPED[type(node.op)](), node.values)
        yield node.values[0]
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield ast.Constant(node.value + 1)
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        other = copy.copy(node)
        other.test = ast.UnaryOp(ast.Not(), node.test)
        yield other


class Put(ast.NodeTransformer):
    """Puts one node in place of another."""

    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit(self, node):
        return ast.copy_location(self.new, node) if node is self.old else super().visit(node)


def all_bugs(path):
    """Line, old and new text of every bug of a file, and the file's text with it; annotations and messages stay."""
    tree = ast.parse(path.read_text())
    skipped = set()
    for node in ast.walk(tree):
        parts = [getattr(node, name, None) for name in ("annotation", "returns")]
        parts += [node] if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr)) else []
        skipped.update(id(inner) for part in parts if part is not None for inner in ast.walk(part))
    for node in ast.walk(tree):
        for bug in () if id(node) in skipped else bugs_of(node):
            text = [ast.unparse(ast.fix_missing_locations(ast.copy_location(each, node))) for each in (node, bug)]
            yield node.lineno, *(each.splitlines()[0] for each in text), path, node, bug, tree


def verdict_of(room, environment):
    """Whether a test of a room fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", f"tests/{room}"]
    try:
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "timed out"
    return "killed" if run.returncode else "survived"


def main():
    """Draw bugs, try them, and say what survived."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    rooms = sys.argv[2:] or list(ROOMS)
    files = {room: sorted((ROOT / "src" / "culpa" / room).glob("*.py")) for room in rooms}
    drawn = [(room, bug) for room in rooms for path in files[room] for bug in all_bugs(path)]
    drawn = random.Random(0).sample(drawn, min(number, len(drawn)))
    found: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        source = shutil.copytree(ROOT / "src", Path(folder) / "src")
        environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
        for room in rooms:
            if verdict_of(room, environment) != "survived":
                sys.exit(f"the tests of {room} fail, or take too long, without any bug")
        for room, (line, old, new, path, node, bug, tree) in drawn:
            place = source / path.relative_to(ROOT / "src")
            changed = Put(node, bug).visit(copy.deepcopy(tree, {id(node): node}))
            place.write_text(ast.unparse(ast.fix_missing_locations(changed)))
            verdict = verdict_of(room, environment)
            shutil.copy(path, place)
            found[room, verdict] += 1
            print(f"{verdict} {path.relative_to(ROOT)}:{line}: {old}  ->  {new}", flush=True)  # noqa: T201
    for room in rooms:
        counts = ", ".join(f"{found[room, verdict]} {verdict}" for verdict in ("killed", "survived", "timed out"))
        print(f"{room}: {counts}")  # noqa: T201


if __name__ == "__main__":
    main()
