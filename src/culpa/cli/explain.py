"""`culpa explain`: which features are to blame?"""

from typing import Annotated, Any

import typer

from culpa._core.parameters import EXPLAINER, BlameOptions
from culpa.cli import on_spark, options
from culpa.cli.command import Described, command
from culpa.cli.console import tell_reading

# what text can say: neither functions nor groups, which a model has
_BLAME = tuple(
    name for name in BlameOptions.__annotations__ if name in EXPLAINER and name not in ("groups", "progress")
)

_FOR_PEOPLE = 3  # culprits of a row


@command
def explain(
    rows: options.BlamedRowsOptions,
    answer: options.OutputOptions,
    blame: Annotated[dict[str, Any], Described(EXPLAINER, _BLAME, "Blame")],
    engine: on_spark.EngineOptions,
    all: Annotated[bool, typer.Option("--all", help="Explain every row, not only flagged rows.")] = False,
    top: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Write one line for each of the K most blamed features of a row, with its expected value.",
            metavar="K",
            show_default="one line per row",
        ),
    ] = None,
    shortest: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            show_default=False,
            help="Write one line for each of the fewest features that account for this share of the score above its mean.",
        ),
    ] = None,
    counterfactual: Annotated[
        bool,
        typer.Option(
            "--counterfactual",
            help="Write the fewest features to change, and their new values, so that the row would not be flagged.",
        ),
    ] = False,
    id: options.Id = None,
) -> None:
    """Explain flagged rows: how much each feature contributes to the score.

    By default, the output has a column of Shapley values for every feature. With NDJSON from a pipe, every line gets an
    answer at once: score and flag, and for flagged lines the most blamed features.

    \b
    culpa explain new.csv -m plant.culpa -o why.csv
    culpa explain new.csv -m plant.culpa --id time --top 3
    culpa explain new.csv -m plant.culpa --top 3 --tolerance top3
    culpa explain new.csv -m plant.culpa --shortest 0.9
    culpa explain new.csv -m plant.culpa --counterfactual
    culpa explain new.parquet -m plant.culpa --all -o why.parquet
    culpa explain /data/new -m plant.culpa --all -o /data/why --engine spark
    culpa explain new.csv -m plant.culpa --top 3 --upstream feed:reactor,reactor:product
    tail -f readings.ndjson | culpa explain - -m plant.culpa
    """
    if sum((top is not None, shortest is not None, counterfactual)) > 1:
        raise ValueError("choose one of --top, --shortest and --counterfactual.")
    if shortest is not None and not 0 < shortest <= 1:
        raise ValueError(f"--shortest needs a share above 0 and up to 1, got {shortest:g}.")
    if engine.is_spark:
        refused = {"--shortest": shortest, "--counterfactual": counterfactual, "--id": id}
        refused |= {EXPLAINER[name].flag: value for name, value in EXPLAINER.changed(blame).items()}
        on_spark.answer_new_rows(engine, rows, answer, "explain", {"top": top, "flagged_only": not all}, refused)
        return
    with options.open_job(rows, answer, copies_times=True) as job:
        from culpa.jobs.answers import explain as work

        carried = job.labels(id)
        tell_reading(job.source, quiet=rows.quiet)
        summary = work(
            *job.tables,
            carried=carried,
            all_rows=all,
            top=_FOR_PEOPLE if top is None and job.format == "screen" else top,
            shortest=shortest,
            counterfactual=counterfactual,
            options=options.blame_of(blame, job.detector.columns.names),
            inline=job.source.live and job.format == "ndjson" and shortest is None and not counterfactual,
            told=job.told,
        )
    rows.finish(summary, job.source, answer.path, found=summary.anomalies)
