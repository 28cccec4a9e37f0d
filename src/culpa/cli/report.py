"""`culpa report`: everything about new rows in one HTML file."""

import sys
from typing import Annotated

import typer

from culpa.cli import common


def report(
    table: common.Table,
    model: common.Model,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write; '-' is standard output.",
            show_default="report.html, or '-' for --json",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="The same content as data for programs, instead of a page.")
    ] = False,
    time: common.Time = None,
    id: Annotated[
        str | None,
        typer.Option(help="Column that names the rows, where they have no times.", show_default="row numbers"),
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Whose fault is it?",
    gap: common.Gap = "0",
    min_length: common.MinLength = 1,
    input_format: common.InputFormat = None,
    delimiter: common.Delimiter = None,
    decimal: common.Decimal = None,
    encoding: common.Encoding = "utf-8",
    missing: common.Missing = None,
    strict: common.Strict = False,
    sparse: common.Sparse = False,
    force: common.Force = False,
    fail_on_anomaly: common.FailOnAnomaly = False,
    quiet: common.Quiet = False,
) -> None:
    """Write a report that opens offline in any browser: charts, incidents, culprits, the model.

    The features of the table are held in memory: 1.3 GB in all for a million rows of 12.

    \b
    culpa report new.csv -m plant.culpa -o report.html
    culpa report new.csv -m plant.culpa --time time --gap 5min -o report.html
    culpa report new.csv -m plant.culpa --json | jq .overview.verdict
    """
    with common.guarded():
        from culpa._core.files import check_free

        target = common.to_path(output or ("-" if json else "report.html"))
        if target is not None:
            check_free(target, force=force)
        source = common.source_from(table, input_format, delimiter, decimal, encoding, missing, strict, sparse)
        detector = common.read_model(model)
        from culpa.report import report_on

        with common.progress_bar(source, quiet=quiet) as (rows_done, note):
            made = report_on(
                detector,
                source,
                time=time,
                id=id,
                progress=rows_done,
                report=common.warn,
                note=note,
                title=title,
                gap=common.to_gap(gap),
                min_length=min_length,
            )
        if target is None:
            sys.stdout.write(made.to_json() if json else made.to_html())
        else:
            made.save(target, json=json or None, force=force)
        common.finish(
            made.summary,
            source,
            target,
            quiet=quiet,
            fail_on_anomaly=fail_on_anomaly,
            told=common.count(made.summary.incidents, "incident"),
        )
