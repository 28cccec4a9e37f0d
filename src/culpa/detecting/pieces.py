"""How culpa itself teaches a detector: from moments, from rows as the model sees them, from a core fitted before."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from culpa._core.continuity import Step
from culpa._core.copies import own_copy
from culpa._core.parameters import DETECTOR, DetectorSettings
from culpa._core.types import Floats
from culpa._core.validation import Table, check_estimator_input, default_names, feature_positions
from culpa._core.warning import FitWarning, warn
from culpa._core.words import count
from culpa.columns import Lagged
from culpa.columns.groups import named_groups, plain_groups
from culpa.columns.row_numbers import row_numbers
from culpa.fitting.adopting import ADOPTED
from culpa.fitting.compatibility import check_combinations, check_moments
from culpa.fitting.diagnostics import oddities
from culpa.fitting.learning import Recipe, SecondPass
from culpa.fitting.training_rows import TrainingRows
from culpa.fitting.updating import check_settings, learn_more
from culpa.models import Moments
from culpa.models.blocks import BlockMoments
from culpa.monitoring.fill_values import COMPLETE_ROWS, CodesLearned

if TYPE_CHECKING:
    from culpa.detecting.detector import PCADetector


@contextmanager
def all_or_nothing(detector: "PCADetector", *, anew: bool = False) -> "Iterator[PCADetector]":
    """A copy to work on, which the detector becomes in one step at the end, if nothing failed.

    ``anew`` leaves behind what the detector has learned.
    """
    draft = object.__new__(type(detector))
    draft.__dict__.update(
        {name: value for name, value in vars(detector).items() if not (anew and name.endswith(("_", "_fitted")))}
    )
    yield draft
    detector.__dict__ = draft.__dict__


def fit_moments(
    detector: "PCADetector",
    moments: Moments | BlockMoments,
    names: tuple[str, ...] | None = None,
    batches: Iterable[Floats] | SecondPass | None = None,
    step: Step | None = None,
) -> "PCADetector":
    """Learn from the mean and covariance of complete rows, gathered in one pass over a table of any size.

    ``batches`` are the rows themselves, for a second pass: ``limit="empirical"`` needs them, and ``limit="auto"`` uses
    them. Where the rows are spread over many processes, ``batches`` is a function that makes the limits there. With
    lags, moments and batches are those of the lag matrix (`culpa.columns.History`), ``names`` are those of the columns,
    and ``step`` is how far apart rows are, if they have times.
    """
    with all_or_nothing(detector, anew=True) as draft:
        check_parameters(draft)
        check_moments(settings_of(draft), in_pieces=False)
        blocks = BlockMoments((moments,)) if isinstance(moments, Moments) else moments
        n_columns = blocks.total.n_features // (draft.lags + 1)
        check_estimator_input(draft, Table(np.empty((0, n_columns)), names), reset=True)
        rows = TrainingRows(round(blocks.total.n), n_columns)
        if batches is not None and not callable(batches):
            batches = rows.watch(batches)
        recipe = recipe_of(draft, step)
        draft.fitted = rows.taught(recipe.fit_blocks(blocks, batches), recipe)
        tell_oddities(draft)
    return detector


def learn_features(detector: "PCADetector", rows: Floats, forget: float = 0.0) -> "PCADetector":
    """`PCADetector.partial_fit` for complete rows as the model sees them: with lags, rows of the lag matrix."""
    with all_or_nothing(detector) as draft:
        known = hasattr(draft, "model_")
        recipe = recipe_of(draft, draft.fitted.columns.step if known else None)
        if known:
            check_settings(recipe, draft.fitted)
        learn(draft, recipe, rows, forget)
    return detector


def learn(draft: "PCADetector", recipe: Recipe, rows: Floats, forget: float) -> None:
    """Let a draft learn from more rows."""
    check_moments(recipe.settings, in_pieces=True)
    fitted = draft.fitted if hasattr(draft, "model_") else None
    before = BlockMoments.of(rows[:0]) if fitted is None else blocks_so_far(draft)
    draft.fitted = learn_more(recipe, fitted, rows, before, forget)


def blocks_so_far(detector: "PCADetector") -> BlockMoments:
    """Moments of blocks of the training rows, or one block where the model knows no more of them.

    With lags, those of the lag matrix. They start what `fit_moments` takes.
    """
    check_is_fitted(detector, "model_")
    fitted, ppca = detector.fitted, detector.model_
    if fitted.settings.model != "ppca":
        raise ValueError(f"model={fitted.settings.model!r} needs all training rows at once. Use fit.")
    if ppca.n_iter_ == ADOPTED:
        raise ValueError("the model is a PCA that was fitted before, which more rows would replace: use fit instead.")
    if fitted.blocks is not None:
        return fitted.blocks
    # the model's own mean is what rounding left over, so no digits are lost to a large mean
    if fitted.n_modes is not None:
        raise ValueError("a detector with modes cannot learn from more rows: use fit on all of them.")
    model, context = ppca._moments_so_far(), fitted.model.context
    centre, scale = fitted.model.centre, fitted.model.scale
    moments = Moments(model.n, centre, scale * model.mean, model.about_mean.over(1 / scale))
    return BlockMoments((moments if context is None else context.joint_moments(moments),))


def check_parameters(detector: "PCADetector") -> None:
    """Raise an error for parameters that are not valid, alone or together."""
    DETECTOR.check(detector.get_params(deep=False))
    check_combinations(settings_of(detector))


def settings_of(detector: "PCADetector") -> DetectorSettings:
    """All parameters, with columns as plain lists that nobody else can change."""
    given = detector.given
    given = None if given is None else [given] if isinstance(given, str) else list(given)
    own = detector.get_params(deep=False) | {"given": given, "groups": plain_groups(detector.groups)}
    return DetectorSettings(**own_copy(own))


def recipe_of(detector: "PCADetector", step: Step | None = None) -> Recipe:
    """The parameters of a detector that has read its columns, and these columns; ``step`` is how far apart rows are."""
    names = getattr(detector, "feature_names_in_", None)  # set by scikit-learn, if the table had names
    known = None if names is None else tuple(map(str, names))
    n = detector.n_features_in_
    given = [] if detector.given is None else feature_positions(detector.given, known or default_names(n), "given")
    if given and n - len(set(given)) < 2:
        raise ValueError(f"given leaves {count(n - len(set(given)), 'column')} to judge: at least 2 are needed.")
    smooth = None if detector.smooth == 1 else detector.smooth  # a weight of 1 is no smoothing
    columns = Lagged(known, n, detector.lags, sorted(set(given)), smooth, step=step)
    named_groups(detector.groups, columns.inputs, columns.names)
    return Recipe(settings_of(detector), columns)


def row_number_columns(detector: "PCADetector", table: Table) -> list[str]:
    """What to say about columns that number or date the rows, unless they are given."""
    found = row_numbers(table.feature_names(), table.array)
    listed = () if detector.given is None else detector.given  # which may be an array
    given = {table.feature_names()[j] for j in feature_positions(listed, table.feature_names(), "given")}
    return [
        f"column {name!r} {why}, like a row number or a date, so later rows are outside what was learned. Drop it."
        for name, why in found.items()
        if name not in given
    ]


def suspicions(detector: "PCADetector", table: Table) -> list[str]:
    """About numbers that may stand for missing cells, in rows to learn from after others."""
    codes = CodesLearned(blocks_so_far(detector).total, table.array.shape[1])
    codes.add(np.arange(len(table.array)), table.array)
    return codes.sentences(table.feature_names(), "X", COMPLETE_ROWS.about)


def tell_oddities(detector: "PCADetector", more: Sequence[str] = (), *, of_the_fit: bool = True) -> None:
    """Warn about what is odd about a fit, and about ``more``."""
    for text in [*more, *(oddities(detector.fitted) if of_the_fit else [])]:
        warn(text, FitWarning)


def of_fitted(fitted: Any) -> "PCADetector":
    """The estimator around a core that was fitted before."""
    from culpa.detecting.detector import PCADetector

    detector = PCADetector(**vars(fitted.settings))
    names = fitted.columns.known_inputs
    detector.n_features_in_ = len(fitted.columns.inputs)
    if names is not None:
        detector.feature_names_in_ = np.array(names, dtype=object)
    detector.fitted = fitted
    return detector
