"""How to read a table: everything that the file itself does not say.

The options of the command line, of project files and of model files are made from the one description below, and checked in
the same way. This module imports neither NumPy nor pyarrow, so that ``culpa --help`` stays fast.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from culpa._core.choices import INPUT_FORMATS
from culpa._core.kinds import CODEC, FLAG, MARK, NAMES, TEXT, TEXTS, choice, whole
from culpa._core.parameter import Parameters, value

# what a model file keeps, so that later commands read tables in the same way
_REMEMBERED = (
    *("delimiter", "decimal", "thousands", "encoding", "header_rows", "names", "sheet", "missing"),
    *("long", "every", "good", "hold"),
)
_DETECTED = "detected"  # decisions about the training table, beside them
UNIT_OF = "unit of "  # and a column: what its table says, if the user said something else


class TableError(ValueError):
    """What is wrong with a table, in one sentence that names file, column and row."""


@dataclass(frozen=True)
class Options:
    """Options of readers. ``hints`` are decisions about earlier tables, which settle what would be asked otherwise.

    ``units`` are those of the columns of an earlier table.

    format
        Override the file extension
    time
        Column with the times of the rows, in ascending order; 'none' for none.
    time_format
        How times are written: dmy, mdy, ymd, iso, s or ms since 1970, or a pattern such as '%d.%m.%Y %H:%M'.
    missing
        Value that means a missing cell, in addition to 'NA', 'Bad Input' and similar texts: a number such as -9999, or a
        text.
    delimiter
        CSV: field delimiter; '\\t' for a tab, ' ' for blanks.
    decimal
        CSV: decimal mark, '.' or ','.
    thousands
        CSV: character that groups thousands.
    encoding
        CSV: text encoding.
    header_rows
        CSV, Excel: number of header rows.
    names
        CSV, Excel: names of all columns, as 'a,b,c', if there is no header.
    sheet
        Excel: name of the sheet.
    long
        The table has one reading per line: its columns of tag, time, value and (optional) quality, as
        'tag,time,value,quality'.
    every
        Long tables: average the readings of each interval, such as '1min'.
    hold
        Long tables: a reading stays valid for so long, such as '10min', until the next one.
    good
        Long tables: quality of good readings; others are missing.
    strict
        NDJSON: stop at a line that cannot be read.
    sparse
        NDJSON: treat absent fields as missing cells.
    skip_ragged
        CSV: skip rows with another number of cells than the header.
    since
        Read rows from this time on.
    until
        Read rows up to this time; a day is included.
    exclude
        Leave out a period, as 'START/END', or a day.
    exclude_file
        Leave out the periods in a table of their beginnings and ends.
    """

    format: str | None = value(
        choice(INPUT_FORMATS), None, optional=True, option="input-format", shown="file extension; '-' by its first line"
    )
    time: str | None = value(TEXT, None, optional=True, shown="found, or the model's")
    time_format: str | None = value(TEXT, None, optional=True, shown="recognised")
    missing: tuple[str, ...] = value(TEXTS, ())
    delimiter: str | None = value(MARK, None, optional=True, shown="detected")
    decimal: str | None = value(MARK, None, optional=True, shown="detected")
    thousands: str | None = value(MARK, None, optional=True, shown="detected")
    encoding: str = value(CODEC, "utf-8")
    header_rows: int | None = value(whole(0), None, optional=True, shown="counted")
    names: tuple[str, ...] = value(NAMES, ())
    sheet: str | None = value(TEXT, None, optional=True, shown="the first")
    long: tuple[str, ...] = value(NAMES, ())
    every: str | None = value(TEXT, None, optional=True, shown="one row per time")
    hold: str | None = value(TEXT, None, optional=True, shown="its own interval")
    good: tuple[str, ...] = value(TEXTS, (), shown="'Good' and similar")
    strict: bool = value(FLAG, False)
    sparse: bool = value(FLAG, False)
    skip_ragged: bool = value(FLAG, False)
    since: str | None = value(TEXT, None, optional=True, option="from", shown="the first")
    until: str | None = value(TEXT, None, optional=True, option="to", shown="the last")
    exclude: tuple[str, ...] = value(TEXTS, ())
    exclude_file: str | None = value(TEXT, None, optional=True)
    hints: Mapping[str, Any] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check options wherever they come from: the command line, a project file, a model file or a caller."""
        if self.delimiter == "\\t":
            object.__setattr__(self, "delimiter", "\t")
        try:
            for name, parameter in READING.items():
                replace(parameter, name=parameter.flag).check(getattr(self, name))
        except ValueError as error:
            raise TableError(str(error)) from None
        if self.long and len(self.long) not in (3, 4):
            raise TableError("--long needs the columns of tag, time, value and, if there is one, quality.")
        if (self.every or self.hold or self.good) and not self.long:
            raise TableError("--every, --hold and --good are for long tables. Name their columns with --long.")

    def remembered(self) -> dict[str, Any]:
        """What is worth keeping in a model file: options that were given, as plain values."""
        given = {name: getattr(self, name) for name in _REMEMBERED}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in given.items()
            if value != READING[name].default
        }

    def completed_by(self, memory: Mapping[str, Any], units: Mapping[str, str] | None = None) -> "Options":
        """These options, completed by those of an earlier table, in whose units columns were; missing codes add up."""
        before, hints = _of(memory), dict(memory.get(_DETECTED, {}))
        own = {key.removeprefix(UNIT_OF): unit for key, unit in hints.items() if key.startswith(UNIT_OF)}
        now = {name: getattr(self, name) for name in before}
        changes = {name: before[name] for name, value in now.items() if value == READING[name].default}
        if "missing" in before:
            changes["missing"] = tuple(dict.fromkeys((*self.missing, *before["missing"])))
        return replace(self, **changes, hints=hints, units={**(units or {}), **own})


READING = Parameters.of("reading", Options)


def _of(memory: Mapping[str, Any]) -> dict[str, Any]:
    """The options in a model file."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in memory.items() if name != _DETECTED
    }


def check_memory(memory: Any) -> None:
    """Refuse what a model file cannot hold about reading, with a ValueError."""
    if not isinstance(memory, dict) or set(memory) - {*_REMEMBERED, _DETECTED}:
        raise ValueError("these are not options of readers")
    detected = memory.get(_DETECTED, {})
    if not isinstance(detected, dict) or not all(isinstance(each, str) for each in detected.values()):
        raise ValueError("what was detected is not in texts")
    Options(**_of(memory))
