"""`culpa update`: learn from more normal rows, and say whether they have drifted from the earlier rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from culpa._core.threads import one_blas_thread
from culpa._core.types import Floats
from culpa.detecting.detector import PCADetector
from culpa.detecting.pieces import all_or_nothing, blocks_so_far, learn_features
from culpa.fitted import FittedDetector
from culpa.fitting.diagnostics import ON_THE_COMMAND_LINE, oddities
from culpa.io.tables import Source, TableError
from culpa.io.tables.columns import take_as_missing
from culpa.jobs.batches import NOBODY, Listener
from culpa.jobs.following import lagged, with_past
from culpa.models import PPCA
from culpa.monitoring.drift import Drift
from culpa.monitoring.drift_measures import DriftGatherer
from culpa.monitoring.fill_values import Advice, CodesLearned

# what is learned at once, so that it does not matter in which portions rows arrive
_MOST_ROWS, _MOST_CELLS = 1 << 16, 1 << 24
_MUCH = 3.0  # times, by which a limit rarely changes if the new rows are normal
_ADVICE = Advice(
    lambda number: take_as_missing(number).removesuffix(".") + " --complete-only.",
    "leave out such rows",
)


@dataclass(frozen=True)
class Update:
    """What an update has learned from, and how far that was from what was known before."""

    rows: int
    left_out: int  # rows with missing cells
    drift: Drift | None  # None where the model does not know how much its training rows vary, or rows are too few


def update(
    detector: PCADetector,
    source: Source,
    *,
    forget: float = 0.0,
    complete_only: bool = False,
    told: Listener = NOBODY,
) -> Update:
    """Let a fitted detector learn from the rows of a table; ``forget`` as in `PCADetector.partial_fit`.

    ``complete_only`` leaves out rows with missing cells, which otherwise are an error.
    """
    before = detector.fitted
    with all_or_nothing(detector) as draft:
        done, suspicions = _learn(draft, source, forget=forget, complete_only=complete_only, progress=told.rows)
        if detector.explainer().forms is not None:
            told.step("compiling the explainer")
            draft.explainer().compile()
    after = detector.fitted
    for text in [*suspicions, *_about_the_limit(before, after), *oddities(after, ON_THE_COMMAND_LINE)]:
        told.warning(text)
    return done


def _learn(
    detector: PCADetector, source: Source, *, forget: float, complete_only: bool, progress: Callable[[int], None]
) -> tuple[Update, list[str]]:
    """Learn, and return what was learned from and what looked suspicious about it."""
    fitted = detector.fitted
    if type(detector.model_) is PPCA and detector.model_.n_iter_ > 1 and not detector.robust:
        raise ValueError(
            "the model was fitted by expectation-maximisation, to rows with missing cells, and cannot learn from more "
            "rows. Fit it to complete rows with 'culpa fit --complete-only', or fit a new model to all rows."
        )
    rows, learned, left_out = 0, 0, 0
    before, names = blocks_so_far(detector), fitted.columns.inputs
    most = max(1, min(_MOST_ROWS, _MOST_CELLS // (len(names) * (fitted.columns.lags + 1))))
    waiting: list[Floats] = []
    gatherer, codes = DriftGatherer.of(fitted) if len(before) > 1 else None, CodesLearned(before.total, len(names))
    following = with_past(source, fitted.columns.lags, fitted.columns.step)
    with one_blas_thread():
        for places, X in lagged(following, names, fitted.columns.lags, progress):
            complete = ~np.isnan(X).any(axis=1)
            if not complete.all() and not complete_only:
                raise TableError(
                    f"{source.name}: cells are missing, but a model can only be updated with complete rows. Leave out "
                    "incomplete rows with --complete-only, or fit a new model to all rows."
                )
            kept = X[complete]
            rows, left_out = rows + len(kept), left_out + len(X) - len(kept)
            waiting.append(kept)
            while rows - learned >= most:
                held = np.concatenate(waiting)
                learn_features(detector, held[:most], forget)
                waiting, learned = [held[most:]], learned + most
            codes.add(places[complete], kept[:, : len(names)])
            if gatherer is not None:
                gatherer.add(kept)
        if rows > learned:
            learn_features(detector, np.concatenate(waiting), forget)
    if not rows:
        raise TableError(f"{source.name}: there is no complete row to learn from.")
    drift = None if gatherer is None or not gatherer.enough else gatherer.finish()
    return Update(rows, left_out, drift), codes.sentences(names, source.name, _ADVICE.about)


def _about_the_limit(before: FittedDetector, after: FittedDetector) -> Iterator[str]:
    name, old, new = after.statistic.name, before.limit, after.limit
    if name == before.statistic.name and max(old, new) > _MUCH * min(old, new):
        yield (
            f"the {name} limit {'rose' if new > old else 'fell'} from {old:.4g} to {new:.4g}. Check that all new rows are "
            "normal before you use the updated model."
        )
