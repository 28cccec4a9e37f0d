"""How a detector learns operating modes: the mixture, its numbers of components, and limits that hold in every mode.

A mode may last for a long stretch and then not come back for weeks. If consecutive tenths of the table were held out, some
modes would be gone from the rest, and all their rows would look abnormal. So the rows of each mode, in their order, are cut
into ten blocks, and a block of every mode is held out at a time. The mixture of the other rows scores it.

Modes differ in how noisy they are. A quantile of a mode's held-out scores is the limit of the mode, and scores are measured
in units of it: sum_k r_k(x) q_k(x) / limit_k. So one limit, close to 1, serves rows of all modes, and blame, p-values and
charts of different modes can be compared.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.parameters import DetectorSettings
from culpa._core.types import Floats, Mask
from culpa._core.validation import Table
from culpa.fitting.limits import InOrder, Places, Portion, held_out_scores
from culpa.models import Distribution, FittedModel, MixturePPCA, mixture_em
from culpa.models.blocks import N_BLOCKS, BlockMoments
from culpa.models.components import choose_components
from culpa.models.normal_range import NormalRange, RangeGatherer
from culpa.scores import HeldOutScores, MixtureScore, control_limit, mahalanobis, named_score
from culpa.scores.by_name import OF_A_MODE
from culpa.scores.held_out import FEWEST_ROWS

_STEPS = 4  # of expectation-maximisation, so that a mixture forgets the rows that are held out
_WEIGHTS = "weights"  # what responsibilities are called beside scores
_SHARE = 0.95  # of variance, before the number of components is chosen by held-out likelihood


class ModeLimits(NamedTuple):
    """What scores of each mode are measured in, by the name of the score, and held-out scores in these units."""

    units: dict[str, Floats]
    scores: dict[str, HeldOutScores]


def fit_mixture(table: Table, settings: DetectorSettings, n_components: int | float | str) -> MixturePPCA:
    """A mixture of scaled rows; "auto" takes the number of components with the highest held-out likelihood in each mode."""
    wanted: Any = _SHARE if n_components == "auto" else n_components
    n_modes: Any = settings.modes
    model = MixturePPCA(n_modes, wanted, noise=settings.noise, shrinkage=settings.shrinkage).fit(table)
    if n_components != "auto":
        return model
    rows = model.mixture_.impute(table.array)
    mode_of_row = model.predict(table)
    numbers = []
    for mode, count in enumerate(np.bincount(mode_of_row, minlength=model.n_modes_).tolist()):
        fewest = max(FEWEST_ROWS, 2 * rows.shape[1])
        found = choose_components(BlockMoments.of(rows[mode_of_row == mode]), scale=False) if count >= fewest else None
        numbers.append(model.n_components_[mode] if found is None else min(found.n_components, rows.shape[1] - 1))
    try:
        return model._refit(table, numbers)
    except mixture_em.StarvedModeError:
        return model


def mode_limits(
    model: FittedModel, Z: Floats, kept: Mask, judged: Mask, names: Sequence[str], settings: DetectorSettings
) -> ModeLimits:
    """Limits of each mode from standardised rows: ``kept`` are learned from, and ``judged`` are scored.

    There are no held-out scores where rows are too few for them; then a formula tells the limit of a mode.
    """
    mixture = model.standard
    by_formula = {name: _units_by_formula(model, name, settings.confidence) for name in names}
    mode_of_row = mixture.mode_of(Z)
    block = blocks_within(mode_of_row)
    judged = judged & ~np.isnan(Z).all(axis=1) & _away_from_other_blocks(block, settings.lags)
    if judged.sum() < FEWEST_ROWS:
        return ModeLimits(by_formula, {})

    def judge_without(k: int) -> _MixtureJudge:
        return _MixtureJudge(refined_without(mixture, Z[kept & (block != k)], settings), names)

    found = held_out_scores(
        judge_without, [Portion(InOrder(Z[judged]), block[judged], np.ones(judged.sum(), dtype=np.int64))]
    )
    if found is None:
        return ModeLimits(by_formula, {})
    parts, of_row = found
    weights = parts[_WEIGHTS]
    which = weights.argmax(axis=1)
    units, scores = {}, {}
    for name in names:
        each = weights * parts[name]
        units[name] = _units(each.sum(axis=1), which, of_row, by_formula[name], settings)
        scores[name] = HeldOutScores.of((each / units[name]).sum(axis=1), of_row)
    return ModeLimits(units, scores)


def blocks_within(mode_of_row: NDArray[np.intp]) -> NDArray[np.intp]:
    """The block of each row: consecutive tenths of the rows of its mode.

    >>> blocks_within(np.array([0, 0, 1, 1, 0, 0])).tolist()
    [0, 2, 0, 5, 5, 7]
    """
    block = np.empty(len(mode_of_row), dtype=np.intp)
    for mode in np.unique(mode_of_row):
        at = np.flatnonzero(mode_of_row == mode)
        block[at] = np.arange(len(at)) * N_BLOCKS // len(at)
    return block


def _away_from_other_blocks(block: NDArray[np.intp], lags: int) -> Mask:
    """Rows that share no past values with rows of another block; all rows, where that would leave less than half."""
    away = np.ones(len(block), dtype=bool)
    for lag in range(1, lags + 1):
        same = block[lag:] == block[:-lag]
        away[lag:] &= same
        away[:-lag] &= same
    return away if away.mean() >= 0.5 else np.ones(len(block), dtype=bool)


class _MixtureJudge:
    """Scores rows by a mixture that did not see them: responsibilities, and what each mode says of them."""

    def __init__(self, mixture: Distribution, names: Sequence[str]) -> None:
        self._mixture = mixture
        self._scores = {name: MixtureScore.weighted(name, mixture, OF_A_MODE[name]) for name in names}

    def scores(self, table: InOrder) -> dict[str, Floats]:
        """Of standardised rows, (n, modes) each."""
        rows = table.rows
        parts = {name: score.parts(rows) for name, score in self._scores.items()}
        return {_WEIGHTS: self._mixture.responsibilities(rows), **parts}


def refined_without(mixture: Distribution, rows: Floats, settings: DetectorSettings) -> Distribution:
    """The mixture of fewer rows, from where the mixture of all rows left off."""
    return mixture_em.refined(rows, mixture, steps=_STEPS, noise=settings.noise, shrinkage=settings.shrinkage)


def _units(
    raw: Floats, which: NDArray[np.intp], block: Places, by_formula: Floats, settings: DetectorSettings
) -> Floats:
    """The limit of each mode: a quantile of its held-out scores; of a mode with few rows, what a formula says."""
    units = by_formula.copy()
    for mode in range(len(units)):
        here = which == mode
        if here.sum() >= FEWEST_ROWS:
            units[mode] = HeldOutScores.of(raw[here], block[here]).limit(settings.confidence).value
    return np.where(units > 0, units, 1.0)


def _units_by_formula(model: FittedModel, name: str, confidence: float) -> Floats:
    views = [model.in_mode(mode) for mode in range(model.n_modes)]
    return np.array([control_limit(named_score(name, view), view, confidence) or 1.0 for view in views])


def mode_ranges(model: FittedModel, Z: Floats) -> tuple[NormalRange, tuple[NormalRange, ...]]:
    """How far standardised rows went, altogether and in each mode around its own mean."""
    which = model.standard.mode_of(Z)
    distance = np.empty(len(Z))
    gatherers = []
    for mode in range(model.n_modes):
        here = np.flatnonzero(which == mode)
        centred = Z[here] - model.standard.modes[mode].mean
        distance[here] = mahalanobis(model.in_mode(mode).gaussian)(centred)
        gatherers.append(RangeGatherer(max(len(here), 1), Z.shape[1]))
        gatherers[mode].add(centred, distance[here])
    everything = RangeGatherer(len(Z), Z.shape[1])
    everything.add(Z, distance)
    whole = everything.finish()
    # successive rows of the table, not of the mode, tell how alike successive rows are
    return whole, tuple(replace(one.finish(), dependence=whole.dependence) for one in gatherers)
