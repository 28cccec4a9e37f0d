"""Learning from a table of any size.

One pass gathers mean and covariance. Missing cells (expectation-maximisation), trimming and conformal limits hold the
features in memory instead; empirical limits read the rows again and hold one score per row.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from culpa._compiled import one_blas_thread
from culpa._validation import Table
from culpa.calibration import thinned
from culpa.columns import History
from culpa.detector import PCADetector
from culpa.models import Moments
from culpa.tables import Batch, Source, TableError

Floats = NDArray[np.float64]
Progress = Callable[[int], None]  # told how many rows have been read


def fit(
    detector: PCADetector,
    source: Source,
    features: Sequence[str],
    *,
    complete_only: bool = False,
    progress: Progress = lambda rows: None,
) -> PCADetector:
    """Fit a detector to the features of a table; ``complete_only`` leaves out rows with missing cells."""
    if len(features) < 2:
        raise TableError(f"{source.name}: {len(features)} numeric column(s) are too few: at least 2 are needed.")
    if detector.limit == "empirical" and not source.again:
        raise TableError(f"limit 'empirical' reads the rows twice, which {source.name} cannot: give a file.")
    if detector.limit == "conformal" or detector.trim:
        return _fit_whole(detector, source, features, progress, complete_only=complete_only)
    with one_blas_thread():
        moments, n_incomplete = _gather(detector.lags, source, features, progress)
    if n_incomplete and not complete_only:
        if not source.again:
            raise TableError(
                f"{source.name}: cells are missing, so the rows are needed more than once: give a file, or leave out "
                "incomplete rows with --complete-only."
            )
        return _fit_whole(detector, source, features, progress)
    if moments.n < 2:
        raise TableError(
            f"{source.name}: {moments.n} complete row(s) are too few to learn from: at least 2 are needed."
        )
    return detector.fit_moments(moments, tuple(features), _complete(detector.lags, source, features, progress))


def sample(source: Source, features: Sequence[str], most: int, *, progress: Progress = lambda rows: None) -> Floats:
    """At most ``most`` complete rows of a table of any size, evenly spaced."""
    kept: list[Floats] = []
    stride, seen, held = 1, 0, 0
    for X in _rows(source, features, progress):
        complete = X[~np.isnan(X).any(axis=1)]
        kept.append(complete[-seen % stride :: stride])
        seen += len(complete)
        held += len(kept[-1])
        while held > 2 * most:
            kept = [np.concatenate(kept)[::2]]
            stride, held = 2 * stride, len(kept[0])
    return thinned(np.concatenate(kept), most) if kept else np.empty((0, len(features)))


def _gather(lags: int, source: Source, features: Sequence[str], progress: Progress) -> tuple[Moments, int]:
    """Moments of the complete rows, and how many are not complete."""
    moments = Moments.of(np.empty((0, len(features) * (lags + 1))))
    n_incomplete = 0
    for X in _lagged(lags, _rows(source, features, progress)):
        complete = ~np.isnan(X).any(axis=1)
        n_incomplete += int((~complete).sum())
        kept = X if complete.all() else X[complete]
        moments = moments.merge(Moments.of(kept, moments.reference if moments.n else None))
    return moments, n_incomplete


def _fit_whole(
    detector: PCADetector,
    source: Source,
    features: Sequence[str],
    progress: Progress,
    *,
    complete_only: bool = False,
) -> PCADetector:
    """Fit to all rows at once, held in memory."""
    batches = list(_batches(source, features, progress))
    X = np.concatenate([np.empty((0, len(features))), *(batch.X for batch in batches)])
    places = np.concatenate([np.empty(0, dtype=np.int64), *(batch.rows for batch in batches)])
    if complete_only and np.isnan(X).any():
        if detector.lags:
            raise TableError(
                f"{source.name}: with lags, trimming and conformal limits need all rows, since each is the past of others: "
                "drop --complete-only, or use another limit without --trim."
            )
        complete = ~np.isnan(X).any(axis=1)
        X, places = X[complete], places[complete]
    empty = np.flatnonzero(np.isnan(X).all(axis=0))
    if len(empty):
        raise TableError(
            f"{source.name}: column {features[empty[0]]!r} is empty, nothing can be learned from it: "
            "leave it out with --drop."
        )
    if len(X) < 2:
        raise TableError(f"{source.name}: {len(X)} row(s) are too few to learn from: at least 2 are needed.")
    detector.fit(Table(X, tuple(features)))
    abnormal = detector.abnormal_training_rows_
    abnormal["row"] = places[abnormal["position"]]  # in the table, of which some rows may have been left out
    return detector


def _complete(lags: int, source: Source, features: Sequence[str], progress: Progress) -> Iterator[Floats]:
    for X in _lagged(lags, _rows(source, features, progress)):
        yield X[~np.isnan(X).any(axis=1)]


def _lagged(lags: int, batches: Iterator[Floats]) -> Iterator[Floats]:
    """Rows beside the rows before them, from the first one whose whole history is known."""
    history, without = None, lags
    for X in batches:
        history = history or History(lags, X.shape[1])
        yield history.join(X)[without:]
        without = max(without - len(X), 0)


def _rows(source: Source, features: Sequence[str], progress: Progress) -> Iterator[Floats]:
    for batch in _batches(source, features, progress):
        yield batch.X


def _batches(source: Source, features: Sequence[str], progress: Progress) -> Iterator[Batch]:
    done = 0
    for batch in source.batches(features, ()):
        yield batch
        done += len(batch.X)
        progress(done)
