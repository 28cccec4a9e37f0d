"""The command line: it only parses arguments. The library does the work."""

from pathlib import Path
from typing import Annotated

import typer

from culpa.cli import console, project
from culpa.cli.calibrate import calibrate
from culpa.cli.command import command
from culpa.cli.compare import compare
from culpa.cli.explain import explain
from culpa.cli.fit import fit
from culpa.cli.help import Command, Commands
from culpa.cli.incidents import incidents
from culpa.cli.info import info
from culpa.cli.init import init
from culpa.cli.report import report
from culpa.cli.reproduce import reproduce
from culpa.cli.score import score
from culpa.cli.update import update

app = typer.Typer(
    cls=Commands,
    help="Whose fault is this anomaly? Learn from normal rows, flag abnormal rows, and name the features to blame.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from culpa._core.version import __version__

        typer.echo(f"culpa {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_show_version, help="Show the version.")] = False,
    project_file: Annotated[
        Path | None,
        typer.Option("--project", help="Project file with settings.", show_default=f"{project.NAME}, if there is one"),
    ] = None,
) -> None:
    """Whose fault is this anomaly? Learn from normal rows, flag abnormal rows, and name the features to blame."""
    found = Path(project.NAME).is_file() and context.invoked_subcommand != "init"
    with console.guarded():
        project.begin(context, project_file or (Path(project.NAME) if found else None))


@command
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Report to write.")] = Path("culpa-demo-report.html"),
) -> None:
    """Run everything on a small data set of wines: find unusual wines, explain them, and write a report."""
    from culpa.cli import demonstration

    demonstration.run(output)


for each in (demo, init, fit, calibrate, update, score, explain, incidents, compare, report, info, reproduce):
    app.command(cls=Command)(each)
