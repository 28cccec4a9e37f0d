"""How normal rows become a fitted detector: model, number of components, held-out scores, limits.

Rows are cut into consecutive blocks. The blocks' held-out likelihood chooses the number of components, and the scores of
each block by the model of the others give the limit. All of it follows from the blocks' moments, in one pass over the
table, and from a second pass for the scores; only missing cells, trimming, Student models and copulas need the rows at
hand.

To leave out a block, a Student model is fitted to the rows of the others, starting from the model of all rows. A copula
learns both margins and Gaussian from the others.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core import memory
from culpa._core.parameters import DetectorSettings
from culpa._core.threads import one_blas_thread
from culpa._core.types import Floats, Mask
from culpa._core.validation import Table
from culpa.columns import Lagged, lagged_names
from culpa.columns.units import units_in_headers
from culpa.fitted import FittedDetector
from culpa.fitting.limits import (
    InOrder,
    Judge,
    Places,
    RangeWatcher,
    in_blocks,
    limits_by_holding_out,
    limits_from_rows,
    range_of,
)
from culpa.fitting.modes import fit_mixture, mode_limits, mode_ranges
from culpa.fitting.trimming import abnormal_rows, fit_without_worst, in_limit
from culpa.models import PPCA, Estimator, FittedModel, LatentGaussian, Moments, StudentPPCA
from culpa.models.blocks import BlockMoments, block_sizes
from culpa.models.components import ComponentChoice, choose_components
from culpa.models.context import Context
from culpa.models.margins import Margins
from culpa.models.moments import mean_and_spread, spread
from culpa.models.normal_range import NormalRange
from culpa.models.student import unweighted_gaussian
from culpa.models.univariate import location_and_scale
from culpa.scores import Limits, Score, score_by_name
from culpa.scores.held_out import FEWEST_ROWS
from culpa.scores.limits import FROM_ROWS

_MOST_MISSING = 0.5  # of the cells of a row that counts towards the rows that held-out scores need
_EM_STEPS = 4  # on the rows of the other blocks, from the model of all rows, so that it forgets the block
_STUDENT_STEPS = 50  # the same for a Student model, at most; it stops where the model hardly moves
_ROUNDING = 1e-7  # of a standard deviation
_NARROW = 256  # features up to which BLAS threads gain little
_SPE_SHARE = 0.95  # of variance, for reconstruction errors: they need something that is left over


class Learned(NamedTuple):
    """A model of some rows: the estimator, the same with scaling and columns, and how many components were chosen."""

    ppca: Estimator
    model: FittedModel
    choice: ComponentChoice | None


# makes limits, and the range of the training rows, where somebody else has the rows
SecondPass = Callable[["Recipe", Learned, BlockMoments], tuple[Limits, NormalRange | None]]


class _Prepared(NamedTuple):
    """Rows as a model learns them, and how they became so."""

    rows: Floats
    mean: Floats
    scale: Floats
    context: Context | None
    margins: Margins | None

    @property
    def standard(self) -> Floats:
        """The rows, centred and scaled."""
        return (self.rows - self.mean) / self.scale

    def scaled(self, ppca: Estimator, columns: Lagged) -> FittedModel:
        """A model of the standardised rows as one of the user's numbers."""
        model = ppca._scaled(self.mean + self.scale * ppca.mean_, self.scale, columns, self.context)
        return model if self.margins is None else replace(model, margins=self.margins)


