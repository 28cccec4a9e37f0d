"""`culpa score`: how abnormal is each row?"""

from typing import Annotated

import typer

from culpa._core.kinds import FRACTION
from culpa.cli import on_spark, options
from culpa.cli.command import command
from culpa.cli.console import tell_reading


@command
def score(
    rows: options.NewRowsOptions,
    answer: options.OutputOptions,
    engine: on_spark.EngineOptions,
    id: options.Id = None,
    flagged: Annotated[bool, typer.Option("--flagged", help="Write flagged rows only.")] = False,
    fdr: Annotated[
        float | None,
        typer.Option(
            help="Add a column 'discovery'. It marks as many rows as possible while the expected share of false alarms "
            "among them stays below this rate.",
            show_default="none",
        ),
    ] = None,
) -> None:
    """Write the score of every row, its p_value, the limit, and whether the row is flagged.

    Columns are matched by name, in any order; other columns are ignored. Rows are numbered from 0 unless you pass --id.

    \b
    culpa score new.parquet -m plant.culpa -o scores.parquet
    culpa score new.csv -m plant.culpa --id time --flagged
    culpa score new.csv -m plant.culpa --fdr 0.05
    culpa score /data/new -m plant.culpa -o /data/scores --engine spark
    tail -f readings.ndjson | culpa score - -m plant.culpa
    """
    if fdr is not None:
        FRACTION.check(fdr, "--fdr")
    if engine.is_spark:
        on_spark.answer_new_rows(engine, rows, answer, "score", {}, {"--fdr": fdr, "--flagged": flagged, "--id": id})
        return
    with options.open_job(rows, answer, copies_times=True) as job:
        from culpa.jobs.answers import score as work

        carried = job.labels(id)
        tell_reading(job.source, quiet=rows.quiet)
        summary = work(*job.tables, carried=carried, flagged_only=flagged, fdr=fdr, told=job.told)
    rows.finish(summary, job.source, answer.path, found=summary.anomalies)
