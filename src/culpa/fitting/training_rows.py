"""What is learned from the normal rows as they are, in order: their columns by themselves, stretches of rows, last levels,
and how flagged rows among them are grouped, and how fits to the first of them judge the others.

All of it is learned in one pass. Of a long table, stretches from all over it are kept.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from culpa._core.threads import one_blas_thread
from culpa._core.types import Floats, Mask
from culpa.fitted import FittedDetector
from culpa.fitting.errors import usual_errors
from culpa.fitting.later import Thinned, alike, spacing_of, with_later_rows
from culpa.fitting.learning import Recipe
from culpa.fitting.limits import InOrder, gross_distance, standardiser
from culpa.fitting.trimming import GROSS
from culpa.fitting.views import learn_views
from culpa.models import FittedModel
from culpa.models.normal_signals import SignalsLearner
from culpa.ranking.recent import SETTLED, Recent
from culpa.scores.consistency import Consistency
from culpa.scores.excess import NormalExcess, unit_of
from culpa.scores.grouping import Profiles, learn
from culpa.scores.stated import OverTime

_PIECE, _FEWEST_PIECES = 400, 5  # rows of a piece, at most
_MOST_ROWS, _MOST_CELLS = 8000, 1 << 22  # that are kept
_FEWEST_ROWS = 100  # of which stretches tell something
_LAST_ROWS = 1 << 16  # at most, of which views are learned


class TrainingRows:
    """Takes rows of features in order, of which there will be ``n_rows``; the first ``n_columns`` are present values."""

    def __init__(self, n_rows: int, n_columns: int) -> None:
        self._size = max(1, min(_PIECE, -(-n_rows // _FEWEST_PIECES)))
        self._n_pieces = -(-n_rows // self._size)
        self._n_columns, self._n_rows, self._signals = n_columns, 0, SignalsLearner(n_columns)
        self._pieces: dict[int, list[InOrder]] = {}
        self._last: list[InOrder] = []
        self._spacing = spacing_of(n_rows)
        self._thinned: list[InOrder] = []

    def add(self, table: InOrder) -> "TrainingRows":
        """Take the next training rows into account."""
        X, missing = table.rows, np.zeros(len(table.rows)) if table.missing is None else table.missing
        self._signals.add(X[:, : self._n_columns])
        most = max(SETTLED, min(_LAST_ROWS, _MOST_CELLS // X.shape[1]))
        self._last = [*self._last, InOrder(X[-most:].copy(), missing[-most:])]
        while sum(len(part.rows) for part in self._last[1:]) >= most:
            self._last = self._last[1:]
        thin = slice(-self._n_rows % self._spacing, None, self._spacing)
        self._thinned.append(InOrder(X[thin].copy(), missing[thin]))
        wanted = self._wanted(X.shape[1])
        ends = np.arange(self._size - self._n_rows % self._size, len(X), self._size)
        for part in map(InOrder, np.split(X, ends), np.split(missing, ends)):
            piece = self._n_rows // self._size
            if len(part.rows) and piece in wanted:
                self._pieces.setdefault(piece, []).append(InOrder(part.rows.copy(), part.missing))
            self._n_rows += len(part.rows)
        return self

    def watch(self, batches: Iterable[Floats]) -> Iterator[Floats]:
        """Pass batches on, and look at them."""
        for batch in batches:
            self.add(InOrder(batch))
            yield batch

    def taught(self, fitted: FittedDetector, recipe: Recipe | None = None, *, weighted: bool = False) -> FittedDetector:
        """The detector that was fitted to these rows, with what they showed; a recipe fits it to some of them.

        Rows that are ``weighted`` do not all count alike, so they do not tell what is usual.
        """
        if not self._n_rows:
            return fitted
        pieces = [_joined(parts) for parts in self._pieces.values()]
        with one_blas_thread():
            rows = _joined(self._last)
            views = None if weighted else learn_views(fitted, rows)
            if views is None:
                excess = excess_in(fitted, dict(zip(self._pieces, pieces, strict=True)), self._size)
            settled = np.arange(len(rows.rows)) >= len(rows.rows) - SETTLED
            last = standardiser(fitted.model)(rows.pick(settled))
            thinned = Thinned(
                _joined(self._thinned), self._spacing, _are_normal(fitted, self._n_rows)[:: self._spacing]
            )
            over_time = OverTime(alike(_centred(fitted.model, np.concatenate([piece.rows for piece in pieces]))))
            if recipe is not None:
                over_time = with_later_rows(over_time, fitted, thinned, recipe)
            return replace(
                fitted,
                over_time=over_time,
                usual_errors=None if weighted else _errors(fitted, thinned),
                signals=self._signals.finish(),
                consistency=consistency_of(fitted.model, pieces),
                recent=levels_after(Recent.none(last.shape[1]), last, fitted),
                views=None if views is None else views[0],
                normal_excess=excess if views is None else views[1],
            )

    def _wanted(self, width: int) -> frozenset[int]:
        most = max(_FEWEST_PIECES, min(_MOST_ROWS, _MOST_CELLS // width) // self._size)
        if self._n_pieces <= most:
            return frozenset(range(self._n_pieces + 1))
        return frozenset(np.linspace(0, self._n_pieces - 1, most).astype(int).tolist())


def levels_after(recent: Recent, Z: Floats, fitted: FittedDetector) -> Recent:
    """Recent levels after standardised rows, of which those that are flagged do not count, as when new rows are judged."""
    return recent.then(Z[~fitted.is_flagged(fitted.statistic(Z))])


def _joined(parts: list[InOrder]) -> InOrder:
    return InOrder(*map(np.concatenate, zip(*parts, strict=True)))


def _are_normal(fitted: FittedDetector, n_rows: int) -> Mask:
    """All rows but gross faults that were trimmed."""
    normal, known = np.ones(n_rows, dtype=bool), fitted.abnormal_training_rows
    if known is not None and fitted.settings.trim:
        gross = np.asarray(known["trimmed"]) & (np.asarray(known["times_limit"]) > GROSS)
        normal[np.asarray(known["position"])[gross]] = False
    return normal


def _errors(fitted: FittedDetector, rows: Thinned) -> Floats | None:
    model = fitted.model
    if rows.spacing > 1 and model.columns.smooth is not None:
        return None  # averages need every row
    return usual_errors(model, standardiser(model)(rows.table.pick(rows.normal)), fitted.settings.noise)


def _centred(model: FittedModel, X: Floats) -> Floats:
    """Standardised rows, about the means of their modes."""
    Z = model.standardise(X)
    if model.n_modes == 1:
        return Z
    return np.asarray(Z - np.stack([mode.mean for mode in model.standard.modes])[model.standard.mode_of(Z)])


def consistency_of(model: FittedModel, pieces: list[InOrder]) -> Consistency | None:
    """Of the present values of columns in rows of features; ``None`` for several modes, and for few rows or columns."""
    main = [members[0] for members in model.columns.members]
    if model.n_modes > 1 or sum(len(piece.rows) for piece in pieces) < _FEWEST_ROWS or len(main) < 2:
        return None
    gaussian, most = model.gaussian, gross_distance(model)
    rows = [standardiser(model)(piece) for piece in pieces]
    if gaussian.tail:
        rows = [part for Z in rows if len(part := Z[~(gaussian.squared_distance(Z) > most)])]
    rows = [gaussian.impute(Z)[:, main] for Z in rows]
    return Consistency.of(rows, min(gaussian.n_components, len(main) - 1))


def excess_in(fitted: FittedDetector, pieces: Mapping[int, InOrder], size: int) -> NormalExcess | None:
    """What the flagged ones of these rows show, which were cut in pieces of the same size.

    The model has seen the rows, so that their scores are too low: the limit is lowered until it flags as many of them as of
    rows that the model did not see.
    """
    found = [(place * size, part, standardiser(fitted.model)(part)) for place, part in sorted(pieces.items())]
    scores = [fitted.statistic(Z) for _, _, Z in found]
    seen = np.concatenate(scores)
    seen = seen[~np.isnan(seen)]
    stated, alpha = fitted.stated, 1 - fitted.confidence
    if len(seen) < _FEWEST_ROWS or not seen.min() > 0:
        return None
    limit = float(np.quantile(seen, 1 - min(alpha if stated is None else stated.held_out.value, 0.5)))
    unit, profiles, flagged = unit_of(limit, float(np.median(seen))), Profiles(fitted.model), []
    known = NormalExcess(unit, 1, 0.0, 1.0, alpha)
    for (start, part, Z), score in zip(found, scores, strict=True):
        missing = np.zeros(len(Z)) if part.missing is None else np.minimum(part.missing, size)
        at = np.flatnonzero(score > limit)
        places = start + at + np.cumsum(missing)[at].astype(np.int64)
        flagged.append((places, known.of_scores(score[at], limit), profiles(Z[at])))
    return learn(unit, alpha, flagged, len(seen))
