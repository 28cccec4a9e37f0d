"""What the other observed features imply for each feature, or for each block of features that is left out together.

With C the covariance of the observed features, the conditional mean of the block B given the others is

    x_B - (C^-1)_BB^-1 (C^-1 x)_B.

The matrices depend on the model and on what is observed, not on the rows, so they are found once for many rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from culpa._core.copies import CopiedInUse
from culpa._core.types import Floats, Positions

if TYPE_CHECKING:
    from culpa.models.latent import LatentGaussian

# Below this share of unexplained variance, leave-one-out by division would lose more than half of the digits.
THIN = 1e-6


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

        ``posterior`` is what the model's method of that name says about the observed features, if it is known.
        """
        gain, root = model.posterior(observed) if posterior is None else posterior
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
                rest_gain = model.posterior(observed[others])[0]
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
