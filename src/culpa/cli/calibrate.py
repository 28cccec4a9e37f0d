"""`culpa calibrate`: which detector finds the faulty features best in these data?"""

import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culpa._core.parameters import CALIBRATION, DETECTOR
from culpa.cli import console, options
from culpa.cli.command import Described, command
from culpa.cli.terminal import sheet

if TYPE_CHECKING:
    from culpa._core.types import Floats
    from culpa.calibration.choice import Calibration
    from culpa.calibration.comparison import Outcome
    from culpa.calibration.components import ComponentsByDetection
    from culpa.calibration.evaluation import Estimate
    from culpa.calibration.plan import Plan
    from culpa.detecting.detector import PCADetector
    from culpa.scores.held_out import Rate

_COMPARABLE = tuple(name for name in DETECTOR if name != "smooth")  # faults are injected into single rows


# the unfitted detector, what it is called, and the tables to show
Chosen = tuple["PCADetector", str, Callable[[int], list[str]]]


class Choice(StrEnum):
    """Which part of the detector to choose: the setting or the number of components."""

    settings = "settings"
    components = "components"


@command
def calibrate(
    table: options.TableOptions,
    columns: options.ColumnOptions,
    parameters: Annotated[dict[str, Any], Described(DETECTOR, _COMPARABLE, options.MODEL)],
    trials: Annotated[dict[str, Any], Described(CALIBRATION, ("kinds", "at_once", "n_trials", "seed"), "Faults")],
    choose: Annotated[
        Choice,
        typer.Option(
            help="What to choose: the settings that find faulty features best, or the number of components with the "
            "highest detection rate. In both cases, all candidates are compared at the same rate of false alarms."
        ),
    ] = Choice.settings,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Model file to write, such as plant.culpa.", show_default="none"),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of settings to show.")] = 15,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare settings by injecting faults into held-out normal rows. With -o, write a model file with the best setting.

    You only need normal rows. All settings are compared at the same rate of false alarms. The comparison uses at most
    20,000 complete rows, and the model learns from all rows. The model options are the starting point. calibrate
    changes only --statistic, --noise, --shrinkage, --game and --ranking, and only if another value is clearly better.

    \b
    culpa calibrate normal.csv
    culpa calibrate normal.csv -o plant.culpa --id time --lags 2
    culpa calibrate normal.csv -o plant.culpa --kinds 'stuck,bias 3 sd' --at-once 1
    culpa calibrate normal.csv -o plant.culpa --choose components
    """
    from culpa.calibration.comparison import by_position, n_judged
    from culpa.calibration.injection import past_of
    from culpa.calibration.plan import MOST_ROWS, Plan
    from culpa.detecting.detector import PCADetector
    from culpa.io.tables import TableError
    from culpa.jobs.batches import Listener
    from culpa.jobs.fitting import check_columns, fit, sample

    if output is not None:
        options.check_output(output, table.inputs(), force=force)
    source = table.open()
    if not source.again:
        raise TableError(f"calibrate reads the rows twice, which is not possible with {source.name}. Pass a file.")
    features = columns.features(source, parameters)
    console.tell_reading(source, quiet=quiet)
    detector = PCADetector(**parameters)
    check_columns(detector, features)
    comparable = by_position(detector, features)
    most = n_judged(comparable, len(features)) // (detector.lags + 1) - 1
    if trials["at_once"] != CALIBRATION["at_once"].default and (largest := max(trials["at_once"])) > most:
        raise ValueError(
            f"--at-once {largest} is too large: at most {most} of the {most + 1} columns can be faulty at once, so that at "
            "least one stays normal."
        )
    with console.work_bar(quiet=quiet) as progress:
        windows = sample(source, features, MOST_ROWS, past=past_of(detector.lags))
        plan = Plan(**trials, progress=progress)
        choice = (_settings if choose is Choice.settings else _components)(windows, comparable, plan, len(features))
    best, label, sheets = choice
    best.set_params(given=detector.given)  # by name
    if output is not None:
        fit(best, source, features, told=Listener(warning=console.warn))
    stopped = None if quiet else _print(sheets(top))
    if output is not None:  # after everything that may fail
        options.save_model(best, source, output)
        if not quiet:
            console.say(f"wrote {output}: {label}{options.rate(best)}")
    if stopped is not None:
        raise stopped


def _print(sheets: list[str]) -> BrokenPipeError | None:
    """Print tables; returns the error of a reader that stopped in the middle, as "head" does."""
    try:
        typer.echo("\n\n".join(sheets))
        sys.stdout.flush()
    except BrokenPipeError as error:
        return error
    return None


def _settings(windows: "Floats", detector: "PCADetector", plan: "Plan", n_columns: int) -> Chosen:
    from culpa.calibration.choice import calibrated, choose

    found = choose(windows, detector, plan)
    return (
        calibrated(detector, found.best, n_columns),
        found.best.label,
        lambda top: [_comparison(found, top), _changes(found)],
    )


def _components(windows: "Floats", detector: "PCADetector", plan: "Plan", n_columns: int) -> Chosen:
    from culpa.calibration.components import compare_components

    found = compare_components(windows, detector, plan)
    label = f"{console.count(found.best, 'component')}, {found.statistic}"
    return found.applied_to(detector), label, lambda top: [_by_components(found)]


def _comparison(calibration: "Calibration", top: int) -> str:
    entries = calibration.entries[:top]
    return sheet(
        ("setting", "detection", "", "false alarms", "Hits@1", "", "Hits@3", "rank", ""),
        map(_line, entries),
        title=f"Which setting finds the faulty features? {calibration.n_trials:,} injected faults",
        caption="Detection: share of the faults above the limit. All settings have the same share of held-out normal rows "
        "above it. Hits@1: share of the faults whose most blamed feature is faulty. Hits@3: share of the faulty "
        "features among the three most blamed; with several faulty features it can be below Hits@1. Rank: mean rank "
        f"of the faulty features. Intervals are at 95%. {calibration.rule}",
        strong=[k for k, entry in enumerate(entries) if entry.standing == "chosen"],
        spare=(2, 5),
    )


def _line(entry: "Outcome") -> tuple[str, ...]:
    shown = (entry.setting.label, *_rated(entry.detection), _alarms(entry.false_alarms), *_rated(entry.hits1))
    return (*shown, f"{entry.hits3.value:.3f}", f"{entry.rank.value:.2f}", entry.standing)


def _rated(rate: "Estimate") -> tuple[str, str]:
    return f"{rate.value:.3f}", f"{rate.low:.3f}-{rate.high:.3f}"


def _alarms(rate: "Rate") -> str:
    return f"{rate.value:.2%} ({100 * rate.low:.1f}-{100 * rate.high:.1f})"


def _changes(calibration: "Calibration") -> str:
    kept = "Nothing changes: no setting is clearly better than the one given"
    title = kept if calibration.best == calibration.given else "What changes, and what that does"
    return sheet(("", "before", "after"), calibration.changes, title=title)


def _by_components(found: "ComponentsByDetection") -> str:
    tied = ", ".join(map(str, found.tied))
    return sheet(
        ("components", "detection", "", "false alarms"),
        [(str(p), *_rated(detection), _alarms(alarms)) for p, detection, alarms in found.entries],
        title=f"Which number of components detects most faults? {found.n_trials:,} injected faults, {found.statistic}",
        caption="Detection: share of the faults above the limit, with a 95% interval. All numbers of components have the "
        f"same share of held-out normal rows above it. Chosen: {found.best}. Tied, as their intervals overlap: {tied}.",
        strong=[k for k, entry in enumerate(found.entries) if entry[0] == found.best],
    )
