"""Which features changed by themselves between two periods?

If one tag is recalibrated, the score changes, and so do Shapley values of its neighbours, which no longer agree with it.
The means of the readings tell them apart: D is the difference of the mean standardised rows, and if few features read
something else, D without them is what chance gives. Chance is known from the means of consecutive stretches of rows, along
each principal axis by itself, because slow axes wander more.
"""

from dataclasses import dataclass

import numpy as np

from culpa._core.types import Floats
from culpa.monitoring.intervals import CONFIDENCE, Interval, batch_variance, margin_of
from culpa.monitoring.periods import Period
from culpa.ranking.incident_evidence import explained_by_few

_EXPLAINED = 0.9  # of the excess of D over chance, from which few features explain it
_COMPLETE = 0.9  # of the rows of a stretch, from which they stand for all of them
_CHANCE = 3.0  # standard deviations of the excess that chance gives


@dataclass(frozen=True)
class OwnChange:
    """How much more a feature reads in the second period for the same readings of all others, in its own units."""

    feature: str
    change: Interval

    def __str__(self) -> str:
        value, low, high = self.change
        more = "higher" if value > 0 else "lower"
        ends = sorted((abs(low), abs(high)))
        return f"{abs(value):.3g} {more} ({ends[0]:.3g} to {ends[1]:.3g})"


def own_changes(before: Period, after: Period) -> tuple[tuple[OwnChange, ...], Floats]:
    """Up to three features that explain the change of the means, if they do, and this change of the standardised features.

    Of rows without missing cells.
    """
    explainer = before.explainer
    model, columns = explainer.model, explainer.columns
    if model.n_modes > 1 or model.margins is not None:
        return (), np.zeros(0)  # no single distribution, or no units that differ by a factor
    stretches = [(np.array([one.n for one in each]), np.array([one.mean for one in each])) for each in
                 (before.complete, after.complete)]  # fmt: skip
    if min(len(n) for n, _ in stretches) < 2:
        return (), np.zeros(0)
    shift = np.subtract(*(n @ means / n.sum() for n, means in reversed(stretches)))
    variances, axes = np.linalg.eigh(model.gaussian.covariance)
    root = axes.T / np.sqrt(variances)[:, None]
    by_chance = sum(np.maximum(batch_variance(n, means @ root.T)[0], 1 / n.sum()) for n, means in stretches)
    blocks = [columns.features_of([k]) for k in range(len(columns.members))]
    found = explained_by_few(shift[None], root / np.sqrt(by_chance)[:, None], blocks)
    if not (found.excess > _CHANCE * np.sqrt(2 * len(shift)) and found.share >= _EXPLAINED):
        return (), np.zeros(0)
    at = [j for k in found.players for j in blocks[k]]
    precision = root.T @ root
    beyond = np.linalg.solve(precision[np.ix_(at, at)], precision[at])  # what the others imply
    change, (first, second) = beyond @ shift, (batch_variance(n, means @ beyond.T) for n, means in stretches)
    margin, widest = (
        margin_of(first, second, 0.0, level) for level in (1 - CONFIDENCE, (1 - CONFIDENCE) / len(blocks))
    )
    ends = np.stack([change, change - margin, change + margin]) * model.scale[at]
    chosen = [(k, at.index(blocks[k][0])) for k in found.players]
    chosen = [
        (k, place) for k, place in chosen if abs(change[place]) > widest[place]
    ]  # holds for all features together
    moved = np.zeros(len(shift))
    for k, place in chosen:
        moved[blocks[k]] = change[place : place + len(blocks[k])]
    return tuple(OwnChange(columns.names[k], Interval(*ends[:, place].tolist())) for k, place in chosen), moved


def score_without(after: Period, moved: Floats) -> Floats | None:
    """The mean score of each stretch if the standardised features had not moved so, as its complete rows show.

    ``None`` if the score is not quadratic, or more than a tenth of the rows of a stretch are incomplete.
    """
    quadratic, complete = after.explainer.score.as_quadratic, after.complete
    n, means = after.means()
    if (
        quadratic is None
        or len(complete) < len(n)
        or any(one.n < _COMPLETE * k for one, k in zip(complete, n, strict=True))
    ):
        return None
    parts = quadratic.root @ moved
    return np.array(
        [means[k, -1] - 2 * parts @ (quadratic.root @ one.mean) + parts @ parts for k, one in enumerate(complete)]
    )
