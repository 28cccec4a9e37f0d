"""`culpa report`: everything about new rows in one HTML file."""

import sys
from typing import Annotated, Any

import typer

from culpa._core.parameters import EXPLAINER
from culpa.cli import console, options
from culpa.cli.command import Described, command


@command
def report(
    context: typer.Context,
    rows: options.BlamedRowsOptions,
    grouping: options.IncidentOptions,
    blame: Annotated[dict[str, Any], Described(EXPLAINER, ("upstream",), "Blame")],
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write; '-' for standard output.",
            show_default="report.html, or '-' with --json",
        ),
    ] = None,
    json: options.Json = False,
    id: Annotated[
        str | None,
        typer.Option(help="Column with row labels, if the table has no times.", show_default="row numbers"),
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Whose fault is it?",
    force: options.Force = False,
) -> None:
    """Write a report that opens offline in any browser: charts, incidents, the features to blame, and the model.

    The columns that the model uses are kept in memory. A million rows of 12 features take 1.3 GB in total.

    \b
    culpa report new.csv -m plant.culpa -o report.html
    culpa report new.csv -m plant.culpa --time time -o report.html
    culpa report new.csv -m plant.culpa --json | jq .overview.verdict
    """
    if json and "COMMANDLINE" not in str(context.get_parameter_source("output")):
        output = "-"  # what the project file names is the page
    target = options.to_path(output or "report.html")
    as_json = json
    if target is not None:
        from culpa.report import is_json, is_own

        as_json = json or is_json(target)
        force = force or is_own(target)
    options.check_output(target, rows.inputs(), force=force)
    detector = rows.detector()
    source = rows.open(detector)
    time = source.time if id is None or rows.time is not None else None  # labels are for rows without times
    console.tell_reading(source, quiet=rows.quiet)
    chosen = options.blame_of(blame, detector.columns.names)
    from culpa.report import report_on

    with console.progress_bar(source, quiet=rows.quiet) as told:
        made = report_on(detector, source, time=time, id=id, told=told, title=title, **grouping.grouping(), **chosen)
    if target is None:
        sys.stdout.write(made.to_json() if as_json else made.to_html())
    else:
        made.save(target, json=as_json, force=force)
    rows.finish(made.summary, source, target, incidents=True, found=made.summary.anomalies)
