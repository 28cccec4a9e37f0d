"""`culpa explain`: which features are to blame?"""

from typing import Annotated

import typer

from culpa.cli import common


def explain(
    table: common.Table,
    model: common.Model,
    output: common.Output = "-",
    format: common.OutputFormat = None,
    id: common.Id = None,
    all: Annotated[bool, typer.Option("--all", help="Explain every row, not only flagged ones.")] = False,
    top: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="A line for each of the K worst culprits of a row, with what they should have been.",
            show_default=False,
        ),
    ] = None,
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
    """Explain flagged rows: how much of the score each feature is to blame for.

    By default a column of Shapley values per feature, under its own name. From a pipe of NDJSON, every line is answered
    as it comes: score and flag, and the worst culprits of flagged lines.

    \b
    culpa explain new.csv -m plant.culpa -o why.csv
    culpa explain new.csv -m plant.culpa --id time --top 3
    culpa explain new.parquet -m plant.culpa --all -o why.parquet
    tail -f readings.ndjson | culpa explain - -m plant.culpa
    """
    with common.guarded():
        source = common.source_from(table, input_format, delimiter, decimal, encoding, missing, strict, sparse)
        detector = common.read_model(model)
        from culpa.jobs import explain as run

        target = common.to_path(output)
        with (
            common.output_to(target, format, source, force=force) as (sink, kind),
            common.progress_bar(source, quiet=quiet) as (rows_done, note),
        ):
            summary = run(
                detector,
                source,
                sink,
                carried=common.names_of(id, source),
                all_rows=all,
                top=top,
                inline=source.live and kind == "ndjson",
                progress=lambda summary: rows_done(summary.rows),
                report=common.warn,
                note=note,
            )
        common.finish(summary, source, target, quiet=quiet, fail_on_anomaly=fail_on_anomaly)
