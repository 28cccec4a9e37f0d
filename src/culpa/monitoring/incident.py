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

    Attributes
    ----------
    feature : str
        Name of the feature or group.
    probability : float
        Of a fault in this feature; NaN against "normal" operation, when the process as a whole moved at this moment, and
        features move without being faulty.
    value, std_error : float
        Shapley value, and its standard error if values are sampled.
    share : float
        The value over the score.
    actual, expected : float
        The reading, and what was to be expected. Of a group, those of its ``member``.
    expected_sd : float
        Standard deviation of what was to be expected.
    deviation : float
        Difference between actual and expected in units of ``expected_sd``.
    against : str
        Where the expected value comes from: "others" if the features that are not culprits of this moment imply it, or
        "normal" operation.
    expected_was_seen : bool
        Whether training rows had values such as ``expected``.
    score_if_fixed : float
        The score with this culprit alone at the value that all others imply.
    decimals : int
        Of the readings wherever they are shown; negative for large numbers.
    unit : str
        Of the readings; empty if it is not known.
    member : str
        Of a group, the feature that is furthest off; else empty.
    instead : tuple of str
        Features that explain the rows equally well.
    disagrees_with : tuple of Disagreement
        Features whose relation to this one broke.

    view : str
        In rows in order of time, whether the row was off the usual "level", or was a "departure" from the recent level or
        a "jump" from the row before.
    before : float
        The recent level, or the reading in the row before; NaN for the "level".

    Examples
    --------
    >>> from culpa import PCADetector
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> detector = PCADetector().fit(plant.normal)
    >>> culprit = detector.incidents(plant.new)[0].culprits[0]
    >>> culprit.feature, culprit.against, culprit.actual > culprit.expected
    ('x2', 'others', True)
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
    view: Literal["level", "departure", "jump"] = "level"
    before: float = float("nan")

    @property
    def shown(self) -> tuple[str, str]:
        """``actual``, and ``expected`` with its standard deviation, as sentences and tables show them."""
        return compared(self.actual, self.expected, self.expected_sd, self.decimals)


@dataclass(frozen=True, slots=True)
class Moment:
    """One row of an incident with its culprits, most to blame first.

    Attributes
    ----------
    row : int
        Position in the table.
    label
        What the user calls the row.
    score, p_value : float
        Of the row; the p-value is NaN if the limit is a formula.
    culprits : tuple of Culprit
        Most to blame first.
    n_outside : int
        Number of features that were outside the range of training rows, by more than a quarter of it.
    to_fix : dict
        Features whose fix, all together, would have cleared the alarm in this row, with the values that the remaining
        features imply for them jointly. Empty if no set of up to eight was found.
    score_if_fixed : float
        The score then.

    Examples
    --------
    >>> from culpa import PCADetector
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> detector = PCADetector().fit(plant.normal)
    >>> incident = detector.incidents(plant.new)[0]
    >>> list(incident.onset.to_fix), incident.onset.score_if_fixed < detector.limit_
    (['x2'], True)
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

    Attributes
    ----------
    first, last, peak : int
        Positions of the first, the last and the worst row in the table, from 0.
    start, end, peak_label
        What the user calls these rows: times where there are some (pandas Timestamps for dates), else row labels.
    status : str
        "open" while more rows may belong to the incident, else "over".
    n_flagged : int
        Number of flagged rows.
    score, p_value : float
        Of the worst row. With a limit that follows, all scores are in units of the limit of their row. The p-value is NaN
        then, and if the limit is a formula.
    limit : float
        That of the detector; 1 if it follows.
    kind, why : str
        "sensor", "process" or "undecided", and the reason. A "unit" that changed is a sensor's. Signals that are wrong by
        themselves are "frozen", at a "limit" of their range, "stopped" altogether, or out of physical "range"; their rows
        need not be flagged.
    suspects : tuple of str
        The features that the kind is about.
    predicted : float
        Share of the variance of the first suspect that all other features predict. If it is low, a wrong sensor and a
        process that moved look alike.
    extent : str
        "features" if a few features explain the first rows, "upset" if no small set does, and "unclear" if no feature
        stands out.
    explained : float
        Share of the first rows' excess that the best few features explain; NaN without an excess.
    blamed_first : dict
        Players with more than a quarter of the blame in the first three flagged rows or in one of them, with their shares.
    stayed_off, came_back : tuple of str
        Features that were off until the last tenth of the rows, and those that were off before and normal by then.
    onset, worst : Moment
        The first moment and the worst one, with their culprits.
    spread : tuple of Reached
        Features that went off, in the order of time.
    timeline : tuple of Stage
        Who was to blame when.
    ranking : tuple of Moved
        All features in the order of evidence over the whole incident.
    sentence : str
        All of this in words.
    mode : int or None
        With modes, the operating mode of the first flagged row, counted from 1; features and ranges are judged by what is
        normal in this mode.
    shifted : bool
        Whether the level has been another one for so long that rows are not flagged any more.
    unit_change : str
        Which units changed, such as "°C to °F"; else empty.

    Examples
    --------
    >>> from culpa import PCADetector
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> detector = PCADetector().fit(plant.normal)
    >>> incident = detector.incidents(plant.new)[0]
    >>> incident.first, incident.kind, incident.suspects
    (50, 'sensor', ('x2',))
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
    shifted: bool = False

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
