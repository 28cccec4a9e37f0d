"""`culpa compare`: what is different between two periods?"""

from math import isnan
from typing import TYPE_CHECKING, Annotated

import typer

from culpa.cli import console, options
from culpa.cli.command import command

if TYPE_CHECKING:
    from rich.text import Text

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
    from culpa.jobs import compare as run

    fitted = load_fitted(model)
    before, after = tables.open_both(fitted)
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
    from rich.table import Table

    from culpa.monitoring.intervals import CONFIDENCE

    out = console.console_of_width(120)
    out.print(_text(comparison.sentence))
    parts = Table(title="Parts of the change of the mean score", title_justify="left")
    parts.add_column(_text(noun))
    for name in ("change", f"{CONFIDENCE:.0%} interval", "share", "mean before", "mean after"):
        parts.add_column(name, justify="right")
    for each in comparison.features[:top]:
        low_to_high = f"{each.change.low:.3g} to {each.change.high:.3g}"
        share = "-" if isnan(each.share) else f"{each.share:.0%}"  # of no change at all
        means = ("" if isnan(mean) else f"{mean:.5g}" for mean in (each.mean_before, each.mean_after))  # of groups
        parts.add_row(_text(each.feature), f"{each.change.value:+.3g}", low_to_high, share, *means)
    out.print(parts)
    pairs = Table(title="Correlations that changed most clearly", title_justify="left")
    for _ in range(2):
        pairs.add_column(_text(noun))
    for name in ("before", "after", "p-value"):
        pairs.add_column(name, justify="right")
    for pair in comparison.correlations[:_PAIRS_SHOWN]:
        numbers = (f"{pair.before:.2f}", f"{pair.after:.2f}", f"{pair.p_value:.2g}")
        pairs.add_row(_text(pair.first), _text(pair.second), *numbers)
    out.print(pairs)


def _text(name: str) -> "Text":
    """A name as it is: neither markup nor characters that would steer the terminal."""
    from rich.text import Text

    return Text(console.plain(name))
