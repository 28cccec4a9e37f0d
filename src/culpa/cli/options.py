"""Options that several commands share, each described once, in blocks of options that belong together."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culpa._core.choices import TABLE_FORMATS, one_of
from culpa.cli import console

if TYPE_CHECKING:
    from culpa.fitted import FittedDetector
    from culpa.io.tables import Sink, Source
    from culpa.jobs import Summary

READING = "Reading the table"
COLUMNS = "Columns"
MODEL = "Model"

_FORMATS = ", ".join(TABLE_FORMATS[:-1]) + f" or {TABLE_FORMATS[-1]}"

Force = Annotated[bool, typer.Option("--force", "-f", help="Replace an existing output file.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary.")]
Json = Annotated[bool, typer.Option("--json", help="Write JSON for programs instead of text for people.")]
Model = Annotated[
    Path,
    typer.Option(
        "--model", "-m", help="Model file, written by 'culpa fit', 'calibrate' or 'update'.", show_default=False
    ),
]
ModelArgument = Annotated[
    Path, typer.Argument(help="Model file, written by 'culpa fit', 'calibrate' or 'update'.", show_default=False)
]
ModelOutput = Annotated[
    Path, typer.Option("--output", "-o", help="Model file to write, such as plant.culpa.", show_default=False)
]
NoGroups = Annotated[
    bool, typer.Option("--no-groups", help="Blame single features, not the groups of the model.", show_default=False)
]
CompleteOnly = Annotated[
    bool,
    typer.Option("--complete-only", help="Skip rows with missing cells.", rich_help_panel=READING, show_default=False),
]
Id = Annotated[
    list[str] | None,
    typer.Option(
        "--id",
        help="Column that is not a feature, such as a time; copied to the output. Repeatable.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """The table to read, and how."""

    table: Annotated[
        str,
        typer.Argument(
            help="Table to read: CSV, Parquet, Arrow (Feather) or NDJSON; '-' for standard input.", show_default=False
        ),
    ]
    input_format: Annotated[
        str | None,
        typer.Option(
            help=f"Override the file extension: {_FORMATS}.",
            show_default="file extension, ndjson for '-'",
            rich_help_panel=READING,
            autocompletion=lambda: list(TABLE_FORMATS),
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        typer.Option(help="CSV: field delimiter; '\\t' for a tab.", show_default="detected", rich_help_panel=READING),
    ] = None
    decimal: Annotated[
        str | None,
        typer.Option(help="CSV: decimal mark, '.' or ','.", show_default="detected", rich_help_panel=READING),
    ] = None
    encoding: Annotated[str, typer.Option(help="CSV: text encoding.", rich_help_panel=READING)] = "utf-8"
    missing: Annotated[
        list[str] | None,
        typer.Option(
            help="Number that marks a missing cell, such as -9999, or in CSV and NDJSON also a text. 'NA' and similar "
            "texts are always missing. Repeatable.",
            show_default=False,
            rich_help_panel=READING,
        ),
    ] = None
    strict: Annotated[
        bool,
        typer.Option("--strict", help="NDJSON: stop at a line that cannot be read.", rich_help_panel=READING),
    ] = False
    sparse: Annotated[
        bool,
        typer.Option("--sparse", help="NDJSON: treat absent fields as missing cells.", rich_help_panel=READING),
    ] = False

    def __post_init__(self) -> None:
        if self.input_format is not None:
            one_of(self.input_format, TABLE_FORMATS, "--input-format")

    def open(self) -> "Source":
        """The table."""
        from culpa.io.tables import Options, TableError, open_source

        delimiter = "\t" if self.delimiter == "\\t" else self.delimiter
        for mark, name in ((delimiter, "--delimiter"), (self.decimal, "--decimal")):
            if mark is not None and len(mark.encode()) != 1:
                raise TableError(f"{name} must be a single ASCII character, got {mark!r}.")
        options = Options(
            self.input_format,
            delimiter,
            self.decimal,
            self.encoding,
            tuple(self.missing or ()),
            self.strict,
            self.sparse,
        )
        return open_source(to_path(self.table), options, console.warn)


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """The columns to learn from."""

    columns: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns to learn from, as 'a,b,c'. Repeatable.", show_default="all", rich_help_panel=COLUMNS
        ),
    ] = None
    drop: Annotated[
        list[str] | None,
        typer.Option(help="Columns to leave out, as 'a,b'. Repeatable.", show_default=False, rich_help_panel=COLUMNS),
    ] = None
    id: Annotated[
        list[str] | None,
        typer.Option(
            help="Column that is not a feature, such as a time. Repeatable.",
            show_default=False,
            rich_help_panel=COLUMNS,
        ),
    ] = None

    def features(self, source: "Source") -> list[str]:
        """The names of the columns to learn from: at least two."""
        from culpa.io.tables import TableError
        from culpa.io.tables.columns import choose_features, split_names

        known = source.columns()
        wanted, dropped, carried = (
            split_names(names or [], list(known)) for names in (self.columns, self.drop, self.id)
        )
        features = choose_features(known, source.name, wanted, dropped, carried)
        if len(features) < 2:
            raise TableError(f"{source.name}: at least 2 numeric columns are needed, got {len(features)}.")
        return features


@dataclass(frozen=True, kw_only=True)
class NewRowsOptions(TableOptions):
    """New rows, and the model that judges them."""

    model: Model
    fail_on_anomaly: Annotated[
        bool, typer.Option("--fail-on-anomaly", help="Exit with code 1 if there is an anomaly.")
    ] = False
    quiet: Quiet = False

    def detector(self) -> "FittedDetector":
        """The detector in the model file."""
        from culpa.io.model_file import load

        return load(self.model).fitted

    def finish(
        self, summary: "Summary", source: "Source", output: Path | None, *, incidents: bool = False, found: int
    ) -> None:
        """Print the summary, with incidents where they were counted; ``found`` anomalies choose the exit code."""
        if summary.empty:
            from culpa._core.missing import without_score

            console.warn(f"{without_score(summary.empty)}.")
        if not self.quiet:
            parts = [console.count(summary.rows, "row"), f"{summary.anomalies:,} flagged"]
            parts += [console.count(summary.incidents, "incident")] if incidents else []
            parts += [] if summary.discoveries is None else [f"{summary.discoveries:,} discovered"]
            parts += [f"{console.count(source.skipped, 'line')} skipped"] if source.skipped else []
            console.say(", ".join(parts) + ("" if output is None else f"; wrote {output}"))
        if self.fail_on_anomaly and found:
            raise typer.Exit(1)


@dataclass(frozen=True, kw_only=True)
class BlamedRowsOptions(NewRowsOptions):
    """New rows, and the model that says whose fault they are."""

    no_groups: NoGroups = False

    def detector(self) -> "FittedDetector":
        """The detector in the model file, with or without its groups."""
        fitted = super().detector()
        return fitted.without_groups() if self.no_groups else fitted


@dataclass(frozen=True, kw_only=True)
class PeriodsOptions(TableOptions):
    """The tables of two periods, read alike; the first is ``table``."""

    table: Annotated[str, typer.Argument(metavar="BEFORE", help="Table of the first period.", show_default=False)]
    after: Annotated[str, typer.Argument(metavar="AFTER", help="Table of the second period.", show_default=False)]

    def open_both(self) -> "tuple[Source, Source]":
        """Both tables."""
        return self.open(), replace(self, table=self.after).open()


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Where a table of results is written."""

    output: Annotated[str, typer.Option("--output", "-o", help="File to write; '-' for standard output.")] = "-"
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help=f"Override the file extension of the output: {_FORMATS}.",
            show_default="file extension",
            autocompletion=lambda: list(TABLE_FORMATS),
        ),
    ] = None
    force: Force = False

    def __post_init__(self) -> None:
        if self.format is not None:
            one_of(self.format, TABLE_FORMATS, "--format")

    @property
    def path(self) -> Path | None:
        """The file to write, or ``None`` for standard output."""
        return to_path(self.output)

    @contextmanager
    def open(self, source: "Source") -> Iterator[tuple["Sink", str]]:
        """The sink and its format. On standard output, NDJSON from a pipe gives NDJSON, and everything else CSV."""
        from culpa.io.tables import format_of, open_sink

        kind = format_of(self.path, self.format, otherwise=None if self.path else "ndjson" if source.live else "csv")
        with open_sink(self.path, kind, force=self.force, flush=not source.again) as sink:
            yield sink, kind


