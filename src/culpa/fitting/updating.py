"""How a fitted detector learns from more rows, and keeps a limit that means what it says.

New rows join the blocks of training rows. Each of them is scored by the model of the other blocks, as ``fit`` does it, so
it is judged by a model that has seen neither the row nor its neighbours. These scores join those of earlier rows.

Earlier rows are no longer at hand, but their scores are, and so are the moments of their blocks. The mean score of a block
by the model of the others follows from moments, before the update and after it. The scores of the block are moved to the
new mean, and their deviations from it are multiplied by the ratio of the standard deviations that Gaussian rows would have.
This matters where the number of components has changed, and where rows are few for their columns, so that more of them make
held-out rows fit better. A block that the new model finds much less normal than before rises no further than 1.5 times the
usual mean score: what the process no longer does must not raise the limit.

Where the blocks of earlier rows are not known, new rows are scored by the model of before, which has not seen them either.
The limit stays a formula until these are 200: a quantile of fewer rows is often the score of the worst one.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from culpa._core.types import Floats
from culpa.fitted import FittedDetector
from culpa.fitting.learning import Recipe
from culpa.fitting.limits import InOrder, Judge, Portion, held_out_scores, range_of
from culpa.fitting.training_rows import TrainingRows, levels_after
from culpa.fitting.views import views_after
from culpa.models.blocks import BlockGatherer, BlockMoments, Placed
from culpa.models.em import NothingVariesError
from culpa.models.normal_range import NormalRange
from culpa.scores import HeldOutScores, Limits
from culpa.scores.held_out import FEWEST_ROWS

NEED_NO_FIT = ("game", "ranking", "groups", "noun")  # parameters that take effect at once
_LESS_NORMAL = 1.5  # times the usual mean score, up to which a block may rise


class Update(NamedTuple):
    """Rows to learn from, blocks before and after them, where everything is now, and how much each row makes forget."""

    rows: Floats
    before: BlockMoments
    after: Placed
    forget: float = 0.0


def check_settings(recipe: Recipe, fitted: FittedDetector) -> None:
    """Refuse to learn on with other settings than before: scores and blocks so far would belong to another model."""
    before = vars(fitted.settings)
    for name, value in vars(recipe.settings).items():
        if name not in NEED_NO_FIT and value != before[name]:
            raise ValueError(
                f"the detector has learned with {name}={before[name]!r}, and now it is {value!r}: set it back, or use fit "
                "on all rows."
            )
    chosen, knows_blocks = fitted.components is not None, fitted.blocks is not None and len(fitted.blocks) > 1
    if recipe.statistic != fitted.statistic.name or (knows_blocks and chosen != (recipe.n_components == "auto")):
        raise ValueError(
            f"the detector has chosen its components for another statistic than {recipe.statistic!r}: use fit on all rows."
        )


def learn_more(
    recipe: Recipe, fitted: FittedDetector | None, rows: Floats, before: BlockMoments, forget: float = 0.0
) -> FittedDetector:
    """A fitted detector after more rows, or a new one; ``before`` are the blocks so far."""
    gathered = None if forget else BlockGatherer(rows.shape[1]) if fitted is None else fitted.gathered
    if gathered is not None:
        gathered = gathered.then(rows)
    held = None if gathered is None else rows if fitted is None else gathered.rows
    if gathered is not None and held is not None:  # all rows, so that nothing has to be guessed
        updated = recipe.fit_blocks(gathered.finish(), [held])
    else:
        placed = gathered is not None and before.cut_anew(gathered.finish(), len(rows))
        updated = _updated(recipe, fitted, Update(rows, before, placed or before.then_placed(rows, forget), forget))
    seen = rows if held is None else held
    updated = (
        TrainingRows(len(seen), len(recipe.columns.inputs))
        .add(InOrder(seen))
        .taught(replace(updated, gathered=gathered), None if held is None else recipe)
    )
    if fitted is None:
        return updated
    if held is None:
        updated = _joined(fitted, updated, rows)
    return replace(updated, units={**updated.units, **fitted.units}, reading=fitted.reading)


def _joined(fitted: FittedDetector, updated: FittedDetector, rows: Floats) -> FittedDetector:
    """What only the new rows showed, after what the earlier ones showed; stretches of these go on to count."""
    if fitted.recent is not None:
        before = fitted.recent.rescaled(fitted.model, updated.model)
        updated = replace(updated, recent=levels_after(before, updated.model.standardise(rows), updated))
    if fitted.signals is not None and updated.signals is not None:
        updated = replace(updated, signals=fitted.signals.then(updated.signals))
    known = fitted if fitted.views is not None or updated.views is None else updated
    knows_less = updated.usual_errors is None or (
        fitted.usual_errors is not None and len(rows) < fitted.ppca.n_samples_
    )
    return replace(
        updated,
        consistency=fitted.consistency or updated.consistency,
        views=known.views if known is updated or known.views is None else views_after(known.views, rows),
        normal_excess=known.normal_excess or updated.normal_excess,
        over_time=fitted.over_time,
        usual_errors=fitted.usual_errors if knows_less else updated.usual_errors,
    )


def _updated(recipe: Recipe, fitted: FittedDetector | None, update: Update) -> FittedDetector:
    blocks = update.after.blocks
    updated = recipe.fit_blocks(blocks, None, None if fitted is None else fitted.n_components)
    updated = replace(updated, normal_range=_range(fitted, updated, update))
    if recipe.limit_kind != "auto" or blocks.total.n < FEWEST_ROWS:
        return updated
    try:
        limits = _limits(recipe, fitted, updated, update)
    except NothingVariesError:  # but within one block, so that the model of the others does not exist
        return updated
    return recipe.limited(replace(updated, limits=limits))


def _range(fitted: FittedDetector | None, updated: FittedDetector, update: Update) -> NormalRange:
    new = range_of(updated.model, InOrder(update.rows))
    if fitted is None:
        return new
    left = (1 - update.forget) ** len(update.rows)
    return fitted.normal_range.rescaled(fitted.model, updated.model).faded(left, new).joined(new)


def _limits(recipe: Recipe, fitted: FittedDetector | None, updated: FittedDetector, update: Update) -> Limits:
    blocks = update.after.blocks
    tails = {} if fitted is None else _kept_scores(fitted, len(update.before))
    if len(blocks) > 1:
        judges = _judges(recipe, blocks, updated.n_components)
    else:
        judges = [] if fitted is None else [recipe.judge(fitted.model)]
    found = held_out_scores(judges.__getitem__, [_portion(update, recipe)]) if judges else None
    if fitted is not None and tails and len(update.before) > 1:
        seen = _seen(_judges(recipe, update.before, fitted.n_components), judges, update)
        tails = {name: _restated(tail, seen[name], update) for name, tail in tails.items()}
    none, after = HeldOutScores.none(len(update.before)), update.after
    scores = {}
    for name, values in ({} if found is None else found[0]).items():
        scores[name] = tails.get(name, none).then(values, after.rows, after.before, update.forget)
    return Limits(updated.model, "held-out", scores)


def _kept_scores(fitted: FittedDetector, n_blocks: int) -> dict[str, HeldOutScores]:
    """Scores of earlier rows by models that did not see them, in as many blocks as the rows are.

    Rows behind a conformal limit belong to no block, and are dealt out to all of them.
    """
    kept = {}
    for name, tail in fitted.limits.tails.items():
        if fitted.limits.kind == "held-out" and len(tail.n_per_block) == n_blocks:
            kept[name] = tail
        elif fitted.limits.kind in ("held-out", "conformal"):
            counts = np.bincount(np.arange(round(tail.n)) % n_blocks, minlength=n_blocks)
            kept[name] = HeldOutScores(counts, tail.largest, np.arange(len(tail.largest)) % n_blocks)
    return kept


def _judges(recipe: Recipe, blocks: BlockMoments, p: int) -> list[Judge]:
    """For each block, the model of the others."""
    return [recipe.judge(recipe.model_without(blocks, k, p)) for k in range(len(blocks))]


def _portion(update: Update, recipe: Recipe) -> Portion:
    """New rows in their blocks; those count that share no values with another block."""
    place, here = update.after.rows, np.arange(len(update.rows))
    counts = np.ones(len(here), dtype=np.int64)
    for step in range(1, recipe.columns.lags + 1):
        counts[
            (place[np.maximum(here - step, 0)] != place) | (place[np.minimum(here + step, len(here) - 1)] != place)
        ] = 0
    return Portion(InOrder(update.rows), place, counts)


class _Seen(NamedTuple):
    """What models of the other blocks make of each earlier block before and after the update, and of all blocks now."""

    old_mean: Floats
    new_mean: Floats
    all_means: Floats
    old_spread: Floats
    new_spread: Floats


def _seen(was: Sequence[Judge], now: Sequence[Judge], update: Update) -> dict[str, _Seen]:
    """Held-out scores so far, by name of the statistic."""
    before, after, total = update.before.blocks, update.after, update.after.blocks.total
    new = [now[k] for k in after.before.tolist()]
    spreads = {judge: judge.spreads(total) for judge in (*was, *new)}
    measured = (
        [judge.mean_scores(block) for judge, block in zip(was, before, strict=True)],
        [judge.mean_scores(block) for judge, block in zip(new, before, strict=True)],
        [judge.mean_scores(block) for judge, block in zip(now, after.blocks.blocks, strict=True)],
        [spreads[judge] for judge in was],
        [spreads[judge] for judge in new],
    )
    return {name: _Seen(*(np.array([one[name] for one in each]) for each in measured)) for name in now[0].statistics}


def _restated(tail: HeldOutScores, seen: _Seen, update: Update) -> HeldOutScores:
    """Scores of earlier rows as the models after the update see them."""
    usual, usual_now = _median(seen.old_mean, update.before), _median(seen.all_means, update.after.blocks)
    if not usual > 0:
        return tail
    mean = np.minimum(seen.new_mean, np.maximum(seen.old_mean / usual, _LESS_NORMAL) * usual_now)
    varies = seen.old_spread > 0
    factor = np.where(varies, seen.new_spread / np.where(varies, seen.old_spread, 1.0), 1.0)
    return tail.restated(seen.old_mean, mean, factor)


def _median(values: Floats, blocks: BlockMoments) -> float:
    """Of one value per block, each as heavy as its rows."""
    weights, order = np.array([block.n for block in blocks.blocks]), np.argsort(values)
    share = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    return float(np.interp(0.5, share, values[order]))
