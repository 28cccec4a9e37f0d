"""`culpa calibrate`: which detector finds the culprits most often in these data?"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culpa.cli import common
from culpa.cli.fit import components_of

if TYPE_CHECKING:
    from culpa.calibration.choice import Calibration


def calibrate(
    table: common.Table,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Model file to write, such as plant.culpa.", show_default="none"),
    ] = None,
    columns: common.Columns = None,
    drop: common.Drop = None,
    id: common.Id = None,
    components: common.Components = "0.95",
    confidence: common.Confidence = 0.99,
    scale: common.Scale = True,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--kinds",
            "--fault",
            help="Kinds of faults to inject, such as 'stuck,bias 3 sd'; may be repeated.",
            show_default="all",
        ),
    ] = None,
    at_once: Annotated[
        list[str] | None,
        typer.Option(
            help="How many columns a fault befalls, such as 1 or '1,2'; may be repeated.", show_default="1,2,3"
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=100, help="Faults to inject.")] = 1800,
    top: Annotated[int, typer.Option(min=1, help="Candidates to show.")] = 15,
    seed: Annotated[int, typer.Option(help="Same seed, same choice.")] = 0,
    input_format: common.InputFormat = None,
    delimiter: common.Delimiter = None,
    decimal: common.Decimal = None,
    encoding: common.Encoding = "utf-8",
    missing: common.Missing = None,
    strict: common.Strict = False,
    sparse: common.Sparse = False,
    force: common.Force = False,
    quiet: common.Quiet = False,
) -> None:
    """Inject faults into held-out normal rows, show which detector finds the culprits, and write it as a model file.

    Only the table of normal rows is used. The choice is made on at most 20,000 complete rows; the model learns from all.

    \b
    culpa calibrate normal.csv
    culpa calibrate normal.csv -o plant.culpa --id time
    culpa calibrate normal.csv -o plant.culpa --kinds 'stuck,bias 3 sd' --at-once 1
    """
    with common.guarded():
        from culpa._core.files import check_free
        from culpa.calibration.choice import MOST_ROWS, Plan, choose
        from culpa.detector import PCADetector
        from culpa.io.tables import TableError
        from culpa.jobs import fit, sample

        if output is not None:
            check_free(output, force=force)
        expected = _kinds(kinds or [])
        source = common.source_from(table, input_format, delimiter, decimal, encoding, missing, strict, sparse)
        if not source.again:
            raise TableError(f"calibrating reads the rows twice, which {source.name} cannot: give a file.")
        features = common.features_of(source, columns, drop, id)
        if len(features) < 2:
            raise TableError(f"{source.name}: {len(features)} numeric column(s) are too few: at least 2 are needed.")
        sizes = _sizes(at_once or [], len(features))
        detector = PCADetector(components_of(components), scale=scale, confidence=confidence)
        with common.work_bar(quiet=quiet) as progress:
            drawn = sample(source, features, MOST_ROWS)
            plan = Plan(kinds=expected, at_once=sizes, n_trials=trials, seed=seed, progress=progress)
            calibration = choose(drawn, detector, plan)
        if not quiet:
            _show(calibration, top)
        if output is not None:
            best = fit(calibration.best.applied_to(detector), source, features, report=common.warn)
            best.save(output)
            if not quiet:
                common.say(f"wrote {output}: {calibration.best.label}")


def _kinds(given: list[str]) -> Any:
    """The kinds of faults that are meant; all of them if none is named."""
    from culpa._core.choices import FAULT_KINDS, one_of
    from culpa.io.tables.columns import split_names

    return [one_of(kind, FAULT_KINDS, "kind of fault") for kind in split_names(given, FAULT_KINDS)] or list(FAULT_KINDS)


def _sizes(given: list[str], n_features: int) -> Sequence[int]:
    """How many columns fail at once; at least one must stay sound."""
    from culpa.calibration.injection import SIMULTANEOUS_FAULTS

    sizes = []
    for text in ",".join(given).split(",") if given else []:
        if not text.strip().isdecimal() or int(text) < 1:
            raise ValueError(f"--at-once must be whole numbers from 1, such as 1 or '1,2', got {text!r}.")
        if int(text) >= n_features:
            raise ValueError(
                f"--at-once {int(text)} would leave no column sound: of {n_features} columns in use, "
                f"at most {n_features - 1} can fail at once."
            )
        sizes.append(int(text))
    return list(dict.fromkeys(sizes)) or SIMULTANEOUS_FAULTS


def _show(calibration: "Calibration", top: int) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:  # a file or a pipe: nothing to wrap for
        console = Console(width=120)
    sheet = Table(
        title=f"Who finds the culprit? {calibration.n_trials:,} injected faults",
        caption="Hits@1: the most blamed feature is at fault (95% interval). Hits@3: share of the faulty features "
        "that are among the three most blamed; with several at fault it can be below Hits@1. "
        f"Rank: mean place of the faulty features. Chosen: {calibration.best.label}.",
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
    console.print(sheet)
