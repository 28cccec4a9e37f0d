"""Fits over partitions: rows that are spread over many processes, by Spark or another engine.

An engine needs to do one thing, `Run`: send a pass to the processes, let each turn its record batches into a part, merge
the parts, and return them as a table. Nothing leaves the processes but sums of d x d numbers and a sample of the rows.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from culpa._core.threads import one_blas_thread
from culpa._core.types import Floats
from culpa._core.validation import Table
from culpa.detecting.detector import PCADetector
from culpa.detecting.pieces import fit_moments, of_fitted
from culpa.fitting.learning import Learned, Recipe
from culpa.fitting.limits import InOrder, in_blocks, limits_by_holding_out, range_of
from culpa.jobs.partial_moments import MomentsPass
from culpa.jobs.places import HashedPlaces, Integers, Places
from culpa.jobs.sampled_rows import RowsPass, is_chosen, share_of
from culpa.models import FittedModel
from culpa.models.blocks import BlockMoments
from culpa.models.normal_range import NormalRange, sums_of_pairs, worth_of_rows
from culpa.scores import Limits, named_score


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

    The model is that of `fit_moments` with the same blocks, to rounding. ``complete_only`` leaves out rows with
    missing cells, which otherwise are an error.
    """
    for name in _FROM_ROWS_IN_ORDER:
        if getattr(detector, name):
            raise ValueError(f"{name} needs rows in the order of time, but partitions have none. Fit without it.")
    first = MomentsPass(names, places)
    gathered = first.read(run(first))
    gathered.check(names, complete_only=complete_only)

    sample = RowsPass(names, places, share_of(gathered.blocks.total.n, len(names)))

    def second_pass(recipe: Recipe, learned: Learned, blocks: BlockMoments) -> tuple[Limits, NormalRange]:
        X, block = sample.read(run(sample))
        starts = np.searchsorted(block, gathered.ids)
        return _limits(recipe, learned, blocks, X, starts), _range(learned.model, sample, X)

    with one_blas_thread():
        return fit_moments(detector, gathered.blocks, names, second_pass)


def _limits(recipe: Recipe, learned: Learned, blocks: BlockMoments, X: Floats, starts: Integers) -> Limits:
    """Limits of sampled rows, whose blocks begin at ``starts``; their models are those of all rows of other blocks."""
    model, sizes = learned.model, np.diff(starts, append=len(X))

    def hold_out() -> Limits:
        if len(blocks) < 2:
            return Limits(model, "formula")
        p = model.standard.n_components
        portions = in_blocks([(InOrder(X), np.arange(len(X)))], sizes, recipe.columns)
        return limits_by_holding_out(model, lambda k: recipe.judge(recipe.model_without(blocks, k, p)), sizes, portions)

    return recipe.limits(model, hold_out, [InOrder(X)])


def _range(model: FittedModel, sample: RowsPass, X: Floats) -> NormalRange:
    """The range of sampled rows; only neighbours in the table tell how alike successive rows are."""
    seen = range_of(model, InOrder(X))
    if sample.places.order is None:
        return replace(seen, dependence=1.0)
    distance = named_score("mahalanobis", model)(model.standardise(X))
    pairs = np.stack([distance[:-1], distance[1:], np.full(len(X) - 1, np.nan)], axis=1)  # NaN keeps pairs apart
    sums, _ = sums_of_pairs(pairs[is_chosen(X[:-1], sample.share)].ravel())
    return replace(seen, dependence=worth_of_rows(round(sums[0]), sums[1:]))


def calibrate_partitions(detector: PCADetector, run: Run, n_rows: int) -> PCADetector:
    """A copy of a detector with a conformal limit from normal rows that it was not fitted to."""
    names = detector.fitted.columns.inputs
    sample = RowsPass(names, HashedPlaces(), share_of(n_rows, len(names)), complete_only=False)
    rows, _ = sample.read(run(sample))
    return of_fitted(detector.fitted).calibrate_limit(Table(rows, names))
