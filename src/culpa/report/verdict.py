"""What to make of all rows together, in words."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats

from culpa._core.types import Mask
from culpa._core.words import count, share

MOST_BY_CHANCE = 0.01  # chance of so many flags among normal rows below which they are called too many
_FEWEST_NORMAL = 10  # rows that tell that the data were normal once
_NORMAL_SHARE = 0.05  # of all rows that a normal stretch has, if it does not come first
_FLAGGED_BEFORE = 0.2  # share of flagged rows up to which a beginning is called normal


class Verdict(NamedTuple):
    """A text, and the mood of it: "calm", "unsure" or "alarm"."""

    text: str
    mood: str


def is_by_chance(n_rows: int, n_flagged: int, confidence: float) -> bool:
    """Whether that many rows would be above the limit now and then although all are normal."""
    return bool(stats.binom.sf(n_flagged - 1, n_rows, 1 - confidence) > MOST_BY_CHANCE)


def verdict(
    flagged: Mask, scored: Mask, n_incidents: int, confidence: float, worst: str | None, name: Callable[[int], str]
) -> Verdict:
    """From which rows are flagged and which have a score; ``worst`` tells of the worst incident, ``name`` names rows."""
    limit = f"the {share(confidence)} limit"
    n_rows, n_scored, n_flagged = len(flagged), int(scored.sum()), int(flagged.sum())
    if not n_scored:
        none = "the row has no" if n_rows == 1 else f"none of the {n_rows:,} rows has an"
        return Verdict(f"No verdict: {none} observed feature.", "unsure")
    with_score = " with a score" if n_scored < n_rows else ""
    rows = f"{count(n_scored, 'row')}{with_score}"
    if not n_flagged:
        none = f"the row{with_score} is not" if n_scored == 1 else f"none of the {rows} is"
        return Verdict(f"Nothing unusual: {none} above {limit}.", "calm")
    told = "" if not worst else f" {worst}" if n_incidents == 1 else f" The worst: {worst}"
    if n_scored == 1:
        return Verdict(f"The row{with_score} is above {limit}.{told}", "alarm")
    where = f", in {count(n_incidents, 'incident')}" if n_incidents else ""
    if n_flagged > n_scored / 2:
        at = np.flatnonzero(scored)
        return Verdict(_most(flagged[at], at, f"above {limit}{where}", with_score, name) + told, "alarm")
    usual = n_scored * (1 - confidence)
    chance = f"about {max(round(usual), 1) if usual >= 0.5 else 0:,} would be flagged by chance alone"
    some = f"{n_flagged:,} of {rows} ({share(n_flagged / n_scored)})"
    are = "is" if n_flagged == 1 else "are"
    if is_by_chance(n_scored, n_flagged, confidence):
        return Verdict(f"Hardly unusual: {some} {are} above {limit}{where}; {chance}.{told}", "unsure")
    return Verdict(f"{some} {are} above {limit}{where}; {chance}.{told}", "alarm")


def _most(flagged: Mask, at: np.ndarray, above: str, with_score: str, name: Callable[[int], str]) -> str:
    """More than half of the rows with a score, which are at these positions of the table, are flagged."""
    n, n_flagged = len(flagged), int(flagged.sum())
    start = began(flagged)
    if start is not None:
        since, before = flagged[start:], int(flagged[:start].sum())
        who = f"all {count(len(since), 'row')}{with_score}"
        if not since.all():
            who = f"{int(since.sum()):,} of {count(len(since), 'row')}{with_score} ({share(since.mean())})"
        earlier = "none is" if not before else f"{before:,} {'is' if before == 1 else 'are'}"
        return f"From {name(int(at[start]))} on, {who} are {above}; of the {start:,} rows before, {earlier}."
    who = f"Most rows, {n_flagged:,} of {count(n, 'row')}{with_score} ({share(n_flagged / n)}), are"
    first, last = _longest_normal(flagged)
    if last - first + 1 >= max(_FEWEST_NORMAL, _NORMAL_SHARE * n):
        stretch = f"{name(int(at[first]))} to {name(int(at[last]))}"
        return f"{who} {above}. The {last - first + 1:,} rows from {stretch} are normal."
    if n_flagged == n:
        who = f"Every row{with_score} is"
    return (
        f"{who} {above}: these data as a whole are not what the model learned. "
        "Check columns, units and operating point before looking for single culprits."
    )


def began(flagged: Mask) -> int | None:
    """The position from which on most rows are flagged, where enough rows before it are normal.

    >>> began(np.repeat([False, True], 20)), began(np.repeat([False, True], [5, 20]))
    (20, None)
    """
    balance = np.concatenate([[0], np.cumsum(np.where(flagged, 1, -1))])
    start = int(balance.argmin())
    normal = start >= _FEWEST_NORMAL and flagged[:start].mean() <= _FLAGGED_BEFORE
    return start if normal and start < len(flagged) else None


def _longest_normal(flagged: Mask) -> tuple[int, int]:
    """First and last position of the longest run without flagged rows; a run without rows where there is none."""
    ends = np.concatenate([[-1], np.flatnonzero(flagged), [len(flagged)]])
    k = int(np.diff(ends).argmax())
    return int(ends[k]) + 1, int(ends[k + 1]) - 1
