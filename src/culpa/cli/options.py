"""Options that several commands share, each described once, in blocks of options that belong together."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from culpa._core.choices import TABLE_FORMATS, one_of
from culpa._core.estimators import only_judge_rows
from culpa.cli import console, project
from culpa.cli.command import OPTION, Described
from culpa.cli.terminal import Screen
from culpa.io.reading import READING, UNIT_OF, Options, TableError

if TYPE_CHECKING:
    from culpa.detecting.detector import PCADetector
    from culpa.fitted import FittedDetector
    from culpa.io.tables import Sink, Source, TimedTable
    from culpa.jobs.batches import Listener, Summary

READING_PANEL = "Reading the table"
COLUMNS = "Columns"
MODEL = "Model"

_FORMATS = ", ".join(TABLE_FORMATS[:-1]) + f" or {TABLE_FORMATS[-1]}"

FOUND = 3  # exit code if there is an anomaly, with --fail-on-anomaly

_MODEL_FILE = "Model file, written by 'culpa fit', 'calibrate' or 'update'."
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace an existing output file.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show no progress, no summary, and not how tables are read.")
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON for programs instead of text for people.")]
Model = Annotated[Path, typer.Option("--model", "-m", help=_MODEL_FILE)]
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help=_MODEL_FILE)]


def _refuse_model_option(context: typer.Context, given: str | None) -> None:
    if given is not None:
        name = context.info_name
        table = " TABLE" if name == "update" else ""
        console.fail(
            f"'culpa {name}' takes the model file as its first argument, without -m: culpa {name} {given}{table}"
        )


NoModelOption = Annotated[  # for people who know -m from other commands
    str | None, typer.Option("--model", "-m", hidden=True, is_eager=True, callback=_refuse_model_option)
]
ModelOutput = Annotated[Path, typer.Option("--output", "-o", help="Model file to write, such as plant.culpa.")]
NoGroups = Annotated[bool, typer.Option("--no-groups", help="Blame single features, not the groups of the model.")]
CompleteOnly = Annotated[
    bool, typer.Option("--complete-only", help="Skip rows with missing cells.", rich_help_panel=READING_PANEL)
]
Id = Annotated[
    list[str] | None,
    typer.Option("--id", help="Column that is not a feature, such as a time; copied to the output. Repeatable."),
]


def option(
    help: str, *names: str, default: Any = None, shown: str | None = None, panel: str | None = None, **more: Any
) -> Any:
    """A field of a block that is an option. ``shown`` is what help says about its default, if that is ``None``."""
    option = typer.Option(*names, help=help, show_default=shown or default is not None, rich_help_panel=panel, **more)
    return field(default=default, metadata={OPTION: option})


_columns = partial(option, panel=COLUMNS)


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(Options):
    """How to read a table; a model file remembers most of it."""

    described: ClassVar = Described(READING, panel=READING_PANEL)
    no_header: bool = option(
        "CSV, Excel: there is no header; columns are called c1, c2, ...",
        "--no-header",
        default=False,
        panel=READING_PANEL,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.no_header and self.header_rows:
            raise ValueError(f"--no-header and --header-rows {self.header_rows} contradict each other.")

    def reading(self) -> Options:
        """The options, as readers take them."""
        options = Options(**{each.name: getattr(self, each.name) for each in fields(Options)})
        return replace(options, header_rows=0) if self.no_header else options

    def inputs(self) -> list[Path | None]:
        """All files that the command reads; ``None`` is standard input."""
        return [] if self.exclude_file is None else [Path(self.exclude_file)]

    def open_tables(self, tables: Sequence[str], fitted: "FittedDetector | None" = None) -> "TimedTable":
        """One or several tables as one, read as the training table of a model was, if there is one."""
        from culpa.io.tables import open_table

        options = self.reading()
        options = options if fitted is None else options.completed_by(fitted.reading, fitted.units)
        return open_table(tables, options, console.warn)


@dataclass(frozen=True, kw_only=True)
class TableOptions(ReadingOptions):
    """The table to read, and how."""

    table: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE",
            help="Tables to read: CSV, Excel, Parquet, Arrow (Feather) or NDJSON; patterns such as 'line3/*.csv'; '-' for "
            "standard input.",
            show_default=False,
        ),
    ]

    def inputs(self) -> list[Path | None]:
        """All files that the command reads, which an output must not replace."""
        from culpa.io.tables.formats import expand

        return [*super().inputs(), *expand(self.table)]

    def open(self, fitted: "FittedDetector | None" = None) -> "TimedTable":
        """Open the table for reading."""
        return self.open_tables(self.table, fitted)


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """The columns to learn from."""

    columns: list[str] | None = _columns("Columns to learn from, as 'a,b,c'. Repeatable.", shown="all")
    drop: list[str] | None = _columns("Columns to leave out, as 'a,b'. Repeatable.")
    id: list[str] | None = _columns("Column that is not a feature, such as a time. Repeatable.")

    def features(self, source: "TimedTable", parameters: Mapping[str, Any]) -> list[str]:
        """The names of the columns to learn from: at least two. Those that ``parameters`` name are not left out."""
        from culpa.io.tables.columns import choose_features, split_names
        from culpa.io.tables.problems import as_long

        known = source.columns()
        wanted, dropped, carried = (
            split_names(names or [], list(known)) for names in (self.columns, self.drop, self.id)
        )
        carried += [name for name in source.not_features if name not in (*wanted, *dropped, *carried)]
        features = choose_features(known, source.name, wanted, dropped, carried, source)
        if not wanted:
            groups = parameters.get("groups") or {}
            named = {*(parameters.get("given") or ()), *(name for group in groups.values() for name in group)}
            left = source.leave_out_row_numbers([name for name in features if name not in named])
            features = [name for name in features if name in named or name in left]
        if len(features) < 2:
            raise as_long(source, known) or TableError(
                f"{source.name}: at least 2 numeric columns are needed, got {len(features)}."
            )
        return features


@dataclass(frozen=True, kw_only=True)
class NewRowsOptions(TableOptions):
    """New rows, and the model that judges them."""

    model: Model
    fail_on_anomaly: bool = option(
        f"Exit with code {FOUND} if there is an anomaly.", "--fail-on-anomaly", default=False
    )
    quiet: Quiet = False

    def inputs(self) -> list[Path | None]:
        """All files that the command reads, which an output must not replace."""
        return [*super().inputs(), self.model]

    def detector(self) -> "FittedDetector":
        """The detector in the model file."""
        from culpa.io.model_file import load_fitted

        return load_fitted(self.model)

    def finish(
        self, summary: "Summary", source: "TimedTable", output: Path | None, *, incidents: bool = False, found: int
    ) -> None:
        """Print the summary, with incidents where they were counted; ``found`` anomalies choose the exit code."""
        console.tell_missing(source, quiet=self.quiet)
        if summary.empty:
            from culpa._core.missing import without_score

            console.warn(f"{without_score(summary.empty)}.")
        if not self.quiet:
            parts = [console.count(summary.rows, "row"), f"{summary.anomalies:,} flagged"]
            parts += [console.count(summary.incidents, "incident")] if incidents else []
            parts += [] if summary.discoveries is None else [f"{summary.discoveries:,} discovered"]
            skipped = source.skipped + summary.skipped
            parts += [f"{console.count(skipped, 'line')} skipped"] if skipped else []
            parts += [f"{console.count(source.left_out, 'row')} left out"] if source.left_out else []
            console.say(", ".join(parts) + ("" if output is None else f"; wrote {output}"))
            if summary.unconfirmed or summary.expected:
                apart = f"{console.count(summary.unconfirmed, 'group')} of flagged rows with too little evidence. "
                console.say((apart if summary.unconfirmed else "") + summary.expected)
        if self.fail_on_anomaly and found:
            raise typer.Exit(FOUND)


@dataclass(frozen=True, kw_only=True)
class BlamedRowsOptions(NewRowsOptions):
    """New rows, and the model that says whose fault they are."""

    no_groups: NoGroups = False

    def detector(self) -> "FittedDetector":
        """The detector in the model file, with or without its groups."""
        fitted = super().detector()
        return fitted.without_groups() if self.no_groups else fitted


@dataclass(frozen=True, kw_only=True)
class PeriodsOptions(ReadingOptions):
    """The tables of two periods, read alike."""

    before: Annotated[str, typer.Argument(metavar="BEFORE", help="Table of the first period.")]
    after: Annotated[str, typer.Argument(metavar="AFTER", help="Table of the second period.")]


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Where a table of results is written."""

    output: str = option("File to write; '-' for standard output.", "--output", "-o", default="-")
    format: str | None = option(
        f"Override the file extension of the output: {_FORMATS}.",
        "--format",
        shown="file extension",
        autocompletion=lambda: list(TABLE_FORMATS),
    )
    escape_formulas: bool = option(
        "CSV: put an apostrophe before texts that a spreadsheet would take for formulas.",
        "--escape-formulas",
        default=False,
    )
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
        """The sink and its format. Standard output gets NDJSON if a pipe brings it, else CSV, or a table for people."""
        from culpa.io.tables import format_of, open_sink

        # somebody reads the answer on a terminal; rows that come one by one are answered one by one
        if self.path is None and self.format is None and sys.stdout.isatty() and not source.live:
            screen = Screen()
            yield screen, "screen"
            screen.finish()
            return
        piped = "ndjson" if source.live and source.kind == "ndjson" else "csv"
        kind = self.format or (piped if self.path is None else format_of(self.path, TABLE_FORMATS))
        flush, escape = not source.again, self.escape_formulas
        with open_sink(self.path, kind, force=self.force, flush=flush, escape=escape) as sink:
            yield sink, kind


