"""An incident in one plain sentence."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from culpa.monitoring.grouping import Culprit, Incident

_NAMED = 3  # culprits that a sentence names at most
_LONGEST = 60  # signs of a name that a sentence spells out
LONGEST_LABEL = 40  # signs of a row's label
_SCORES = {"t2": "T2", "mahalanobis": "the distance", "combined": "the score"}


def sentence(
    incident: "Incident",
    culprits: Sequence["Culprit"],
    implied: Sequence[float],
    score_name: str,
    *,
    noun: str = "feature",
    verb: str = "read",
    time_name: str | None,
    dated: bool,
    daily: bool = False,
) -> str:
    """Say when, who, what was read and what was expected, and how much of the score that accounts for.

    ``implied`` has what each culprit should have read with all of them left out. ``time_name`` is what the rows' times are
    called, ``None`` if they have none; ``dated`` says that the day must be told, ``daily`` that
    the day is all there is to tell.
    """
    when, worst = _when(incident, time_name, dated=dated, daily=daily)
    named = culprits[: _NAMED if len(culprits) <= _NAMED else _NAMED - 1]
    share = math.fsum(culprit.share for culprit in culprits)
    part = f"{'all' if share >= 0.995 else f'{share:.0%}'} of {_SCORES.get(score_name, 'the error')}"
    more = f" with {len(culprits) - len(named)} more" if len(culprits) > len(named) else ""
    if any(math.isnan(culprit.actual) for culprit in named):  # a group has no reading of its own
        who = _listed([cut(culprit.feature) for culprit in named])
        does = "accounts" if len(culprits) == 1 else "together account"
        return f"{when}, {who}{more} {does} for {part}{worst}."
    told = _listed([_reading(culprit, implied[k], k, noun, verb) for k, culprit in enumerate(named)])
    who = "it accounts" if len(culprits) == 1 else f"together{more} they account"
    return f"{when}, {told}{worst}; {who} for {part}."


def pair(actual: float, expected: float) -> tuple[str, str]:
    """Two numbers with the digits it takes to tell them apart by two significant ones.

    >>> pair(1.8123, 3.1432), pair(1013.25, 1015.4), pair(3.0, 1.84), pair(2.5e-7, 1.1e-7), pair(90.1, -0.2)
    (('1.8', '3.1'), ('1013.2', '1015.4'), ('3', '1.8'), ('2.5e-07', '1.1e-07'), ('90', '0'))
    """
    apart, largest = abs(actual - expected), max(abs(actual), abs(expected))
    if apart == 0:
        return f"{actual:.4g}", f"{expected:.4g}"
    decimals = 1 - math.floor(math.log10(apart))
    if not 1e-3 <= largest < 1e7:
        digits = min(max(math.floor(math.log10(largest)) + decimals, 1), 15)
        return f"{actual:.{digits}e}", f"{expected:.{digits}e}"
    decimals = min(max(decimals, 0), 12)
    return f"{actual:z.{0 if actual.is_integer() else decimals}f}", f"{expected:z.{decimals}f}"  # z: no minus zero


def cut(name: str, most: int = _LONGEST) -> str:
    """A name without its middle, where it is too long to read.

    >>> cut("temperature"), cut("temperature of the upper reactor", 16)
    ('temperature', 'temperatu…eactor')
    """
    head = math.ceil((most - 1) * 0.6)
    return name if len(name) <= most else f"{name[:head]}…{name[len(name) - (most - 1 - head) :]}"


def _reading(culprit: "Culprit", implied: float, rank: int, noun: str, verb: str) -> str:
    read, should = pair(culprit.actual, implied)
    others = "they" if rank else f"the other {noun}s"
    unit = f" {culprit.unit}" if culprit.unit else ""
    return f"{cut(culprit.feature)} {verb} {read}{unit} where {others} imply {should}"


def _listed(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1]


def _when(incident: "Incident", time_name: str | None, *, dated: bool, daily: bool) -> tuple[str, str]:
    """The incident's time as the beginning of a sentence, and its worst row in parentheses."""
    import pandas as pd

    labels = (incident.start, incident.end, incident.peak_label)
    single = incident.first == incident.last
    if isinstance(labels[0], (pd.Timestamp, pd.Timedelta)):
        return _at_times(labels, dated=dated or daily, daily=daily, single=single)
    first, last, peak = (
        f"{label:.6g}" if isinstance(label, float) else cut(str(label), LONGEST_LABEL) for label in labels
    )
    if time_name is None:
        return (f"In row {first}", "") if single else (f"In rows {first} to {last}", f" (worst in row {peak})")
    at = f"At {time_name} {first}"
    return (at, "") if single else (f"From {time_name} {first} to {last}", f" (worst at {peak})")


def _at_times(labels: Sequence[Any], *, dated: bool, daily: bool, single: bool) -> tuple[str, str]:
    days, clocks = _days_and_clocks(labels, dated=dated, daily=daily)
    if not any(clocks):
        at, span = f"On {days[0]}", f"From {days[0]} to {days[1]}"
        worst = f"on {days[2]}"
    elif len(set(days)) == 1:  # one day need be told only once
        day = f"On {days[0]} " if days[0] else ""
        at, span = f"{day}at {clocks[0]}", f"{day}from {clocks[0]} to {clocks[1]}"
        worst = f"at {clocks[2]}"
    else:
        at, span = "", f"From {days[0]} {clocks[0]} to {days[1]} {clocks[1]}"
        worst = f"on {days[2]} at {clocks[2]}"
    when = at if single else span
    return when[0].upper() + when[1:], "" if single else f" (worst {worst})"


def _days_and_clocks(labels: Sequence[Any], *, dated: bool, daily: bool) -> tuple[list[str], list[str]]:
    """Days (empty if they need not be told) and times of day (empty if they are not), as precise as they need be."""
    import pandas as pd

    if isinstance(labels[0], pd.Timedelta):
        dated = any(label.days for label in labels)
        days = [f"day {label.days}" if dated else "" for label in labels]
        since_midnight = [label - pd.Timedelta(days=label.days) for label in labels]
    else:
        days = [f"{label:%Y-%m-%d}" if dated else "" for label in labels]
        since_midnight = [_wall_clock(label) for label in labels]
    if daily:
        return days, [""] * len(labels)
    nanoseconds = [span.value for span in (clock.as_unit("ns") for clock in since_midnight)]
    finest = next(
        (k for k, unit in enumerate((60 * 10**9, 10**9, 10**6, 10**3)) if not any(n % unit for n in nanoseconds)), 4
    )
    return days, [_clock(n, finest) + zone for n, zone in zip(nanoseconds, _zones(labels), strict=True)]


def _zones(labels: Sequence[Any]) -> list[str]:
    """What the clocks were set to, where they were set anew in between: 02:30 comes twice in autumn."""
    import pandas as pd

    if isinstance(labels[0], pd.Timedelta) or len({label.utcoffset() for label in labels}) == 1:
        return [""] * len(labels)
    return [f" {label:%Z}" for label in labels]


def _wall_clock(label: Any) -> Any:
    """Time of day as clocks show it, also on days when they change."""
    local = label.tz_localize(None)
    return local - local.normalize()


def _clock(nanoseconds: int, finest: int) -> str:
    minutes, rest = divmod(nanoseconds, 60 * 10**9)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}"
    if finest:
        text += f":{rest // 10**9:02d}"
    return text + (f".{rest % 10**9:09d}"[: 3 * finest - 2] if finest > 1 else "")