@dataclass(frozen=True, kw_only=True)
class IncidentOptions:
    """How flagged rows are grouped into incidents."""

    time: Annotated[
        str | None,
        typer.Option(help="Column with the time of each row, in ascending order.", show_default="row numbers"),
    ] = None
    gap: Annotated[
        str,
        typer.Option(
            help="Maximum gap between flagged rows of one incident: a number of rows, or a time span such as '5min'."
        ),
    ] = "0"
    min_length: Annotated[int, typer.Option(min=1, help="Minimum number of flagged rows in an incident.")] = 1
    baseline: Annotated[
        int,
        typer.Option(
            min=0,
            help="Measure movements from the mean of this many normal rows before the incident; 0 for the mean of the "
            "training rows.",
        ),
    ] = 0

    def grouping(self) -> dict[str, Any]:
        """The options, as the library takes them."""
        span = self.gap  # a time span, as it was written
        gap = int(span) if span.strip().lstrip("+-").isdigit() else span
        return {"gap": gap, "min_length": self.min_length, "baseline": self.baseline}


@dataclass(frozen=True)
class Job:
    """What a command over new rows works with."""

    detector: "FittedDetector"
    source: "Source"
    sink: "Sink"
    format: str
    progress: "Callable[[Summary], None]"
    note: "Callable[[str], None]"


@contextmanager
def open_job(rows: NewRowsOptions, sinks: "OutputOptions | AbstractContextManager[tuple[Sink, str]]") -> Iterator[Job]:
    """Open the table, the model and the output, with a progress bar."""
    source = rows.open()
    detector = rows.detector()
    opened = sinks.open(source) if isinstance(sinks, OutputOptions) else sinks
    with opened as (sink, kind), console.progress_bar(source, quiet=rows.quiet) as (rows_done, note):
        yield Job(detector, source, sink, kind, lambda summary: rows_done(summary.rows), note)


def names_of(given: list[str] | None, source: "Source") -> list[str]:
    """Columns to carry, given as 'a,b' or one by one."""
    from culpa.io.tables.columns import split_names

    if not any("," in name for name in given or []):  # the table need not be opened for its column names
        return list(dict.fromkeys(given or []))
    return split_names(given or [], list(source.columns()))


def chains_of(given: list[str] | None, names: Sequence[str]) -> list[list[str]]:
    """Chains of names, given as 'a:b:c', several separated by commas or one by one."""
    from culpa.io.tables.columns import split_chains

    chains = split_chains(given or [], names)
    if short := [chain for chain in chains if len(chain) < 2]:
        raise ValueError(
            f"--upstream needs at least two names joined by a colon, as in feed:reactor, got {short[0][0]!r}."
        )
    return chains


def to_path(text: str) -> Path | None:
    """A path, or ``None`` for a dash."""
    return None if text == "-" else Path(text)
