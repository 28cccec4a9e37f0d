"""From blocks of options to a command: typer needs a flat signature, so blocks are expanded into one.

A command takes ordinary options, blocks of options (dataclasses with a typer option for each field, in its type or its
metadata) and parameters of the library (``Annotated[dict[str, Any], Described(...)]``), whose options, help and checks come
from `culpa._core.parameters`.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from culpa._core.kinds import CHAINS, FEATURES, FLAG, GROUPS, NAMES, TEXTS, any_of, choice
from culpa._core.parameter import Parameter, Parameters
from culpa._core.words import split_list
from culpa.cli.console import guarded

OPTION = "option"  # where the metadata of a field of a block keep its typer option
Flat = dict[str, inspect.Parameter]  # options of the command line by the name of their variable


@dataclass(frozen=True)
class Described:
    """Parameters of the library as options: all of a set, or those with the given names."""

    parameters: Parameters
    names: tuple[str, ...] = ()
    panel: str | None = None

    def chosen(self) -> list[Parameter]:
        """The parameters, as the command line takes them."""
        return [_in_batches(self.parameters[name]) for name in self.names or self.parameters]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Expand the blocks of a command into one flat signature, and turn user errors into one sentence."""
    flat: Flat = {}
    builders: dict[str, Callable[[Mapping[str, Any]], Any]] = {}
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        options, builders[name] = _expand(name, hints[name], parameter.default)
        if twice := options.keys() & flat.keys():
            raise TypeError(f"{function.__name__} has the option {min(twice)!r} twice.")
        flat |= options

    def run(**given: Any) -> None:
        with guarded():
            function(**{name: build(given) for name, build in builders.items()})

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__annotations__ = {name: option.annotation for name, option in flat.items()}
    run.__signature__ = inspect.Signature(list(flat.values()))  # type: ignore[attr-defined]
    return run


def _expand(name: str, hint: Any, default: Any) -> tuple[Flat, Callable[[Mapping[str, Any]], Any]]:
    """The options behind one argument of a command, and how to build the argument from their values."""
    described = [item for item in get_args(hint)[1:] if isinstance(item, Described)] if _is_annotated(hint) else []
    if described:
        parameters, panel = described[0].chosen(), described[0].panel
        options = {parameter.variable: _option_of(parameter, panel) for parameter in parameters}
        return options, lambda given: {parameter.name: _value(parameter, given) for parameter in parameters}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _expand_block(hint)
    return {name: _option(name, hint, default)}, lambda given: given[name]


def _expand_block(block: Any) -> tuple[Flat, Callable[[Mapping[str, Any]], Any]]:
    """The options of a block; those that its ``described`` names are parameters of the library."""
    described: Described = getattr(block, "described", Described(Parameters("", [])))
    known = {parameter.name: parameter for parameter in described.chosen()}
    types = get_type_hints(block, include_extras=True)
    own = [
        field
        for field in dataclasses.fields(block)
        if field.name not in known and (OPTION in field.metadata or _is_annotated(types[field.name]))
    ]
    options = {parameter.variable: _option_of(parameter, described.panel) for parameter in known.values()}
    options |= {field.name: _option_in(field, types[field.name]) for field in own}

    def build(given: Mapping[str, Any]) -> Any:
        values = {name: _value(parameter, given) for name, parameter in known.items()}
        return block(**values, **{field.name: given[field.name] for field in own})

    return options, build


def _is_annotated(hint: Any) -> bool:
    return get_origin(hint) is Annotated


def _option(name: str, hint: Any, default: Any) -> inspect.Parameter:
    # keyword-only, so that an option with a default may precede one without
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _option_in(field: "dataclasses.Field[Any]", hint: Any) -> inspect.Parameter:
    """A field of a block as an option: the field describes it, or its type."""
    described = Annotated[hint, field.metadata[OPTION]] if OPTION in field.metadata else hint
    default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
    return _option(field.name, described, default)


def _option_of(parameter: Parameter, panel: str | None) -> inspect.Parameter:
    """A parameter of the library as an option of the command line."""
    kind, help = parameter.kind, parameter.help
    names = list(kind.names)
    if len(names) == 1 and kind.parts:
        help = f"{help.rstrip('.')}, or '{names[0]}'."
    elif len(names) == 1:
        help = f"{help} The only choice is '{names[0]}'."
    elif names:
        help = f"{help.rstrip('.')}: {', '.join(names[:-1])} or {names[-1]}."
    if kind is FEATURES:
        help = f"{help} Write the columns as 'a,b'."
    if kind is GROUPS:
        help = f"{help.rstrip('.')}, as 'name=a,b'. Repeatable."
    if kind is TEXTS or (kind.item and kind is not NAMES):
        help = f"{help} Repeatable."
    if kind is CHAINS:
        help = f"{help.partition(', such as')[0]}, as 'feed:reactor:product'. Separate chains by commas. Repeatable."
    both = kind is FLAG and parameter.default  # there is --no-..., too
    info = typer.Option(
        *([] if both else [parameter.flag]),
        help=help,
        show_default=parameter.shown or (",".join(map(str, parameter.default or ())) if kind.item else True),
        rich_help_panel=panel,
        autocompletion=(lambda: names) if names else None,
    )
    as_text = kind.parts and parameter.default is not None
    default = str(parameter.default) if as_text else None if kind.item else parameter.default
    type_of_value: Any = kind.of | None if default is None else kind.of
    return _option(parameter.variable, Annotated[type_of_value, info], default)


def _value(parameter: Parameter, given: Mapping[str, Any]) -> Any:
    """The checked value of an option."""
    value = given[parameter.variable]
    if parameter.kind.parts:
        value = None if value is None else _number(value)
    elif parameter.kind is FEATURES and value is not None:
        value = [name for name in split_list(value) if name]
    elif parameter.kind is TEXTS:
        value = tuple(value or ())
    elif parameter.kind is NAMES:
        value = tuple(name for text in value or () for name in split_list(text))
    elif parameter.kind is GROUPS:
        value = _groups(value or [], parameter.flag) or None
    elif (item := parameter.kind.item) is not None:
        value = [_number(each) if item.of is int else each for text in value or () for each in split_list(text)]
        for each in value:
            item.check(each, parameter.flag)
        value = list(dict.fromkeys(value)) or parameter.default
    if parameter.kind is not CHAINS:  # which names of columns take apart
        dataclasses.replace(parameter, name=parameter.flag).check(value)
    return value


def _groups(given: list[str], flag: str) -> dict[str, list[str]]:
    """Groups given as "name=a,b"; a group may be given in several parts."""
    groups: dict[str, list[str]] = {}
    for text in given:
        name, _, members = text.partition("=")
        features = [member for member in split_list(members) if member]
        if not name.strip() or not features:
            raise ValueError(f"{flag} must be 'name=a,b', where a and b are columns to learn from, got {text!r}.")
        groups.setdefault(name.strip(), []).extend(features)
    return groups


def _number(text: str) -> int | float | str:
    """A whole number, a number, or the text itself."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            pass
    return text


def _in_batches(parameter: Parameter) -> Parameter:
    """A parameter without the value "mle", which needs all rows in memory: commands read in batches."""
    if "mle" not in parameter.kind.names:
        return parameter
    kinds = [
        choice(name for name in kind.names if name != "mle") if kind.names else kind for kind in parameter.kind.parts
    ]
    return dataclasses.replace(parameter, kind=any_of(*kinds))
