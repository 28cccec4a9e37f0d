"""What calibration changed about the detector given, and what that did, line by line."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from culpa._core.types import Floats
from culpa.calibration.comparison import Outcome, recipe_of
from culpa.calibration.evaluation import Estimate
from culpa.detecting.detector import PCADetector
from culpa.scores.held_out import Rate

_SHOWN = ("statistic", "noise", "shrinkage", "game", "ranking", "limit")


class Side(NamedTuple):
    """A detector before or after calibration, with its results."""

    detector: PCADetector
    outcome: Outcome
    own: tuple[Estimate, Rate] | None  # of faults and of held-out rows, by its own limit


class Change(NamedTuple):
    """One line of the table of changes."""

    what: str
    before: str
    after: str


def changes(before: Side, after: Side, features: Floats) -> tuple[Change, ...]:
    """The parameters that changed, and all results of both."""
    return (*_parameters(before.detector, after.detector, features), *_results(before, after))


def _parameters(before: PCADetector, after: PCADetector, features: Floats) -> Iterator[Change]:
    first, second = (recipe_of(detector, features.shape[1]) for detector in (before, after))
    counts = [recipe.learn(features).ppca.n_components_ for recipe in (first, second)]
    if counts[0] != counts[1]:
        yield Change("components", *map(str, counts))
    for name in _SHOWN:
        old, new = getattr(before, name), getattr(after, name)
        if name == "statistic":
            old, new = first.statistic, second.statistic
        if old != new:
            yield Change(name, *(f"{value:g}" if isinstance(value, float) else str(value) for value in (old, new)))


def _results(before: Side, after: Side) -> Iterator[Change]:
    asked = 1 - before.detector.confidence
    first, second = before.outcome, after.outcome
    yield Change(f"detection at {100 * asked:.3g}% false alarms", *map(percent, (first.detection, second.detection)))
    for k, name in enumerate(("detection", "false alarms")):
        yield Change(f"{name} with its own limit", *(percent(side.own and side.own[k]) for side in (before, after)))
    yield Change("Hits@1", *map(percent, (first.hits1, second.hits1)))
    yield Change("Hits@3", *map(percent, (first.hits3, second.hits3)))
    yield Change("mean rank", f"{first.rank.value:.2f}", f"{second.rank.value:.2f}")


def percent(share: Estimate | Rate | None) -> str:
    """A share with its 95% interval, in percent.

    >>> percent(Estimate(0.5, 0.412, 0.588))
    '50.0% (41.2 to 58.8)'
    """
    return "unknown" if share is None else f"{share.value:.1%} ({100 * share.low:.1f} to {100 * share.high:.1f})"


def with_intervals(entries: Iterable[Any], *names: str) -> dict[str, Any]:
    """Columns of a table: estimates of these names with the ends of their intervals."""
    columns: dict[str, Any] = {}
    for name in names:
        found = [getattr(entry, name) for entry in entries]
        columns[name] = [share.value for share in found]
        columns |= {f"{name}_low": [share.low for share in found], f"{name}_high": [share.high for share in found]}
    return columns


def as_columns(lines: tuple[Change, ...]) -> dict[str, Any]:
    """The table of changes by column."""
    return {name: [getattr(line, name) for line in lines] for name in Change._fields}
