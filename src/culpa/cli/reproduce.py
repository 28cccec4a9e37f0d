"""`culpa reproduce`: the tables and figures of the paper, side by side with ours."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from culpa.cli import options
from culpa.cli.command import command
from culpa.cli.console import work_bar
from culpa.cli.terminal import sheet

if TYPE_CHECKING:
    from culpa.paper.run import Results


class Part(StrEnum):
    """A part of the paper that the command computes anew."""

    table1 = "table1"
    table2 = "table2"
    figures = "figures"
    all = "all"


@command
def reproduce(
    what: Annotated[Part, typer.Argument(help="Part of the paper to reproduce.", show_default=False)],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the data files (cars04.csv, odds/*.npz, or the original files). Missing files are "
            "downloaded.",
            show_default="$CULPA_DATA",
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write figures and page to.")] = Path(
        "culpa-reproduction"
    ),
    seeds: Annotated[int, typer.Option(min=2, max=1000, help="Number of runs of Algorithm 1.")] = 20,
    json: options.Json = False,
) -> None:
    """Reproduce the tables and figures of the paper (arXiv:1909.03495), side by side with the published ones."""
    results = _run(what.value, data, output, seeds)
    if json:
        from json import dumps

        typer.echo(dumps(results.to_dict(), indent=2, ensure_ascii=False))
    else:
        _print(results)


def _run(what: str, data: Path | None, output: Path, seeds: int) -> "Results":
    from culpa.paper.run import reproduce as run

    with work_bar() as progress:
        return run(what, data=data, output=output, n_seeds=seeds, progress=progress)


def _print(results: "Results") -> None:
    for each in results.sheets():
        typer.echo(sheet(each.columns, each.rows, title=each.title, caption=each.note, strong=each.strong) + "\n")
    missed = [check for check in results.checks if not check.holds]
    typer.echo(f"{len(results.checks) - len(missed)} of {len(results.checks)} expected numbers found.")
    for check in missed:
        typer.echo(f"{check.what}: expected {check.expected:g}, found {check.found:.4f}")
    for path in results.files:
        typer.echo(f"wrote {path}")
