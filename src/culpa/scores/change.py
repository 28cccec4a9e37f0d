"""How a quadratic score changes as features move: q(x + s) = q(x) + slope . s + s^T A s.

| rows | slope | A |
| --- | --- | --- |
| complete | 2 (F x + r) F | F^T F |
| complete, many features | 2 (A x + F^T r), without forming A | its diagonal, and parts for blocks |
| missing cells, each feature alone | of the imputed row; a cell also moves what is imputed | squares of the same moves |
| other missing cells | 2 (G x + r) G | G^T G, with G the root of the score given the observed features |
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from culpa._core.missing import any_missing, patterns
from culpa._core.types import Floats, Mask, Positions
from culpa.models.incomplete import Incomplete
from culpa.scores.score import CELLS_PER_CHUNK

if TYPE_CHECKING:
    from culpa.scores.quadratic import QuadraticScore

WIDE = 512  # features from which on a d x d matrix is avoided at the price of a few digits

Blocks = Sequence[Sequence[int]]


class Bending(NamedTuple):
    """The slope and A above, as far as some rows need them."""

    slope: Floats  # (n, d)
    alone: Floats  # diagonal of A, (d,) or (n, d)
    within: Callable[[Sequence[int]], Floats]  # the part of A that belongs to a block

    @classmethod
    def of_root(cls, X: Floats, root: Floats, offset: Floats | float, matrix: Floats | None = None) -> Self:
        """Of a score |F x + r|^2; ``matrix`` is A, if it is known."""
        A = root.T @ root if matrix is None else matrix
        slope = X @ (2 * A) if isinstance(offset, float) and not offset else (X @ root.T + offset) @ (2 * root)
        return cls(slope, A.diagonal(), lambda block: A[np.ix_(block, block)])

    def change(self, steps: Floats, blocks: Blocks, *, alone: bool) -> Floats:
        """Of the score of each row with one block of features moved by its steps, (n, blocks).

        ``alone`` says that each block is one feature.
        """
        if alone:
            at = [i for (i,) in blocks]
            everywhere = at == [*range(steps.shape[1])]
            steps, slope, own = (part if everywhere else part[..., at] for part in (steps, self.slope, self.alone))
            result = steps * own
            result += slope
            result *= steps
            return np.asarray(result)
        result = np.empty((len(steps), len(blocks)))
        for k, block in enumerate(blocks):
            part = steps[:, block]
            result[:, k] = ((part @ self.within(block) + self.slope[:, block]) * part).sum(axis=1)
        return result


def moved(score: "QuadraticScore", X: Floats, now: Floats, expected: Floats, blocks: Blocks) -> Floats:
    """Score of each row, which is ``now``, with one block of features moved to its expected values, (n, blocks).

    NaN where nothing of the block was observed.
    """
    alone = {*map(len, blocks)} == {1}
    if not any_missing(X):
        bending = _wide(score, X) if X.shape[1] > WIDE else Bending.of_root(X, score.root, score.offset, score.matrix)
        result = bending.change(expected - X, blocks, alone=alone)
    else:
        result = np.empty((len(X), len(blocks)))
        for rows, bending in _incomplete(score, X, alone=alone):
            result[rows] = bending.change(np.nan_to_num(expected[rows] - X[rows], nan=0.0), blocks, alone=alone)
        unseen = np.isnan(X)
        if alone:
            result[unseen[:, [i for (i,) in blocks]]] = np.nan
        else:
            for k, block in enumerate(blocks):
                result[unseen[:, list(block)].all(axis=1), k] = np.nan
    result += now[:, None]
    return result


def _wide(score: "QuadraticScore", X: Floats) -> Bending:
    """Of complete rows with many features, without forming A."""

    def within(block: Sequence[int]) -> Floats:
        parts = score.parts(unit_rows(block, X.shape[1]))
        return parts @ parts.T

    return Bending(2 * (score.response(X) + score.slope), score.diagonal, within)


def _incomplete(score: "QuadraticScore", X: Floats, *, alone: bool) -> Iterator[tuple[Positions, Bending]]:
    """Of rows with missing cells, by their patterns; many patterns at a time where features move ``alone``."""
    if score.gaussian.tail:
        for rows, observed in patterns(X):
            yield rows, _of_pattern(score, X[rows], score.whole_root_given(observed))
        return
    for part in score.gaussian.posteriors.by_pattern(X):
        if alone:
            yield part.rows, _by_cells(score, X[part.rows], part)
            continue
        for rows, observed, gain, _ in part.one_by_one():
            yield rows, _of_pattern(score, X[rows], score.root_given(observed, gain[:, observed]))


def _of_pattern(score: "QuadraticScore", X: Floats, root: Floats) -> Bending:
    kept = root.any(axis=1)
    offset = (
        score.offset if isinstance(score.offset, float) else np.pad(score.offset, (0, len(root) - len(score.offset)))
    )
    return Bending.of_root(np.nan_to_num(X, nan=0.0), root[kept], offset if isinstance(offset, float) else offset[kept])


def _by_cells(score: "QuadraticScore", X: Floats, part: Incomplete) -> Bending:
    """With the effect that each observed cell alone has on what is imputed."""
    W, missing = score.gaussian.loadings, part.missing[part.pattern]
    imputed = np.where(missing, part.latent(np.where(missing, 0.0, X)) @ W.T, X)
    slope = Bending.of_root(imputed, score.root, score.offset, score.matrix).slope
    slope += part.by_cells((missing * slope) @ W)
    kept = score.root[score.root.any(axis=1)]
    return Bending(slope, _curvatures(kept, W, part.missing, part.gains)[part.pattern], lambda block: np.empty(0))


def _curvatures(root: Floats, W: Floats, missing: Mask, gains: Floats) -> Floats:
    """Half the second derivative of the score by each observed cell alone, (patterns, d)."""
    result = np.empty(missing.shape)
    step = max(1, CELLS_PER_CHUNK // max(1, root.size))
    for some in (slice(start, start + step) for start in range(0, len(result), step)):
        moves = (root @ (missing[some, :, None] * W)) @ gains[some]
        moves += root
        result[some] = np.square(moves, out=moves).sum(axis=1)  # squares, so that it cannot cancel
    return result


def unit_rows(at: Sequence[int] | Positions, n_features: int) -> Floats:
    """Rows that are 1 at one feature each, and 0 elsewhere."""
    rows = np.zeros((len(at), n_features))
    rows[np.arange(len(at)), at] = 1.0
    return rows
