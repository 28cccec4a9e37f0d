"""A table in a file, with a witness: a reading of the file that shares no code with culpa."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

NAMES = ["a", "b", "c"]
NULLS = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA"} | {
    *("NULL", "NaN", "n/a", "nan", "null", "Bad Input", "Bad", "No Data", "#NV"),
}  # some of the texts that the manual calls missing
MISSING = ["", "", "", "NA", "NaN", "null", "Bad Input", "#N/A", "No Data"]  # as plants write missing cells


class Unreadable(Exception):
    """What the witness says about a file that must not be answered."""


@dataclass
class Reading:
    """The rows of a file: features, labels, and positions, where these are known."""

    X: Any
    ids: list[str] | None = None
    rows: list[int] | None = None


@dataclass
class Case:
    """``witness`` returns a `Reading`, ``None`` where any answer will do, or raises `Unreadable`."""

    name: str
    content: bytes
    witness: Callable[[], Reading | None]
    witness_of_damage: Callable[[], Reading | None] = lambda: None
    options: list[str] = field(default_factory=list)
    ids: bool = False
    may_be_piped: bool = False
    must_be_read: bool = False
