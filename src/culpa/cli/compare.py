"""`culpa compare`: what is different between two periods?"""

from math import isnan
from typing import TYPE_CHECKING, Annotated

import typer

from culpa.cli import console, options
from culpa.cli.command import command
from culpa.cli.terminal import number, say, sheet

if TYPE_CHECKING:
    from culpa.monitoring.comparison import Comparison

_PAIRS_SHOWN = 5


@command
def compare(
    tables: options.PeriodsOptions,
    model: options.Model,
    top: Annotated[int, typer.Option(min=1, help="Number of features to show.")] = 10,
    no_groups: options.NoGroups = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare two periods: which features account for the change of the mean score, and which correlations changed.

    The contributions of the features add up to the change. The intervals remain valid if rows are autocorrelated.

    \b
    culpa compare april.csv may.csv -m plant.culpa
    culpa compare april.csv may.csv -m plant.culpa --json
    """
    from culpa.io.model_file import load_fitted
    from culpa.jobs.comparing import compare as run

    fitted = load_fitted(model)
    before, after = (tables.open_tables([table], fitted) for table in (tables.before, tables.after))
    for table in (before, after):
        console.tell_reading(table, quiet=quiet)
    fitted = fitted.without_groups() if no_groups else fitted
    with console.progress_bar(before, quiet=quiet) as told:
        comparison = run(fitted, before, after, told=told)
    if json:
        typer.echo(comparison.to_json())
    else:
        _print(comparison, top, fitted.settings.noun)


def _print(comparison: "Comparison", top: int, noun: str) -> None:
    from culpa.monitoring.intervals import CONFIDENCE

    say(console.plain(comparison.sentence))
    parts = [
        (
            each.feature,
            f"{each.change.value:+.3g}",
            f"{each.change.low:.3g} to {each.change.high:.3g}",
            "-" if isnan(each.share) else f"{each.share:.0%}",  # of no change at all
            *(number(mean, 5) for mean in (each.mean_before, each.mean_after)),  # groups have none
        )
        for each in comparison.features[:top]
    ]
    headers = (noun, "change", f"{CONFIDENCE:.0%} interval", "share", "mean before", "mean after")
    follow = "; those of other features follow from what changed" if comparison.left is not None else ""
    typer.echo("\n" + sheet(headers, parts, title=f"Parts of the change of the mean score{follow}"))
    pairs = [
        (pair.first, pair.second, f"{pair.before:.2f}", f"{pair.after:.2f}", f"{pair.p_value:.2g}")
        for pair in comparison.correlations[:_PAIRS_SHOWN]
    ]
    of_pairs = (noun, noun, "before", "after", "p-value")
    typer.echo("\n" + sheet(of_pairs, pairs, title="Correlations that changed most clearly"))
