"""Drift: do recent rows still look like the training rows? What is said about it; `drift_measures` finds it out."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from culpa._core.result import Result
from culpa._core.types import DataFrame, TableT
from culpa._core.words import cut, listed

SIGNIFICANCE = 0.05
_NAMED = 2  # features that the sentence names for each measure


@dataclass(frozen=True)
class Measure:
    """One measure of recent rows beside what it is for blocks of training rows.

    ``value`` is that of a typical stretch of recent rows, as long as a block: the geometric mean of all stretches. So a
    few extreme rows move it little. ``usual`` is the geometric mean of the blocks, and ``limit`` is what 95% of such
    values stay below if nothing has changed. The first three measures of stretches that are shorter than a block are
    reduced by what chance adds to them.
    """

    name: str
    value: float
    usual: float
    limit: float
    p_value: float
    unit: str


@dataclass(frozen=True)
class FeatureDrift:
    """How one feature changed: its mean in units of the training rows' standard deviation, and its variance.

    p-values are two-sided and corrected for the number of features.
    """

    feature: str
    mean_training: float
    mean_recent: float
    shift: float
    shift_p_value: float
    std_training: float
    std_recent: float
    variance_ratio: float
    variance_p_value: float

    def of_constant_p_value(self) -> float:
        """Of a change from a constant, which the model cannot measure; 1 for other features."""
        changed = math.isinf(self.shift) or math.isinf(self.variance_ratio)
        return min(self.shift_p_value, self.variance_p_value) if changed else 1.0


@dataclass(frozen=True, eq=False)
class Drift(Result[TableT]):
    """How far recent rows are from the training rows, and whether that is more than training rows vary themselves.

    Attributes
    ----------
    angle, variance, mean, score : Measure
        Of a typical stretch of recent rows: angle in degrees between its main directions of variation and those of the
        model; typical factor between variances; Mahalanobis distance of its mean from the model's; its mean score.
    p_value : float
        Overall: small if any of the four is unusually large, or if a feature changed that was constant.
    mean_score : float or None
        Mean score of all recent rows that were compared, as `score_samples` and `compare` have it. None if the detector
        smooths rows, because drift looks at rows that are not smoothed.
    features : tuple of FeatureDrift
        Means and variances of all recent rows by feature.
    n_rows, n_incomplete : int
        Recent rows that were compared, and rows with missing cells, which were not.
    n_stretches : int
        Stretches that recent rows were cut into.
    n_components : int
        Main directions of variation that are compared.
    block_rows : float
        Rows of a block of training rows; with fewer recent rows the answer is less certain.

    Examples
    --------
    >>> from culpa import PCADetector
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> detector = PCADetector().fit(plant.normal)
    >>> drift = detector.drift(plant.new)
    >>> drift.drifted, drift.p_value < 0.01
    (True, True)
    """

    angle: Measure
    variance: Measure
    mean: Measure
    score: Measure
    p_value: float
    mean_score: float | None
    features: tuple[FeatureDrift, ...]
    n_rows: int
    n_incomplete: int
    n_stretches: int
    n_components: int
    block_rows: float
    _derived: ClassVar[tuple[str, ...]] = ("sentence", "drifted", "measures")
    _hidden: ClassVar[tuple[str, ...]] = ("native", "angle", "variance", "mean", "score")

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Angle, variance, mean and score."""
        return self.angle, self.variance, self.mean, self.score

    @property
    def _lines(self) -> tuple[Measure, ...]:
        """One line per measure."""
        return self.measures

    @property
    def drifted(self) -> bool:
        """Whether the overall p-value is below 0.05."""
        return self.p_value < SIGNIFICANCE

    @property
    def sentence(self) -> str:
        """The answer in plain words."""
        few = self.n_rows < self.block_rows / 2
        caution = f" {self.n_rows:,} rows are few, so this is not certain." if few else ""
        rows = f"The {self.n_rows:,} rows"
        if not self.drifted:
            return f"No drift: {rows.lower()} vary as blocks of training rows do (p {_p(self.p_value)}).{caution}"
        parts = [
            f"{told} (usual {_number(each, each.usual)}, p {_p(each.p_value)})"
            for each, told in zip(self.measures, self._told(), strict=True)
            if self._is_clear(each)
        ]
        where = f"in a typical stretch of {self.block_rows:,.0f} rows, " if self.n_stretches > 1 and parts else ""
        told = [f"{where}{'; '.join(parts)}."] if parts else []
        overall = self._overall()
        told += [overall if parts else overall[0].lower() + overall[1:]] if overall else []
        return f"Drift: {' '.join(told)}{caution}"

    def _is_clear(self, measure: Measure) -> bool:
        return measure.p_value * len(self.measures) < SIGNIFICANCE

    def _told(self) -> list[str]:
        angle, variance, mean, score = (_number(each, each.value) for each in self.measures)
        return [
            f"the main directions turned by {angle}",
            f"variances changed by a factor of {variance}",
            f"the mean moved by a Mahalanobis distance of {mean}",
            f"the mean score {'of rows before smoothing ' if self.mean_score is None else ''}is {score}",
        ]

    def _overall(self) -> str:
        """A sentence about all rows together: the features that changed most clearly, and the mean score."""
        parts = [str(_of_constant(each)) for each in _clear(self.features, FeatureDrift.of_constant_p_value)]
        if self._is_clear(self.variance):
            changed = _clear(self.features, lambda each: each.variance_p_value)
            parts += [
                _of_constant(each) or f"the variance of {cut(each.feature)} is {each.variance_ratio:.3g} times as large"
                for each in changed
            ]
        if self._is_clear(self.mean):
            moved = _clear(self.features, lambda each: each.shift_p_value)
            parts += [
                _of_constant(each) or f"{cut(each.feature)} moved by {each.shift:+.3g} of its standard deviations"
                for each in moved
            ]
        if self.mean_score is not None and self._is_clear(self.score):
            mean_score = _number(self.score, self.mean_score)
            if mean_score != _number(self.score, self.score.value):
                parts.append(f"the mean score is {mean_score}")
        complete = "complete rows" if self.n_incomplete else "rows"
        return f"Over all {self.n_rows:,} {complete}, {listed(list(dict.fromkeys(parts)))}." if parts else ""

    def __repr__(self) -> str:
        lines = [f"<Drift of {self.n_rows:,} rows: {self.sentence}"]
        lines += [
            f"  {each.name:<9}{_number(each, each.value):>12}  usual {_number(each, each.usual)}, "
            f"limit {_number(each, each.limit)}, p {_p(each.p_value)}"
            for each in self.measures
        ]
        return "\n".join(lines) + ">"

    def __str__(self) -> str:
        return self.sentence

    def features_to_frame(self) -> DataFrame:
        """One line per feature: its mean and standard deviation in training and now."""
        return self._frame_of(self.features)


def _clear(features: Sequence[FeatureDrift], p_value: Callable[[FeatureDrift], float]) -> list[FeatureDrift]:
    """The features that changed most clearly."""
    return sorted((each for each in features if p_value(each) < SIGNIFICANCE), key=p_value)[:_NAMED]


def _of_constant(each: FeatureDrift) -> str | None:
    """What a feature does that was constant. One that varies also has another mean, which says nothing more."""
    if math.isinf(each.variance_ratio):
        return f"{cut(each.feature)} was constant and now varies"
    moved = each.mean_recent - each.mean_training
    return f"{cut(each.feature)} was constant and moved by {moved:+.3g}" if math.isinf(each.shift) else None


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"= {value:.2g}"


def _number(measure: Measure, value: float) -> str:
    unit = "" if measure.unit == "times" else measure.unit
    return f"{value:.{4 if measure.name == 'score' else 3}g} {unit}".rstrip()
