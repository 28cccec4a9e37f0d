"""`culpa score`: how abnormal is each row?"""

from typing import Annotated

import typer

from culpa.cli import common


def score(
    table: common.Table,
    model: common.Model,
    output: common.Output = "-",
    format: common.OutputFormat = None,
    id: common.Id = None,
    flagged: Annotated[bool, typer.Option("--flagged", help="Write flagged rows only.")] = False,
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
    """Score every row: its score, the limit, and whether it is flagged.

    Columns are matched by name, in any order; others are ignored. Rows are numbered from 0, unless --id names them.

    \b
    culpa score new.parquet -m plant.culpa -o scores.parquet
    culpa score new.csv -m plant.culpa --id time --flagged
    tail -f readings.ndjson | culpa score - -m plant.culpa
    """
    with common.guarded():
        source = common.source_from(table, input_format, delimiter, decimal, encoding, missing, strict, sparse)
        detector = common.read_model(model)
        from culpa.jobs import score as run

        target = common.to_path(output)
        with (
            common.output_to(target, format, source, force=force) as (sink, _),
            common.progress_bar(source, quiet=quiet) as (rows_done, _),
        ):
            summary = run(
                detector,
                source,
                sink,
                carried=common.names_of(id, source),
                flagged_only=flagged,
                progress=lambda summary: rows_done(summary.rows),
                report=common.warn,
            )
        common.finish(summary, source, target, quiet=quiet, fail_on_anomaly=fail_on_anomaly)
