"""What a parameter is: name, kind of values, default and help, with its checks, and how functions use a set of them."""

import functools
import inspect
import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

from culpa._core.choices import suggestion
from culpa._core.kinds import FLAG, Kind, choice

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Parameter:
    """A parameter: its name, the kind of its values, its default, one line of help, and more for the documentation.

    With ``optional``, ``None`` is a value, too. ``alias`` is a second name that other libraries use for it; the default
    in signatures is ``None`` then, so that giving both names is noticed. ``option`` is its name on the command line,
    where that differs, and ``shown`` is what help says there about a default that says nothing.
    """

    name: str
    kind: Kind
    default: Any
    help: str
    more: str = ""
    optional: bool = False
    alias: str = ""
    option: str = ""
    shown: str = ""

    @property
    def flag(self) -> str:
        """Its name on the command line, with dashes."""
        return f"--{(self.option or self.name).replace('_', '-')}"

    @property
    def variable(self) -> str:
        """Its name as that of a variable, as project files and signatures of commands have it."""
        name = self.flag[2:].replace("-", "_")
        return f"{name}_" if keyword.iskeyword(name) else name

    @property
    def values(self) -> str:
        """What values it takes, in words."""
        return f"{self.kind.words}, or None" if self.optional else self.kind.words

    def check(self, value: object) -> None:
        """Raise a ValueError that names the parameter if it does not take this value."""
        if not (value is None and self.optional) and not self.kind.accepts(value):
            self.kind.refuse(value, self.name, or_none=self.optional)

    def either(self, value: Any, other: Any) -> Any:
        """The value given under the name or under the alias, or the default; both may be given if they agree."""
        if value is not None and other is not None and value != other:
            raise ValueError(
                f"{self.name}={value!r} and {self.alias}={other!r} are two names for the same parameter. "
                "Pass only one of them."
            )
        return next((given for given in (value, other) if given is not None), self.default)


def value(kind: Kind | None = None, default: Any = None, **more: Any) -> Any:
    """The values that a parameter takes, as a field of a dataclass or in an annotation; see `Parameter`.

    Flags and names to choose from need no ``kind``: the type says it. ``None`` in the type makes a parameter optional.
    """
    return field(default=default, metadata={"kind": kind, "default": default, **more})


