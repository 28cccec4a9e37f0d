"""What the other observed features imply for each feature, or for each block of features that is left out together.

With C the covariance of the observed features, the conditional mean of the block B given the others is

    x_B - (C^-1)_BB^-1 (C^-1 x)_B.

The matrices depend on the model and on what is observed, not on the rows, so they are found once for many rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from culpa._core.copies import CopiedInUse
from culpa._core.missing import any_missing, patterns
from culpa._core.types import Floats, Positions

if TYPE_CHECKING:
    from culpa.models.incomplete import Incomplete
    from culpa.models.latent import LatentGaussian

# Below this share of unexplained variance, leave-one-out by division would lose more than half of the digits.
THIN = 1e-6
_FAR = 1e3  # standard deviations beyond which leave-one-out by subtraction would lose the digits of normal values
_BLOCKINGS_KEPT = 8  # ways to leave features out, prepared for complete rows

Blocks = Sequence[Sequence[int]] | None  # left out together; by default each feature is left out alone


class _Solved(NamedTuple):
    """A block whose part of C^-1 can be inverted without losing digits. ``at`` are positions among observed features."""

    at: list[int]
    left: Floats  # what the other features leave of the block's noise, (block, block)
    scale: Floats  # standard deviation of that noise

    def expected(self, X: Floats, surprise: Floats) -> Floats:
        """Of the block, (n, block)."""
        steps = np.linalg.solve(self.left, (surprise[:, self.at] / self.scale).T).T * self.scale
        return np.asarray(X[:, self.at] - steps)


class _Regressed(NamedTuple):
    """A block that the other features almost determine: computed from these alone."""

    at: list[int]
    others: Positions
    centre: Floats  # of the other features
    gain: Floats
    mean: Floats  # of the block
    loadings: Floats

    def expected(self, X: Floats, surprise: Floats) -> Floats:
        """Of the block, (n, block)."""
        return np.asarray(self.mean + (X[:, self.others] - self.centre) @ self.gain.T @ self.loadings.T)


@dataclass(frozen=True, eq=False)
class LeavingOut(CopiedInUse):
    """The linear maps behind conditional means of blocks, for rows in which the same features are observed."""

    mean: Floats | None  # of the observed features; ``None`` if it is 0
    gain: Floats
    loadings: Floats
    unexplained: Floats  # share of each feature's noise that the others leave
    blocks: tuple[_Solved | _Regressed, ...]  # those that are more than a division

    @cached_property
    def _moves(self) -> Floats | None:
        """All of it as one matrix, where that takes fewer operations: conditional means are X - centred @ moves."""
        d, p = self.loadings.shape
        if self.blocks or d > 2 * p:
            return None
        return np.asarray((np.eye(d) - self.gain.T @ self.loadings.T) / self.unexplained)

    @classmethod
    def of(
        cls,
        model: "LatentGaussian",
        observed: Positions,
        blocks: Iterable[Sequence[int]] | None,
        posterior: tuple[Floats, Floats] | None = None,
    ) -> "LeavingOut":
        """Blocks are made of observed features; ``None`` means each feature alone.

        ``posterior`` is what `LatentGaussian.posteriors` says about the observed features, if it is known.
        """
        gain, root = model.posteriors.of(observed) if posterior is None else posterior
        noise, W, mean = model.noise[observed], model.loadings[observed], model.mean[observed]
        spread = W @ root / np.sqrt(noise)[:, None]  # Psi^1/2 C^-1 Psi^1/2 = I - spread spread^T
        alone = 1 - (spread**2).sum(axis=1)
        position = {feature: k for k, feature in enumerate(observed.tolist())}
        found: list[_Solved | _Regressed] = []
        for block in [[feature] for feature in position] if blocks is None else blocks:
            at = [position[feature] for feature in block]
            if len(at) == 1 and alone[at[0]] > THIN:
                continue  # a division, for all such features at once
            left = np.eye(len(at)) - spread[at] @ spread[at].T
            if np.linalg.eigvalsh(left)[0] > THIN:
                found.append(_Solved(at, left, np.sqrt(noise[at])))
            else:
                others = np.setdiff1d(np.arange(len(observed)), at)
                rest_gain = model.posteriors.of(observed[others])[0]
                found.append(_Regressed(at, others, mean[others], rest_gain, mean[at], W[at]))
        unexplained = np.where(alone > THIN, alone, 1.0)
        return cls(mean if mean.any() else None, gain, W, unexplained, tuple(found))

    def __call__(self, X: Floats) -> Floats:
        """Conditional means of rows (n, observed) that hold nothing but observed features."""
        centred = X if self.mean is None else X - self.mean
        if self._moves is not None:
            steps = centred @ self._moves
            return np.subtract(X, steps, out=steps)
        surprise = centred @ self.gain.T @ self.loadings.T
        np.subtract(centred, surprise, out=surprise)  # Psi C^-1 x
        result = surprise / self.unexplained
        np.subtract(X, result, out=result)
        for block in self.blocks:
            result[:, block.at] = block.expected(X, surprise)
        return result


class ExpectedCells:
    """What the other observed features of rows imply for each feature, or each block of features, under a model."""

    def __init__(self, model: "LatentGaussian") -> None:
        self.model = model
        self._far = _FAR * np.sqrt(model.variances)  # distance from the mean beyond which a cell is far
        self._near = float((model.mean - self._far).max()), float((model.mean + self._far).min())
        self._prepared: dict[tuple[tuple[int, ...], ...] | None, LeavingOut] = {}

    def __getstate__(self) -> dict[str, Any]:
        # without what other threads may be changing while a copy is made
        return dict(vars(self)) | {"_prepared": {}}

    def __call__(self, X: Floats, blocks: Blocks) -> Floats:
        """Conditional means of all cells."""
        result = self._leave_each_out(X, blocks)
        for rows, block in self._far_cells(X, blocks):
            without = X[rows]
            without[:, block] = np.nan
            result[np.ix_(rows, block)] = self.model.impute(without)[:, block]
        return result

    def _far_cells(self, X: Floats, blocks: Blocks) -> Iterator[tuple[Positions, Positions]]:
        """Rows and observed features of blocks with a cell that would swamp what the other features imply."""
        low, high = self._near  # within which a cell of any feature is near, which usually is enough
        if X.size and low <= X.min() and X.max() <= high:  # false if cells are missing
            return
        far = np.abs(X - self.model.mean) > self._far
        if not far.any():
            return
        for block in blocks or [[i] for i in range(self.model.n_features)]:
            at = np.asarray(block, dtype=np.intp)
            affected = np.flatnonzero(far[:, at].any(axis=1))
            for rows, observed in patterns(X[np.ix_(affected, at)]):
                yield affected[rows], at[observed]

    def _leave_each_out(self, X: Floats, blocks: Blocks) -> Floats:
        """By one formula for all features and rows, which subtracts each feature from itself."""
        if not any_missing(X):
            return self._leaving_out(blocks)(X)
        result = np.empty_like(X)
        for part in self.model.posteriors.by_pattern(X):
            unexplained = part.unexplained(self.model)
            if blocks is None and unexplained.min() > THIN:
                result[part.rows] = part.leave_each_out(X[part.rows], self.model, unexplained)
            else:
                self._leave_out_by_pattern(X, blocks, part, result)
        return result

    def _leave_out_by_pattern(self, X: Floats, blocks: Blocks, part: "Incomplete", result: Floats) -> None:
        """The same where some blocks are more than a division, for the rows of some patterns."""
        model = self.model
        for rows, observed, gain, root in part.one_by_one():
            here, gain = np.ix_(rows, observed), gain[:, observed]
            result[rows] = model.mean + (X[here] - model.mean[observed]) @ gain.T @ model.loadings.T
            seen = set(observed.tolist())
            kept = None if blocks is None else [[i for i in block if i in seen] for block in blocks]
            leave_out = LeavingOut.of(model, observed, None if kept is None else filter(None, kept), (gain, root))
            result[here] = leave_out(X[here])

    def _leaving_out(self, blocks: Blocks) -> LeavingOut:
        """Blocks of complete rows, prepared once."""
        key = None if blocks is None else tuple(map(tuple, blocks))
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = LeavingOut.of(self.model, np.arange(self.model.n_features), blocks)
            if len(self._prepared) >= _BLOCKINGS_KEPT:
                self._prepared.clear()
            self._prepared[key] = prepared
        return prepared