@dataclass(frozen=True, kw_only=True)
class IncidentOptions:
    """How flagged rows are grouped into incidents."""

    gap: str | None = option(
        "Your own grouping: maximum gap between flagged rows of one incident, a number of rows or a time span such as "
        "'5min'.",
        default=None,
    )
    min_length: int | None = option("Your own grouping: minimum number of flagged rows.", default=None, min=1)
    false_incidents: str | None = option(
        "How many false incidents you accept, such as '1 per week' or '1 per 1,000 rows'.", default=None
    )
    baseline: int = option(
        "Measure movements from the mean of this many normal rows before the incident; 0 for the mean of the "
        "training rows.",
        default=0,
        min=0,
    )

    def grouping(self) -> dict[str, Any]:
        """The options, as the library takes them."""
        span = self.gap  # a time span, as it was written
        gap = int(span) if span is not None and span.strip().lstrip("+-").isdigit() else span
        others = {"min_length": self.min_length, "false_incidents": self.false_incidents, "baseline": self.baseline}
        return {"gap": gap, **others}


@dataclass(frozen=True)
class Job:
    """What a command over new rows works with."""

    detector: "FittedDetector"
    source: "TimedTable"
    sink: "Sink"
    format: str
    told: "Listener"

    @property
    def tables(self) -> "tuple[FittedDetector, TimedTable, Sink]":
        """What every job takes first: the model, the rows and where answers go."""
        return self.detector, self.source, self.sink

    def labels(self, given: list[str] | None) -> list[str]:
        """Columns that name the rows of an answer: those given, or the times, if the user or the model names them."""
        source, found = self.source, names_of(given, self.source)
        known = source.options.time or source.options.hints.get("time") or source.selection
        if not given and known and source.time is not None:
            found = [source.time]
        if isinstance(self.sink, Screen):
            self.sink.labels = found
        return found