class Parameters(Mapping[str, Parameter]):
    """The parameters of one thing, by name."""

    def __init__(self, owner: str, parameters: Iterable[Parameter]) -> None:
        self.owner = owner
        self._by_name = {parameter.name: parameter for parameter in parameters}

    @classmethod
    def of(cls, owner: str, *described: type) -> "Parameters":
        """From classes with a `value` for each parameter: dataclasses, or typed dictionaries that have it in annotations.

        Their docstrings, and those of their bases, have one entry per parameter: the name, then an indented line of help,
        then paragraphs with more.

        >>> from culpa._core.kinds import POSITIVE
        >>> class Described(dict):
        ...     \"\"\"Parameters of a pump.
        ...
        ...     speed
        ...         Revolutions per minute.
        ...
        ...         Slow pumps last longer.
        ...     \"\"\"
        ...
        ...     speed: float = value(POSITIVE, 60.0)
        >>> speed = Parameters.of("Pump", Described)["speed"]
        >>> speed.help, speed.more, speed.default
        ('Revolutions per minute.', 'Slow pumps last longer.', 60.0)
        """
        classes = [base for each in described for base in each.__mro__ if base is not object]
        text = "\n".join(inspect.cleandoc(base.__doc__ or "") for base in classes)  # python -OO has none
        entries = dict(re.findall(r"^(\w+)\n((?:(?: .*)?\n?)+)", text, re.MULTILINE))
        found = {name: known for each in described for name, known in _described_in(each)}
        order = [name for name in entries if name in found] or list(found)
        return cls(owner, [_explained(name, found[name], entries.get(name, "")) for name in order])

    def __getitem__(self, name: str) -> Parameter:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    @functools.cached_property
    def keywords(self) -> list[str]:
        """All names, aliases included."""
        return [name for each in self.values() for name in (each.name, each.alias) if name]

    def check(self, values: Mapping[str, object]) -> None:
        """Raise a ValueError for the first parameter among the values that is not acceptable."""
        for name, value in values.items():
            self[name].check(value)

    def changed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values that are not defaults."""
        return {name: value for name, value in values.items() if value != self[name].default}

    def without_aliases(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options with every alias replaced by the parameter's name."""
        result = dict(options)
        for each in self.values():
            if each.alias in result:
                result[each.name] = each.either(result.get(each.name), result.pop(each.alias))
        return result

    def completed(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters: those given, which are checked, and the others at their defaults."""
        check_keywords(options, self.keywords, self.owner)
        given = self.without_aliases(options)
        found = {name: given.get(name, each.default) for name, each in self.items()}
        found |= {name: each.either(found[name], None) for name, each in self.items() if each.alias}
        self.check(found)
        return found


def _described_in(described: type) -> Iterator[tuple[str, dict[str, Any]]]:
    """Parameters of a class, with what their types and values say."""
    for name, hint in get_type_hints(described, include_extras=True).items():
        held = getattr(described, "__dataclass_fields__", vars(described)).get(name)
        known = next((each for each in (held, *getattr(hint, "__metadata__", ())) if isinstance(each, Field)), None)
        if known is not None and known.metadata:
            plain = getattr(hint, "__origin__", hint) if hasattr(hint, "__metadata__") else hint
            found = dict(known.metadata)
            found["kind"] = found["kind"] or _kind_of(plain)
            yield name, {"optional": type(None) in get_args(plain), **found}


def _kind_of(hint: Any) -> Kind:
    """What a type says: a flag, or names to choose from."""
    literal = next((each for each in (hint, *get_args(hint)) if get_origin(each) is Literal), None)
    return FLAG if literal is None else choice(get_args(literal))


def _explained(name: str, known: Mapping[str, Any], entry: str) -> Parameter:
    first, *others = (" ".join(paragraph.split()) for paragraph in entry.strip().split("\n\n"))
    return Parameter(name, help=first, more=" ".join(others), **known)


def check_keywords(given: Iterable[str], known: Iterable[str], owner: str) -> None:
    """Raise a TypeError for a keyword that is not known, with the nearest that is."""
    known = list(known)
    for name in given:
        if name not in known:
            raise TypeError(f"{owner} has no parameter {name!r}{suggestion(name, known) or '.'}")


def known_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """A function or constructor that suggests the nearest keyword where an unknown one is given."""
    names = list(inspect.signature(function).parameters)
    owner = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        check_keywords(kwargs, names, owner)
        return function(*args, **kwargs)

    return checked


def signed(parameters: Parameters, *first: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Show parameters in the signature of a function that takes them as keywords; those in ``first`` have positions."""

    def sign(function: Callable[P, R]) -> Callable[P, R]:
        known = [each for each in inspect.signature(function).parameters.values() if each.kind is not each.VAR_KEYWORD]
        names = [name for name in parameters.keywords if name not in first]
        default = {each.name: None if each.alias else each.default for each in parameters.values()}
        known += [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=default.get(n)) for n in names]
        function.__signature__ = inspect.Signature(known)  # type: ignore[attr-defined]
        return function

    return sign


def keeps(settings: Callable[P, object]) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """A constructor that takes what a dataclass takes, and keeps each value under its name, as scikit-learn asks."""
    signature = inspect.signature(settings)

    def of(constructor: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        @functools.wraps(constructor)
        def keep(self: Any, /, *args: P.args, **given: P.kwargs) -> None:
            check_keywords(given, signature.parameters, type(self).__name__)
            bound = signature.bind(*args, **given)
            bound.apply_defaults()
            vars(self).update(bound.arguments)

        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        keep.__signature__ = inspect.Signature([own, *signature.parameters.values()])  # type: ignore[attr-defined]
        return keep

    return of


def documented(parameters: Parameters) -> Callable[[R], R]:
    """Put the description of the parameters into a docstring, where a line ``{parameters}`` stands."""

    def fill(documented: R) -> R:
        if documented.__doc__ is not None:  # python -OO has none
            documented.__doc__ = documented.__doc__.replace("    {parameters}\n", _as_docstring(parameters))
        return documented

    return fill


def _as_docstring(parameters: Parameters) -> str:
    lines = []
    for each in parameters.values():
        also = f" (also {each.alias})" if each.alias else ""
        lines.append(f"    {each.name} : {each.values}; default {each.default!r}{also}\n")
        lines.append(f"        {' '.join((each.help, each.more)).strip()}\n")
    return "".join(lines)
