"""The public API as text: every name that a public package lists, with its signature as it stands in the source.

``python tests/public_api.py`` writes it to ``tests/public_api.txt``, which a test compares. Read the difference before
you commit it: it is what users see.
"""

import ast
import importlib
import inspect
import textwrap
from pathlib import Path

FILE = Path(__file__).with_suffix(".txt")
_WIDTH = 118
# packages whose names are for users; the names in all others are for culpa itself and may change at any time
PACKAGES = ("culpa", "culpa.calibration", "culpa.datasets", "culpa.plots", "culpa.ranking", "culpa.spark")


def public_api():
    """All public names, package by package; a name that several packages list is described once."""
    lines, seen = [], {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        names = sorted(getattr(module, "__all__", []))
        lines += ["", f"# {package}"] if names else []
        for name in names:
            thing = getattr(module, name)
            if callable(thing) and id(thing) in seen:
                lines.append(f"{name}: see {seen[id(thing)]}")
                continue
            seen[id(thing)] = f"{package}.{name}"
            lines += described(name, thing)
    return "\n".join(lines).strip() + "\n"


def described(name, thing):
    """One line for a value or a function; for a class, its constructor, fields, properties and methods."""
    if inspect.isclass(thing):
        return _class(name, thing)
    node = _source(thing)
    return _function(name, node) if isinstance(node, ast.FunctionDef) else [f"{name}: {type(thing).__name__}"]


def _class(name, thing):
    fields, methods, constructor = {}, {}, [f"class {name}"]
    for base in reversed([base for base in thing.__mro__ if base.__module__.startswith("culpa")]):
        for node in _source(base).body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                constructor = _function(f"class {name}", node, first=1)
            # the order of fields is that of a dataclass's arguments
            (fields if isinstance(node, ast.AnnAssign) else methods).update(_member(node, base))
    if signature := getattr(thing.__init__, "__signature__", None):  # made from a description of the parameters
        listed = [f"{each.name}={each.default!r}" for each in list(signature.parameters.values())[1:]]
        constructor = [f"class {name}(", *(f"    {each}," for each in listed), ")"]
    members = [*fields.values(), *(methods[name] for name in sorted(methods))]
    return constructor + [f"    {line}" for lines in members for line in lines]


def _member(node, base):
    """What one statement in the body of a class adds to its public face."""
    if isinstance(node, ast.AnnAssign) and not node.target.id.startswith("_"):
        return {node.target.id: [ast.unparse(node)]}
    if isinstance(node, ast.Assign) and not node.targets[0].id.startswith("_"):
        member = node.targets[0].id
        return {member: described(member, getattr(base, member))}
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
        if any("property" in ast.unparse(decorator) for decorator in node.decorator_list):
            return {node.name: [f"{node.name} -> {ast.unparse(node.returns)}"]}
        if not any(ast.unparse(decorator).endswith(".setter") for decorator in node.decorator_list):
            return {node.name: _function(node.name, node)}
    return {}


def _function(name, node, first=0):
    """A signature on one line, or with one argument per line where that would be long."""
    arguments = _arguments(node.args)[first:]
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None and name.split()[0] != "class" else ""
    line = f"{name}({', '.join(arguments)}){result}"
    return [line] if len(line) <= _WIDTH else [f"{name}(", *(f"    {each}," for each in arguments), f"){result}"]


def _arguments(arguments):
    # one by one, so that types with commas stay whole
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    result = [_argument(*pair) for pair in zip(positional, defaults, strict=True)]
    if arguments.vararg or arguments.kwonlyargs:
        result.append("*" + (ast.unparse(arguments.vararg) if arguments.vararg else ""))
    result += [_argument(*pair) for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return result + ([f"**{ast.unparse(arguments.kwarg)}"] if arguments.kwarg else [])


def _argument(argument, default):
    return ast.unparse(argument) + ("" if default is None else f" = {ast.unparse(default)}")


def _source(thing):
    """The syntax tree of a class or function, or nothing where there is no source."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(thing)))).body[0]
    except (TypeError, OSError):
        return None


if __name__ == "__main__":
    FILE.write_text(public_api(), encoding="utf-8")
