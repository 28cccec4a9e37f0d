"""Learning from a table of any size.

The first pass gathers the mean and the covariance of each block, and isolated values at the ends of the columns. The second
pass scores the rows of each block with the model of the other blocks. Missing cells (expectation-maximisation), trimming,
robust fits, conformal limits, smoothing, Student models and copulas keep the features in memory instead.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from culpa._core import memory
from culpa._core.continuity import RowOrder, missing_between
from culpa._core.estimators import ConvergenceWarning
from culpa._core.threads import one_blas_thread
from culpa._core.types import Floats
from culpa._core.validation import Table, feature_positions
from culpa._core.warning import FitWarning, without_warnings
from culpa.calibration.plan import thinned
from culpa.columns.groups import named_groups
from culpa.detecting.detector import PCADetector
from culpa.detecting.pieces import fit_moments
from culpa.fitting.diagnostics import ON_THE_COMMAND_LINE, oddities
from culpa.io.tables import Batch, Source, TableError
from culpa.jobs.batches import ADVICE, NOBODY, Listener, in_memory
from culpa.jobs.following import Following, lagged, with_past
from culpa.models import Moments
from culpa.models.blocks import BlockGatherer, BlockMoments
from culpa.monitoring.fill_values import Ends, sentences

Progress = Callable[[int], None]  # receives the number of rows read so far

_ROWS_BEFORE_CHECK = 1 << 15  # that are held before their need of memory is compared with what is free


def fit(
    detector: PCADetector,
    source: Source,
    features: Sequence[str],
    *,
    complete_only: bool = False,
    told: Listener = NOBODY,
) -> PCADetector:
    """Fit a detector to the features of a table; ``complete_only`` leaves out rows with missing cells.

    Warnings are about the model, and about numbers that may stand for missing cells, which the fit uses as they are.
    """
    check_columns(detector, features)
    with without_warnings(FitWarning, ConvergenceWarning):  # the caller is told instead
        suspicions = _fit(_Job(detector, source, features, told, complete_only))
    for text in [*suspicions, *oddities(detector.fitted, ON_THE_COMMAND_LINE)]:
        told.warning(text)
    return detector


def check_columns(detector: PCADetector, features: Sequence[str]) -> None:
    """Refuse parameters that name other columns than these, before a long table is read."""
    given = {features[i] for i in feature_positions(detector.given or [], features, "given")}
    named_groups(detector.groups, features, [name for name in features if name not in given])


@dataclass(frozen=True)
class _Job:
    """What to fit, to which table, and where messages go."""

    detector: PCADetector
    source: Source
    features: Sequence[str]
    told: Listener
    complete_only: bool


def _fit(job: _Job) -> list[str]:
    """Fit, and return warnings about numbers that may stand for missing cells."""
    detector, source, features, progress = job.detector, job.source, job.features, job.told.rows
    if detector.limit == "empirical" and not source.again:
        raise TableError(
            f"--limit empirical reads the rows twice, which is not possible with {source.name}. Pass a file."
        )
    whole = detector.model != "ppca" or detector.modes is not None or detector.smooth not in (None, 1)
    if detector.limit == "conformal" or detector.trim or detector.robust or detector.contamination or whole:
        return _fit_whole(job)
    with one_blas_thread():
        following = with_past(source, detector.lags)
        blocks, ends, n_incomplete = _gather(detector.lags, following, features, progress)
        moments = blocks.total
    if n_incomplete and not job.complete_only:
        if not source.again:
            raise TableError(
                f"{source.name}: cells are missing, so the rows must be read more than once. Pass a file, or leave out "
                "incomplete rows with --complete-only."
            )
        return _fit_whole(job)
    if moments.n < 2:
        raise TableError(f"{source.name}: at least 2 complete rows are needed to learn from, got {moments.n:.0f}.")
    job.told.step("fitting")
    again = _complete(detector.lags, source, features, progress) if source.again else None
    with one_blas_thread():
        fit_moments(detector, blocks, tuple(features), again, following.found)
    return sentences(ends.alone(round(moments.n)), features, source.name, moments.column, ADVICE)


def sample(
    source: Source,
    features: Sequence[str],
    most: int,
    *,
    past: int = 0,
) -> Floats:
    """At most ``most`` complete rows of a table of any size, evenly spaced; with the ``past`` rows before each, if any."""
    kept: list[Floats] = []
    stride, seen, held = 1, 0, 0
    for _, X in lagged(with_past(source, past), features, past, lambda rows: None):
        complete = X[~np.isnan(X).any(axis=1)]
        kept.append(complete[-seen % stride :: stride])
        seen += len(complete)
        held += len(kept[-1])
        while held > 2 * most:
            kept = [np.concatenate(kept)[::2]]
            stride, held = 2 * stride, len(kept[0])
    return thinned(np.concatenate(kept), most) if kept else np.empty((0, len(features) * (past + 1)))


def _gather(
    lags: int, following: Following, features: Sequence[str], progress: Progress
) -> tuple[BlockMoments, Ends, int]:
    """Moments of the complete rows, ends of their columns, and how many rows are not complete."""
    gatherer = BlockGatherer(len(features) * (lags + 1))
    ends, n_incomplete = Ends(len(features)), 0
    for rows, X in lagged(following, features, lags, progress):
        complete = ~np.isnan(X).any(axis=1)
        n_incomplete += int((~complete).sum())
        kept, places = (X, rows) if complete.all() else (X[complete], rows[complete])
        gatherer.add(kept)
        ends.add(places, kept[:, : len(features)])
    return gatherer.finish(), ends, n_incomplete


def _fit_whole(job: _Job) -> list[str]:
    """The same with all rows at once, held in memory."""
    detector, source, features, progress = job.detector, job.source, job.features, job.told.rows
    remembers = bool(detector.lags or detector.smooth)
    following = Following(source, getattr(source, "time", None) if remembers else None)
    X, order = in_memory(_held_batches(following, features, progress), len(features))
    places, missing = np.asarray(order.places), order.missing
    if job.complete_only and np.isnan(X).any():
        if detector.lags:
            raise TableError(
                f"{source.name}: with --lags, each row is also the past of later rows. So --complete-only cannot be "
                "combined with --trim, --robust, --model or --limit conformal. Leave out one of these options."
            )
        complete = np.asarray(~np.isnan(X).any(axis=1))
        X, places, missing = X[complete], places[complete], missing_between(missing, complete)
    empty = np.flatnonzero(np.isnan(X).all(axis=0))
    if len(empty):
        raise TableError(
            f"{source.name}: all cells of column {features[empty[0]]!r} are missing. Leave it out with --drop."
        )
    if len(X) < 2:
        raise TableError(f"{source.name}: at least 2 rows are needed to learn from, got {len(X)}.")
    job.told.step("fitting")
    detector.fit(Table(X, tuple(features), order=RowOrder(missing, step=following.found)))
    abnormal = detector.abnormal_training_rows_
    for listed in (abnormal, detector.suspicious_cells_):
        if listed is not None:
            listed["row"] = places[listed["position"]]  # in the table, of which some rows may have been left out
    ends, observed = Ends(len(features)), ~np.isnan(X)
    ends.add(places, X)
    alone = ends.alone(observed.sum(axis=0))
    return sentences(alone, features, source.name, lambda j: Moments.of(X[observed[:, j], j : j + 1]), ADVICE)


def _held_batches(following: Following, features: Sequence[str], progress: Progress) -> list[Batch]:
    """All rows, unless the rows so far would already need more memory than there is."""
    batches: list[Batch] = []
    n_rows, checked = 0, _ROWS_BEFORE_CHECK
    for batch in following.batches(features):
        batches.append(batch)
        n_rows += len(batch.X)
        progress(n_rows)
        if n_rows >= 2 * checked:
            checked = n_rows
            memory.claim_fit(n_rows, len(features), thin=n_rows < len(features))
    return batches


def _complete(lags: int, source: Source, features: Sequence[str], progress: Progress) -> Iterator[Floats]:
    for _, X in lagged(with_past(source, lags), features, lags, progress):
        yield X[~np.isnan(X).any(axis=1)]
