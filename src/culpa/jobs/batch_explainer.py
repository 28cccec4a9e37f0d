"""Shapley values batch by batch, by whichever way is cheaper over the whole run."""

from collections.abc import Callable

import numpy as np

from culpa._core.types import Floats
from culpa.columns import Reading
from culpa.explainer import Explainer
from culpa.explanation import Explanation

_COMPILED_AT_ONCE_UP_TO = 16  # features up to which compiling is so quick that nobody waiting for a line would notice


class Blame:
    """An explainer that says when it prepares to explain many rows, and lets nobody wait for that who waits for a line."""

    def __init__(
        self,
        explainer: Explainer,
        names: tuple[str, ...],
        *,
        live: bool = False,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.explainer, self.names, self.note = explainer, names, note
        self._may_compile = not (live and explainer.normal.gaussian.n_features > _COMPILED_AT_ONCE_UP_TO)

    def explain(self, rows: Reading) -> Explanation:
        """Everything there is to say about some rows."""
        self._compile_if_due(int((~np.isnan(rows.features).any(axis=1)).sum()))
        return self.explainer.explain_reading(rows)

    def values(self, rows: Reading) -> Floats:
        """Shapley values alone, (rows, columns); NaN for rows without any observed feature."""
        missing = np.isnan(rows.features)
        complete, some = ~missing.any(axis=1), ~missing.all(axis=1)
        self._compile_if_due(int(complete.sum()))
        compiled = self.explainer.forms is not None
        if compiled and complete.all():
            return np.asarray(self.explainer.shares(rows.features).values)
        result = np.full(rows.cells.shape, np.nan)
        if compiled and complete.any():
            result[complete] = self.explainer.shares(rows.features[complete]).values
        walked = some & ~complete if compiled else some  # the others get no score, so there is nothing to share out
        if walked.any():
            result[walked] = self.explainer.explain_reading(rows.choose(walked)).values
        return result

    def _compile_if_due(self, n_rows: int) -> None:
        if self._may_compile and self.explainer.compiling_is_due(n_rows):
            self.note("preparing to explain many rows")
            self.explainer.compile()
            self.note("")
