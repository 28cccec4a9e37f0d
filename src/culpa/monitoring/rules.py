"""Which rule groups flagged rows: the one that was learned, for as many false incidents as users accept, or their own."""

import re
from typing import Any

import numpy as np

from culpa._core.continuity import Step, usual_step
from culpa.fitted import FittedDetector, excess_of, why_fixed
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
_NUMBER = r"\d{1,3}(?:,\d{3})+|\d+"
_FREQUENCY = re.compile(
    rf"\s*((?:{_NUMBER})(?:\.\d*)?|\.\d+)\s+per\s+(?:({_NUMBER})\s+rows|({'|'.join(_SECONDS)}))\s*", re.IGNORECASE
)


def chosen_rule(
    fitted: FittedDetector, gap: Any, min_length: int | None, false_incidents: Any, times: Times | None
) -> Rule:
    """The rule that arguments of `PCADetector.incidents` ask for; of the rows' ``times``, the first ones are enough."""
    if gap is None and min_length is None:
        per_row = None if false_incidents is None else _per_row(false_incidents, usual_step(times))
        return Rule.of(excess_of(fitted), per_row)
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


def expected_false(fitted: FittedDetector, rule: Rule, step: Step | None) -> str:
    """How many false incidents to expect with a rule that was learned; ``step`` is how far apart rows are."""
    if not rule.is_learned:
        return ""
    per_row, seconds = excess_of(fitted).false_incidents(rule.bound), _seconds(step)
    by_rows = f"{1000 * per_row:.2g} per 1,000 normal rows"
    if seconds is None:
        return f"Expect about {by_rows.replace(' per', ' false incidents per', 1)}.{_about(fitted)}"
    per_day = per_row * _SECONDS["day"] / seconds
    return f"Expect about {per_day:.2g} false incidents per day ({by_rows}).{_about(fitted)}"


def _seconds(step: Step | None) -> float | None:
    return step.size / 1e9 if step is not None and step.timed else None


def _per_row(wanted: Any, step: Step | None) -> float:
    found, seconds = _FREQUENCY.fullmatch(wanted) if isinstance(wanted, str) else None, _seconds(step)
    number = float(found[1].replace(",", "")) if found is not None else 0.0
    if found is None or not number > 0 or found[2] == "0":
        raise ValueError(f"false_incidents must be a text such as '1 per week' or '1 per 1,000 rows', got {wanted!r}.")
    if found[2] is not None:
        return number / int(found[2].replace(",", ""))
    if seconds is None:
        raise ValueError(
            f"false_incidents={wanted!r} needs the times of the rows. Name the column with the times (time= in Python, "
            "--time), or say '1 per 1,000 rows'."
        )
    return number * seconds / _SECONDS[found[3].lower()]


def _about(fitted: FittedDetector) -> str:
    """Why the limit does not follow, where that is so."""
    if fitted.views is not None:
        return ""
    why = why_fixed(fitted) or "too few rows in order of time, all of one weight, were there to learn from"
    return f" Rows are judged by a fixed limit, because {why}."
