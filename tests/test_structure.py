"""The structure of the code: what the architecture page promises, checked on the source."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "culpa"
MODULES = sorted([*SOURCE.rglob("*.py"), *(ROOT / "studies").glob("*.py")])
PUBLIC_UNDERSCORES = {"_replace", "_asdict", "_fields", "_make"}  # of named tuples


# members of public classes that users need not see, and other rooms use
INTERNAL = {
    "_checked",  # of detectors
    "_one_pass",  # of `Explainer`
    "_fit_moments",  # of models
    "_moments_so_far",
    "_refine",
    "_refit",
    "_restore",
    "_scaled",
    "_to_arrays",
}


def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def is_private(name):
    return name.startswith("_") and not name.endswith("__") and name not in PUBLIC_UNDERSCORES | INTERNAL


# openpyxl shows rows as a sheet lists them only here; its public reader leaves out rows that are out of order
OF_OPENPYXL = {"_date_formats", "_timedelta_formats", "_get_source", "_shared_strings"}


def foreign_accesses(node, own=frozenset()):
    """Private attributes that are neither of ``self`` or ``cls`` nor of the class whose code this is."""
    if isinstance(node, ast.ClassDef):
        own = {part.name for part in ast.walk(node) if isinstance(part, ast.FunctionDef)}
        own |= {part.target.id for part in node.body if isinstance(part, ast.AnnAssign)}
    if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in OF_OPENPYXL:
        of_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        if not of_self and node.attr not in own:
            yield f"line {node.lineno}: {ast.unparse(node)}"
    for child in ast.iter_child_nodes(node):
        yield from foreign_accesses(child, own)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_class_touches_the_underscore_attributes_of_another(path):
    assert not list(foreign_accesses(tree_of(path)))


def test_the_check_finds_what_it_looks_for(tmp_path):
    (tmp_path / "bad.py").write_text("def f(detector):\n    return detector._limits\n")
    with pytest.raises(AssertionError, match=r"detector\._limits"):
        test_no_class_touches_the_underscore_attributes_of_another(tmp_path / "bad.py")


# what is longer today: numbers may fall, and a name that is no longer needed goes
LONG_FUNCTIONS = {"tree_kernel": 97, "tree_walk": 87}  # kernels call few others
LARGE_CLASSES: dict[str, int] = {}


def lines_of_functions(node):
    """Names of functions with their numbers of lines, not counting docstrings."""
    for part in ast.walk(node):
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield part.name, part.end_lineno - (part.body[0].end_lineno if ast.get_docstring(part) else part.lineno)


def methods_of_classes(node):
    """Names of classes with their numbers of methods, not counting overloads."""
    for part in ast.walk(node):
        if isinstance(part, ast.ClassDef):
            methods = [one for one in part.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
            yield part.name, sum("overload" not in map(ast.unparse, one.decorator_list) for one in methods)


@pytest.mark.parametrize(
    ("sizes", "most", "exceptions"),
    [(lines_of_functions, 60, LONG_FUNCTIONS), (methods_of_classes, 25, LARGE_CLASSES)],
    ids=["functions", "classes"],
)
def test_functions_and_classes_are_small(sizes, most, exceptions):
    """At most 60 lines and 25 methods, except for a few, which may only shrink."""
    found = [each for path in MODULES for each in sizes(tree_of(path))]
    large = {name: size for name, size in found if size > most}
    assert {name: size for name, size in large.items() if size > exceptions.get(name, most)} == {}
    assert set(exceptions) == set(large), "take names off the list that are no longer needed"


def test_there_are_at_most_fourteen_layers():
    with (ROOT / "pyproject.toml").open("rb") as file:
        contract = tomllib.load(file)["tool"]["importlinter"]["contracts"][0]
    assert len(contract["layers"]) <= 14
    listed = {name.strip() for layer in contract["layers"] for name in layer.split("|")}
    parts = {
        f"culpa.{path.stem}" for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert parts - {"culpa.__init__", "culpa.__main__"} == listed


def test_one_module_uses_the_kernels_for_gpus():
    room = SOURCE / "_kernels" / "cuda"
    users = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if room not in path.parents and re.search(r"import cuda\b|^from culpa._kernels.cuda", path.read_text(), re.M)
    }
    assert users == {"shapley/on_gpu.py"}


# tests that look at several modules of a room together
ACROSS_MODULES = {
    "cli/test_blame_adds_up.py",
    "games/test_missing_cells.py",
    "shapley/test_axioms.py",
    "shapley/test_engines.py",
    "games/test_numerics.py",
    "cli/test_fuzz.py",
    "cli/test_jobs.py",
    "cli/test_plant_tables.py",
    "cli/test_keeping_up.py",
    "report/test_browser.py",
    "io/test_tables.py",
    "_kernels/test_docs.py",
    "cli/test_context_and_smoothing.py",
    "models/test_forgetting.py",
    "scores/test_missing_patterns.py",
    "typing/test_user_scripts.py",
    "spark/test_on_spark.py",
    "cli/test_outputs.py",
    "monitoring/test_batches.py",
}


def test_tests_lie_where_their_modules_do():
    homeless = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        place = path.relative_to(ROOT / "tests")
        if len(place.parts) == 1 or place.as_posix() in ACROSS_MODULES:
            continue
        room = ROOT if place.parts[0] == "studies" else SOURCE
        module = room / place.parent / path.stem.removeprefix("test_")
        if not module.with_suffix(".py").exists() and not module.is_dir():
            homeless.append(place.as_posix())
    assert not homeless
