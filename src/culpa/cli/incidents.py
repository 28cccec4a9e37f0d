"""`culpa incidents`: what happened, and which features are to blame?"""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Annotated, Any

import typer

from culpa.cli import on_spark, options
from culpa.cli.command import command
from culpa.cli.console import plain, tell_reading, warn


@command
def incidents(
    rows: options.BlamedRowsOptions,
    answer: options.OutputOptions,
    grouping: options.IncidentOptions,
    engine: on_spark.EngineOptions,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Spark: column that tells machines apart. Repeatable.",
            show_default=False,
            rich_help_panel=on_spark.ENGINE,
        ),
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="Print sentences instead of a table.")] = False,
    events: Annotated[
        bool | None,
        typer.Option(
            "--events/--no-events",
            help="Also write a line when an incident opens, and when it spreads to more features.",
            show_default="if rows come from a pipe and the output is text or NDJSON",
        ),
    ] = None,
) -> None:
    """Group flagged rows into incidents: how each began and spread, which features are to blame, and what was expected.

    culpa writes each incident as soon as it is over. If the rows come from a pipe, it also writes a line when an incident
    opens and when it spreads to more features.

    \b
    culpa incidents new.csv -m plant.culpa --time time --gap 5min --text
    culpa incidents new.parquet -m plant.culpa --min-length 3 -o incidents.csv
    culpa incidents /data/new -m plant.culpa --time time --by machine -o /data/incidents --engine spark
    """
    if text and (answer.path or answer.format):
        raise ValueError("--text writes to standard output. Leave out -o and --format.")
    if by and not engine.is_spark:
        raise ValueError("--by is for --engine spark.")
    if engine.is_spark:
        on_spark.refuse_values({"--text": text, "--events": events})
        if rows.time is None:
            raise ValueError("--engine spark needs --time, because rows in Spark have no order.")
        arguments = {"time": rows.time, "by": by, **grouping.grouping()}
        on_spark.answer_new_rows(engine, rows, answer, "incidents", arguments)
        return
    with options.open_job(rows, nullcontext((_Lines(), "text")) if text else answer) as job:
        from culpa.jobs import incidents as work

        time = job.source.time
        tell_reading(job.source, quiet=rows.quiet)
        live = job.source.live and job.format in ("text", "ndjson")
        shown = live if events is None else events
        summary = work(
            *job.tables,
            time=time,
            **grouping.grouping(),
            events=shown,
            progress=job.progress,
            report=warn,
            note=job.note,
        )
    rows.finish(summary, job.source, answer.path, incidents=True, found=summary.incidents)


class _Lines:
    """A sink that prints sentences."""

    def write(self, columns: Mapping[str, Any]) -> None:
        events = columns.get("event") or ["closed"] * len(columns["sentence"])
        news = columns.get("new") or [""] * len(events)
        for event, new, sentence in zip(events, news, columns["sentence"], strict=True):
            typer.echo(plain(_OPENINGS[event].format(new=new) + sentence if "event" in columns else sentence))


_OPENINGS = {"opened": "New incident. ", "grew": "{new} left the normal range. ", "closed": "Over. "}
