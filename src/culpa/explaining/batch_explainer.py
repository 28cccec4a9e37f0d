"""Explanations batch by batch, by whichever way is cheaper over the whole run."""

from collections.abc import Callable

from culpa._core.choices import Parts, parts_of
from culpa._core.types import Floats
from culpa.explaining.explainer import Explainer
from culpa.explaining.explanation import Explanation
from culpa.scores import ScoredRows
from culpa.shapley.leading import Doubts

_LIVE_OPERATIONS = 5e10  # half a second: what a pipe may wait once for answers that come faster from then on


class BatchExplainer:
    """An explainer that reports when it compiles.

    A ``live`` table has no end, so compiling always pays, but nobody wants to wait for it: it compiles before the first
    row if that takes a moment, and never otherwise.
    """

    def __init__(
        self, explainer: Explainer, *, live: bool = False, note: Callable[[str], None] = lambda text: None
    ) -> None:
        self.explainer, self.note, self.live = explainer, note, live
        self.doubts = Doubts()  # of all rows so far
        if live and explainer._one_pass.engine.compiles_within(_LIVE_OPERATIONS):
            self._compile()

    def explain(self, rows: ScoredRows, parts: Parts = None) -> Explanation:
        """Everything there is to say about some rows, or some parts of it."""
        if "values" in parts_of(parts):
            self._compile_if_due(rows)
        return self.explainer._one_pass.explain_scored(rows, parts, self.doubts)

    def values(self, rows: ScoredRows) -> Floats:
        """Shapley values alone, (rows, columns); NaN for rows without any observed feature."""
        self._compile_if_due(rows)
        return self.explainer._one_pass.values_of_scored(rows, self.doubts)

    def _compile_if_due(self, rows: ScoredRows) -> None:
        if self.live:
            return
        self.explainer._one_pass.count_rows(rows.standard)
        if self.explainer._one_pass.compiling_is_due:
            self._compile()

    def _compile(self) -> None:
        self.note("preparing to explain many rows")
        self.explainer._one_pass.engine.compile()
        self.note("")
