"""A scikit-learn Pipeline that ends in a detector, as a detector of the columns that go into the Pipeline."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from culpa._core.border import entered
from culpa._core.copies import CopiedInUse
from culpa._core.native import given_as, to_frame
from culpa._core.types import Floats
from culpa._core.validation import Table, default_names, feature_positions, refuse_infinity
from culpa._core.words import count, kind_of
from culpa.columns import Lagged, Reading
from culpa.columns.pipelines import joined_names, output_names, steps_of, transformed
from culpa.columns.tracing import Link, chain
from culpa.columns.units import units_in_headers
from culpa.detecting.detector import PCADetector
from culpa.detecting.watching import WatchesRows
from culpa.fitted import FittedDetector
from culpa.models.blocks import BlockMoments
from culpa.scores.agreement import refuse_difference, rounding

_PROBES = np.array([0.0, 1.0, -0.5, 0.25, 2.0])  # outputs that show whether the way back is a straight line


class Outputs(NamedTuple):
    """What the steps before the detector make of the columns, in the columns' own units where a step only scales.

    An output that is the only one of a column has its name. In the units of the column, it is ``shift`` plus ``stretch``
    times what the detector sees. ``groups`` are outputs that belong to the same columns.
    """

    names: tuple[str, ...]
    shift: Floats
    stretch: Floats
    groups: dict[str, list[str]]


@entered
class PipelineDetector(CopiedInUse, WatchesRows):
    """A fitted Pipeline that ends in a `PCADetector`, with the detector's methods, about the original columns.

    `incidents`, `report`, `plot`, `explain`, `statistics`, `drift`, `compare` and the others take the tables that go into
    the Pipeline. Culprits have the names of its columns. Values are in the columns' units where the steps only fill in,
    select or scale; a column that becomes several features, such as a one-hot encoded one, is one culprit whose numbers
    are those of the features.

    Parameters
    ----------
    pipeline : Pipeline
        Fitted, with a `PCADetector` as its last step.

    Examples
    --------
    >>> from sklearn.impute import SimpleImputer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> pipeline = make_pipeline(SimpleImputer(), StandardScaler(), PCADetector()).fit(plant.normal)
    >>> incidents = PipelineDetector(pipeline).incidents(plant.new)
    >>> incidents[0].culprits[0].feature
    'x2'
    """

    def __init__(self, pipeline: Any) -> None:
        if not isinstance(pipeline, Pipeline) or not isinstance(pipeline[-1], PCADetector):
            what = kind_of(pipeline[-1] if isinstance(pipeline, Pipeline) else pipeline)
            raise TypeError(f"PipelineDetector takes a Pipeline whose last step is a PCADetector, but got {what}.")
        check_is_fitted(pipeline[-1], "model_")
        self.pipeline = pipeline
        self._made: _Made | None = None

    def __repr__(self) -> str:
        return f"<PipelineDetector: {count(len(steps_of(self.pipeline)), 'step')} before a PCADetector>"

    @property
    def outputs(self) -> Outputs:
        """What the detector sees of the columns."""
        return outputs_of(self.pipeline)

    @property
    def detector(self) -> PCADetector:
        """The last step of the Pipeline."""
        detector: PCADetector = self.pipeline[-1]
        return detector

    @property
    def fitted(self) -> FittedDetector:
        """The fitted core, in terms of the columns of the Pipeline, as the Pipeline is now."""
        return self._now.core

    @property
    def _now(self) -> "_Made":
        """What the Pipeline is now: it may have been fitted again, or have got another limit."""
        inner, outputs = self.detector.fitted, self.outputs
        made = self._made
        if made is None or not made.is_of(inner, outputs):
            made = self._made = _Made(inner, outputs, in_units_of_columns(inner, outputs))
        return made

    def _read(self, X: Any, min_rows: int = 1) -> Table:
        """What the steps make of a table, in the columns' units where they only scale; its scores are the Pipeline's."""
        frame = to_frame(X)
        native = None if frame is X else given_as(X, frame)
        if len(X) < min_rows:
            raise ValueError(f"X has {count(len(X), 'row')}, but at least {min_rows} are needed.")
        inner, outputs, core = self._now
        seen = Table(transformed(steps_of(self.pipeline), X, len(outputs.names)), outputs.names, native)
        refuse_infinity(seen, "what the Pipeline makes of X")
        table = replace(seen, array=outputs.shift + outputs.stretch * seen.array)
        own = inner.values(inner.read(replace(seen, names=inner.columns.known_inputs)))
        ours = core.values(core.read(table))

        def slack() -> Floats:
            return rounding(lambda rows: core.values(core.read(replace(table, array=rows))), table.array, ours)

        refuse_difference(self.pipeline, own, ours, slack, table.row_labels())
        return table

    def _unsmoothed(self, X: Any) -> Reading:
        table = self._read(X)
        return self.fitted.read(table) if self.fitted.columns.smooth is None else Reading.of(table)


class _Made(NamedTuple):
    """The detector in terms of the columns, and what it was made of."""

    inner: FittedDetector
    outputs: Outputs
    core: FittedDetector

    def is_of(self, inner: FittedDetector, outputs: Outputs) -> bool:
        """Whether it was made of these."""
        return (
            self.inner is inner
            and (self.outputs.names, self.outputs.groups) == (outputs.names, outputs.groups)
            and np.array_equal(self.outputs.shift, outputs.shift)
            and np.array_equal(self.outputs.stretch, outputs.stretch)
        )


def outputs_of(pipeline: Pipeline) -> Outputs:
    """Trace the outputs of all steps but the last back to the columns."""
    inner = pipeline[-1].fitted.columns
    steps = steps_of(pipeline)
    n_in, n_out = pipeline.n_features_in_, len(inner.inputs)
    known = getattr(pipeline, "feature_names_in_", None)
    columns = default_names(n_in) if known is None else tuple(map(str, known))
    link = chain(steps, n_in, n_out)
    sources = [tuple(sorted(own)) for own in link.sources]
    made = output_names(pipeline[:-1]) if steps else None
    alone = [len(own) == 1 and sources.count(own) == 1 for own in sources]
    names = [
        columns[own[0]] if single else made[j] if made else f"{_word(own, columns)} ({j})"
        for j, (own, single) in enumerate(zip(sources, alone, strict=True))
    ]
    shift, stretch = _lines(link, sources, alone, keep=bool(inner.smooth) or len(inner.positions) < n_out)
    shared = [own for own in dict.fromkeys(sources) if sources.count(own) > 1]
    titles = joined_names(shared, columns)
    groups = {
        title: [names[j] for j, each in enumerate(sources) if each == own]
        for title, own in zip(titles, shared, strict=True)
    }
    return Outputs(tuple(names), shift, stretch, groups)


def _word(own: Sequence[int], columns: Sequence[str]) -> str:
    return "+".join(columns[i] for i in own) or "constant"


def _lines(
    link: Link, sources: Sequence[tuple[int, ...]], alone: Sequence[bool], *, keep: bool
) -> tuple[Floats, Floats]:
    """Shift and stretch of the way back to the columns, where it is a straight line; with ``keep``, no change."""
    n = len(sources)
    shift, stretch = np.zeros(n), np.ones(n)
    known = [] if keep else link.back([_PROBES] * n)
    for j, (own, single) in enumerate(zip(sources, alone, strict=True)):
        cells = known[own[0]] if known and single else None
        if cells is None or cells.dtype.kind != "f" or not np.isfinite(cells).all():
            continue
        slope = cells[1] - cells[0]
        if slope > 0 and np.allclose(cells, cells[0] + slope * _PROBES, rtol=1e-9, atol=1e-9 * abs(slope)):
            shift[j], stretch[j] = cells[0], slope
    return shift, stretch


def in_units_of_columns(fitted: FittedDetector, outputs: Outputs) -> FittedDetector:
    """A fitted detector whose columns have the names and units of those that its rows were made of."""
    columns, model = fitted.columns, fitted.model
    times = columns.lags + 1
    shown = columns.positions
    shift, stretch = (np.tile(part[shown], times) for part in (outputs.shift, outputs.stretch))
    given = [i for i in range(len(columns.inputs)) if i not in shown]
    reference = columns.reference if isinstance(columns, Lagged) else None
    encoding = Lagged(outputs.names, len(outputs.names), columns.lags, given, columns.smooth, reference, columns.step)
    new = replace(model, encoding=encoding, feature_names=None)
    if model.margins is None:
        new = replace(new, centre=shift + stretch * model.centre, scale=stretch * model.scale)
    else:  # which lead to the same normal scores
        new = replace(new, margins=model.margins.moved(shift, stretch))
    names = [outputs.names[i] for i in shown]
    own = {
        title: [outputs.names[i] for i in feature_positions(members, columns.inputs, "groups")]
        for title, members in (fitted.settings.groups or {}).items()
    }
    groups = own or {title: members for title, members in outputs.groups.items() if set(members) <= set(names)}
    blocks = fitted.blocks
    if blocks is not None and not given:
        blocks = BlockMoments(tuple(block.scaled(-shift / stretch, 1 / stretch) for block in blocks.blocks))
    return replace(
        fitted,
        model=new,
        limits=replace(fitted.limits, model=new),
        settings=replace(fitted.settings, groups=groups or None, given=[outputs.names[i] for i in given] or None),
        units=units_in_headers(outputs.names),
        signals=fitted.signals and fitted.signals.moved(outputs.shift, outputs.stretch),
        views=fitted.views and fitted.views.moved(shift, stretch, new),
        blocks=blocks,
        gathered=None,
    )
