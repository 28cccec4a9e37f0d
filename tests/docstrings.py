"""The rules for docstrings of public names, in the sections of numpydoc; `problems` lists where they are not kept.

``python tests/docstrings.py`` prints all of them.
"""

import dataclasses
import importlib
import inspect
import re

import public_api

SECTIONS = (
    "Parameters",
    "Attributes",
    "Returns",
    "Yields",
    "Raises",
    "Warns",
    "See Also",
    "Notes",
    "References",
    "Examples",
)


# classes that culpa makes, which have attributes and no parameters for users
RESULTS = {"Incidents", "Report"}
# fields that carry what further methods need
PLUMBING = {"native", "origin"}


def sections_of(text):
    """Sections of a docstring by name; the text before the first one is under the empty name."""
    parts = re.split(r"^([A-Z][A-Za-z ]+)\n(-{3,})$\n?", inspect.cleandoc(text or ""), flags=re.MULTILINE)
    return {"": parts[0]} | {parts[i]: parts[i + 2] for i in range(1, len(parts), 3)}


def entries_of(section):
    """Names in a section, in order; several may share an entry, as in ``first, last``."""
    heads = re.findall(r"^([*\w][^:\n]*?)(?: :.*)?$", section or "", flags=re.MULTILINE)
    return [name.strip().lstrip("*") for head in heads for name in head.split(",")]


def described(section):
    """Whether every entry of a section says something below its head."""
    entries = re.split(r"^(?=\S)", section, flags=re.MULTILINE)
    return all(len(each.strip().splitlines()) > 1 for each in entries if each.strip())


def parameters_of(function):
    """Names of the parameters that a caller passes, without the object itself."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []
    return [name for name in names if name not in ("self", "cls")]


def public_things():
    """Public names with what they stand for, each once."""
    seen = set()
    for package in public_api.PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if (inspect.isclass(thing) or callable(thing)) and id(thing) not in seen:
                seen.add(id(thing))
                yield f"{package}.{name}", thing


def methods_of(cls):
    """Public methods of a class that culpa defines, with what kind each is."""
    for name in dir(cls):
        held = inspect.getattr_static(cls, name)
        function = held.__func__ if isinstance(held, (classmethod, staticmethod)) else held
        ours = getattr(inspect.unwrap(function), "__module__", "") if callable(function) else ""
        if not name.startswith("_") and inspect.isfunction(function) and (ours or "").startswith("culpa"):
            yield name, function


def fields_of(cls):
    """Names of the public fields of a dataclass or a named tuple."""
    if hasattr(cls, "_fields"):
        return list(cls._fields)
    return [
        each.name for each in dataclasses.fields(cls) if not each.name.startswith("_") and each.name not in PLUMBING
    ]


def of_text(text, wanted):
    """What is wrong with a docstring whatever it describes."""
    found = sections_of(text)
    known = [name for name in found if name]
    yield from (f"has an unknown section {name!r}" for name in known if name not in SECTIONS)
    if known != sorted(known, key=lambda name: SECTIONS.index(name) if name in SECTIONS else -1):
        yield f"has its sections in another order than {', '.join(SECTIONS)}"
    summary = found[""].strip().split("\n\n")[0]
    if not summary.endswith((".", "?", "::")) and not summary.endswith(":"):
        yield "has a summary that is no sentence"
    for name in ("Parameters", "Attributes"):
        if name in found and not described(found[name]):
            yield f"has entries under {name} that say nothing"
    yield from (f"has no section {name}" for name in wanted if name not in found)
    if "Examples" in wanted and ">>>" not in found.get("Examples", ">>>"):
        yield "has an example that does not run"


def of_function(function, *, examples):
    """What is wrong with the docstring of a function or method."""
    names, found = parameters_of(function), sections_of(function.__doc__)
    returns = inspect.signature(function).return_annotation not in (None, "None")
    wanted = [
        *(["Parameters"] if names else []),
        *(["Returns"] if returns else []),
        *(["Examples"] if examples else []),
    ]
    yield from of_text(function.__doc__, wanted)
    if "Parameters" in found and entries_of(found["Parameters"]) != names:
        yield f"describes the parameters {entries_of(found['Parameters'])}, but takes {names}"


def of_class(cls):
    """What is wrong with the docstring of a class."""
    found = sections_of(cls.__doc__)
    if dataclasses.is_dataclass(cls) or hasattr(cls, "_fields"):
        yield from of_text(cls.__doc__, ["Attributes", "Examples"])
        missing = [name for name in fields_of(cls) if name not in entries_of(found.get("Attributes"))]
        if missing:
            yield f"does not describe its attributes {missing}"
        return
    if cls.__name__ in RESULTS:
        yield from of_text(cls.__doc__, ["Attributes", "Examples"])
        return
    names = [] if issubclass(cls, (Warning, Exception)) else parameters_of(cls.__init__)
    yield from of_text(cls.__doc__, [*(["Parameters"] if names else []), "Examples"])
    listed = entries_of(found.get("Parameters"))
    aliases = re.findall(r"\(also (\w+)\)", cls.__doc__ or "")
    if names and sorted(listed) != sorted(name for name in names if name not in aliases):
        yield f"describes the parameters {listed}, but takes {names}"


def problems():
    """One line for each rule that a public docstring breaks."""
    lines = []
    for name, thing in public_things():
        found = of_class(thing) if inspect.isclass(thing) else of_function(thing, examples=True)
        lines += [f"{name} {problem}" for problem in found]
        for method, function in methods_of(thing) if inspect.isclass(thing) else ():
            several = len(parameters_of(function)) > 1
            rules = of_function(function, examples=False) if several else of_text(function.__doc__, [])
            lines += [f"{name}.{method} {problem}" for problem in rules]
    return lines


if __name__ == "__main__":
    print("\n".join(problems()))  # noqa: T201
