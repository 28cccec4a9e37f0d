"""`culpa init`: write a project file for a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from culpa.cli import console, options, project
from culpa.cli.command import command
from culpa.io.reading import READING

if TYPE_CHECKING:
    from culpa.io.tables import TimedTable


@command
def init(
    table: options.TableOptions,
    output: Annotated[Path, typer.Option("--output", "-o", help="Project file to write.")] = Path(project.NAME),
    new: Annotated[
        list[str] | None, typer.Option("--new", help="Tables of new rows to judge. Repeatable.", show_default=False)
    ] = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a commented project file for a table, so that 'culpa fit' and 'culpa report' need no options.

    The file lists what was found out about the table. Edit it as you like.

    \b
    culpa init normal.csv --new new.csv
    culpa fit
    culpa report
    """
    from culpa._core.files import check_output, write_whole

    check_output(output, table.inputs(), force=force)
    source = table.open()
    text = _text(source, table, new or [])
    console.tell_reading(source, quiet=quiet)
    with write_whole(output, force=force) as file:
        file.write(text.encode())
    if not quiet:
        console.say(f"wrote {output}. Next: culpa fit")


def _text(source: "TimedTable", table: options.TableOptions, new: list[str]) -> str:
    given = source.options.remembered() | ({"time": source.time} if source.time else {})
    for name in ("time_format", "since", "until", "exclude", "exclude_file"):
        if told := getattr(table, name):
            given[READING[name].variable.rstrip("_")] = told
    columns = {name: column for name, column in source.columns().items() if name != source.time}
    features = [name for name, column in columns.items() if column.kind == "number" or column.row is not None]
    left_out = [name for name in columns if name not in features]
    units = {name: unit for name, unit in source.units.items() if name in features}
    rows = "\n".join(
        [
            '# Settings of this folder. "culpa fit", "culpa report" and the other commands read this file.',
            "",
            f"tables = {_toml(table.table)}  # normal rows to learn from; patterns such as 'line3/*.csv' work, too",
            f"new = {_toml(new)}  # rows to judge" if new else "# new = ['new.csv']  # rows to judge",
            'model = "plant.culpa"  # written by fit, read by the other commands',
            "",
            "[reading]  # how tables are read",
            *(f"{key} = {_toml(value)}" for key, value in given.items()),
            *(f"# {console.plain(line)}" for line in source.inner.decisions),
            "# missing = ['-9999']  # values that mean a missing cell",
            "# exclude = ['2024-02-03T08:00/2024-02-03T12:00']  # stops of the plant",
            "",
            "[columns]",
            f"# features: {console.plain(', '.join(features[:12]))}{', ...' if len(features) > 12 else ''}",
            f"drop = {_toml(left_out)}  # not numbers" if left_out else "# drop = []  # columns to leave out",
            "",
            "[units]",
            *(f"{_toml(name)} = {_toml(unit)}" for name, unit in units.items()),
            *([] if units else [f"# {_toml(features[0])} = '°C'"] if features else []),
            "",
            "[groups]  # columns that are blamed together",
            f"# feed = {_toml(features[:2])}",
            "",
            "[context]",
            f"# given = {_toml(features[:1])}  # columns that are known and never blamed, such as the load",
            "",
            "[limits]",
            "confidence = 0.99  # share of normal rows that should stay below the limit",
            "",
            "[detector]  # other parameters of the model, see docs/parameters.md",
            "# lags = 2",
            "",
            "[incidents]",
            "# gap = '5min'  # maximum gap between flagged rows of one incident",
            "",
            "[report]",
            "output = 'report.html'",
        ]
    )
    return rows + "\n"


def _toml(value: object) -> str:
    """A text, a number or a list as TOML writes it."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, (int, float)):
        return str(value).lower()
    if any("\ud800" <= sign <= "\udfff" for sign in str(value)):
        raise ValueError(f"{str(value)!r} is not valid Unicode, so a project file cannot contain it. Rename it.")
    escaped = "".join(
        f"\\u{ord(sign):04x}" if ord(sign) < 32 or ord(sign) == 127 else f"\\{sign}" if sign in '"\\' else sign
        for sign in str(value)
    )
    return f'"{escaped}"'
