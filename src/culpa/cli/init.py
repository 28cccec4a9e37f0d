"""`culpa init`: write a project file for a table."""

import json
from pathlib import Path
from string import Template
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
    template = Template(Path(__file__).with_name("culpa.toml.txt").read_text(encoding="utf-8"))
    return template.substitute(
        tables=_toml(table.table),
        new=f"new = {_toml(new)}" if new else "# new = ['new.csv']",
        reading="".join(f"\n{key} = {_toml(value)}" for key, value in given.items()),
        decisions="".join(f"\n# {console.plain(line)}" for line in source.inner.decisions),
        features=console.plain(", ".join(features[:12])) + (", ..." if len(features) > 12 else ""),
        drop=f"drop = {_toml(left_out)}  # not numbers" if left_out else "# drop = []  # columns to leave out",
        units="".join(f"\n{_toml(name)} = {_toml(unit)}" for name, unit in units.items())
        or (f"\n# {_toml(features[0])} = '°C'" if features else ""),
        group=_toml(features[:2]),
        given=_toml(features[:1]),
    )


def _toml(value: object) -> str:
    """A text, a number or a list as TOML writes it."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, (int, float)):
        return str(value).lower()
    if any("\ud800" <= sign <= "\udfff" for sign in str(value)):
        raise ValueError(f"{str(value)!r} is not valid Unicode, so a project file cannot contain it. Rename it.")
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
