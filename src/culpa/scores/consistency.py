"""How well the columns of a stretch of rows agree with each other, and how well they do in normal rows.

For a standardised row z with precision P, D = z^T P z is its squared Mahalanobis distance, and u_j^2 = (P z)_j^2 / P_jj the
squared standardised residual of column j given all others: D falls by u_j^2 without column j. Of a stretch of rows,

| | formula | is large if |
| --- | --- | --- |
| own | mean of u_j^2 | column j disagrees with the others |
| rest | mean of D - u_j^2 | the others are not as usual |
| highest | max of D - u_j^2 | the same, in one row |

Stretches of normal rows of the same length show what is usual: 95% of them have less. Each of them is judged by a model of
other rows, which are not next to it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from culpa._core.types import Floats, Positions
from culpa.models.latent import LatentGaussian
from culpa.scores.quadratic import QuadraticScore, mahalanobis

LENGTHS = (4, 10, 20, 40)  # of stretches, in rows
_FOLDS = 5
_LEVEL = 0.95  # of stretches of normal rows have less
_ONE_IN = 100  # rows is above the limit of single rows
_STRETCHES, _CELLS = 500, 1 << 17  # per length, at most; numbers that they have
_LEAST = 1e-9


class Residuals(NamedTuple):
    """Squared distances (n,) of rows and squared standardised residuals (n, d) of their columns given all others."""

    distance: Floats
    squares: Floats

    @classmethod
    def of(cls, score: QuadraticScore, Z: Floats) -> Self:
        """Of complete rows; ``score`` is their Mahalanobis distance."""
        response = score.response(Z)
        return cls((response * Z).sum(axis=1), response**2 / score.diagonal)

    @property
    def rest(self) -> Floats:
        """Squared distance without each column, (n, d)."""
        return self.distance[:, None] - self.squares


@dataclass(frozen=True, eq=False)
class Consistency:
    """What stretches of normal rows show, by length (L,) and column (d,).

    ``spread`` is how much the column that disagrees most exceeds its ``own``, and ``limit`` what one row in a hundred
    exceeds.
    """

    own: Floats
    rest: Floats
    highest: Floats
    spread: Floats
    limit: float

    @classmethod
    def of(cls, pieces: Sequence[Floats], n_components: int) -> "Consistency":
        """Of complete standardised rows, in pieces of rows that follow each other."""
        folds = [list(fold) for fold in np.array_split(np.arange(len(pieces)), _FOLDS) if len(fold)]
        judged: list[Residuals] = []
        for fold in folds:
            others = np.concatenate([piece for k, piece in enumerate(pieces) if k not in fold])
            score = mahalanobis(LatentGaussian.from_covariance(np.cov(others.T), n_components))
            centre = others.mean(axis=0)
            judged += [Residuals.of(score, pieces[k] - centre) for k in fold]
        rows, sizes = Residuals(*map(np.concatenate, zip(*judged, strict=True))), [len(piece) for piece in pieces]
        own, rest, highest, spread = map(np.stack, zip(*(_quantiles(rows, sizes, one) for one in LENGTHS), strict=True))
        return cls(own, rest, highest, spread, float(np.quantile(rows.distance, 1 - 1 / _ONE_IN)))

    def to_arrays(self) -> dict[str, Floats]:
        """Plain arrays from which a model file makes the same again."""
        return {"columns": np.stack([self.own, self.rest, self.highest]), "rows": np.append(self.spread, self.limit)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats]) -> Self:
        """Inverse of `to_arrays`."""
        own, rest, highest = arrays["columns"]
        return cls(own, rest, highest, arrays["rows"][:-1], float(arrays["rows"][-1]))

    @staticmethod
    def at(n_rows: int) -> int:
        """The length that is nearest to a number of rows."""
        return int(np.argmin([abs(length - n_rows) for length in LENGTHS]))


def _quantiles(rows: Residuals, sizes: Sequence[int], length: int) -> tuple[Floats, Floats, Floats, float]:
    """Of own, rest and highest by column, and of the largest ratio to own, over stretches of this length."""
    at, width = _stretches(sizes, length, rows.squares.shape[1])
    left = rows.rest
    own, rest, highest = rows.squares[at], left[at], left[at]
    for place in range(1, width):
        others = left[at + place]
        own += rows.squares[at + place]
        rest += others
        np.maximum(highest, others, out=highest)
    own /= width
    rest /= width
    usual = np.quantile(own, _LEVEL, axis=0)
    spread = np.quantile((own / np.maximum(usual, _LEAST)).max(axis=1), _LEVEL)
    return usual, np.quantile(rest, _LEVEL, axis=0), np.quantile(highest, _LEVEL, axis=0), float(spread)


def _stretches(sizes: Sequence[int], length: int, n_columns: int) -> tuple[Positions, int]:
    """Where stretches of rows that follow each other start, evenly spaced, and how long they are.

    ``sizes`` are those of the pieces. Stretches are shorter than ``length`` where there are few rows.
    """
    width = min(length, max(max(sizes) // 3, 1))
    pieces = zip(np.cumsum(sizes) - sizes, sizes, strict=True)
    starts = np.concatenate([np.arange(at, at + n - width + 1, max(1, width // 4)) for at, n in pieces])
    most = min(_STRETCHES, _CELLS // n_columns)
    return starts[:: max(1, len(starts) // max(most, 1))], width
