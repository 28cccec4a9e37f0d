"""A fitted detector as one immutable object: columns, model, statistic and limits.

`culpa.PCADetector` is its scikit-learn face. Incidents, jobs, model files, plots and reports use this object only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from culpa import scores
from culpa._core.border import entered
from culpa._core.choices import Parts
from culpa._core.comparing import exceeds
from culpa._core.copies import own_copy
from culpa._core.missing import warn_about_empty_rows
from culpa._core.parameter import check_keywords
from culpa._core.parameters import EXPLAINER, DetectorSettings, ExplainerOptions
from culpa._core.threads import one_blas_thread
from culpa._core.types import Floats, Mask
from culpa.columns import Columns, Reading
from culpa.columns.groups import named_groups, without_given
from culpa.explaining.explainer import Explainer
from culpa.explaining.explanation import Explanation
from culpa.models import Estimator, FittedModel, OwnChoices
from culpa.models.blocks import BlockGatherer, BlockMoments
from culpa.models.components import ComponentChoice
from culpa.models.normal_range import NormalRange
from culpa.models.normal_signals import NormalSignals
from culpa.ranking.recent import Recent
from culpa.scores import Limits, Score, ScoredRows, score_by_name
from culpa.scores.consistency import Consistency
from culpa.scores.excess import NormalExcess
from culpa.scores.following import Views
from culpa.scores.quadratic import scores_of
from culpa.scores.stated import OverTime, Stated, stated_rate

_EXPLAINERS_KEPT = 8
_ROWS_PER_CHUNK = 1 << 16  # so that memory beyond the result does not grow with the number of rows


class ControlLimit(NamedTuple):
    """A limit of one statistic at one confidence, and the kind of limit it is."""

    statistic: str
    confidence: float
    kind: str
    limit: float


class _Kept:
    """Scores and explainers of one model, kept so that nothing is prepared twice."""

    def __init__(self, of: "FittedDetector") -> None:
        self.model, self.statistic, self.confidence = of.model, of.statistic, of.confidence
        self.views = of.views
        self.scores: dict[str, Score] = {}
        self.in_views: dict[int, FittedDetector] = {}
        self.explainers: list[tuple[dict[str, Any], Explainer]] = []

    def serves(self, fitted: "FittedDetector") -> bool:
        """Whether a detector has the model and the score that all this belongs to."""
        same = self.model is fitted.model and self.statistic is fitted.statistic and self.views is fitted.views
        return same and self.confidence == fitted.confidence


@entered
@dataclass(frozen=True, eq=False)
class FittedDetector:
    """Everything that judging and explaining a row needs.

    ``model`` knows the columns, the scaling and the distribution of normal rows; ``ppca`` is the estimator behind it.
    A row whose ``statistic`` exceeds ``limit`` is flagged. ``settings`` are the parameters that the `PCADetector` was
    fitted with, ``normal_range`` is how far features went in normal rows, ``units`` the units of columns, for texts.
    ``abnormal_training_rows`` is a table, where the rows were at hand, and so is ``suspicious_cells``, where the fit
    looked for them.
    """

    model: FittedModel
    ppca: Estimator
    statistic: Score
    confidence: float
    limits: Limits
    limit: float
    settings: DetectorSettings
    normal_range: NormalRange
    units: Mapping[str, str] = field(default_factory=dict)
    reading: Mapping[str, Any] = field(default_factory=dict, repr=False)  # how commands read the training table
    abnormal_training_rows: Any = field(default=None, repr=False)
    suspicious_cells: Any = field(default=None, repr=False)
    components: ComponentChoice | None = field(default=None, repr=False)  # how their number was chosen, if it was
    # of normal rows that came in order
    signals: NormalSignals | None = field(default=None, repr=False)  # columns by themselves
    consistency: Consistency | None = field(default=None, repr=False)  # how well the columns of stretches agree
    usual_errors: Floats | None = field(default=None, repr=False)  # of features given the others, over the model's
    recent: Recent | None = field(default=None, repr=False)  # levels of the features after the last row
    normal_excess: NormalExcess | None = field(default=None, repr=False)  # how flagged rows are grouped
    over_time: OverTime = field(default=OverTime(), repr=False)  # what the order of the training rows shows
    views: Views | None = field(default=None, repr=False)  # what judges rows in order of time
    blocks: BlockMoments | None = field(default=None, repr=False)  # of the training rows, where all are complete
    mode_ranges: tuple[NormalRange, ...] = field(default=(), repr=False)  # of each mode, around its own mean
    limit_source: str = ""  # "given" or "contamination", where the limit does not follow from the confidence
    gathered: BlockGatherer | None = field(default=None, repr=False)  # of rows that all came by partial_fit
    _kept: _Kept = field(default=None, repr=False)  # type: ignore[assignment]  # what follows from the fields above

    def __post_init__(self) -> None:
        """Own what it holds: nobody else can change settings, and what was prepared for another model is left behind."""
        lists = {name: own_copy(getattr(self.settings, name)) for name in ("given", "groups")}
        object.__setattr__(self, "settings", replace(self.settings, **lists))
        for name in ("units", "reading"):
            object.__setattr__(self, name, own_copy(getattr(self, name)))
        if self._kept is None or not self._kept.serves(self):
            object.__setattr__(self, "_kept", _Kept(self))

    @property
    def columns(self) -> Columns:
        """The user's columns, and how features are made of them."""
        return self.model.columns

    @property
    def n_modes(self) -> int | None:
        """Number of operating modes; ``None`` where the detector does not tell modes apart."""
        return None if self.settings.modes is None else self.model.n_modes

    @property
    def n_components(self) -> int:
        """Number of components; with modes, the largest of a mode."""
        return self.model.standard.n_components

    @property
    def degrees_of_freedom(self) -> float | None:
        """Of a model with Student-t tails."""
        own = self.model.standard.modes[0]
        return own.degrees_of_freedom if own.tail else None

    @property
    def mode_limits(self) -> Floats | None:
        """The limit of each mode, in which its scores are measured, times the limit of these."""
        units = self.model.mode_units.get(self.statistic.name)
        return None if units is None else np.asarray(units * self.limit)

    def in_mode(self, mode: int) -> Self:
        """The same detector where normal is what is normal in one mode; rows are still scored by all modes."""
        if self.n_modes is None:
            return self
        return replace(self, model=self.model.in_mode(mode), normal_range=self.mode_ranges[mode])

    def in_view(self, number: int) -> "FittedDetector":
        """The same detector where rows are residuals as a view of rows in order of time sees them."""
        assert self.views is not None
        kept, view = self._kept.in_views, self.views.all[number]
        if number not in kept:
            limits, limit = Limits(view.model), float(view.limit(self.views.theta))
            kept[number] = FittedDetector(
                view.model, self.ppca, view.score, self.confidence, limits, limit, self.settings, view.normal_range
            )
        return replace(kept[number], settings=self.settings, units=self.units)

    @property
    def groups(self) -> dict[str, list[str]]:
        """Names of the columns that are blamed together, by the name of their group."""
        return named_groups(self.settings.groups, self.columns.inputs, self.columns.names)

    def without_groups(self) -> Self:
        """The same detector, which blames single columns."""
        return replace(self, settings=replace(self.settings, groups=None))

    @property
    def deciding_model(self) -> FittedModel:
        """The model together with what the detector decides by and how it explains that."""
        names, of = self.columns.names, self.columns.features_of
        groups = tuple(
            (group, tuple(of(names.index(name) for name in members))) for group, members in self.groups.items()
        )
        own = OwnChoices(self.statistic.name, self.settings.game, self.settings.ranking, self.confidence, groups)
        return replace(self.model, own=own)

    @property
    def limit_kind(self) -> str:
        """What kind of limit the detector's own one is."""
        return self.limit_source or self.limits.kind_of(self.statistic)

    @property
    def stated(self) -> Stated | None:
        """What held-out and later training rows say about false alarms; ``None`` where the limit is a formula."""
        held_out = self.limits.held_out(self.statistic)
        if held_out is None:
            return None
        return stated_rate(held_out, self.limit, self.normal_range.dependence, self.over_time)

    @property
    def coverage(self) -> float:
        """Share of normal rows that should stay below the limit: what held-out rows say of a limit that was set by hand."""
        stated = self.stated if self.limit_source else None
        return self.confidence if stated is None else 1 - stated.held_out.value

    def p_values(self, score: Floats, *, extrapolate: bool = False) -> Floats | None:
        """How often normal rows score as high or higher; ``None`` where the limit is a formula."""
        held_out = self.limits.held_out(self.statistic)
        return None if held_out is None else held_out.p_values(score, extrapolate=extrapolate)

    def named(self, name: str) -> Score:
        """A statistic by name: always the same object, so that explainers are recognised."""
        if name == self.statistic.name:
            return self.statistic
        kept = self._kept
        if name not in kept.scores:
            kept.scores = {**kept.scores, name: score_by_name(name, self.model, confidence=self.confidence)}
        return kept.scores[name]

    def read(self, X: Any) -> Reading:
        """Check a table and read its rows."""
        return X if isinstance(X, Reading) else self.columns.read(X)

    def rows(self, X: Any) -> ScoredRows:
        """Read, standardise and score rows that fit into memory twice."""
        return ScoredRows.of(self.read(X), self.model, self.statistic)

    def score(self, X: Any) -> Floats:
        """Score of every row by the detector's own statistic; NaN and a warning for rows without any observed feature."""
        reading = self.read(X)
        return _warned(self, self.values(reading), reading)

    def values(self, reading: Reading) -> Floats:
        """The same, without a warning."""
        return _values(self, reading, {"": self.statistic})[""]

    def is_flagged(self, score: Floats) -> Mask:
        """Which scores of the detector's own statistic exceed the limit by more than rounding; a missing score does not."""
        return exceeds(score, self.limit)

    def statistics(self, X: Any) -> dict[str, Floats]:
        """Values of all charted statistics, by name."""
        reading = self.read(X)
        values = _values(self, reading, charted(self.model, self.statistic))
        _warned(self, values[self.statistic.name], reading)
        return values

    def control_limits(self, confidences: Sequence[float] = (), *, training: bool = False) -> list[ControlLimit]:
        """Limits of all charted statistics at these confidences and at the detector's own, where they are known."""
        levels = sorted({*confidences, self.confidence})
        lines = []
        for name, score in charted(self.model, self.statistic).items():
            for level in levels:
                if self.limit_source and (name, level) == (self.statistic.name, self.confidence):
                    lines.append(ControlLimit(name, level, self.limit_source, self.limit))
                elif self.limits.knows(score, level):
                    kind = self.limits.kind_of(score, training=training)
                    lines.append(ControlLimit(name, level, kind, self.limits(score, level, training=training)))
        return lines

    def explainer(self, **options: Unpack[ExplainerOptions]) -> Explainer:
        """The `Explainer` with these options: kept between calls, with whatever it has compiled."""
        check_keywords(options, EXPLAINER.keywords, "explain")
        chosen = {name: value for name, value in EXPLAINER.without_aliases(options).items() if not _is_own(name, value)}
        chosen = own_copy(_explained_by(self, chosen.get("given")) | chosen)
        if chosen["score"] in scores.SCORE_NAMES and "features" not in chosen:
            chosen["score"] = self.named(chosen["score"])
        kept = self._kept
        for known, explainer in kept.explainers:
            if known == chosen:
                return explainer
        explainer = Explainer(self.model, **chosen)
        kept.explainers = [*kept.explainers[1 - _EXPLAINERS_KEPT :], (chosen, explainer)]
        return explainer

    def explain(
        self, X: Any, rows: Any = None, *, parts: Parts = None, **options: Unpack[ExplainerOptions]
    ) -> Explanation:
        """Explain the score of every row, or of those that ``rows`` picks by positions or a mask."""
        explainer = self.explainer(**options)
        reading = X if isinstance(X, Reading) else explainer.columns.read(X)
        limit = self.limit if explainer.score is self.statistic else None
        return explainer._one_pass.explain(reading if rows is None else reading.choose(rows), parts, limit)