@dataclass(frozen=True)
class Recipe:
    """The parameters of a `culpa.PCADetector`, with what "auto" means for them, and the columns to learn."""

    settings: DetectorSettings
    columns: Lagged

    @property
    def statistic(self) -> str:
        """The statistic that rows are judged by."""
        if self.settings.statistic != "auto":
            return self.settings.statistic
        by_error = self.settings.n_components != "auto" or self.settings.game == "retraining"
        return "spe" if by_error else "mahalanobis"

    @property
    def n_components(self) -> int | float | str:
        """The number of components as it was asked for; "auto" stays where it is chosen by held-out likelihood."""
        wanted: int | float | str = self.settings.n_components
        return _SPE_SHARE if wanted == "auto" and self.statistic in ("spe", "mse") else wanted

    @property
    def limit_kind(self) -> str:
        """How limits are computed: as by "auto" where the detector's own one is a number."""
        kind = self.settings.limit
        return kind if isinstance(kind, str) else "auto"

    def limited(self, fitted: FittedDetector, score: Floats | None = None) -> FittedDetector:
        """With the limit that was asked for: a number, by the confidence, or the share of training rows to flag.

        The last one needs the scores of these rows, and is left open without them.
        """
        number, share = self.settings.limit, self.settings.contamination
        if not isinstance(number, str):
            return replace(fitted, limit=float(number), limit_source="given")
        if share is None:
            return replace(fitted, limit=fitted.limits(fitted.statistic, fitted.confidence))
        if score is None:
            return fitted
        # as scikit-learn's detectors do
        return replace(fitted, limit=float(-np.nanpercentile(-score, 100 * share)), limit_source="contamination")

    def fit_rows(self, table: InOrder, labels: NDArray[Any]) -> FittedDetector:
        """Learn from rows at hand, some of whose cells may be missing; ``labels`` are what the user calls them."""
        with one_blas_thread(len(table.rows) if table.rows.shape[1] <= _NARROW else 0):
            return self._fit_rows(table, labels)

    def _fit_rows(self, table: InOrder, labels: NDArray[Any]) -> FittedDetector:
        X = table.rows
        n = len(X) - (math.ceil(self.settings.holdout * len(X)) if self.limit_kind == "conformal" else 0)
        if n < 2:
            raise ValueError(
                f"limit='conformal' with holdout={self.settings.holdout:g} leaves {n} of {len(X)} rows to learn "
                "from. Pass more rows."
            )
        memory.claim_fit(*X.shape, thin=self._is_thin(X))
        rows, confidence = X[:n], self.settings.confidence
        learned, kept = fit_without_worst(self.learn, rows, self.settings.trim, confidence)
        if self.settings.modes is not None:
            return self.limited(self._fit_modes(learned, rows, kept, X[n:], labels[:n]))
        # of the user's numbers, which say nothing about normal scores
        described = not np.isnan(rows).any() and self.settings.model != "copula"
        first = np.arange(len(X)) < n
        learnable, held_out = table.pick(first), table.pick(~first)
        blocks = BlockMoments.of(learnable.pick(kept).rows) if described else None
        limits = self._limits_of_rows(learned, learnable, kept, held_out, blocks)
        abnormal = abnormal_rows(learned.model, rows, kept, labels[:n], confidence)
        seen = range_of(learned.model, learnable.pick(kept))
        return self.limited(self._fitted(learned, limits, blocks, seen, abnormal))

    def fit_blocks(
        self, blocks: BlockMoments, batches: Iterable[Floats] | SecondPass | None, p: int | None = None
    ) -> FittedDetector:
        """Learn from the moments of complete rows; limits from scores need the rows once more, as batches in order.

        Where the rows are spread over many processes, ``batches`` is a function that makes the limits there. ``p`` is the
        number of components where it is "auto" and there is but one block to choose it from.
        """
        kind = self.limit_kind
        if blocks.total.about_mean.is_thin:
            memory.claim_fit(blocks.total.n, blocks.total.n_features, thin=True)
        else:
            memory.claim_moments(blocks.total.n_features)
        learned = self.learn_moments(
            blocks.total, blocks, p if len(blocks) == 1 and self.n_components == "auto" else None
        )
        if callable(batches):
            limits, seen = batches(self, learned, blocks)
            return self.limited(self._fitted(learned, limits, blocks, seen, None))
        watcher = RangeWatcher(learned.model, round(blocks.total.n))
        watched = None if batches is None else watcher.watch(map(InOrder, batches))
        if kind == "empirical" and watched is None:
            raise ValueError(
                f"limit={kind!r} needs the scores of the training rows. Pass the rows again as batches, or use fit."
            )
        limits = self.limits(learned.model, lambda: self._cross_validated(learned, blocks, watched), watched or ())
        seen = watcher.range.finish() if watcher.rows_seen else None
        return self.limited(self._fitted(learned, limits, blocks, seen, None))

    def _is_thin(self, X: Floats) -> bool:
        """Whether the fit gets by without a square matrix: of few complete rows, by their principal axes alone."""
        plain = (
            self.settings.model in ("ppca", "copula") and self.settings.modes is None and not self.settings.shrinkage
        )
        return plain and len(X) < X.shape[1] and not np.isnan(X).any()

    def learn(self, X: Floats) -> Learned:
        """Scaling and model of rows at hand."""
        seen = self._prepare(X)
        if self.settings.modes is not None:
            table = Table(seen.standard, self._names)
            mixture = fit_mixture(table, self.settings, self.n_components)
            return Learned(mixture, seen.scaled(mixture, self.columns), None)
        choice = None
        if self.n_components == "auto":
            choice = self._choice_from_rows(seen.rows, seen.mean, seen.scale)
        ppca = self._estimator(choice).fit(Table(seen.standard, self._names))
        return Learned(ppca, seen.scaled(ppca, self.columns), choice)

    def _prepare(self, X: Floats) -> "_Prepared":
        """Rows on their way to a model: normal scores, adjusted to the context, with mean and scale."""
        margins = Margins.of(X) if self.settings.model == "copula" else None
        raw = X = X if margins is None else margins.to_normal(X)
        context = Context.of_rows(X, self.columns.given_features) if self.columns.given else None
        X = X if context is None else context.adjust(X)
        mean, spread = mean_and_spread(X)
        if self.settings.model == "student":
            robust_mean, robust_spread = location_and_scale(X)
            mean, spread = (
                np.where(robust_spread > 0, robust, usual)
                for robust, usual in ((robust_mean, mean), (robust_spread, spread))
            )
        return _Prepared(X, *self._scaling(mean, spread, _spread_of(raw, context)), context, margins)

    def learn_moments(self, moments: Moments, blocks: BlockMoments | None = None, p: int | None = None) -> Learned:
        """The same from moments; ``blocks`` choose the number of components, unless ``p`` says what it is."""
        context = Context.of_moments(moments, self.columns.given_features) if self.columns.given else None
        raw = None if context is None else np.sqrt(moments.variances)[context.others]
        if context is not None:
            moments = context.adjust_moments(moments)
            blocks = blocks and BlockMoments(tuple(map(context.adjust_moments, blocks.blocks)))
        mean, scale = self._scaling(moments.mean, spread(moments.mean, moments.variances), raw)
        choice = None
        if self.n_components == "auto" and p is None and blocks is not None and len(blocks) > 1:
            choice = choose_components(blocks, scale=self.settings.scale)
        ppca = self._estimator(choice, p)._fit_moments(moments.scaled(mean, scale), self._names)
        return Learned(ppca, ppca._scaled(mean + scale * ppca.mean_, scale, self.columns, context), choice)

    def _fit_modes(
        self, learned: Learned, rows: Floats, kept: Mask, held_out: Floats, labels: NDArray[Any]
    ) -> FittedDetector:
        """Limits and ranges of every mode."""
        kind, confidence = self.limit_kind, self.settings.confidence
        Z, judged = learned.model.standardise(rows), in_limit(learned.model, rows, kept, confidence)
        names = list(dict.fromkeys(("spe", "t2", self.statistic)))
        found = mode_limits(learned.model, Z, kept, judged, names, self.settings)
        abnormal = abnormal_rows(learned.model, rows, kept, labels, confidence)
        learned = learned._replace(model=replace(learned.model, mode_units=found.units))
        if kind == "auto" and found.scores:
            limits = Limits(learned.model, "held-out", found.scores)
        else:
            within = held_out if kind == "conformal" else rows[judged]
            kind = "empirical" if kind == "auto" else kind
            limits = limits_from_rows(learned.model, self._score(learned.model), kind, [InOrder(within)])
        seen, of_modes = mode_ranges(learned.model, Z[kept])
        return replace(self._fitted(learned, limits, None, seen, abnormal), mode_ranges=of_modes)

    def _choice_from_rows(self, X: Floats, mean: Floats, scale: Floats) -> ComponentChoice:
        """By the complete rows, as from blocks; or with missing cells at their mean where these are too few."""
        if self.settings.model == "student":
            return choose_components(BlockMoments.of(unweighted_gaussian((X - mean) / scale)), scale=False)
        complete = ~np.isnan(X).any(axis=1)
        if complete.sum() >= max(FEWEST_ROWS, 2 * X.shape[1]) or complete.all():
            return choose_components(BlockMoments.of(X[complete]), scale=self.settings.scale)
        return choose_components(BlockMoments.of(np.where(np.isnan(X), 0.0, (X - mean) / scale)), scale=False)

    @property
    def _names(self) -> tuple[str, ...] | None:
        """Of the features, with lags of the past ones, too."""
        known = self.columns.known_names
        return None if known is None else lagged_names(known, self.columns.lags)

    def _scaling(self, mean: Floats, std: Floats, raw: Floats | None = None) -> tuple[Floats, Floats]:
        """Mean and scale; ``raw`` are standard deviations before the context was accounted for."""
        if not self.settings.scale:
            return mean, np.ones_like(mean)
        # what the context leaves of a column that follows from it is rounding, which must not be blown up
        return mean, std if raw is None else np.where(std > _ROUNDING * raw, std, np.where(raw > 0, raw, 1.0))

    def _estimator(self, choice: ComponentChoice | None, p: int | None = None) -> PPCA:
        wanted: Any = p if p is not None else self.n_components if choice is None else choice.n_components
        if wanted == "auto":  # nothing to choose it by
            wanted = _SPE_SHARE
        kind = StudentPPCA if self.settings.model == "student" else PPCA
        return kind(wanted, noise=self.settings.noise, shrinkage=self.settings.shrinkage)

    def _score(self, model: FittedModel) -> Score:
        return score_by_name(self.statistic, model, confidence=self.settings.confidence)

    def _fitted(
        self,
        learned: Learned,
        limits: Limits,
        blocks: BlockMoments | None,
        seen: NormalRange | None,
        abnormal: Any,
    ) -> FittedDetector:
        statistic, confidence = self._score(learned.model), self.settings.confidence
        return FittedDetector(
            learned.model,
            learned.ppca,
            statistic,
            confidence,
            limits,
            math.inf,  # `limited` sets it
            self.settings,
            units=units_in_headers(self.columns.known_inputs or ()),
            abnormal_training_rows=abnormal,
            components=learned.choice,
            blocks=blocks,
            normal_range=seen or NormalRange.of_model(learned.model),
        )

    def limits(self, model: FittedModel, held_out: Callable[[], Limits], rows: Iterable[InOrder]) -> Limits:
        """Limits of the kind that was asked for: ``held_out`` makes those of "auto", and ``rows`` are for quantiles."""
        kind = self.limit_kind
        if kind == "auto":
            return held_out()
        return limits_from_rows(model, self._score(model), kind, rows) if kind in FROM_ROWS else Limits(model, kind)

    def _limits_of_rows(
        self, learned: Learned, table: InOrder, kept: Mask, held_out: InOrder, blocks: BlockMoments | None
    ) -> Limits:
        rows = table.rows
        judged = in_limit(learned.model, rows, kept, self.settings.confidence)

        def hold_out() -> Limits:
            if blocks is not None and kept.all() and self.settings.model == "ppca":
                return self._cross_validated(learned, blocks, [table])
            if (np.isnan(rows).mean(axis=1) <= _MOST_MISSING).sum() < FEWEST_ROWS:
                return Limits(learned.model, "formula")
            sizes = block_sizes(len(rows))
            block = np.repeat(np.arange(len(sizes)), sizes)
            portions = in_blocks([(table.pick(judged), np.flatnonzero(judged))], sizes, self.columns)
            return limits_by_holding_out(
                learned.model,
                lambda k: self.judge(self._relearned(learned, rows[kept & (block != k)])),
                sizes,
                portions,
            )

        scored = held_out if self.limit_kind == "conformal" else table.pick(judged)
        return self.limits(learned.model, hold_out, [scored])

    def _cross_validated(self, learned: Learned, blocks: BlockMoments, batches: Iterable[InOrder] | None) -> Limits:
        if batches is None or len(blocks) == 1:
            for _ in batches or ():  # somebody watches them
                pass
            return Limits(learned.model, "formula")
        return limits_by_holding_out(
            learned.model,
            lambda k: self.judge(self.model_without(blocks, k, learned.model.standard.n_components)),
            blocks.sizes,
            in_blocks(_numbered(batches), blocks.sizes, self.columns),
        )

    def model_without(self, blocks: BlockMoments, k: int, p: int) -> FittedModel:
        """The model of all blocks but one; with as many components as all of them have, if their number was chosen."""
        return self.learn_moments(blocks.without(k), p=self._pinned(p)).model

    def _pinned(self, p: int) -> int | None:
        """The number of components of a model of fewer rows: that of all rows, unless a number or a share says it."""
        return p if isinstance(self.n_components, str) else None

    def judge(self, model: FittedModel) -> Judge:
        """Scores rows by a model as the fitted detector will."""
        return Judge(model, self._score(model))

    def _relearned(self, learned: Learned, X: Floats) -> FittedModel:
        """The model of fewer rows; with missing cells or weights, from where the model of all rows left off."""
        if self.settings.model == "ppca" and not np.isnan(X).any():
            return self.learn_moments(Moments.of(X), p=self._pinned(learned.model.standard.n_components)).model
        seen, known, p = self._prepare(X), learned.model, learned.model.standard.n_components
        ppca = self._estimator(None, p)
        if self.settings.model != "student" and not np.isnan(X).any():
            return seen.scaled(ppca.fit(seen.standard), self.columns)
        covariance = known.gaussian.covariance * np.outer(known.scale, known.scale)
        start = replace(
            LatentGaussian.from_covariance(
                covariance / np.outer(seen.scale, seen.scale), p, (known.centre - seen.mean) / seen.scale
            ),
            degrees_of_freedom=known.gaussian.degrees_of_freedom,
        )
        ppca._refine(seen.standard, start, steps=_STUDENT_STEPS if self.settings.model == "student" else _EM_STEPS)
        return seen.scaled(ppca, self.columns)


def _spread_of(X: Floats, context: Context | None) -> Floats | None:
    """Standard deviations before the context is accounted for."""
    return None if context is None else np.nanstd(X[:, context.others], axis=0)


def _numbered(batches: Iterable[InOrder]) -> Iterator[tuple[InOrder, Places]]:
    done = 0
    for table in batches:
        yield table, np.arange(done, done + len(table.rows))
        done += len(table.rows)
