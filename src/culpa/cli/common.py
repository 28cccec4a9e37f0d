"""What the table commands share: options, one-sentence errors, progress on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from culpa.fitted import FittedDetector
    from culpa.io.tables import Sink, Source
    from culpa.jobs import Summary


class Format(StrEnum):
    """Table formats."""

    csv = "csv"
    parquet = "parquet"
    arrow = "arrow"
    ndjson = "ndjson"


Table = Annotated[
    str, typer.Argument(help="CSV, Parquet, Arrow (Feather) or NDJSON; '-' is standard input.", show_default=False)
]
Model = Annotated[Path, typer.Option("--model", "-m", help="Model file that 'culpa fit' wrote.", show_default=False)]
Output = Annotated[
    str, typer.Option("--output", "-o", help="File to write; '-' is standard output. Its name tells the format.")
]
OutputFormat = Annotated[
    Format | None, typer.Option("--format", help="Format of the output, if not told by its name.", show_default=False)
]
Id = Annotated[
    list[str] | None,
    typer.Option("--id", help="Column to carry along untouched, such as a time; may be repeated.", show_default=False),
]
Columns = Annotated[
    list[str] | None, typer.Option(help="Columns to learn from, as 'a,b,c' or repeated.", show_default="all")
]
Drop = Annotated[list[str] | None, typer.Option(help="Columns to leave out, as 'a,b' or repeated.", show_default=False)]
Components = Annotated[str, typer.Option(help="Number of components, or the share of variance they must explain.")]
Confidence = Annotated[float, typer.Option(help="Share of normal rows below the limit.")]
Scale = Annotated[bool, typer.Option(help="Divide every column by its standard deviation.")]
Time = Annotated[
    str | None, typer.Option(help="Column with the rows' times, in ascending order.", show_default="row numbers")
]
Gap = Annotated[
    str,
    typer.Option(help="What may lie between flagged rows of one incident: a number of rows, or a span like '5min'."),
]
MinLength = Annotated[int, typer.Option(min=1, help="Flagged rows that an incident has at least.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace an existing output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
FailOnAnomaly = Annotated[bool, typer.Option("--fail-on-anomaly", help="Exit with 1 if a row is flagged.")]
InputFormat = Annotated[
    Format | None,
    typer.Option(help="Format of the input, if not told by its name (NDJSON on a pipe).", show_default=False),
]
Delimiter = Annotated[str | None, typer.Option(help="CSV: sign between cells ('\\t' for a tab).", show_default="found")]
Decimal = Annotated[str | None, typer.Option(help="CSV: decimal sign, '.' or ','.", show_default="found")]
Encoding = Annotated[str, typer.Option(help="CSV: encoding of the text.")]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        help="Number such as -9999, or text in CSV and NDJSON, that means a missing cell, beside 'NA' and the like; "
        "may be repeated.",
        show_default=False,
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="NDJSON: a line that cannot be used stops the run.")]
Sparse = Annotated[bool, typer.Option("--sparse", help="NDJSON: fields that a line leaves out are missing cells.")]


def say(text: str) -> None:
    """One line for a person, on standard error."""
    typer.echo(text, err=True)


def warn(text: str) -> None:
    """Something that does not stop the work."""
    say(f"Warning: {text}")


def count(number: int, noun: str) -> str:
    """How many there are.

    >>> count(1, "incident"), count(2000, "row")
    ('1 incident', '2,000 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def fail(text: str) -> NoReturn:
    """A user error: one sentence, exit code 2."""
    say(f"Error: {' '.join(text.split())}")
    raise typer.Exit(2)


@contextmanager
def guarded() -> Iterator[None]:
    """Errors as one sentence, warnings as one line, Ctrl-C as exit code 130, a closed pipe as the end."""
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_, **__: warn(str(message))
            yield
    except KeyboardInterrupt:
        say("Interrupted.")
        raise typer.Exit(130) from None
    except BrokenPipeError:
        _close_quietly()
        raise typer.Exit(0) from None
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except (ValueError, ImportError, MemoryError, NotImplementedError) as error:
        fail(str(error) or "not enough memory.")


def source_from(
    table: str,
    format: Format | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8",
    missing: list[str] | None = None,
    strict: bool = False,
    sparse: bool = False,
) -> "Source":
    """The table that the arguments describe."""
    from culpa.io.tables import Options, TableError, open_source

    delimiter = "\t" if delimiter == "\\t" else delimiter
    for sign, name in ((delimiter, "--delimiter"), (decimal, "--decimal")):
        if sign is not None and len(sign.encode()) != 1:
            raise TableError(f"{name} must be a single sign, got {sign!r}.")
    options = Options(format, delimiter, decimal, encoding, tuple(missing or ()), strict, sparse)
    return open_source(to_path(table), options, warn)


def to_path(text: str) -> Path | None:
    """A path, or ``None`` for a dash."""
    return None if text == "-" else Path(text)


def to_gap(text: str) -> int | str:
    """A number of rows, or a span of time as it was written."""
    try:
        return int(text)
    except ValueError:
        return text


def read_model(path: Path) -> "FittedDetector":
    """The detector in a model file."""
    from culpa.io.model_file import load

    return load(path).fitted


def features_of(source: "Source", columns: list[str] | None, drop: list[str] | None, id: list[str] | None) -> list[str]:
    """Columns to learn from."""
    from culpa.io.tables.columns import choose_features, split_names

    known = source.columns()
    chosen, dropped, carried = (split_names(names or [], list(known)) for names in (columns, drop, id))
    return choose_features(known, source.name, chosen, dropped, carried)


def names_of(given: list[str] | None, source: "Source") -> list[str]:
    """Columns to carry, given as 'a,b' or one by one."""
    from culpa.io.tables.columns import split_names

    if not any("," in name for name in given or []):  # then there is nothing to ask the table
        return list(dict.fromkeys(given or []))
    return split_names(given or [], list(source.columns()))


@contextmanager
def output_to(
    target: Path | None, format: Format | None, source: "Source", *, force: bool
) -> Iterator[tuple["Sink", str]]:
    """The sink that the arguments describe, and its format: NDJSON answers NDJSON, else CSV on standard output."""
    from culpa.io.tables import format_of, open_sink

    kind = format_of(target, format, otherwise=None if target else "ndjson" if source.live else "csv")
    with open_sink(target, kind, force=force, flush=not source.again) as sink:
        yield sink, kind


@contextmanager
def progress_bar(source: "Source", *, quiet: bool) -> Iterator[tuple[Callable[[int], None], Callable[[str], None]]]:
    """How to report rows and what is being done: a bar on a terminal, silence elsewhere."""
    if quiet or not sys.stderr.isatty() or source.live:
        yield lambda rows: None, lambda text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns: tuple[Any, ...] = (
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows, {task.fields[rate]:,.0f}/s"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0, rows=0, rate=0.0)

        def rows_done(rows: int) -> None:
            rate = rows / (bar.tasks[0].elapsed or 1.0)
            bar.update(task, completed=source.share() or 0.0, rows=rows, rate=rate)

        yield rows_done, lambda text: bar.update(task, description=text)


@contextmanager
def work_bar(*, quiet: bool = False) -> Iterator[Callable[[float, str], None]]:
    """How to report the share of the work done and what is being done: a bar on a terminal, silence elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda share, doing: bar.update(task, completed=share, description=doing)


def finish(
    summary: "Summary", source: "Source", output: Path | None, *, quiet: bool, fail_on_anomaly: bool, told: str = ""
) -> None:
    """Say what happened (``told`` is what else there was), and choose the exit code."""
    if summary.empty:
        warn(f"{summary.empty:,} row(s) have no observed feature and get no score.")
    if not quiet:
        skipped = f", {count(source.skipped, 'line')} skipped" if source.skipped else ""
        where = "" if output is None else f"; wrote {output}"
        say(f"{count(summary.rows, 'row')}, {summary.anomalies:,} flagged{told and f', {told}'}{skipped}{where}")
    if fail_on_anomaly and summary.anomalies:
        raise typer.Exit(1)


def _close_quietly() -> None:
    """Whoever read our output has gone: keep Python from complaining about it at exit."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
