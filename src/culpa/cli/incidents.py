"""`culpa incidents`: what happened, and which features are to blame?"""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Annotated, Any

import typer

from culpa.cli import options
from culpa.cli.command import command
from culpa.cli.console import warn


@command
def incidents(
    rows: options.NewRowsOptions,
    answer: options.OutputOptions,
    grouping: options.IncidentOptions,
    text: Annotated[bool, typer.Option("--text", help="Print only a sentence for each incident.")] = False,
) -> None:
    """Group flagged rows into incidents: when, which features are to blame, and what was expected.

    Each incident is written as soon as it is over.

    \b
    culpa incidents new.csv -m plant.culpa --time time --gap 5min --text
    culpa incidents new.parquet -m plant.culpa --min-length 3 -o incidents.csv
    """
    if text and (answer.path or answer.format):
        raise ValueError("--text writes to standard output. Leave out -o and --format.")
    with options.open_job(rows, nullcontext((_Lines(), "text")) if text else answer) as job:
        from culpa.jobs import incidents as run

        summary = run(
            job.detector,
            job.source,
            job.sink,
            time=grouping.time,
            **grouping.grouping(),
            progress=job.progress,
            report=warn,
            note=job.note,
        )
    rows.finish(summary, job.source, answer.path, incidents=True, found=summary.incidents)


class _Lines:
    """A sink that prints sentences."""

    def write(self, columns: Mapping[str, Any]) -> None:
        for sentence in columns["sentence"]:
            typer.echo(sentence)
