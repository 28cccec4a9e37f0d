"""`culpa fit`: learn what normal rows look like."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culpa._core.parameters import DETECTOR
from culpa.cli import console, on_spark, options
from culpa.cli.command import Described, command

if TYPE_CHECKING:
    from culpa.detecting.detector import PCADetector
    from culpa.io.tables import TimedTable


@command
def fit(
    table: options.TableOptions,
    output: options.ModelOutput,
    columns: options.ColumnOptions,
    parameters: Annotated[dict[str, Any], Described(DETECTOR, panel=options.MODEL)],
    engine: on_spark.EngineOptions,
    unit: Annotated[
        list[str] | None,
        typer.Option(
            help="Unit of a column, as 'name=unit', instead of the one in its header. Repeatable.",
            show_default=False,
            rich_help_panel=options.COLUMNS,
        ),
    ] = None,
    complete_only: options.CompleteOnly = False,
    compile: Annotated[
        bool, typer.Option("--compile", help="Store a compiled explainer, so that the first explanation is fast.")
    ] = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn from normal rows, and write a model file.

    The table may be larger than memory: it is read in batches, once to learn from it and once to check the limit.

    \b
    culpa fit normal.csv -o plant.culpa
    culpa fit normal.parquet -o plant.culpa --id time --drop operator,shift
    culpa fit normal.csv -o plant.culpa --group 'A feed=flow_1,valve_3' --group 'B feed=flow_2,valve_4'
    culpa fit 'line3/*.parquet' -o line3.culpa --from 2024-02-01 --exclude 2024-02-03
    culpa fit /data/normal -o plant.culpa --engine spark --time time
    culpa fit pi.csv -o plant.culpa --long tag,time,value,quality --every 1min
    """
    from culpa.detecting.detector import PCADetector
    from culpa.fitting.diagnostics import modes_in_words, ties_in_words
    from culpa.jobs.fitting import fit as learn

    options.check_output(output, on_spark.paths(table) if engine.is_spark else table.inputs(), force=force)
    if engine.is_spark:
        on_spark.refuse_values({"--unit": unit})
        detector = on_spark.learn(
            engine, table, columns, parameters, output, complete_only=complete_only, compile=compile
        )
        if not quiet:
            console.say(_summary(detector, output))
        return
    source = table.open()
    features = columns.features(source, parameters)
    console.tell_reading(source, quiet=quiet)
    units = {name: unit for name, unit in source.units.items() if name in features} | _units(unit or [], features)
    detector = PCADetector(**parameters)
    with console.progress_bar(source, quiet=quiet) as told:
        learn(detector, source, features, complete_only=complete_only, told=told)
        if compile:
            told.step("compiling the explainer")
            detector.explainer().compile()
    detector.units_ = {**detector.units_, **units}
    console.tell_missing(source, quiet=quiet)
    found = [*modes_in_words(detector.fitted), *ties_in_words(detector.fitted)]
    texts = [] if quiet else [_summary(detector, output, source), *found]
    options.save_model(detector, source, output)  # after everything that may fail
    for text in texts:
        console.say(text)


def _units(given: list[str], features: list[str]) -> dict[str, str]:
    units = {}
    for text in given:
        name, equals, unit = text.rpartition("=")
        if not equals or name not in features:
            raise ValueError(f"--unit must be 'name=unit', where name is a column that the model uses, got {text!r}.")
        units[name] = unit
    return units


def _summary(detector: "PCADetector", output: Path, source: "TimedTable | None" = None) -> str:
    model = detector.model_
    skipped = f", {console.count(source.skipped, 'line')} skipped" if source and source.skipped else ""
    skipped += f", {console.count(source.left_out, 'row')} left out" if source and source.left_out else ""
    abnormal = detector.abnormal_training_rows_
    odd = "" if abnormal is None else f"; {_oddity(abnormal, source)}"
    if (cells := detector.suspicious_cells_) is not None:
        odd = f"; {_suspicious(cells, source)}{odd}"
    past = f" with {console.count(detector.lags, 'lag')}" if detector.lags else ""
    return (
        f"{model.n_samples_:,.0f} rows{skipped}, {detector.n_features_in_} features{past}, "
        f"{_components(detector)} {detector.fitted.ppca.explained_variance_ratio_.sum():.1%}; "
        f"{detector.fitted.statistic.name} limit {detector.limit_:.4g}{options.rate(detector)}{odd}; wrote {output}"
    )


def _components(detector: "PCADetector") -> str:
    """How many components, or modes, explain the variance, with the verb."""
    fitted = detector.fitted
    if fitted.n_modes is None:
        return f"{console.count(fitted.n_components, 'component')} explain{'s' * (fitted.n_components == 1)}"
    shares = ", ".join(f"{weight:.0%}" for weight in fitted.model.standard.weights)
    return f"{console.count(fitted.n_modes, 'operating mode')} ({shares} of the rows) explain"


def _suspicious(cells: Any, source: "TimedTable | None") -> str:
    """How many training cells were treated as missing, and which one is worst."""
    told = f"{console.count(len(cells), 'suspicious cell')} treated as missing"
    if not len(cells):
        return told
    feature, row, value, expected = cells.iloc[0][["feature", "row", "value", "expected"]]
    when = f"at {time}" if (time := _time_of(row, source)) else f"in row {row}"
    return f"{told}, the worst: {feature} {when} is {value:.4g}, expected {expected:.4g}"


def _time_of(row: int, source: "TimedTable | None") -> str:
    """The time of a row as the table has it, if there is one: people know times, not numbers of rows."""
    from culpa.io.tables import TableError
    from culpa.jobs.batches import moment_of

    try:
        if source is None or not source.again or source.time is None:
            return ""
        for batch in source.batches((), (source.time,)):
            if moment := moment_of(batch, batch.rows == row, source):
                return moment
    except (TableError, OSError):  # the times cannot be read, which is no reason to lose the model
        pass
    return ""


def _oddity(abnormal: Any, source: "TimedTable | None") -> str:
    """How many training rows exceed the limits of SPE and T2, and which one most."""
    from culpa.fitting.trimming import GROSS

    trimmed = int(abnormal["trimmed"].sum())  # trimmed rows need not be abnormal
    others = abnormal[~abnormal["trimmed"]]
    text = f"{console.count(trimmed, 'row')} trimmed, " if trimmed else ""
    text += f"{console.count(len(others), 'other' if trimmed else 'training row')} above the limit of SPE or T2"
    if not len(others):
        return text
    row, times = others["row"].iloc[0], others["times_limit"].iloc[0]
    worst = _time_of(row, source) or f"row {row}"
    text += f", the worst ({worst}) by a factor of {times:,.{1 if times < 10 else 0}f}"
    return f"{text}: check it before you rely on the model" if times > GROSS else text