@contextmanager
def open_job(
    rows: NewRowsOptions,
    sinks: "OutputOptions | AbstractContextManager[tuple[Sink, str]]",
    *,
    copies_times: bool = False,
) -> Iterator[Job]:
    """Open the model, the table and the output, with a progress bar; times may be read or only copied to the output."""
    if console.owned:
        only_judge_rows()
    check_output(sinks.path if isinstance(sinks, OutputOptions) else None, rows.inputs(), force=True)
    detector = rows.detector()
    source = rows.open(detector)
    remembers = detector.columns.lags or detector.columns.smooth is not None  # whose past depends on times
    source.copies_times = copies_times and not remembers
    opened = sinks.open(source) if isinstance(sinks, OutputOptions) else sinks
    with opened as (sink, kind), console.progress_bar(source, quiet=rows.quiet) as told:
        yield Job(detector, source, sink, kind, told)


def check_output(path: Path | None, inputs: Sequence[Path | None], *, force: bool) -> None:
    """Refuse an output that exists, or that the command reads, before any work is done."""
    from culpa._core import files

    files.check_output(path, [*inputs, *project.in_use], force=force)


def save_model(detector: "PCADetector", source: "TimedTable", output: Path) -> None:
    """Write a model file that remembers how its training table was read."""
    from culpa.io.model_file import save

    own = {name: unit for name, unit in source.units.items() if detector.units_.get(name, unit) != unit}
    detected = source.detected() | {f"{UNIT_OF}{name}": unit for name, unit in own.items()}
    reading = source.options.remembered() | ({"detected": detected} if detected else {})
    save(replace(detector.fitted, reading=reading), output)


def rate(detector: "PCADetector") -> str:
    """The rate of false alarms, for a summary."""
    from culpa.fitting.diagnostics import rate_in_words

    words = rate_in_words(detector.fitted)
    return f"; {words}" if words else ""


def names_of(given: list[str] | None, source: "Source") -> list[str]:
    """Columns to carry, given as 'a,b' or one by one."""
    from culpa.io.tables.columns import split_names

    if not any("," in name or '"' in name for name in given or []):  # the table need not be opened for its column names
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


def blame_of(given: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Options of an explainer that are not defaults: one with all defaults may be compiled already."""
    from culpa._core.parameters import EXPLAINER

    chosen = EXPLAINER.changed(given)
    return chosen | ({"upstream": chains_of(given["upstream"], names)} if chosen.get("upstream") else {})


def to_path(text: str) -> Path | None:
    """A path, or ``None`` for a dash."""
    return None if text == "-" else Path(text)
