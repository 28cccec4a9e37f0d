"""From flagged rows to stretches, and from stretches to incidents.

A flagged row belongs to the latest stretch if few enough rows lie in between, or to a stretch that ended a little earlier
and has a similar profile: the shares of the features in the squared residuals. Else it begins a stretch. Stretches that
turn out to be alike become one. A stretch is an incident once its evidence, the sum of the excesses of its rows, exceeds
what normal rows reach (`culpa.scores.excess`). Until then it is unconfirmed.

The state is small and does not depend on how rows are cut into batches.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.models import FittedModel
from culpa.scores.consistency import Residuals
from culpa.scores.excess import PRIOR, NormalExcess, gap_of
from culpa.scores.quadratic import mahalanobis

Counts = NDArray[np.int64]

_ALIKE = 0.8  # cosine of the profiles of rows with the same cause
_EVERYTHING = 1 << 62
_LEAST = 1e-300


class Rule(NamedTuple):
    """When flagged rows belong together, and when a stretch of them is an incident.

    A row joins the latest stretch up to ``width`` after its last row, and one like it up to ``reach``: numbers of rows, or
    of nanoseconds ``by_time``. An incident has more evidence than ``bound``, and at least ``fewest`` flagged rows.
    """

    width: int
    reach: int
    bound: float = -math.inf
    fewest: int = 1
    by_time: bool = False
    is_learned: bool = False  # missing rows count, and signals that are wrong by themselves are incidents, too

    @classmethod
    def of(cls, normal: NormalExcess, per_row: float | None = None) -> Self:
        """The rule of a detector; ``per_row`` is the number of false incidents per row that a user accepts."""
        return cls(normal.gap + 1, normal.reach + 1, normal.bound(per_row), is_learned=True)

    @classmethod
    def given(cls, gap: int, fewest: int) -> Self:
        """The rule of a user: how many rows lie between two flagged ones at most, and how many make an incident."""
        return cls(gap + 1, gap + 1, fewest=fewest)

    @classmethod
    def everything(cls) -> Self:
        """All rows are one incident."""
        return cls(_EVERYTHING, _EVERYTHING)


@dataclass(eq=False)
class Stretch:
    """Flagged rows that belong together, and the sum of their profiles, weighted by their excess."""

    key: int
    first: int
    last: int
    profile: Floats
    evidence: float = 0.0
    n: int = 0
    announced: bool = False

    def likeness(self, profile: Floats) -> float:
        """Cosine of the angle between two profiles."""
        size = float((self.profile @ self.profile) * (profile @ profile))
        return float(self.profile @ profile) / math.sqrt(size) if size > 0 else 0.0


class Step(NamedTuple):
    """A flagged row: its stretch, whether it begins it, and whether that is an incident by now.

    The stretches ``same`` turned out to be part of it, and those in ``over`` ended before.
    """

    key: int
    begins: bool
    announced: bool
    same: tuple[int, ...]
    over: tuple[int, ...]

    @property
    def is_news(self) -> bool:
        """Whether this row begins, joins or ends stretches."""
        return bool(self.begins or self.same or self.over)


class Grouping:
    """Takes flagged rows in order. ``recent`` are the stretches that the next rows may belong to.

    The stretch with the key ``held`` goes on although its rows are not flagged any more; -1 is none.
    """

    def __init__(self, rule: Rule) -> None:
        self.rule, self.recent, self._n = rule, list[Stretch](), 0
        self.held, self._held_until = -1, 0

    def add(self, at: int, excess: float, profile: Floats) -> Step:
        """The next flagged row, with its place: the number of rows, or of nanoseconds, before it."""
        over = self.over(at)
        stretch, begins = self._stretch(at, profile)
        stretch.last, stretch.n, stretch.evidence = at, stretch.n + 1, stretch.evidence + excess
        stretch.profile = stretch.profile + excess * profile
        same = []
        for other in [one for one in self.recent if one is not stretch] if self._looks else []:
            if stretch.first - other.last <= self.rule.reach and other.likeness(stretch.profile) >= _ALIKE:
                stretch, lost = _merged(stretch, other)
                self.recent.remove(lost)
                same.append(lost.key)
                self.held = stretch.key if self.held == lost.key else self.held
        if stretch.evidence > self.rule.bound and stretch.n >= self.rule.fewest:
            stretch.announced = True
        return Step(stretch.key, begins, stretch.announced, tuple(same), over)

    def over(self, at: int) -> tuple[int, ...]:
        """The stretches that no row from this place on can belong to; they are forgotten."""
        over = [one for one in self.recent if at - one.last > self.rule.reach and one.key != self.held]
        for one in over:
            self.recent.remove(one)
        return tuple(one.key for one in over)

    def hold(self, at: int) -> None:
        """The latest stretch goes on up to this place, or the one that went on before."""
        if self.held < 0 and self.recent:
            self.held = max(self.recent, key=lambda one: one.last).key
        self._held_until = at

    def release(self) -> None:
        """No stretch goes on without flagged rows."""
        if self.held >= 0:
            stretch = self.named(self.held)
            stretch.last, self.held = max(stretch.last, self._held_until), -1

    def named(self, key: int) -> Stretch:
        """The recent stretch that has this key."""
        return next(one for one in self.recent if one.key == key)

    @property
    def _looks(self) -> bool:
        """Whether it matters which features rows are about."""
        return self.rule.reach > self.rule.width

    def _stretch(self, at: int, profile: Floats) -> tuple[Stretch, bool]:
        last = max(self.recent, key=lambda one: one.last, default=None)
        if last is not None and at - last.last <= self.rule.width:
            return last, False
        best = max(self.recent, key=lambda one: one.likeness(profile), default=None) if self._looks else None
        if best is not None and best.likeness(profile) >= _ALIKE:
            return best, False
        self._n += 1
        new = Stretch(self._n, at, at, np.zeros(len(profile)))
        self.recent.append(new)
        return new, True

    @property
    def memory(self) -> tuple[int, list[Stretch], int, int]:
        """How many stretches there were, and those that may go on; set it to go on from there."""
        return self._n, self.recent, self.held, self._held_until

    @memory.setter
    def memory(self, memory: tuple[int, list[Stretch], int, int]) -> None:
        self._n, self.recent, self.held, self._held_until = memory


class Profiles:
    """Makes the profiles of standardised rows: shares of the features in the squared residuals, each given all others."""

    def __init__(self, model: FittedModel) -> None:
        self._standard = model.standard
        gaussians = [model.in_mode(mode).gaussian for mode in range(model.n_modes)]
        self._modes = [(one, mahalanobis(one)) for one in gaussians]

    def __call__(self, Z: Floats) -> Floats:
        """One line per row; cells may be missing."""
        result = np.zeros(Z.shape)
        for k, here in self._standard.by_mode(Z):
            gaussian, score = self._modes[k]
            squares = Residuals.of(score, gaussian.impute(Z[here] - self._standard.modes[k].mean)).squares
            result[here] = squares / np.maximum(squares.sum(axis=1, keepdims=True), _LEAST)
        return result


def _merged(one: Stretch, other: Stretch) -> tuple[Stretch, Stretch]:
    """The earlier of two stretches, which now has the rows of both, and the other one."""
    kept, lost = (one, other) if one.first < other.first else (other, one)
    kept.last, kept.n = max(one.last, other.last), one.n + other.n
    kept.evidence, kept.profile = one.evidence + other.evidence, one.profile + other.profile
    kept.announced = one.announced or other.announced
    return kept, lost


def learn(
    unit: float,
    alpha: float,
    pieces: Sequence[tuple[Counts, Floats, Floats]],
    n_rows: int,
    prior: Sequence[float] = PRIOR,
) -> NormalExcess:
    """What stretches of normal rows show.

    ``pieces`` are the places, excesses and profiles of the flagged ones among ``n_rows``, in order. Evidence of the
    ``prior`` counts beside theirs, which matters as long as few stretches are known.
    """
    at = np.concatenate([np.zeros(0, dtype=np.int64), *(piece[0] for piece in pieces)])
    runs = np.count_nonzero(np.diff(at, prepend=-2) > 1)
    gap = gap_of((runs + 1) / n_rows, alpha)
    known = NormalExcess(unit, gap, 0.0, 1.0, alpha)
    grouping, evidence = Grouping(Rule(known.gap + 1, known.reach + 1)), dict[int, float]()
    for places, excess, profiles in pieces:
        for place, y, profile in zip(places.tolist(), excess.tolist(), profiles, strict=True):
            step = grouping.add(place, y, profile)
            for key in step.same:
                evidence.pop(key, None)
            evidence[step.key] = grouping.named(step.key).evidence
    return NormalExcess.of(unit, gap, np.array(list(evidence.values())), n_rows, alpha, prior)
