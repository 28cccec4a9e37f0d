"""Explanations batch by batch, by whichever way is cheaper over the whole run."""

from collections.abc import Callable

from culpa._core.types import Floats
from culpa.explainer import Explainer
from culpa.explanation import Explanation
from culpa.scores import ScoredRows

_COMPILED_LIVE_UP_TO = 16  # features: compiling takes too little time to notice while waiting for a line


class BatchExplainer:
    """An explainer that reports when it compiles, and does not compile for long if a pipe waits for answers."""

    def __init__(
        self, explainer: Explainer, *, live: bool = False, note: Callable[[str], None] = lambda text: None
    ) -> None:
        self.explainer, self.note = explainer, note
        self._may_compile = not (live and explainer.model.distribution.n_features > _COMPILED_LIVE_UP_TO)

    def explain(self, rows: ScoredRows) -> Explanation:
        """Everything there is to say about some rows."""
        self._compile_if_due(rows)
        return self.explainer.explain_scored(rows)

    def values(self, rows: ScoredRows) -> Floats:
        """Shapley values alone, (rows, columns); NaN for rows without any observed feature."""
        self._compile_if_due(rows)
        return self.explainer.values_of_scored(rows)

    def _compile_if_due(self, rows: ScoredRows) -> None:
        self.explainer.count_rows(rows.standard)
        if self._may_compile and self.explainer.compiling_is_due:
            self.note("preparing to explain many rows")
            self.explainer.compile()
            self.note("")
