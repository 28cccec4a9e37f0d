"""A period of rows, gathered batch by batch: what comparing it with another one needs to know."""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from culpa._core.types import Floats, Mask
from culpa.columns import Reading
from culpa.explaining.explainer import Explainer
from culpa.models import Moments
from culpa.scores import ScoredRows

_STRETCHES = 10  # per period, at least; fewer than twice as many


@dataclass(frozen=True, eq=False)
class _Stretch:
    """Sums over consecutive rows of a period."""

    formed: Moments  # of standardised complete rows whose values follow from quadratic forms
    walked: Moments  # of the other complete rows
    n: int  # rows that were explained one by one
    values: Floats  # their Shapley values, added up
    std_error: Floats  # the standard errors of these, where they were sampled
    score: float
    cells: Floats  # of all rows, added up by column
    n_cells: Floats  # that are observed
    labels: tuple[Any, ...] = ()  # of the first and the last row

    def merge(self, other: "_Stretch") -> "_Stretch":
        labels = self.labels + other.labels
        return _Stretch(
            self.formed.merge(other.formed),
            self.walked.merge(other.walked),
            self.n + other.n,
            self.values + other.values,
            self.std_error + other.std_error,
            self.score + other.score,
            self.cells + other.cells,
            self.n_cells + other.n_cells,
            labels[:1] + labels[-1:],
        )

    @property
    def complete(self) -> Moments:
        """Moments of all complete rows."""
        return self.formed.merge(self.walked)

    @property
    def n_rows(self) -> int:
        """Rows with a score."""
        return self.n + round(self.formed.n)


class Period:
    """Gathers what a comparison needs of one period, batch by batch, in memory that does not grow with its length."""

    def __init__(self, explainer: Explainer) -> None:
        self.explainer = explainer
        self._stretches: list[_Stretch] = []
        self._size = 1  # rows of a stretch that is full
        self._in_last = 0  # rows in the last stretch

    def add(self, reading: Reading, *, count: bool = True) -> None:
        """The next rows; with ``count``, they count towards compiling the explainer."""
        if count:
            self.explainer._one_pass.count_rows(reading.features)
        if self.explainer._one_pass.compiling_is_due:
            self.explainer._one_pass.engine.compile()
        standard = self.explainer.model.standardise(reading.features)
        known = np.asarray(~np.isnan(standard).all(axis=1))  # others have no score
        if not known.all():
            reading, standard = reading.choose(known), standard[known]
        complete: Mask = np.asarray(~np.isnan(standard).any(axis=1))
        one_by_one: Mask = np.ones(len(standard), dtype=bool) if self.explainer.forms is None else ~complete
        explained = np.zeros((len(standard), 2 * len(self.explainer.players) + 1))
        if one_by_one.any():
            why = self.explainer._one_pass.explain_scored(
                ScoredRows.of(reading.choose(one_by_one), self.explainer.model, self.explainer.score),
                ("values", "score"),
            )
            explained[one_by_one] = np.column_stack([why.values, why.std_error, why.score])
        start = 0
        while start < len(standard):
            room = self._room()
            at = slice(start, start + room)
            sums = explained[at].sum(axis=0)
            self._extend(standard[at], reading.choose(at), complete[at], one_by_one[at], sums)
            self._in_last += len(standard[at])
            start += room

    def _room(self) -> int:
        """How many rows the last stretch still takes; opens one where it is full."""
        if self._stretches and self._in_last < self._size:
            return self._size - self._in_last
        if len(self._stretches) == 2 * _STRETCHES:
            pairs = zip(self._stretches[::2], self._stretches[1::2], strict=True)
            self._stretches = [first.merge(second) for first, second in pairs]
            self._size *= 2
        nothing, P = Moments.of(np.empty((0, self.explainer.game.n_features))), len(self.explainer.players)
        self._stretches.append(_Stretch(nothing, nothing, 0, np.zeros(P), np.zeros(P), 0.0, np.zeros(1), np.zeros(1)))
        self._in_last = 0
        return self._size

    def _extend(self, standard: Floats, reading: Reading, complete: Mask, one_by_one: Mask, sums: Floats) -> None:
        origin, P, cells = np.zeros(standard.shape[1]), len(self.explainer.players), reading.cells
        rows = _Stretch(
            Moments.of(standard[~one_by_one], origin),
            Moments.of(standard[complete & one_by_one], origin),
            int(one_by_one.sum()),
            sums[:P],
            sums[P : 2 * P],
            float(sums[-1]),
            np.nansum(cells, axis=0),
            (~np.isnan(cells)).sum(axis=0).astype(np.float64),
            (reading.labels[0], reading.labels[-1]),
        )
        self._stretches[-1] = self._stretches[-1].merge(rows)

    @property
    def total(self) -> _Stretch:
        """Sums over all stretches of the period."""
        return reduce(_Stretch.merge, self._stretches)

    @property
    def complete(self) -> list[Moments]:
        """Moments of the complete rows of each stretch that has any."""
        return [stretch.complete for stretch in self._stretches if stretch.complete.n]

    @property
    def labels(self) -> list[tuple[Any, ...]]:
        """Labels of the first and the last row of each stretch."""
        return [stretch.labels for stretch in self._stretches]

    def means(self) -> tuple[Floats, Floats]:
        """Rows of each stretch, and means of Shapley values and, last, of the score, (stretches, players + 1)."""
        n = np.array([stretch.n_rows for stretch in self._stretches], dtype=np.float64)
        return n, np.array([self._mean(stretch) for stretch in self._stretches])

    def _mean(self, stretch: _Stretch) -> Floats:
        values, score = stretch.values, stretch.score
        if stretch.formed.n:
            second, own, forms = stretch.formed.second, self.explainer.score.as_quadratic, self.explainer.forms
            assert forms is not None
            assert own is not None  # others have no forms
            root = own.root
            values = values + stretch.formed.n * forms.mean(second).mean(axis=0)
            score += stretch.formed.n * float(((root @ second) * root).sum())
        return np.append(values, score) / stretch.n_rows

    def sampling(self) -> tuple[Floats, Floats]:
        """Mean Shapley values by replicate, as far as they follow from forms, and standard errors of the other rows."""
        total, P = self.total, len(self.explainer.players)
        by_replicate = np.zeros((1, P))
        if total.formed.n and self.explainer.forms is not None:
            by_replicate = self.explainer.forms.mean(total.formed.second) * (total.formed.n / total.n_rows)
        return by_replicate, total.std_error / total.n_rows
