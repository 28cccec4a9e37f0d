"""Shapley values batch by batch, by whichever way is cheaper over the whole run."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from culpa.columns import Reading
from culpa.explainer import Explainer
from culpa.explanation import Explanation
from culpa.shapley.quadratic import n_products
from culpa.shapley.rules import N_NETS

Floats = NDArray[np.float64]

_AT_ONCE = 16  # features up to which compiling is so quick that nobody waiting for a line would notice


class Blame:
    """An explainer that compiles itself once walking has cost as much as compiling would.

    How many rows will have to be explained is not known while they stream in. Compiling costs about as much as walking
    d (d + 1) / 2 rows, so waiting until that many have been walked costs at most twice the best choice.
    """

    def __init__(
        self,
        explainer: Explainer,
        names: tuple[str, ...],
        *,
        live: bool = False,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.explainer, self.names, self.note = explainer, names, note
        self._walked = 0
        n_features: int = explainer.normal.gaussian.n_features
        fits = 8 * N_NETS * n_features**3 <= explainer.memory
        self._may_compile = explainer.game.quadratic and fits and not (live and n_features > _AT_ONCE)

    def explain(self, rows: Reading) -> Explanation:
        """Everything there is to say about some rows."""
        self._compile_if_due(len(rows.features))
        return self.explainer.explain(rows)

    def values(self, rows: Reading) -> Floats:
        """Shapley values alone, (rows, columns); NaN for rows without any observed feature."""
        missing = np.isnan(rows.features)
        complete, some = ~missing.any(axis=1), ~missing.all(axis=1)
        self._compile_if_due(len(missing))
        compiled = self.explainer.forms is not None
        if compiled and complete.all():
            return np.asarray(self.explainer.shares(rows.features).values)
        result = np.full(rows.cells.shape, np.nan)
        if compiled and complete.any():
            result[complete] = self.explainer.shares(rows.features[complete]).values
        walked = some & ~complete if compiled else some  # the others get no score, so there is nothing to share out
        if walked.any():
            result[walked] = self.explain(rows.choose(walked)).values
        return result

    def _compile_if_due(self, n_rows: int) -> None:
        if self.explainer.forms is not None or not self._may_compile:
            return
        self._walked += n_rows
        if self._walked > n_products(self.explainer.normal.gaussian.n_features):
            self.note("preparing to explain many rows")
            self.explainer.compile()
            self.note("")
