"""`culpa calibrate`: which detector finds the faulty features most often in these data?"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culpa._core.choices import FAULT_KINDS, FaultKind, one_of
from culpa._core.parameters import CALIBRATION, DETECTOR
from culpa.cli import console, options
from culpa.cli.command import Described, command

if TYPE_CHECKING:
    from culpa.calibration.choice import Calibration

FAULTS = "Faults"


@command
def calibrate(
    table: options.TableOptions,
    columns: options.ColumnOptions,
    parameters: Annotated[
        dict[str, Any], Described(DETECTOR, ("n_components", "confidence", "scale", "noun"), options.MODEL)
    ],
    trials: Annotated[dict[str, Any], Described(CALIBRATION, ("n_trials", "seed"), FAULTS)],
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--kinds",
            "--fault",
            help="Kinds of faults to inject, such as 'stuck,bias 3 sd'. Repeatable.",
            show_default="all",
            rich_help_panel=FAULTS,
        ),
    ] = None,
    at_once: Annotated[
        list[str] | None,
        typer.Option(
            help="Numbers of columns that a fault changes at once, such as '1,2'. Repeatable.",
            show_default="1,2,3",
            rich_help_panel=FAULTS,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Model file to write, such as plant.culpa.", show_default="none"),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of settings to show.")] = 15,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare settings by injecting faults into held-out normal rows, and write a model file with the best setting.

    Only normal rows are needed. The comparison uses at most 20,000 complete rows; the model learns from all rows.

    \b
    culpa calibrate normal.csv
    culpa calibrate normal.csv -o plant.culpa --id time
    culpa calibrate normal.csv -o plant.culpa --kinds 'stuck,bias 3 sd' --at-once 1
    """
    from culpa._core.files import check_free
    from culpa.calibration.choice import MOST_ROWS, Plan, choose
    from culpa.detector import PCADetector
    from culpa.io.tables import TableError
    from culpa.jobs import fit, sample

    if output is not None:
        check_free(output, force=force)
    faults = _kinds(kinds or [])
    source = table.open()
    if not source.again:
        raise TableError(f"calibrate reads the rows twice, which is not possible with {source.name}: give a file.")
    features = columns.features(source)
    sizes = _sizes(at_once or [], len(features))
    detector = PCADetector(**parameters)
    with console.work_bar(quiet=quiet) as progress:
        drawn = sample(source, features, MOST_ROWS)
        calibration = choose(drawn, detector, Plan(kinds=faults, at_once=sizes, **trials, progress=progress))
    if not quiet:
        _show(calibration, top)
    if output is not None:
        best = fit(calibration.best.applied_to(detector), source, features, report=console.warn)
        best.save(output)
        if not quiet:
            console.say(f"wrote {output}: {calibration.best.label}")


def _kinds(given: list[str]) -> Sequence[FaultKind]:
    """The kinds of faults to inject; all of them if none is given."""
    from culpa.io.tables.columns import split_names

    names = [one_of(name, FAULT_KINDS, "kind of fault") for name in split_names(given, FAULT_KINDS)]
    return [kind for name in names for kind in FAULT_KINDS if kind == name] or FAULT_KINDS


def _sizes(given: list[str], n_features: int) -> Sequence[int]:
    """How many columns are faulty at once; at least one must stay normal."""
    sizes = []
    for text in ",".join(given).split(",") if given else []:
        if not text.strip().isdecimal() or int(text) < 1:
            raise ValueError(f"--at-once must be whole numbers of at least 1, such as 1 or '1,2', got {text!r}.")
        if int(text) >= n_features:
            raise ValueError(
                f"--at-once {int(text)} leaves no column normal: with {n_features} columns, "
                f"at most {n_features - 1} can be faulty at once."
            )
        sizes.append(int(text))
    return list(dict.fromkeys(sizes)) or CALIBRATION["at_once"].default


def _show(calibration: "Calibration", top: int) -> None:
    from rich import box
    from rich.table import Table

    sheet = Table(
        title=f"Which setting finds the faulty features? {calibration.n_trials:,} injected faults",
        caption="Hits@1: share of faults whose most blamed feature is faulty (95% interval). Hits@3: share of the faulty "
        "features among the three most blamed; with several faulty features it can be below Hits@1. "
        f"Rank: mean rank of the faulty features. Chosen: {calibration.best.label}.",
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for k, name in enumerate(("setting", "Hits@1", "", "Hits@3", "rank")):
        sheet.add_column(name, justify="left" if k == 0 else "right")
    shown = [entry for k, entry in enumerate(calibration.entries) if k < top or entry.setting == calibration.best]
    for setting, hits1, hits3, rank in shown:
        interval = f"{hits1.low:.3f}-{hits1.high:.3f}"
        cells = (setting.label, f"{hits1.value:.3f}", interval, f"{hits3.value:.3f}", f"{rank.value:.2f}")
        sheet.add_row(*cells, style="bold" if setting == calibration.best else None)
    console.console_of_width(120).print(sheet)
