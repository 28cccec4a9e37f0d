"""`culpa reproduce`: the paper's tables and figures beside ours."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from culpa.cli.common import work_bar

if TYPE_CHECKING:
    from culpa.experiments.run import Results


class Part(StrEnum):
    """What can be reproduced."""

    table1 = "table1"
    table2 = "table2"
    figures = "figures"
    localisation = "localisation"
    all = "all"
    limits = "limits"


def reproduce(
    what: Annotated[
        Part,
        typer.Argument(
            help="Part of the paper, all of it, or beyond it: localisation of faults, false alarms of limits.",
            show_default=False,
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the data files (cars04.csv, odds/*.npz, or the original files). Without it the folder named "
            "by CULPA_DATA, else they are downloaded.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for figures and pages.")] = Path(
        "culpa-reproduction"
    ),
    seeds: Annotated[int, typer.Option(min=2, max=1000, help="Runs of Algorithm 1 behind means and ranges.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of tables.")] = False,
) -> None:
    """Reproduce the paper (arXiv:1909.03495): its tables and figures beside ours, and what it could not know.

    'localisation' goes beyond it: faults injected into twelve data sets, and which criterion finds the culprits. It takes
    some minutes and is not part of 'all'.
    """
    from culpa.datasets import DataFileError

    try:
        results = _run(what.value, data, output, seeds)
    except (DataFileError, ImportError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None
    if json:
        from json import dumps

        typer.echo(dumps(results.to_dict(), indent=2, ensure_ascii=False))
    else:
        _print(results)


def _run(what: str, data: Path | None, output: Path, seeds: int) -> "Results":
    from culpa.experiments.run import reproduce as run

    with work_bar() as progress:
        return run(what, data=data, output=output, n_seeds=seeds, progress=progress)


def _print(results: "Results") -> None:
    from rich.console import Console

    from culpa.experiments.sheets import to_rich

    console = Console()
    if not console.is_terminal:  # a file or a pipe: nothing to wrap for
        console = Console(width=150)
    for sheet in results.sheets():
        console.print(to_rich(sheet), "")
    missed = [check for check in results.checks if not check.holds]
    if results.checks:
        console.print(
            f"{len(results.checks) - len(missed)} of {len(results.checks)} expected numbers found.", highlight=False
        )
    for check in missed:
        console.print(
            f"{check.what}: expected {check.expected:g}, found {check.found:.4f}", style="red", highlight=False
        )
    for path in results.files:
        console.print(f"wrote {path}", highlight=False, markup=False, soft_wrap=True)
