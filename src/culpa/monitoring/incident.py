"""What an incident is: when it began, how it spread, when it was worst, and who was to blame at each point."""

from dataclasses import dataclass
from typing import Any, Literal

from culpa._core import markup
from culpa.monitoring.digits import compared

Kind = Literal["sensor", "process", "undecided", "unit", "frozen", "limit", "stopped", "range"]
Extent = Literal["features", "upset", "unclear"]
Status = Literal["open", "over"]
_REACHED_SHOWN = 8  # in a notebook


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A feature whose usual relation to a culprit broke: what it alone implies for the culprit, in the culprit's units.

    ``deviation`` is the distance of the culprit's value from there, in standard deviations of this relation.
    """

    feature: str
    expected: float
    expected_sd: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Culprit:
    """A feature (or group of features) to blame, at one moment of an incident.

    ``probability`` is that of a fault in this feature; NaN against "normal" operation, when the process as a whole moved at
    this moment, and features move without being faulty.
    ``value`` is its Shapley value and ``share`` that value over the score. ``actual`` was read, and ``expected`` plus or
    minus one ``expected_sd`` was to be expected ``against`` the "others" (the features that are not culprits of this
    moment imply it) or against "normal" operation. ``deviation`` is the difference in units of ``expected_sd``.
    ``expected_was_seen`` says whether training rows had values such as ``expected``. ``score_if_fixed`` is the score with
    this culprit alone at the value that all others imply.

    ``decimals`` are those of the column's readings wherever they are shown; negative for large numbers.

    A group has the numbers of its ``member`` that is furthest off. ``instead`` lists features that explain the rows
    equally well, and ``disagrees_with`` those whose relation to this one broke.
    """

    feature: str
    probability: float
    value: float
    std_error: float
    share: float
    actual: float
    expected: float
    expected_sd: float
    deviation: float
    against: Literal["others", "normal"]
    expected_was_seen: bool
    score_if_fixed: float
    decimals: int
    unit: str = ""
    member: str = ""
    instead: tuple[str, ...] = ()
    disagrees_with: tuple[Disagreement, ...] = ()

    @property
    def shown(self) -> tuple[str, str]:
        """``actual``, and ``expected`` with its standard deviation, as sentences and tables show them."""
        return compared(self.actual, self.expected, self.expected_sd, self.decimals)


@dataclass(frozen=True, slots=True)
class Moment:
    """One row of an incident with its culprits, most to blame first.

    ``n_outside`` features were outside the range of training rows, by more than a quarter of it. ``to_fix`` has the
    features whose fix, all together, would have cleared the alarm in this row, with the values that the remaining features
    imply for them jointly; ``score_if_fixed`` is the score then. ``to_fix`` is empty where no set of up to eight was found.
    """

    row: int
    label: Any
    score: float
    p_value: float
    culprits: tuple[Culprit, ...]
    n_outside: int
    to_fix: dict[str, float]
    score_if_fixed: float


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of an incident: how many rows were flagged in it, the worst score, and shares of blame by player.

    A share is the sum of a player's values over the sum of the scores. Shares below 1% are left out.
    """

    first: int
    last: int
    start: Any
    end: Any
    n_flagged: int
    score: float
    shares: dict[str, float]

    def most_blamed(self, k: int = 3) -> list[str]:
        """The players with the largest shares."""
        return sorted(self.shares, key=lambda name: -self.shares[name])[:k]


@dataclass(frozen=True, slots=True)
class Reached:
    """A feature that an incident spread to, and the first row where it was outside the range of training rows."""

    feature: str
    row: int
    label: Any


@dataclass(frozen=True, slots=True)
class Moved:
    """How far a feature moved in an incident, where its evidence was strongest, against normal operation."""

    feature: str
    evidence: float
    row: int
    label: Any
    actual: float
    expected: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Incident:
    """Flagged rows that belong together.

    ``first``, ``last`` and ``peak`` (the worst row) are positions in the table, from 0; ``start``, ``end`` and
    ``peak_label`` are what the user calls these rows: times where there are some (pandas Timestamps for dates), else row
    labels. ``score`` and ``p_value`` are those of the worst row, ``limit`` is the detector's; the p-value is NaN where that
    limit is a formula.

    ``kind`` is "sensor", "process" or "undecided", and ``why`` is the reason (`culpa.monitoring.verdict`). ``suspects`` are
    the features that it is about, and ``predicted`` is the share of the variance of the first that all others predict:
    where it is low, a wrong sensor and a process that moved look alike.

    A "unit" that changed, such as ``unit_change`` "°C to °F", is a sensor's. Signals that are wrong by themselves are
    "frozen", at a "limit" of their range, "stopped" altogether, or out of physical "range"; their rows need not be flagged.

    ``extent`` is "features" where a few features explain the first rows, "upset" where no small set does, and "unclear"
    where no feature stands out. ``explained`` is the share of the first rows' excess that the best few features explain,
    NaN without an excess. ``blamed_first`` has the players with more than a quarter of the blame in the first three flagged
    rows or in one of them. ``stayed_off`` are features that were off until the last tenth of the rows, and ``came_back``
    those that were off before and normal by then.

    ``status`` is "open" while more rows may belong to the incident. ``onset`` and ``worst`` are moments with their own
    culprits. ``spread`` has the features that went off, in the order of time, and ``timeline`` says who was to blame when.
    ``ranking`` has all features in the order of evidence over the whole incident. ``mode`` is the operating mode of the
    first flagged row, counted from 1, where the detector tells modes apart; features and ranges are judged by what is
    normal in this mode.
    """

    first: int
    last: int
    peak: int
    start: Any
    end: Any
    peak_label: Any
    status: Status
    n_flagged: int
    score: float
    limit: float
    p_value: float
    kind: Kind
    why: str
    suspects: tuple[str, ...]
    predicted: float
    extent: Extent
    explained: float
    blamed_first: dict[str, float]
    stayed_off: tuple[str, ...]
    came_back: tuple[str, ...]
    onset: Moment
    worst: Moment
    spread: tuple[Reached, ...]
    timeline: tuple[Stage, ...]
    ranking: tuple[Moved, ...]
    sentence: str = ""
    mode: int | None = None
    unit_change: str = ""

    @property
    def culprits(self) -> tuple[Culprit, ...]:
        """Whom to look at first: the culprits of the onset, or of the worst row where the onset has none."""
        return self.onset.culprits or self.worst.culprits

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        when = f"row {self.start}" if self.first == self.last else f"rows {self.start} to {self.end}"
        who = ", ".join(culprit.feature for culprit in self.culprits) or "no feature"
        return f"<Incident of {when}, {self.n_flagged:,} flagged: {who}>"

    def _repr_html_(self) -> str:
        culprits = [
            (
                one.feature + (f" [{one.unit}]" if one.unit else ""),
                markup.bar(one.probability),
                one.probability,
                *one.shown,
                ", ".join(one.instead),
            )
            for one in self.culprits
        ]
        headers = ("culprit", "", "probability", "actual", "expected", "or instead")
        spread = ", ".join(f"{one.feature} ({one.label})" for one in self.spread[:_REACHED_SHOWN])
        more = f" and {len(self.spread) - _REACHED_SHOWN} more" if len(self.spread) > _REACHED_SHOWN else ""
        return markup.block(
            self.sentence or repr(self),
            markup.table(headers, culprits) if culprits else "",
            markup.note(f"Reached, in order: {spread}{more}." if spread else ""),
        )
