"""What a row would be and score if some of its features were as the others imply."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from culpa._core.copies import CopiedInUse
from culpa._core.types import Floats
from culpa.models.distribution import Expecting


class Fixing(CopiedInUse, ABC):
    """A score that can tell what would fix a block of features."""

    @abstractmethod
    def __call__(self, X: Floats) -> Floats:
        """Score of each row."""

    @property
    @abstractmethod
    def distribution(self) -> Expecting:
        """Of normal rows."""

    def fix(self, X: Floats, block: Sequence[int]) -> tuple[Floats, Floats]:
        """What the other observed features imply for a whole block, (n, block), and the score with all of it there, (n,).

        Cells of the block that are missing stay missing in the score.
        """
        at = list(block)
        expected = self.distribution.expected(X, [at])[:, at]
        fixed = X.copy()
        fixed[:, at] = np.where(np.isnan(X[:, at]), np.nan, expected)
        return expected, self(fixed)
