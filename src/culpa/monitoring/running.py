"""Running sums over the rows of an incident: whatever its length, the memory they take stays the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.columns import Reading
from culpa.fitted import FittedDetector
from culpa.models.normal_range import NormalRange
from culpa.ranking.incident_evidence import stayed, weights_since_onset
from culpa.ranking.recent import Recent, evidence
from culpa.scores.following import LEVEL

_MOST_STAGES, _MOST_PARTS = 32, 64
HEAD = 20  # flagged rows that the onset is judged by
OFF, MOSTLY = 2.0, 0.5  # standard deviations from normal; share of the rows from which a feature was off for a while
_USUAL = 3.0  # standard deviations that features reach in a stretch of normal rows, at least where they wander
_LEAST = 1e-9  # standard deviation of a column that never changed


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One flagged row with everything that its moment needs, as the view that flagged it sees it.

    ``score``, ``values`` and ``std_error`` were divided by ``scale``, and ``limit`` was not. ``n_outside`` features are
    outside the range of training rows.
    """

    row: int
    label: Any
    score: float
    standard: Floats
    reading: Reading  # of this row alone
    values: Floats
    std_error: Floats
    limit: float
    scale: float = 1.0
    view: int = LEVEL
    n_outside: int = 0


@dataclass(slots=True)
class Course:
    """How far each feature was from normal, and how often it was off, in equal parts of an incident.

    The parts grow wider as it lasts. ``sums`` are (3, parts, d): distances, rows that were off, and cells.
    """

    sums: Floats
    width: int = 1  # rows of a part

    @classmethod
    def none(cls, d: int) -> Self:
        """What is known before the first row."""
        return cls(np.zeros((3, _MOST_PARTS, d)))

    def add(self, away: Floats, since: NDArray[np.int64]) -> None:
        """Take rows so many rows after the onset, in standard deviations; missing cells (NaN) do not count."""
        while since[-1] // self.width >= _MOST_PARTS:
            self._widen()
        for sums, cells in zip(self.sums, (np.nan_to_num(away), away >= OFF, ~np.isnan(away)), strict=True):
            np.add.at(sums, since // self.width, cells)

    def merge(self, later: "Course") -> None:
        """Add the rows that follow."""
        while self.width < later.width:
            self._widen()
        while later.width < self.width:
            later._widen()
        self.sums = self.sums + later.sums

    def mean(self, first: int, last: int) -> Floats:
        """From one row after the onset to another: mean distances and shares of rows that were off, (2, d)."""
        return _means(self.sums[:, first // self.width : last // self.width + 1].sum(axis=1))

    def farthest(self, last: int) -> Floats:
        """The largest mean of a part in the first half of the rows, of those with half of the rows off."""
        far, off = _means(self.sums[:, : last // 2 // self.width + 1])
        return np.asarray(np.where(off >= MOSTLY, far, 0.0).max(axis=0))

    def _widen(self) -> None:
        self.width *= 2
        pairs = self.sums[:, ::2] + self.sums[:, 1::2]
        self.sums = np.concatenate([pairs, np.zeros_like(pairs)], axis=1)


def _means(sums: Floats) -> Floats:
    """Mean distances and shares of rows that were off; NaN without cells."""
    return np.asarray(np.divide(sums[:2], sums[2], out=np.full(sums[:2].shape, np.nan), where=sums[2] > 0))


class Normal(NamedTuple):
    """What is normal in a mode: the range of each feature, and its standard deviation, more where it wanders."""

    seen: NormalRange
    sd: Floats

    @classmethod
    def of(cls, fitted: FittedDetector, main: NDArray[np.intp]) -> Self:
        """Of the features in ``main``."""
        seen = fitted.normal_range
        sd = np.maximum(np.maximum(fitted.model.spread * np.sqrt(seen.inflation), seen.reach / _USUAL), _LEAST)
        return cls(seen.of_columns(main), sd[main])


@dataclass(slots=True)
class Movement:
    """How far each feature moved in the rows so far, flagged or not, weighted towards the onset."""

    largest: Floats  # weighted movement from each of two recent levels, (2, d)
    strongest: Floats  # standardised value at the largest movement from the slow one
    row: NDArray[np.int64]
    label: NDArray[Any]
    actual: NDArray[Any]  # cells there, by feature
    stayed: Floats
    off_row: NDArray[np.int64]  # first row outside the normal range; -1 for none
    off_label: NDArray[Any]
    course: Course

    @classmethod
    def none(cls, d: int) -> Self:
        """What is known before the first row."""
        empty = np.full(d, None, dtype=object)
        nowhere = np.full(d, -1, dtype=np.int64)
        largest, off_label = np.zeros((2, d)), empty.copy()
        return cls(
            largest, np.zeros(d), nowhere, empty, empty.copy(), np.zeros(d), nowhere.copy(), off_label, Course.none(d)
        )

    @property
    def evidence(self) -> Floats:
        """That each feature moved, (d,)."""
        return evidence(self.largest)

    def add(
        self,
        normal: "Normal",
        recent: Recent,
        Z: Floats,
        onset: int,
        rows: "RowNames",
        cells: NDArray[Any],
    ) -> None:
        """Take rows of a table that an incident began in after ``onset`` rows, with ``recent`` levels before."""
        since = rows.counts - onset
        movement, off = recent.movement(Z, normal.seen), normal.seen.is_outside(Z, since)
        self.course.add(np.minimum(np.abs(Z), np.abs(Z - recent.averages[-1])) / normal.sd, since)
        weights = weights_since_onset(since)
        weighted = np.nan_to_num(movement * weights[:, None], nan=-1.0)
        at = weighted[1].argmax(axis=0)
        better = np.flatnonzero(weighted[1].max(axis=0) > self.largest[1])
        here = at[better]
        self.largest = np.maximum(self.largest, weighted.max(axis=1))
        self.strongest[better] = Z[here, better]
        self.row[better] = rows.positions[here]
        self.label[better] = rows.some(here)
        self.actual[better] = cells[here, better]
        self.stayed += stayed(movement[1], weights)
        new = np.flatnonzero(off.any(axis=0) & (self.off_row < 0))
        first = off[:, new].argmax(axis=0)
        self.off_row[new] = rows.positions[first]
        self.off_label[new] = rows.some(first)

    def merge(self, later: "Movement") -> None:
        """Add the rows that follow."""
        better = later.largest[1] > self.largest[1]
        for name in ("strongest", "row", "label", "actual"):
            getattr(self, name)[better] = getattr(later, name)[better]
        self.largest = np.maximum(self.largest, later.largest)
        self.stayed = self.stayed + later.stayed
        self.course.merge(later.course)
        new = (self.off_row < 0) & (later.off_row >= 0)
        self.off_row[new], self.off_label[new] = later.off_row[new], later.off_label[new]


@dataclass(frozen=True)
class RowNames:
    """What rows are: positions in the user's table, labels, and how many rows were read before them.

    Positions and labels are shown. Whatever counts rows uses the last ones: skipped rows are not among them.
    """

    positions: NDArray[np.int64]
    labels: Any
    counts: NDArray[np.int64]

    def some(self, at: Sequence[int] | NDArray[Any]) -> NDArray[Any]:
        """Labels of some rows, as objects."""
        result = np.empty(len(at), dtype=object)
        result[:] = [plain_label(self.labels[int(k)]) for k in at]
        return result

    def choose(self, at: Any) -> "RowNames":
        """What is known of some of the rows only."""
        return RowNames(self.positions[at], self.labels[at], self.counts[at])


class Part(NamedTuple):
    """Some of an incident's flagged rows: where they are, how many, and sums over them."""

    first: int
    last: int
    start: Any
    end: Any
    n_flagged: int
    worst_score: float
    score_sum: float
    value_sums: Floats

    def then(self, later: "Part") -> "Part":
        """Two parts that follow each other, as one."""
        return Part(
            self.first,
            max(self.last, later.last),
            self.start,
            self.end if self.last > later.last else later.end,
            self.n_flagged + later.n_flagged,
            max(self.worst_score, later.worst_score),
            self.score_sum + later.score_sum,
            self.value_sums + later.value_sums,
        )


@dataclass(slots=True)
class Stages:
    """Sums of blame over equal parts of an incident, which grow wider as it lasts."""

    width: int = 1
    parts: dict[int, "Part"] = field(default_factory=dict)

    def add(self, origin: int, rows: RowNames, score: Floats, values: Floats) -> None:
        """Take the next flagged rows into account."""
        self._widen_for(int(rows.counts[-1]) - origin)
        part = (rows.counts - origin) // self.width
        cuts = np.flatnonzero(np.diff(part, prepend=-1))
        sums, totals = np.add.reduceat(values, cuts, axis=0), np.add.reduceat(score, cuts)
        ends = np.append(cuts[1:], len(part)) - 1
        for k, (cut, end) in enumerate(zip(cuts.tolist(), ends.tolist(), strict=True)):
            new = Part(
                int(rows.positions[cut]),
                int(rows.positions[end]),
                plain_label(rows.labels[cut]),
                plain_label(rows.labels[end]),
                end - cut + 1,
                float(score[cut : end + 1].max()),
                float(totals[k]),
                sums[k],
            )
            self._put(int(part[cut]), new)

    def absorb(self, other: "Stages", later: int) -> None:
        """Take the parts of an incident that began so many rows later."""
        self._widen_for(later + other.width * (max(other.parts) + 1) - 1)
        while self.width < other.width:
            self._widen()
        for key, part in other.parts.items():
            self._put((later + key * other.width) // self.width, part)

    def _put(self, key: int, new: "Part") -> None:
        known = self.parts.get(key)
        self.parts[key] = new if known is None else known.then(new) if known.first < new.first else new.then(known)

    def _widen_for(self, n_rows: int) -> None:
        while n_rows // self.width >= _MOST_STAGES:
            self._widen()

    def _widen(self) -> None:
        self.width *= 2
        before, self.parts = self.parts, {}
        for key, part in before.items():
            self._put(key // 2, part)


@dataclass(slots=True)
class Draft:
    """An incident in the making: its first flagged rows, its worst row, and running sums."""

    first: int
    start: Any
    origin: int  # how many rows were read before the first one
    shift: Floats  # of the rows before the onset from the normal mean, where that is taken into account
    movement: Movement
    recent: Recent  # levels before the onset
    mode: int = 0  # of the first flagged row, counted from 0; `Snapshot.standard` is around the mean of this mode
    stages: Stages = field(default_factory=Stages)
    head: list[Snapshot] = field(default_factory=list)
    worst: Snapshot | None = None
    last: int = -1
    end: Any = None
    latest: int = -1  # how many rows were read before the last one
    n: int = 0
    pending: Movement | None = None  # of rows after the last flagged one, which may or may not belong to the incident
    early: list[Floats] = field(default_factory=list)  # first rows from the onset on
    covered: int = 0  # rows of the present batch that are taken into account
    reported: tuple[str, ...] = ()  # features whose arrival was reported
    announced: bool = False  # whether it is an incident
    opened: bool = False  # whether it was reported
    shifted: bool = False  # whether it goes on as another level, whose rows are not flagged

    def add_flagged(self, rows: RowNames, score: Floats, values: Floats, snapshots: Callable[[int], Snapshot]) -> None:
        """Take flagged rows; ``snapshots(k)`` makes one of the k-th."""
        for k in range(min(HEAD - len(self.head), len(score))):
            self.head.append(snapshots(k))
        peak = int(np.argmax(score))
        if self.worst is None or score[peak] > self.worst.score:
            self.worst = snapshots(peak)
        self.reach(rows)
        self.n += len(score)
        self.stages.add(self.origin, rows, score, values)

    def head_in(self, view: int) -> list[Snapshot]:
        """The first rows that a view has flagged."""
        return [snapshot for snapshot in self.head if snapshot.view == view]

    def reach(self, rows: RowNames) -> None:
        """Go on up to the last of these rows."""
        self.last, self.end = int(rows.positions[-1]), plain_label(rows.labels[-1])
        self.latest = int(rows.counts[-1])

    def take_pending(self) -> None:
        """The rows that are taken into account belong to the incident."""
        if self.pending is not None:
            self.movement.merge(self.pending)
            self.pending = None

    def absorb(self, other: "Draft") -> None:
        """Take the flagged rows of an incident that began later and turned out to be the same."""
        self.head = sorted([*self.head, *other.head], key=lambda snapshot: snapshot.row)[:HEAD]
        assert self.worst is not None
        assert other.worst is not None
        if (other.worst.score, -other.worst.row) > (self.worst.score, -self.worst.row):
            self.worst = other.worst
        if other.latest > self.latest:
            self.last, self.end, self.latest = other.last, other.end, other.latest
        self.n, self.opened = self.n + other.n, self.opened or other.opened
        self.reported = tuple(dict.fromkeys((*self.reported, *other.reported)))
        self.shifted |= other.shifted
        self.stages.absorb(other.stages, other.origin - self.origin)


def plain_label(label: Any) -> Any:
    """A label without NumPy's wrapping."""
    return label.item() if isinstance(label, np.generic) and not isinstance(label, np.datetime64) else label