def _values(fitted: FittedDetector, reading: Reading, statistics: Mapping[str, Score]) -> dict[str, Floats]:
    starts = range(0, max(len(reading.features), 1), _ROWS_PER_CHUNK)
    chunks = (reading.features[start : start + _ROWS_PER_CHUNK] for start in starts)
    with one_blas_thread(len(reading.features)):
        parts = [scores_of(statistics, fitted.model.standardise(chunk)) for chunk in chunks]
    return {name: np.concatenate([part[name] for part in parts]) for name in statistics}


def _warned(fitted: FittedDetector, score: Floats, reading: Reading) -> Floats:
    if np.isnan(score).any():
        warn_about_empty_rows(reading.labels[np.isnan(score)], context=fitted.model.context is not None)
    return score


def _explained_by(fitted: FittedDetector, given: Sequence[str | int] | str | None) -> dict[str, Any]:
    """What the detector says about explanations; features that are ``given`` leave their groups."""
    EXPLAINER["given"].check(given)
    own = {"game": fitted.settings.game, "ranking": fitted.settings.ranking}
    groups = without_given(fitted.groups, fitted.columns.named(given or [], "given"))
    return {"score": fitted.statistic.name, "groups": groups or None} | own


def operating_modes(fitted: FittedDetector, reading: Reading) -> NDArray[np.int64]:
    """The most probable mode of each row, counted from 1."""
    model, features = fitted.model, reading.features
    starts = range(0, len(features), _ROWS_PER_CHUNK)
    modes = [model.standard.mode_of(model.standardise(features[at : at + _ROWS_PER_CHUNK])) for at in starts]
    return np.concatenate([np.empty(0, dtype=np.int64), *modes]).astype(np.int64) + 1


