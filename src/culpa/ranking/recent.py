"""What was usual right before an incident: recent levels of each feature, and how far it strayed from them.

Normal operation drifts, so how far a feature moved is measured from its level in the normal rows before, and in units of
what it does in normal rows. With z a standardised row, b an average of the rows before, reach and n as in
`culpa.models.normal_range`, and l the largest distance from the slow average in the last 300 to 600 rows,

    u = |z - b| / sqrt(reach^2 + (l / 2)^2 + (z - b)^2 / (n + 1)).

There are two averages, a fast and a slow one. Which of them shows the movement better depends on the feature, so `evidence`
takes the geometric mean of both. `docs/culprits.md` compares this ranking with others on known incidents.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.columns.smoothing import averaged
from culpa.models.fitted_model import FittedModel
from culpa.models.normal_range import NormalRange

_WINDOWS = (30.0, 300.0)  # rows that the averages rest on
_BUCKET = 300  # rows, of which the largest distance is kept
FORGOTTEN = 300  # missing rows, after which earlier ones say nothing about what is usual
SETTLED = 2000  # rows, after which earlier ones hardly matter


@dataclass(frozen=True, eq=False)
class Recent:
    """After so many normal standardised rows: averages (2, d), and the largest distances in two periods (2, d).

    The last period has ``n_rows`` so far. It does not depend on how rows are cut into batches.
    """

    averages: Floats
    farthest: Floats
    n_rows: int = 0

    @classmethod
    def none(cls, d: int) -> Self:
        """Before any row: at the mean of the training rows."""
        return cls(np.zeros((2, d)), np.zeros((2, d)))

    def then(self, Z: Floats) -> Self:
        """After more normal rows, in order; missing cells (NaN) change nothing.

        >>> Recent.none(1).then(np.ones((400, 1))).averages.round(3).tolist()
        [[1.0], [0.931]]
        """
        result = self
        for start in _starts(self.n_rows, len(Z)):
            result = result._in_bucket(Z[start : start + _BUCKET - result.n_rows % _BUCKET])
        return result

    def _in_bucket(self, Z: Floats) -> Self:
        whole = ~np.isnan(Z)
        averages, level = np.empty_like(self.averages), np.empty_like(Z)
        for k, window in enumerate(_WINDOWS):
            after = averaged(Z, self.averages[k], 2 / (window + 1))
            averages[k] = after[-1]
            if k == len(_WINDOWS) - 1:
                level[0], level[1:] = self.averages[k], after[:-1]
        away = np.max(np.where(whole, np.abs(np.nan_to_num(Z) - level), 0.0), axis=0)
        before, now = self.farthest if self.n_rows % _BUCKET else (self.farthest[1], np.zeros_like(away))
        return replace(
            self, averages=averages, farthest=np.stack([before, np.maximum(now, away)]), n_rows=self.n_rows + len(Z)
        )

    def movement(self, Z: Floats, normal: NormalRange) -> Floats:
        """How far features moved from each average, (2, rows, d), in units of what normal stretches show; NaN stays NaN."""
        away = Z - self.averages[:, None]
        strayed = self.farthest.max(axis=0) / 2
        against = np.sqrt(normal.reach**2 + strayed**2 + away**2 / (normal.n + 1))
        none = np.where(np.isnan(away), np.nan, 0.0)
        return np.asarray(np.divide(np.abs(away), against, out=none, where=against > 0))

    def rescaled(self, before: FittedModel, after: FittedModel) -> Self:
        """The same where a new model standardises differently."""
        factor, shift = before.scale / after.scale, (before.centre - after.centre) / after.scale
        return replace(self, averages=self.averages * factor + shift, farthest=self.farthest * factor)

    def of_features(self, at: NDArray[np.intp]) -> Self:
        """The same for some features."""
        return replace(self, averages=self.averages[:, at], farthest=self.farthest[:, at])

    def to_arrays(self) -> dict[str, Floats]:
        """Plain arrays from which a model file makes the same again."""
        return {"levels": np.concatenate([self.averages, self.farthest]), "rows": np.array([float(self.n_rows)])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats]) -> Self:
        """Inverse of `to_arrays`."""
        return cls(arrays["levels"][:2], arrays["levels"][2:], int(arrays["rows"][0]))


def evidence(largest: Floats) -> Floats:
    """From the largest movement from each average, weighted towards the onset: (2, d) to (d,).

    >>> evidence(np.array([[1.0, 4.0], [4.0, 4.0]]))
    array([2., 4.])
    """
    return np.asarray(np.sqrt(largest.prod(axis=0)))


def _starts(n_before: int, n: int) -> list[int]:
    """Where rows are cut at the borders of buckets."""
    first = _BUCKET - n_before % _BUCKET
    return [0, *range(first, n, _BUCKET)] if n else []
