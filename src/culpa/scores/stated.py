"""The rate of false alarms that a detector states, and when it states none.

Held-out rows tell how often rows like the training rows exceed the limit. New rows may differ from these as later training
rows differed from earlier ones: where fits to the first rows flagged clearly more of a stretch of the rows after them, that
is stated instead, and the interval reaches from the quietest stretch to the worst.

Rows that resemble those before them tell less than as many independent rows. Scores that do so make the intervals wider.
If columns do so, so that all rows are worth too few independent ones for a model, nothing can be promised.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from culpa._core.types import Floats
from culpa.scores.held_out import FEWEST_ROWS, HeldOutScores, Rate, binomial

_CHANCE = 0.005  # of saying that later rows differ where they do not
_MOST_ALIKE = 0.99  # correlation of successive scores that is still believed


@dataclass(frozen=True, eq=False)
class OverTime:
    """What the order of the training rows shows.

    Of covariances, so many successive rows tell as much as one (``alike``). Fits to the first rows judged stretches of the
    rows after them: these have ``n`` rows, of which some were ``flagged``. Every ``spacing``-th training row took part.
    """

    alike: float = 1.0
    n: Floats = field(default_factory=lambda: np.empty(0))
    flagged: Floats = field(default_factory=lambda: np.empty(0))
    spacing: int = 1

    def to_arrays(self) -> dict[str, Floats]:
        """Plain arrays from which a model file makes the same again."""
        return {"stretches": np.stack([self.n, self.flagged]), "rows": np.array([self.alike, float(self.spacing)])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats]) -> Self:
        """Inverse of `to_arrays`."""
        n, flagged = arrays["stretches"]
        return cls(float(arrays["rows"][0]), n, flagged, int(arrays["rows"][1]))

    def rate(self, held_out: Rate, alike: float) -> Rate | None:
        """What later rows say, if it is clearly something else than held-out rows; so many scores count as one."""
        if not len(self.n):
            return None
        rates, worst = self.flagged / self.n, int(np.argmax(self.flagged / self.n))
        n = float(self.n[worst]) / max(alike / self.spacing, 1.0)
        if binomial(float(rates[worst]), n, _CHANCE / len(rates)).low <= held_out.value:
            return None
        most = binomial(float(rates[worst]), n).high
        pooled = float(self.flagged.sum() / self.n.sum())
        return Rate(pooled, min(held_out.low, float(rates.min())), max(held_out.high, most))


class Stated(NamedTuple):
    """What a detector says about its false alarms.

    ``held_out`` is the rate of held-out rows, ``later`` that of later rows where it is something else, and ``worth`` how
    many independent rows the training rows are worth.
    """

    held_out: Rate
    later: Rate | None
    worth: float

    @property
    def rate(self) -> Rate | None:
        """The worse of the two rates, with an interval that contains both; ``None`` where nothing can be promised."""
        if self.worth < FEWEST_ROWS:
            return None
        return (
            self.held_out
            if self.later is None
            else self.later._replace(value=max(self.later.value, self.held_out.value))
        )


def stated_rate(held_out: HeldOutScores, limit: float, dependence: float, over_time: OverTime) -> Stated:
    """From held-out and later rows; ``dependence`` is how many successive scores count as one."""
    alike = held_out.n / max(worth_of(held_out.n, dependence), 1.0)
    rate = held_out.rate_above(limit, alike)
    return Stated(rate, over_time.rate(rate, alike), worth_of(held_out.n, over_time.alike))


def worth_of(n: float, alike: float) -> float:
    """How many independent rows so many rows are worth, of which ``alike`` successive ones seem to be worth one.

    The correlation behind it is estimated from these rows. A clear one is taken at the upper end of its standard error,
    and corrected for the bias of short series (Kendall, 1954).

    >>> worth_of(200.0, 1.1), round(worth_of(200.0, 10.0)), round(worth_of(100_000.0, 10.0))
    (200.0, 10, 9807)
    """
    r = (alike - 1) / (alike + 1)
    if n < 1 or r <= 2 / math.sqrt(n):
        return n
    r = min(r + (1 + 3 * r) / n + 1 / math.sqrt(n), _MOST_ALIKE)
    return n * (1 - r) / (1 + r)
