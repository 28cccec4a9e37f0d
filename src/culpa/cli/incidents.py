"""`culpa incidents`: what happened, and which features are to blame?"""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Annotated, Any

import typer

from culpa._core.parameters import EXPLAINER
from culpa.cli import on_spark, options
from culpa.cli.command import Described, command
from culpa.cli.console import plain, tell_reading


@command
def incidents(
    rows: options.BlamedRowsOptions,
    answer: options.OutputOptions,
    grouping: options.IncidentOptions,
    blame: Annotated[dict[str, Any], Described(EXPLAINER, ("upstream",), "Blame")],
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
    culpa incidents new.csv -m plant.culpa --time time --text
    culpa incidents new.parquet -m plant.culpa --time time --false-incidents "1 per week" -o incidents.csv
    culpa incidents /data/new -m plant.culpa --time time --by machine -o /data/incidents --engine spark
    """
    if text and (answer.path or answer.format):
        raise ValueError("--text writes to standard output. Leave out -o and --format.")
    if by and not engine.is_spark:
        raise ValueError("--by is for --engine spark.")
    if engine.is_spark:
        if rows.time is None:
            raise ValueError("--engine spark needs --time, because rows in Spark have no order.")
        arguments = {"time": rows.time, "by": by, **grouping.grouping()}
        refused = {"--text": text, "--events": events, "--upstream": blame["upstream"]}
        on_spark.answer_new_rows(engine, rows, answer, "incidents", arguments, refused)
        return
    with options.open_job(rows, nullcontext((_Lines(), "text")) if text else answer) as job:
        from culpa.jobs.incident_stream import incidents as work

        time = job.source.time
        tell_reading(job.source, quiet=rows.quiet)
        live = job.source.live and job.format in ("text", "ndjson")
        shown = live if events is None else events
        summary = work(
            *job.tables,
            time=time,
            **grouping.grouping(),
            events=shown,
            options=options.blame_of(blame, job.detector.columns.names),
            told=job.told,
        )
    rows.finish(summary, job.source, answer.path, incidents=True, found=summary.incidents)


class _Lines:
    """A sink that prints sentences; none twice, if an incident is over and has not changed since."""

    def __init__(self) -> None:
        self._told: list[str] = []  # what the last line was about

    def write(self, columns: Mapping[str, Any]) -> None:
        if "event" not in columns:
            for sentence in columns["sentence"]:
                typer.echo(plain(sentence))
            return
        facts = [name for name in columns if name not in ("event", "new", "status", "sentence")]
        about = [[str(columns[name][k]) for name in facts] for k in range(len(columns["event"]))]
        for k, event in enumerate(columns["event"]):
            if (
                event == "opened"
                and columns["event"][k + 1 : k + 2] in (["closed"], ["open"])
                and about[k + 1] == about[k]
            ):
                continue
            short = k > 0 and columns["event"][k - 1] == "opened" and about[k - 1] == about[k]
            opening = (
                "New incident, already over. "
                if short and event == "closed"
                else _OPENINGS[event].format(new=columns["new"][k])
            )
            known = event in ("closed", "open") and about[k] == self._told
            typer.echo(plain(opening.rstrip() if known else opening + columns["sentence"][k]))
            self._told = about[k]


_OPENINGS = {
    "opened": "New incident. ",
    "grew": "{new} went far outside the training range. ",
    "joined": "Part of an incident that began before. ",
    "closed": "Over. ",
    "open": "Still open. ",
}
