"""Fits over partitions: rows that are spread over many processes, by Spark or another engine.

An engine needs to do one thing, `Run`: send a pass to the processes, let each turn its record batches into a part, merge
the parts, and return them as a table. Nothing else leaves the processes: sums of d x d numbers, and scores.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from culpa._core.threads import one_blas_thread
from culpa.detector import PCADetector
from culpa.fitted import FittedDetector
from culpa.fitting.learning import Learned, Recipe
from culpa.fitting.training_scores import can_hold_out, held_out_limits
from culpa.jobs.partial_moments import GatheredMoments, MomentsPass
from culpa.jobs.partial_scores import MOST_SCORED, ScoresPass
from culpa.jobs.places import Places
from culpa.jobs.tails import TailsPass
from culpa.models.blocks import BlockMoments
from culpa.models.em import NothingVariesError
from culpa.models.normal_range import NormalRange
from culpa.scores import Limits
from culpa.scores.limits import Tail


class Pass(Protocol):
    """Work on all partitions of a table. Parts are record batches of ``schema``; those with one ``key`` can be merged."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of a part."""

    @property
    def key(self) -> str:
        """The column by which parts may be sent to different processes that merge them."""

    def part(self, batches: Iterable[Any]) -> Iterator[Any]:
        """What the record batches of a partition say."""

    def merge(self, batches: Iterable[Any]) -> Iterator[Any]:
        """What several parts say together."""


Run = Callable[[Pass], pa.Table]  # returns parts, merged or not

_FROM_ROWS_IN_ORDER = ("lags", "smooth")


def fit_partitions(
    detector: PCADetector, names: tuple[str, ...], run: Run, places: Places, *, complete_only: bool = False
) -> PCADetector:
    """Fit a detector to columns of a table that ``run`` reaches; see `culpa.jobs.places` for the blocks of rows.

    The model is that of `PCADetector.fit_moments` with the same blocks, to rounding. ``complete_only`` leaves out rows with
    missing cells, which otherwise are an error.
    """
    for name in _FROM_ROWS_IN_ORDER:
        if getattr(detector, name):
            raise ValueError(f"{name} needs rows in the order of time, but partitions have none. Fit without it.")
    first = MomentsPass(names, places)
    table = run(first)
    gathered = first.read(table)
    gathered.check(names, complete_only=complete_only)

    def second_pass(recipe: Recipe, learned: Learned, blocks: BlockMoments) -> tuple[Limits, NormalRange]:
        second = _scores_pass(first, table, recipe, learned, round(blocks.total.n))
        return _limits(recipe, learned, gathered, second, run)

    with one_blas_thread():
        return detector.fit_moments(gathered.blocks, names, second_pass)


def _scores_pass(first: MomentsPass, table: pa.Table, recipe: Recipe, learned: Learned, n: int) -> ScoresPass:
    kind = recipe.limit_kind
    return ScoresPass(
        first.names,
        first.places,
        recipe.settings,
        recipe.columns.given,
        _to_bytes(table),
        None if learned.choice is None else learned.choice.n_components,
        tuple(recipe.judge(learned.model).statistics) if kind in ("auto", "empirical") else (),
        held_out=kind == "auto",
        share=min(1.0, MOST_SCORED / n),
    )


def _limits(
    recipe: Recipe, learned: Learned, gathered: GatheredMoments, second: ScoresPass, run: Run
) -> tuple[Limits, NormalRange]:
    """Limits and range from the second pass."""
    if second.held_out and not _can_hold_out(recipe, learned, gathered):
        second = replace(second, statistics=(), held_out=False)
    found = second.read(run(second))
    if second.held_out:
        return held_out_limits(learned.model, found.scores, found.block), found.range
    if second.statistics:
        tails = {name: Tail.of(values) for name, values in found.scores.items()}
        return Limits(learned.model, recipe.limit_kind, tails), found.range
    kind = "formula" if recipe.limit_kind == "auto" else recipe.limit_kind
    return Limits(learned.model, kind), found.range


def _can_hold_out(recipe: Recipe, learned: Learned, gathered: GatheredMoments) -> bool:
    blocks = gathered.blocks
    if len(blocks) < 2 or not can_hold_out(np.array([round(block.n) for block in blocks.blocks]), recipe.columns.lags):
        return False
    try:
        for k in range(len(blocks)):
            recipe.model_without(blocks, k, learned.model.distribution.n_components)
    except NothingVariesError:  # but within one block, so that the model of the others does not exist
        return False
    return True


def calibrate_partitions(fitted: FittedDetector, model: bytes, run: Run, n_rows: int) -> FittedDetector:
    """The detector with a conformal limit from normal rows that it was not fitted to; ``model`` is its model file."""
    tails = TailsPass(model, tuple(fitted.charted), min(1.0, MOST_SCORED / max(n_rows, 1)))
    limits = Limits(fitted.model, "conformal", tails.read(run(tails)))
    limit = limits(fitted.statistic, fitted.confidence)
    return replace(fitted, limits=limits, limit=limit, limit_source="")


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
