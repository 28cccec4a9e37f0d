"""Several features fixed at once: what the remaining ones imply for all of them, and the score that is left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from culpa._core.comparing import exceeds, ranked
from culpa._core.native import emptied
from culpa._core.types import DataFrame, Floats, Positions
from culpa._core.validation import frame_like
from culpa._core.words import count
from culpa.columns import Reading
from culpa.explaining.explainer import Explainer
from culpa.scores import ScoredRows


@dataclass(frozen=True, eq=False)
class JointFix:
    """Rows with several of their features at the values that the remaining features imply for them jointly.

    Two sensors that fail together vouch for each other: each one's expected value, given all others, believes in the
    other. Fixed together, neither is believed.

    Attributes
    ----------
    features : ndarray of shape (rows, k)
        Names of the features that are fixed.
    actual, expected : ndarray of shape (rows, k)
        What they are, and what the remaining features imply for all of them, in the user's units.
    score, score_if_fixed : ndarray of shape (rows,)
        The score as it is, and with these features at their expected values.
    limit : float
        A score up to here raises no alarm.
    row_labels : ndarray of shape (rows,)
        What the user calls the rows.

    Examples
    --------
    >>> from culpa import PCADetector
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> detector = PCADetector().fit(plant.normal)
    >>> fix = detector.fix(plant.new[50:53], ["x2"])
    >>> fix.clears.tolist(), bool((fix.actual > fix.expected).all())
    ([True, True, True], True)
    """

    features: NDArray[np.str_]
    actual: Floats
    expected: Floats
    score: Floats
    score_if_fixed: Floats
    limit: float
    row_labels: NDArray[Any]
    native: Any = field(default=None, repr=False)  # the table that was given, kept to answer in kind

    def __len__(self) -> int:
        return len(self.score)

    def __repr__(self) -> str:
        fixed = f"{count(self.features.shape[1], 'feature')} each"
        return (
            f"<JointFix of {count(len(self), 'row')}: {fixed}, {int(self.clears.sum()):,} at or below the limit then>"
        )

    @property
    def clears(self) -> NDArray[np.bool_]:
        """Whether no alarm is left, (rows,)."""
        return ~exceeds(self.score_if_fixed, self.limit) & ~np.isnan(self.score_if_fixed)

    def to_frame(self) -> DataFrame:
        """One line per row and feature."""
        k = self.features.shape[1]
        columns: dict[str, Any] = {
            "row": np.repeat(self.row_labels, k),
            "score": np.repeat(self.score, k),
            "score_if_fixed": np.repeat(self.score_if_fixed, k),
            "clears": np.repeat(self.clears, k),
        }
        for name in ("features", "actual", "expected"):
            columns[name.removesuffix("s")] = getattr(self, name).ravel()
        return frame_like(self.native, columns, columns["row"])


def fix_jointly(
    explainer: Explainer,
    reading: Reading,
    limit: float,
    features: Sequence[str | int] | int,
    groups: Mapping[str, Sequence[str]],
) -> JointFix:
    """Fix the named features of every row, or each row's ``features`` worst culprits; groups stand for their features."""
    columns = explainer.columns
    names = columns.known_names or reading.names or columns.names
    n = len(reading.labels)
    rows = ScoredRows.of(reading, explainer.model, explainer.score)
    if isinstance(features, (int, np.integer)):
        which = _worst_culprits(explainer, rows, int(features), len(names))
    else:
        listed = [features] if isinstance(features, str) else features
        opened = [one for name in listed for one in (groups.get(name, [name]) if isinstance(name, str) else [name])]
        chosen = list(dict.fromkeys(columns.find(opened, "features", names)))
        if not chosen:
            raise ValueError("features must name at least one feature.")
        which = np.tile(chosen, (n, 1))
    fixed, score_if_fixed = rows.standard.copy(), np.empty(n)
    sets, set_of_row = np.unique(np.sort(which, axis=1), axis=0, return_inverse=True)
    for k, block in enumerate(sets):
        at = np.flatnonzero(set_of_row.ravel() == k)
        members = columns.features_of(block)
        fixed[at[:, None], members], score_if_fixed[at] = explainer.score.fix(rows.standard[at], members)
    return JointFix(
        np.array(names, dtype=np.str_)[which],
        np.take_along_axis(reading.cells, which, axis=1),
        np.take_along_axis(explainer.model.to_cells(fixed, reading, columns), which, axis=1),
        rows.score,
        score_if_fixed,
        limit,
        reading.labels,
        emptied(reading.native),
    )


def _worst_culprits(explainer: Explainer, rows: ScoredRows, k: int, n_features: int) -> Positions:
    """Positions of the ``k`` most blamed features of each row, (rows, k)."""
    if not 1 <= k <= n_features:
        raise ValueError(
            f"features={k} is not a possible number of features to fix. Use 1 to {n_features}, or a list of names."
        )
    why = explainer._one_pass.explain_scored(rows)
    return ranked(np.where(why.observed, why.blame, -np.inf))[:, :k]
