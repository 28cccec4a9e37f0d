"""`culpa incidents`: what happened, and whose fault was it?"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culpa.cli import common

if TYPE_CHECKING:
    from culpa.io.tables import Sink


def incidents(
    table: common.Table,
    model: common.Model,
    output: common.Output = "-",
    format: common.OutputFormat = None,
    time: common.Time = None,
    gap: common.Gap = "0",
    min_length: common.MinLength = 1,
    text: Annotated[bool, typer.Option("--text", help="Print the sentences alone, one line each.")] = False,
    input_format: common.InputFormat = None,
    delimiter: common.Delimiter = None,
    decimal: common.Decimal = None,
    encoding: common.Encoding = "utf-8",
    missing: common.Missing = None,
    strict: common.Strict = False,
    sparse: common.Sparse = False,
    force: common.Force = False,
    fail_on_anomaly: Annotated[
        bool, typer.Option("--fail-on-anomaly", help="Exit with 1 if there is an incident.")
    ] = False,
    quiet: common.Quiet = False,
) -> None:
    """Gather flagged rows that follow each other: when, whose fault, what was expected, in one sentence each.

    An incident is written as soon as it is over.

    \b
    culpa incidents new.csv -m plant.culpa --time time --gap 5min --text
    culpa incidents new.parquet -m plant.culpa --min-length 3 -o incidents.csv
    """
    with common.guarded():
        target = common.to_path(output)
        if text and (target or format):
            raise ValueError("--text goes to standard output: leave out -o and --format.")
        source = common.source_from(table, input_format, delimiter, decimal, encoding, missing, strict, sparse)
        detector = common.read_model(model)
        from culpa.jobs import incidents as run

        sinks: AbstractContextManager[tuple[Sink, str]]
        sinks = nullcontext((_Lines(), "text")) if text else common.output_to(target, format, source, force=force)
        with sinks as (sink, _), common.progress_bar(source, quiet=quiet) as (rows_done, note):
            summary = run(
                detector,
                source,
                sink,
                time=time,
                gap=common.to_gap(gap),
                min_length=min_length,
                progress=lambda summary: rows_done(summary.rows),
                report=common.warn,
                note=note,
            )
        common.finish(
            summary,
            source,
            target,
            quiet=quiet,
            fail_on_anomaly=False,
            told=common.count(summary.incidents, "incident"),
        )
        if fail_on_anomaly and summary.incidents:
            raise typer.Exit(1)


class _Lines:
    """A sink that prints sentences."""

    def write(self, columns: Mapping[str, Any]) -> None:
        for sentence in columns["sentence"]:
            typer.echo(sentence)
