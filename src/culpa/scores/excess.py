"""How far rows exceed the limit, and what the flagged rows of normal operation add up to.

With a score s, the limit L and the median m of normal scores, the excess of a row is

    y = log(s / L) / log(L / m),

which is -1 at the median and 0 at the limit. Flagged rows that belong together form a stretch, whose evidence is the sum of
their excesses. Normal rows show how often stretches begin and how much evidence they gather: the evidence E of a stretch of
normal rows exceeds e with a probability of about exp(-e / E_0), so

    exp(-e / E_0) * stretches per row

false incidents per row are to be expected if stretches become incidents from the evidence e on.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from culpa._core.types import Floats

_CHANCE = 0.05  # of an unrelated flagged row to fall into the gap after another one
PRIOR = (0.2, 0.2, 0.2)  # evidence of stretches, as long as few are known
_ENOUGH = math.log(10)  # log of the ratio of score to limit from which a single row is an incident
_RATE = 0.15  # false incidents per flagged row, unless the user states a number
_LEAST_UNIT, _LARGEST = 0.02, 1e6
N_FIELDS = 5


@dataclass(frozen=True)
class NormalExcess:
    """What normal rows show: the ``unit`` of excesses, log(L / m), and how flagged rows among them are grouped.

    ``gap`` is the number of normal rows between two flagged ones up to which these belong together. Of ``stretches`` per
    row, the evidence is ``typical`` on average. ``alpha`` is the share of normal rows to be flagged.
    """

    unit: float
    gap: int
    stretches: float
    typical: float
    alpha: float

    @classmethod
    def of(
        cls, unit: float, gap: int, evidence: Floats, n_rows: int, alpha: float, prior: Sequence[float] = PRIOR
    ) -> Self:
        """From the evidence of the stretches in so many normal rows; the median bears incidents among them."""
        typical = float(np.median([*evidence, *prior])) / math.log(2)
        return cls(unit, gap, (len(evidence) + 1) / n_rows, typical, alpha)

    @classmethod
    def by_chance(cls, limit: float, median: float, alpha: float) -> Self:
        """Without normal rows: as if flagged rows came one by one."""
        return cls(unit_of(limit, median), gap_of(alpha, alpha), alpha, PRIOR[0] / math.log(2), alpha)

    @property
    def reach(self) -> int:
        """Rows after a flagged one in which another one like it continues its stretch."""
        return 5 * self.gap

    def of_scores(self, score: Floats, limit: float) -> Floats:
        """The excess of each row; NaN without a score."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.clip(np.log(score / limit) / self.unit, -_LARGEST, _LARGEST)

    def bound(self, per_row: float | None = None) -> float:
        """The evidence from which a stretch is an incident, for so many false incidents per row.

        One row at ten times the limit always is.
        """
        per_row = _RATE * self.alpha if per_row is None else per_row
        wanted = self.typical * math.log(max(self.stretches / per_row, 1.0))
        return min(wanted, 0.999 * min(1.0, _ENOUGH / self.unit))

    def false_incidents(self, bound: float) -> float:
        """How many to expect per normal row."""
        return self.stretches * math.exp(-bound / self.typical)

    def to_array(self) -> Floats:
        """A plain array from which a model file makes the same again."""
        return np.array([self.unit, self.gap, self.stretches, self.typical, self.alpha])

    @classmethod
    def from_array(cls, array: Floats) -> Self:
        """Inverse of `to_array`."""
        unit, gap, *others = array.tolist()
        return cls(unit, int(gap), *others)


def unit_of(limit: float, median: float) -> float:
    """The excess of a row is measured in this unit; not too small where the limit is close to the median."""
    return max(math.log(limit / median), _LEAST_UNIT) if median > 0 and 0 < limit < math.inf else 1.0


def gap_of(runs: float, alpha: float) -> int:
    """The gap for so many runs of flagged rows per normal row.

    >>> gap_of(0.008, 0.01), gap_of(0.0001, 0.01), gap_of(0.2, 0.01)
    (6, 10, 1)
    """
    return max(1, int(_CHANCE / max(runs, alpha / 2) + 1e-9))
