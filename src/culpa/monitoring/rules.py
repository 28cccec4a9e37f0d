"""Which rule groups flagged rows: the one that was learned, for as many false incidents as users accept, or their own."""

import re
from typing import Any

import numpy as np

from culpa._core.continuity import as_numbers
from culpa.fitted import FittedDetector, excess_of
from culpa.monitoring.times import Times, check_gap
from culpa.scores.grouping import Rule

_SECONDS = {
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86_400.0,
    "week": 604_800.0,
    "month": 2_629_746.0,
    "year": 31_556_952.0,
}
_FREQUENCY = re.compile(rf"\s*([\d.,]+)\s+per\s+(?:([\d,]+)\s+rows|({'|'.join(_SECONDS)}))\s*", re.IGNORECASE)
_STEPS = 100  # between rows, of which the median counts


def chosen_rule(
    fitted: FittedDetector, gap: Any, min_length: int | None, false_incidents: Any, times: Times | None
) -> Rule:
    """The rule that arguments of `PCADetector.incidents` ask for; of the rows' ``times``, the first ones are enough."""
    if gap is None and min_length is None:
        seconds = None if times is None else seconds_between(times)
        per_row = None if false_incidents is None else _per_row(false_incidents, seconds)
        rule = Rule.of(excess_of(fitted), per_row)
        return rule._replace(expected=_expected(excess_of(fitted).false_incidents(rule.bound), seconds))
    if false_incidents is not None:
        raise ValueError(
            "gap and min_length say what an incident is, so false_incidents says nothing more. Leave it out."
        )
    fewest = 1 if min_length is None else min_length
    if not isinstance(fewest, (int, np.integer)) or fewest < 1:
        raise ValueError(f"min_length must be a whole number of at least 1, got {min_length!r}.")
    read = check_gap(0 if gap is None else gap, times)
    if isinstance(read, int):
        return Rule.given(read, int(fewest))
    return Rule(read.value, read.value, fewest=int(fewest), by_time=True)


def seconds_between(times: Times) -> float | None:
    """Between successive rows, usually; ``None`` for numbers that are no times."""
    if not hasattr(times, "asi8"):
        return None
    numbers = as_numbers(times[: _STEPS + 1])
    steps = np.empty(0) if numbers is None else np.diff(numbers)
    steps = steps[steps > 0]
    return float(np.median(steps)) / 1e9 if len(steps) else None


def _per_row(wanted: Any, seconds: float | None) -> float:
    found = _FREQUENCY.fullmatch(wanted) if isinstance(wanted, str) else None
    number = float(found[1].replace(",", "")) if found is not None and found[1].count(".") < 2 else 0.0
    if found is None or not number > 0:
        raise ValueError(f"false_incidents must be a text such as '1 per week' or '1 per 1,000 rows', got {wanted!r}.")
    if found[2] is not None:
        return number / max(int(found[2].replace(",", "")), 1)
    if seconds is None:
        raise ValueError(
            f"false_incidents={wanted!r} needs the times of the rows. Name the column with the times (time= in Python, "
            "--time), or say '1 per 1,000 rows'."
        )
    return number * seconds / _SECONDS[found[3].lower()]


def _expected(per_row: float, seconds: float | None) -> str:
    by_rows = f"{1000 * per_row:.2g} per 1,000 normal rows"
    if seconds is None:
        return f"Expect about {by_rows.replace(' per', ' false incidents per', 1)}."
    return f"Expect about {per_row * _SECONDS['day'] / seconds:.2g} false incidents per day ({by_rows})."
