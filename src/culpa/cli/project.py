"""The project file ``culpa.toml``: tables, columns and settings of a folder, as defaults of the commands' options."""

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from culpa._core.choices import suggestion
from culpa._core.kinds import FEATURES, FLAG, GROUPS, NAMES, TEXTS
from culpa._core.parameter import Parameter
from culpa._core.parameters import DETECTOR
from culpa._core.words import join_list
from culpa.cli import console
from culpa.io.reading import READING

NAME = "culpa.toml"

_LEARNING = ("fit", "calibrate")
_JUDGING = ("score", "explain", "incidents", "report")
_READING_TABLES = (*_LEARNING, *_JUDGING, "compare", "update")

_LIMITS = ("confidence", "limit", "holdout")

in_use: list[Path] = []  # the project file that the command reads, if there is one
_values: dict[str, Any] = {}  # what it sets for the command, by the variable of the option

Defaults = dict[str, dict[str, Any]]  # by command, by the variable of the option
Reader = Callable[[Any, Defaults, Path], None]


def defaults(path: Path) -> Defaults:
    """The defaults of all commands, from a project file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: this is not TOML: {error}.") from None
    except RecursionError:
        raise ValueError(f"{path}: lists or tables are nested too deeply.") from None
    found: Defaults = {command: {} for command in (*_READING_TABLES, "info")}
    _check_keys(content, _READERS, str(path))
    for key, read in _READERS.items():
        if key in content:
            try:
                read(content[key], found, path.parent)
            except (TypeError, AttributeError):
                raise ValueError(
                    f"{path}: {key!r} does not hold what it should. 'culpa init' writes an example."
                ) from None
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
    return found


def begin(context: Any, path: Path | None) -> None:
    """Take the defaults of all commands from a project file, if there is one."""
    in_use.clear()
    _values.clear()
    if path is not None:
        in_use.append(path)
        context.default_map = defaults(path)
        _values.update(context.default_map.get(context.invoked_subcommand, {}))


def with_origin(text: str) -> str:
    """An error about an option, with the project file if that sets the option."""
    for variable in _values:
        name = variable.rstrip("_")
        flag = f"--{name.replace('_', '-')}"
        typed = any(word.partition("=")[0] == flag for word in console.words)
        if not typed and re.search(rf"{flag}(?![\w-])|(?<!\w){name}=", text):
            return f"{text.rstrip('. ')}. {in_use[0]} sets {name}."
    return text


def _check_keys(found: Mapping[str, Any], known: Any, where: str) -> None:
    for key in found:
        if key not in known:
            raise ValueError(f"{where}: unknown key {key!r}{suggestion(key, list(known))}")


def _set(found: Defaults, commands: tuple[str, ...], variable: str, value: Any) -> None:
    for command in commands:
        found[command][variable] = value


def _list(value: Any, what: str) -> list[str]:
    items = value if isinstance(value, list) else [value]
    if any(isinstance(item, (list, dict, bool)) for item in items):
        raise ValueError(f"{what} must be a text or a list of texts.")
    return [str(item) for item in items]


def _text(value: Any, what: str) -> str:
    """A text, a number or a time, as it would stand on the command line."""
    if isinstance(value, (list, dict, bool)):
        raise ValueError(f"{what} must be a text, got {value!r}.")
    return str(value)


def _pair(name: str, value: str, what: str) -> str:
    """A name and a value as 'name=value'."""
    if "=" in (name if what == "group" else value):
        raise ValueError(f"a {what} must not contain '=', got {name if what == 'group' else value!r}.")
    return f"{name}={value}"


def _in_folder(text: str, folder: Path) -> str:
    return text if text == "-" or Path(text).is_absolute() or folder == Path() else str(folder / text)


def _as_option(parameter: Parameter, item: Any, what: str) -> Any:
    """The value of a key as it would stand on the command line."""
    if parameter.kind is FLAG or isinstance(item, bool):
        if parameter.kind is FLAG and isinstance(item, bool):
            return item
        expected = "true or false" if parameter.kind is FLAG else "a value"
        raise ValueError(f"{what} must be {expected}, got {item!r}.")
    if parameter.kind is GROUPS:
        return [_pair(name, join_list(_list(items, f"group {name!r}")), "group") for name, items in item.items()]
    if parameter.kind is TEXTS:
        return _list(item, what)
    if parameter.kind is NAMES:
        return [join_list(_list(item, what)) if isinstance(item, list) else _text(item, what)]
    return join_list(_list(item, what)) if parameter.kind is FEATURES else _text(item, what)


def _described(
    section: str,
    known: Mapping[str, Parameter],
    commands: tuple[str, ...],
    others: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Reader:
    """A section with parameters of the library, for some commands; for ``others``, by parameter, where that differs."""
    names = {each.variable.rstrip("_"): each for each in known.values()}
    flags = {f"no_{name}": name for name, each in names.items() if each.kind is FLAG and each.default}

    def read(value: Any, found: Defaults, folder: Path) -> None:
        _check_keys(value, {**names, **flags}, f"section {section!r}")
        for key, item in value.items():
            each = names[flags.get(key, key)]
            plain = _as_option(each, item, f"'{key}'")
            plain = _in_folder(plain, folder) if each.name == "exclude_file" else plain
            _set(found, others.get(each.name, commands), each.variable, not plain if key in flags else plain)

    return read


def _texts(section: str, keys: Mapping[str, tuple[str, ...]]) -> Reader:
    """A section of texts: the commands that have an option of that name, by key."""

    def read(value: Any, found: Defaults, folder: Path) -> None:
        _check_keys(value, keys, f"section {section!r}")
        for key, item in value.items():
            text = _text(item, f"'{key}'")
            _set(found, keys[key], key, _in_folder(text, folder) if key == "output" else text)

    return read


def _paths(key: str, commands: tuple[str, ...]) -> Reader:
    """A key of the project file that names tables; paths are relative to the file."""
    return lambda value, found, folder: _set(
        found, commands, "table", [_in_folder(item, folder) for item in _list(value, f"'{key}'")]
    )


def _model(value: Any, found: Defaults, folder: Path) -> None:
    path = _in_folder(_text(value, "'model'"), folder)
    _set(found, _LEARNING, "output", path)
    _set(found, (*_JUDGING, "compare", "update", "info"), "model", path)


def _columns(value: Any, found: Defaults, folder: Path) -> None:
    _check_keys(value, ("use", "drop", "id"), "section 'columns'")
    for key, item in value.items():
        names = _list(item, f"'{key}'")
        names = [join_list([name]) for name in names] if isinstance(item, list) else names  # each item is one name
        commands = (*_LEARNING, "score", "explain") if key == "id" else _LEARNING
        _set(found, commands, "columns" if key == "use" else key, names)


def _units(value: Any, found: Defaults, folder: Path) -> None:
    if value:
        units = [_pair(name, _text(unit, f"the unit of {name!r}"), "unit") for name, unit in value.items()]
        _set(found, ("fit",), "unit", units)


def _groups(value: Any, found: Defaults, folder: Path) -> None:
    groups = DETECTOR["groups"]
    _set(found, _LEARNING, groups.variable, _as_option(groups, value, "'groups'"))


_READERS: dict[str, Reader] = {
    "tables": _paths("tables", _LEARNING),
    "new": _paths("new", _JUDGING),
    "model": _model,
    # new rows are of another time
    "reading": _described("reading", READING, _READING_TABLES, {"since": _LEARNING, "until": _LEARNING}),
    "columns": _columns,
    "units": _units,
    "groups": _groups,
    "context": _described("context", {"given": DETECTOR["given"]}, _LEARNING),
    "limits": _described("limits", {name: DETECTOR[name] for name in _LIMITS}, _LEARNING),
    "detector": _described("detector", DETECTOR, _LEARNING, {"smooth": ("fit",)}),
    "incidents": _texts(
        "incidents", dict.fromkeys(("gap", "min_length", "false_incidents", "baseline"), ("incidents", "report"))
    ),
    "report": _texts("report", dict.fromkeys(("output", "title"), ("report",))),
}
