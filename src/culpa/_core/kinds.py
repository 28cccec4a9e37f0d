"""Kinds of parameter values: each knows its description, and which values it accepts. NumPy's scalars count as numbers."""

import codecs
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NoReturn

from culpa._core.choices import short, suggestion, unknown

_TOO_LARGE = 1 << 62  # whole numbers beyond do not fit where they are used


class Kind(ABC):
    """What values a parameter takes."""

    @property
    @abstractmethod
    def description(self) -> str:
        """What a value must be, to be read after "must be"."""

    @abstractmethod
    def accepts(self, value: object) -> bool:
        """Whether ``value`` is of this kind."""

    def check(self, value: object, argument: str) -> None:
        """Raise a ValueError that names the argument if the value is not of this kind."""
        if not self.accepts(value):
            self.refuse(value, argument)

    def refuse(self, value: object, argument: str, *, or_none: bool = False) -> NoReturn:
        """The error for a value that is not of this kind."""
        raise ValueError(f"{argument} must be {self.description}{', or None' * or_none}, got {short(value)}.")


@dataclass(frozen=True)
class Number(Kind):
    """A finite number between bounds: ``above`` and ``below`` are excluded, ``at_least`` and ``at_most`` included."""

    above: float = -math.inf
    below: float = math.inf
    at_least: float = -math.inf
    at_most: float = math.inf
    note: str = ""

    @property
    def description(self) -> str:
        """The bounds in words."""
        if math.isfinite(self.at_least) and math.isfinite(self.at_most):
            return f"a number from {self.at_least:g} to {self.at_most:g}"
        bounds = {"above": self.above, "of at least": self.at_least, "below": self.below, "of at most": self.at_most}
        finite = [f"{word} {bound:g}" for word, bound in bounds.items() if math.isfinite(bound)]
        words = " ".join(["a number", " and ".join(finite)]).strip()
        return f"{words} ({self.note})" if self.note else words

    def accepts(self, value: object) -> bool:
        """Comparisons are false for NaN, and work for whole numbers of any size."""
        if not isinstance(value, Real) or isinstance(value, bool):
            return False
        number: Any = value  # the tower of numbers has no comparison with float in its types
        return bool(self.above < number < self.below and self.at_least <= number <= self.at_most)


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number of at least ``at_least``; without it, any but 0."""

    at_least: int | None = 0
    note: str = ""

    @property
    def description(self) -> str:
        """The bound in words."""
        words = "other than 0" if self.at_least is None else f"of at least {self.at_least}"
        return f"a whole number {words} ({self.note})" if self.note else f"a whole number {words}"

    def accepts(self, value: object) -> bool:
        """True and False are not numbers here."""
        if not isinstance(value, Integral) or isinstance(value, bool):
            return False
        number = int(value)
        return abs(number) < _TOO_LARGE and (number != 0 if self.at_least is None else number >= self.at_least)


@dataclass(frozen=True)
class Flag(Kind):
    """True or False."""

    @property
    def description(self) -> str:
        """Both values."""
        return "True or False"

    def accepts(self, value: object) -> bool:
        """NumPy's booleans, too."""
        return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


@dataclass(frozen=True)
class Choice(Kind):
    """One of some names."""

    names: Sequence[str]

    @property
    def description(self) -> str:
        """All names."""
        quoted = [f'"{name}"' for name in self.names]
        return f"one of {', '.join(quoted)}" if len(quoted) > 1 else quoted[0]

    def accepts(self, value: object) -> bool:
        """Only text is looked up: a list is not hashable, and an array compares cell by cell."""
        return isinstance(value, str) and value in self.names

    def refuse(self, value: object, argument: str, *, or_none: bool = False) -> NoReturn:
        """The error lists the names and suggests the nearest."""
        unknown(value, self.names, argument)


@dataclass(frozen=True)
class Text(Kind):
    """Text; with something in it, if it must not be longer than so many characters."""

    longest: int | None = None

    @property
    def description(self) -> str:
        """How long it may be."""
        return "text" if self.longest is None else f"text of 1 to {self.longest} characters"

    def accepts(self, value: object) -> bool:
        """Blanks alone are not a word."""
        if self.longest is None or not isinstance(value, str):
            return isinstance(value, str)
        return bool(value.strip()) and len(value) <= self.longest


@dataclass(frozen=True)
class AnyOf(Kind):
    """A value of any of several kinds."""

    kinds: Sequence[Kind]

    @property
    def description(self) -> str:
        """All of them."""
        *others, last = (kind.description for kind in self.kinds)
        return f"{', '.join(others)} or {last}"

    def accepts(self, value: object) -> bool:
        """One kind is enough."""
        return any(kind.accepts(value) for kind in self.kinds)

    def refuse(self, value: object, argument: str, *, or_none: bool = False) -> NoReturn:
        """The error suggests the nearest name where text was given."""
        names = [name for kind in self.kinds if isinstance(kind, Choice) for name in kind.names]
        near = suggestion(value, names) if isinstance(value, str) else ""
        raise ValueError(
            f"{argument} must be {self.description}{', or None' * or_none}, got {short(value)}{near or '.'}"
        )


@dataclass(frozen=True)
class Checked(Kind):
    """Anything that a function accepts."""

    words: str
    function: Callable[[Any], bool]

    @property
    def description(self) -> str:
        """As given."""
        return self.words

    def accepts(self, value: object) -> bool:
        """What the function says."""
        return self.function(value)


def _are_features(value: Any) -> bool:
    if isinstance(value, str):
        return True
    try:
        return not isinstance(value, Mapping) and all(_is_feature(item) for item in value)
    except TypeError:
        return False


def _is_feature(value: object) -> bool:
    return isinstance(value, (str, Integral)) and not isinstance(value, bool)


def _are_groups(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and _are_features(members) for name, members in value.items()
    )


def _are_chains(value: Any) -> bool:
    def is_list(item: object) -> bool:
        return isinstance(item, Sequence) and not isinstance(item, str)

    return is_list(value) and all(is_list(chain) and len(chain) > 1 and _are_features(chain) for chain in value)


def _list_of(kind: Kind) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, Sequence) and not isinstance(value, str) and all(map(kind.accepts, value))


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


FRACTION = Number(above=0, below=1, note="0.99 means 99%")
SHARE = Number(at_least=0, at_most=1)
POSITIVE = Number(above=0)
NOT_NEGATIVE = Number(at_least=0)
TOP = Checked('"top1", "top2", "top3" and so on', lambda value: top_of(value) is not None)
FEATURES = Checked("a list of names or positions of features", _are_features)
GROUPS = Checked("a dict of group name to list of features", _are_groups)
CHAINS = Checked("a list of chains of two names or more, such as [('feed', 'reactor')]", _are_chains)
FUNCTION = Checked("a function", callable)
MARK = Checked("a single ASCII character", _is_mark)
CODEC = Checked("a text encoding such as utf-8 or cp1252", _is_codec)
TEXTS = Checked("a list of texts", _list_of(Text()))
NAMES = Checked("a list of names", _list_of(Text()))


def anything(words: str) -> Kind:
    """A kind that is not checked here, because the function that uses the value checks it."""
    return Checked(words, lambda value: True)


def list_of(kind: Kind, words: str) -> Kind:
    """A list whose items are of one kind."""
    return Checked(words, _list_of(kind))
