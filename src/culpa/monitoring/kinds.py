"""What kind of an incident it is: a wrong sensor, one whose unit changed, or a process that moved."""

import numpy as np
from numpy.typing import NDArray

from culpa.models import FittedModel
from culpa.models.latent import marginal
from culpa.monitoring.running import Draft
from culpa.monitoring.unit_changes import changed_unit
from culpa.monitoring.verdict import Verdict, Verdicts
from culpa.scores.consistency import Consistency


class Kinds:
    """Judges incidents by the first rows of their columns, whose present values are the features in ``main``."""

    def __init__(self, model: FittedModel, main: NDArray[np.intp], normal: Consistency) -> None:
        self._gaussian = marginal(model.gaussian, main)
        self._verdicts = Verdicts(self._gaussian, normal)
        plain = model.context is None and model.margins is None
        self._units = (model.centre[main], model.scale[main]) if plain else None

    def of(self, draft: Draft, n: int, *, over: bool) -> Verdict:
        """The verdict on an incident that has ``n`` rows so far, from the first flagged one to the last."""
        rows = self._gaussian.impute(np.concatenate(draft.early)[:n])
        verdict = self._verdicts.judge(rows - draft.recent.averages[-1], over=over)
        if verdict.why != "alone" or self._units is None:
            return verdict
        j, (centre, scale) = verdict.columns[0], self._units
        implied, sd = self._verdicts.implied(rows, j)
        readings = centre[j] + scale[j] * (rows[:, j] + draft.shift[j])
        found = changed_unit(readings, centre[j] + scale[j] * (implied + draft.shift[j]), scale[j] * sd)
        if found is None:
            return verdict
        return verdict._replace(kind="unit", why="unit", unit_change=f"{found.one} to {found.other}")
