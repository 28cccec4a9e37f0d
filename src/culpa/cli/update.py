"""`culpa update`: learn from more normal rows."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from culpa._core.parameters import UPDATE
from culpa.cli import console, options
from culpa.cli.command import Described, command

if TYPE_CHECKING:
    from culpa.jobs.updating import Update


@command
def update(
    model: options.ModelArgument,
    table: options.TableOptions,
    output: options.ModelOutput,
    learning: Annotated[dict[str, Any], Described(UPDATE)],
    complete_only: options.CompleteOnly = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
    model_option: options.NoModelOption = None,
) -> None:
    """Learn from more normal rows, and report whether they have drifted from the earlier rows.

    Only the new rows are read, because the model file contains a summary of the old ones. With --forget, old rows gradually
    lose their weight.

    \b
    culpa update plant.culpa normal_may.csv -o plant_may.culpa
    culpa update plant.culpa normal_may.csv -o plant_may.culpa --forget 0.0001
    culpa update plant.culpa normal_may.csv -o plant.culpa --force
    """
    from culpa.io.model_file import load, save
    from culpa.jobs.updating import update as run

    options.check_output(output, table.inputs(), force=force)  # may be the model, which is replaced when all is done
    detector = load(model)
    reading = detector.fitted.reading
    source = table.open(detector.fitted)
    console.tell_reading(source, quiet=quiet)
    with console.progress_bar(source, quiet=quiet) as told:
        done = run(detector, source, complete_only=complete_only, told=told, **learning)
    save(replace(detector.fitted, reading=reading), output)
    console.tell_missing(source, quiet=quiet)
    if not quiet:
        _say(done, detector.model_.n_samples_)
        limit = f"{detector.fitted.statistic.name} limit {detector.limit_:.4g}"
        console.say(f"{console.count(detector.fitted.n_components, 'component')}; {limit}; wrote {output}")


def _say(done: "Update", weight: float) -> None:
    left_out = f", {console.count(done.left_out, 'incomplete row')} left out" if done.left_out else ""
    console.say(f"{console.count(done.rows, 'new row')}{left_out}; effective number of training rows: {weight:,.0f}")
    if done.drift is not None:
        console.say(done.drift.sentence)