def charted(model: FittedModel, own: Score) -> dict[str, Score]:
    """The statistics of control charts: SPE, T2 and a detector's own."""
    return {score.name: score for score in (score_by_name("spe", model), score_by_name("t2", model), own)}


def _is_own(name: str, value: object) -> bool:
    """Whether an option leaves the choice to the detector."""
    return (name in ("score", "game", "ranking") and value is None) or (name == "groups" and value == "own")


def why_fixed(fitted: FittedDetector) -> str:
    """Why rows in order of time are judged by a fixed limit; empty where one may follow."""
    settings, columns = fitted.settings, fitted.columns
    for is_so, why in (
        (fitted.n_modes is not None, "the detector tells modes apart"),
        (columns.smooth is not None, "rows are smoothed"),
        (columns.lags > 0, "rows are judged together with earlier ones"),
        (fitted.model.context is not None, "some columns are given"),
        (settings.model != "ppca", f"the model is {settings.model!r}"),
        (
            settings.n_components != "auto" or settings.statistic != "auto",
            "you chose the statistic or the number of components",
        ),
        (settings.game == "retraining", "rows are explained by retraining"),
        (fitted.limit_kind != "held-out", f"the limit is of the kind {fitted.limit_kind!r}"),
        (settings.trim > 0, "the worst training rows were left out"),
    ):
        if is_so:
            return why
    return ""


def excess_of(fitted: FittedDetector) -> NormalExcess:
    """How far rows exceed the limit, and what normal rows show of that; by chance where these are not known."""
    if fitted.normal_excess is not None:
        return fitted.normal_excess
    known = fitted.limits.knows(fitted.statistic, 0.5)
    median = fitted.limits(fitted.statistic, 0.5) if known else 0.0
    return NormalExcess.by_chance(fitted.limit, median, 1 - fitted.confidence)
