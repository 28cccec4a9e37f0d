"""How to read a table: everything that the file itself does not say."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from culpa.io.tables.lines import make_decoder
from culpa.io.tables.table import TableError

# what a model file keeps, so that later commands read tables in the same way
REMEMBERED = (
    "delimiter",
    "decimal",
    "thousands",
    "encoding",
    "header_rows",
    "names",
    "sheet",
    "missing",
    "long",
    "every",
    "good",
    "hold",
)
UNIT_OF = "unit of "  # and a column: what its table says, if the user said something else


@dataclass(frozen=True)
class Options:
    """Options of readers. ``hints`` are decisions about earlier tables, which settle what would be asked otherwise."""

    format: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ()  # texts and numbers that mean a missing cell, in addition to NA, null and so on
    strict: bool = False
    sparse: bool = False
    skip_ragged: bool = False
    thousands: str | None = None
    header_rows: int | None = None  # counted by itself
    names: tuple[str, ...] = ()
    sheet: str | None = None
    time: str | None = None  # column of the times, "none" for none; found by itself
    time_format: str | None = None
    long: tuple[str, ...] = ()  # columns of tag, time, value and quality
    every: str | None = None
    good: tuple[str, ...] = ()  # qualities of good readings
    hold: str | None = None
    hints: Mapping[str, Any] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)  # of the columns of an earlier table

    def __post_init__(self) -> None:
        """Check options wherever they come from: the command line, a project file or a model file."""
        for name in ("delimiter", "decimal", "thousands"):
            one_character(getattr(self, name), f"--{name}")
        make_decoder(self.encoding)
        if self.header_rows is not None and self.header_rows < 0:
            raise TableError(f"--header-rows must be at least 0, got {self.header_rows}.")
        if self.long and len(self.long) not in (3, 4):
            raise TableError("--long needs the columns of tag, time, value and, if there is one, quality.")

    def remembered(self) -> dict[str, Any]:
        """What is worth keeping in a model file: options that were given, as plain values."""
        default = Options()
        kept = {name: getattr(self, name) for name in REMEMBERED if getattr(self, name) != getattr(default, name)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}

    def after(self, memory: Mapping[str, Any]) -> "Options":
        """These options, completed by those of an earlier table; missing codes add up."""
        default, known = Options(), {item.name for item in fields(Options)}
        hints = dict(memory.get("detected", {}))
        own = {key.removeprefix(UNIT_OF): unit for key, unit in hints.items() if key.startswith(UNIT_OF)}
        changes: dict[str, Any] = {"hints": hints, "units": {**memory.get("units", {}), **own}}
        for name in REMEMBERED:
            if name not in memory or name not in known:
                continue
            value = tuple(memory[name]) if isinstance(memory[name], list) else memory[name]
            if name == "missing":
                changes[name] = tuple(dict.fromkeys((*self.missing, *value)))
            elif getattr(self, name) == getattr(default, name):
                changes[name] = value
        return replace(self, **changes)


def is_memory(memory: Any) -> bool:
    """Whether a model file holds reading options of the right types."""
    if not isinstance(memory, dict):
        return False
    texts = all(isinstance(memory.get(name, ""), str) for name in REMEMBERED if name not in (*_LISTS, "header_rows"))
    lists = all(_is_list(memory.get(name, [])) for name in _LISTS)
    rows = memory.get("header_rows", 1)
    detected = memory.get("detected", {})
    plain = isinstance(detected, dict) and all(isinstance(value, str) for value in detected.values())
    known = set(memory) <= {*REMEMBERED, "detected"}
    return texts and lists and plain and known and isinstance(rows, int) and not isinstance(rows, bool) and rows >= 0


_LISTS = ("names", "missing", "long", "good")


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def one_character(mark: str | None, option: str) -> None:
    """Refuse marks that are not a single character."""
    if mark is not None and len(mark.encode()) != 1 and mark not in ("\u00a0", "\u202f", "’"):
        raise TableError(f"{option} must be a single ASCII character, got {mark!r}.")
