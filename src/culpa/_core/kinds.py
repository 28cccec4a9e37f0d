"""Kinds of parameter values: each knows its description, and which values it accepts. NumPy's scalars count as numbers."""

import codecs
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NoReturn

from culpa._core.choices import short, suggestion, unknown

_TOO_LARGE = 1 << 62  # whole numbers beyond do not fit where they are used


@dataclass(frozen=True)
class Kind:
    """What values a parameter takes: in words that are read after "must be", and as a test.

    ``names`` are texts to choose from, ``parts`` the kinds of which a value may be any, ``item`` is the kind of items of
    a list, and ``of`` the type of values on the command line.
    """

    words: str
    accepts: Callable[[Any], bool]
    names: tuple[str, ...] = ()
    parts: tuple["Kind", ...] = ()
    of: Any = str
    item: "Kind | None" = None

    def check(self, value: object, argument: str) -> None:
        """Raise a ValueError that names the argument if the value is not of this kind."""
        if not self.accepts(value):
            self.refuse(value, argument)

    def refuse(self, value: object, argument: str, *, or_none: bool = False) -> NoReturn:
        """The error for a value that is not of this kind, which suggests the nearest name."""
        if self.names and not self.parts:
            unknown(value, self.names, argument)
        near = suggestion(value, self.names) if isinstance(value, str) else ""
        raise ValueError(f"{argument} must be {self.words}{', or None' * or_none}, got {short(value)}{near or '.'}")


def number(
    *,
    above: float = -math.inf,
    below: float = math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
    note: str = "",
) -> Kind:
    """A finite number between bounds: ``above`` and ``below`` are excluded, ``at_least`` and ``at_most`` included.

    >>> number(at_least=0, below=1).words
    'a number of at least 0 and below 1'
    """
    bounds = {"above": above, "of at least": at_least, "below": below, "of at most": at_most}
    finite = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if math.isfinite(bound))
    if math.isfinite(at_least) and math.isfinite(at_most):
        finite = f"from {at_least:g} to {at_most:g}"

    def accepts(value: Any) -> bool:  # comparisons are false for NaN, and work for whole numbers of any size
        if not isinstance(value, Real) or isinstance(value, bool):
            return False
        given: Any = value
        return bool(above < given < below and at_least <= given <= at_most)

    return Kind(_noted(f"a number {finite}".strip(), note), accepts, of=float)


def whole(at_least: int | None, note: str = "") -> Kind:
    """A whole number of at least so much; any but 0 without a bound. True and False are not numbers here."""

    def accepts(value: Any) -> bool:
        if not isinstance(value, Integral) or isinstance(value, bool) or not abs(int(value)) < _TOO_LARGE:
            return False
        return int(value) != 0 if at_least is None else int(value) >= at_least

    bound = "other than 0" if at_least is None else f"of at least {at_least}"
    return Kind(_noted(f"a whole number {bound}", note), accepts, of=int)


def _noted(words: str, note: str) -> str:
    return f"{words} ({note})" if note else words


def choice(names: Iterable[str]) -> Kind:
    """One of some names. Only text is looked up: a list is not hashable, and an array compares cell by cell."""
    names = tuple(names)
    quoted = ", ".join(f'"{name}"' for name in names)
    words = f"one of {quoted}" if len(names) > 1 else quoted
    return Kind(words, lambda value: isinstance(value, str) and value in names, names)


def any_of(*parts: Kind) -> Kind:
    """A value of any of several kinds."""
    *others, last = (kind.words for kind in parts)
    names = tuple(name for kind in parts for name in kind.names)
    return Kind(f"{', '.join(others)} or {last}", lambda value: any(k.accepts(value) for k in parts), names, parts)


def text(longest: int) -> Kind:
    """Text with something in it, and at most so many characters."""
    words = f"text of 1 to {longest} characters"
    return Kind(words, lambda value: isinstance(value, str) and bool(value.strip()) and len(value) <= longest)


def list_of(kind: Kind, words: str) -> Kind:
    """A list whose items are of one kind."""
    return Kind(words, lambda value: _is_list(value) and all(map(kind.accepts, value)), of=list[str], item=kind)


def anything(words: str) -> Kind:
    """A kind that is not checked here, because the function that uses the value checks it."""
    return Kind(words, lambda value: True)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _are_features(value: Any) -> bool:
    if isinstance(value, str):
        return True
    try:
        return not isinstance(value, Mapping) and all(
            isinstance(item, (str, Integral)) and not isinstance(item, bool) for item in value
        )
    except TypeError:
        return False


def _are_groups(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and _are_features(members) for name, members in value.items()
    )


def _are_chains(value: Any) -> bool:
    return _is_list(value) and all(_is_list(chain) and len(chain) > 1 and _are_features(chain) for chain in value)


def top_of(value: object) -> int | None:
    """The k of a text such as "top3"; ``None`` for anything else."""
    if not isinstance(value, str) or not value.startswith("top"):
        return None
    digits = value.removeprefix("top")
    return int(digits) if digits.isdecimal() and digits.isascii() and 0 < int(digits) < 1000 else None


def _is_mark(value: object) -> bool:
    return isinstance(value, str) and (len(value.encode()) == 1 or value in ("\u00a0", "\u202f", "’"))


def _is_codec(value: object) -> bool:
    """Whether an encoding is one of texts, unlike rot13."""
    try:
        with suppress(UnicodeError):
            b"a".decode(str(value))
        codecs.lookup(str(value))
        codecs.getincrementaldecoder(str(value))
    except (LookupError, ValueError):
        return False
    return isinstance(value, str)


FLAG = Kind(
    "True or False", lambda value: isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"), of=bool
)
FRACTION = number(above=0, below=1, note="0.99 means 99%")
SHARE = number(at_least=0, at_most=1)
POSITIVE = number(above=0)
NOT_NEGATIVE = number(at_least=0)
TEXT = Kind("text", lambda value: isinstance(value, str))
TOP = Kind('"top1", "top2", "top3" and so on', lambda value: top_of(value) is not None)
FEATURES = Kind("a list of names or positions of features", _are_features)
GROUPS = Kind("a dict of group name to list of features", _are_groups, of=list[str])
CHAINS = Kind("a list of chains of two names or more, such as [('feed', 'reactor')]", _are_chains, of=list[str])
FUNCTION = Kind("a function", callable)
MARK = Kind("a single ASCII character", _is_mark)
CODEC = Kind("a text encoding such as utf-8 or cp1252", _is_codec)
TEXTS = list_of(TEXT, "a list of texts")
NAMES = list_of(TEXT, "a list of names")
