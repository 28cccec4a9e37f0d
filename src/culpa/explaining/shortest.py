"""Fewer and simpler numbers: non-negative values, and the fewest players that account for most of a score."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from culpa._core.comparing import exceeds, ranked
from culpa._core.native import frame_like
from culpa._core.types import DataFrame, Floats, Mask
from culpa._core.words import count
from culpa.explaining.lines import top_columns

if TYPE_CHECKING:
    from culpa.explaining.explanation import Explanation

_ROUNDING = 1e-12  # of the sum, which no player more should be needed for
_SHOWN = 10  # rows in a repr


def nonnegative(values: Floats, players: Mask) -> Floats:
    """The closest vector to each row of values that has no negative entry and the same sum, (rows, players).

    Only entries of ``players`` change; the others must be 0. If the sum is negative, there is no such vector, and the row
    is 0. The closest vector is max(values - t, 0), with t such that the sum is right: all players that keep some blame
    pay the same for those that had less than none.

    >>> nonnegative(np.array([[5.0, 2.0, -1.0]]), np.array([[True, True, True]]))
    array([[4.5, 1.5, 0. ]])
    """
    total = np.where(players, values, 0.0).sum(axis=1)
    down = -np.sort(-np.where(players, values, -np.inf), axis=1)
    count = np.arange(1, values.shape[1] + 1)
    with np.errstate(invalid="ignore"):  # -inf - -inf, where fewer players are present
        tax = (np.cumsum(down, axis=1) - total[:, None]) / count
        paying = ((down > tax) & np.isfinite(down)).sum(axis=1)  # those that keep some blame come first
    t = np.take_along_axis(tax, np.maximum(paying - 1, 0)[:, None], axis=1)
    taken = np.where(players & (total > 0)[:, None], np.maximum(values - np.where(np.isfinite(t), t, 0.0), 0.0), 0.0)
    return np.where(np.isnan(values), np.nan, taken)


def fewest(values: Floats, wanted: Floats) -> NDArray[np.intp]:
    """How many of the largest values of each row add up to ``wanted`` (rows,); 0 where nothing is wanted."""
    reached = np.cumsum(-np.sort(-values, axis=1), axis=1)
    enough = reached >= (wanted - _ROUNDING * np.abs(wanted))[:, None]
    # where even the sum of all falls short by rounding, all positive values are needed
    count = np.where(enough.any(axis=1), enough.argmax(axis=1) + 1, np.maximum((values > 0).sum(axis=1), 1))
    return np.where(wanted > 0, count, 0).astype(np.intp)


@dataclass(frozen=True, eq=False)
class Shortest:
    """The fewest players whose values add up to a share of what is to explain, most blamed first.

    What is to explain is the excess of a row, its score less its base value. A row at or below its base value needs
    nobody.

    Attributes
    ----------
    explanation : Explanation
        The values that are added up.
    share : float
        The share of the excess that the players must account for.
    counts : ndarray of shape (rows,)
        How many players each row needs.

    Examples
    --------
    >>> from culpa import PCADetector
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> detector = PCADetector().fit(plant.normal)
    >>> why = detector.explain(plant.new[50:53])
    >>> shortest = why.shortest(0.5)
    >>> shortest.players[0], bool((shortest.accounts_for >= 0.5).all())
    (('x2',), True)
    """

    explanation: "Explanation"
    share: float
    counts: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def players(self) -> list[tuple[str, ...]]:
        """Names of the players of each row, most blamed first."""
        why = self.explanation
        order = ranked(np.where(why.observed, why.values, -np.inf))
        return [tuple(why.player_names[i] for i in row[:count]) for row, count in zip(order, self.counts, strict=True)]

    @property
    def accounts_for(self) -> Floats:
        """Share of the excess that these players account for, (rows,); NaN where nothing is to explain."""
        why = self.explanation
        values = -np.sort(-np.where(why.observed, why.values, -np.inf), axis=1)
        among = np.arange(values.shape[1]) < self.counts[:, None]
        excess = why.score - why.base_value
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.counts > 0, np.where(among, values, 0.0).sum(axis=1) / excess, np.nan)

    def to_frame(self) -> DataFrame:
        """`Explanation.top`, with only as many lines per row as it needs."""
        why = replace(self.explanation, ranking="shapley", suspicion=None)
        most = max(1, int(self.counts.max(initial=0)))
        columns = top_columns(why, most)
        observed = np.minimum(why.observed.sum(axis=1), most)
        lines = np.where(np.isnan(why.score), 0, observed)  # that the table has of each row
        wanted = columns["rank"] <= np.repeat(self.counts, lines)
        kept = {name: np.asarray(cells)[wanted] for name, cells in columns.items()}
        return frame_like(why.native, kept, kept["row"])

    def __repr__(self) -> str:
        head = f"<Shortest explanations of {self.explanation.score_name}, {self.share:.0%} of the excess>"
        rows = list(zip(self.explanation.row_labels, self.players, self.accounts_for, strict=True))
        lines = [
            f"  row {label}: " + (f"{', '.join(names)} ({part:.0%})" if names else "nothing to explain")
            for label, names, part in rows[:_SHOWN]
        ]
        more = [f"  and {count(len(rows) - _SHOWN, 'more row')}"] if len(rows) > _SHOWN else []
        return "\n".join([head, *lines, *more])


def shortest_of(why: "Explanation", share: float) -> Shortest:
    """The shortest explanation of each row."""
    if not 0 < share <= 1:
        raise ValueError(f"shortest(share) needs a share above 0 and up to 1, got {share!r}.")
    # what rounding leaves between a score and its base value is nobody's
    excess = np.where(exceeds(why.score, why.base_value), why.score - why.base_value, 0.0)
    counts = fewest(np.nan_to_num(why.values, nan=0.0), share * excess)
    return Shortest(why, share, np.minimum(counts, why.observed.sum(axis=1)))
