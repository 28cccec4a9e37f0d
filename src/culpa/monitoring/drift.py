"""Drift: do recent rows still look like the training rows? What is said about it; `drift_measures` finds it out."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from culpa._core.json_values import to_json_value
from culpa._core.types import DataFrame
from culpa._core.validation import frame_like
from culpa.monitoring.when import cut

SIGNIFICANCE = 0.05
_NAMED = 2  # features that the sentence names for each measure


@dataclass(frozen=True)
class Measure:
    """One measure of recent rows beside what it is for blocks of training rows.

    ``usual`` is the blocks' (geometric) mean, ``limit`` what 95% of such rows stay below if nothing has changed.
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


@dataclass(frozen=True, eq=False)
class Drift:
    """How far recent rows are from the training rows, and whether that is more than training rows vary themselves.

    Attributes
    ----------
    angle, variance, mean, score : Measure
        Angle in degrees between the main directions of variation of recent rows and of the model; typical factor between
        variances; Mahalanobis distance of the mean from the model's; mean score.
    p_value : float
        Overall: small if any of the four is unusually large.
    features : tuple of FeatureDrift
        Means and variances by feature.
    n_rows, n_incomplete : int
        Recent rows that were compared, and rows with missing cells, which were not.
    n_components : int
        Main directions of variation that are compared.
    block_rows : float
        Rows of a block of training rows; with fewer recent rows the answer is less certain.
    """

    angle: Measure
    variance: Measure
    mean: Measure
    score: Measure
    p_value: float
    features: tuple[FeatureDrift, ...]
    n_rows: int
    n_incomplete: int
    n_components: int
    block_rows: float
    native: Any = field(default=None, repr=False)  # the table that was given, kept to answer in kind

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The four measures."""
        return self.angle, self.variance, self.mean, self.score

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
            f"{told} (usual {_number(each.usual, each.unit)}, p {_p(each.p_value)})"
            for each, told in zip(self.measures, self._told(), strict=True)
            if each.p_value * len(self.measures) < SIGNIFICANCE
        ]
        return f"Drift: {'; '.join(parts)}.{caution}"

    def _told(self) -> list[str]:
        variance = _clear(self.features, lambda each: each.variance_p_value)
        mean = _clear(self.features, lambda each: each.shift_p_value)
        return [
            f"the main directions turned by {_number(self.angle.value, self.angle.unit)}",
            f"variances changed by a factor of {self.variance.value:.3g}{_list(variance, self._ratio)}",
            f"the mean moved by {_number(self.mean.value, self.mean.unit)}{_list(mean, self._shift)}",
            f"the mean score is {self.score.value:.4g}",
        ]

    @staticmethod
    def _ratio(each: FeatureDrift) -> str:
        return f"{cut(each.feature)} {each.variance_ratio:.3g} times"

    @staticmethod
    def _shift(each: FeatureDrift) -> str:
        return f"{cut(each.feature)} {each.shift:+.2g} sd"

    def __repr__(self) -> str:
        lines = [f"<Drift of {self.n_rows:,} rows: {self.sentence}"]
        lines += [
            f"  {each.name:<9}{_number(each.value, each.unit):>12}  usual {_number(each.usual, each.unit)}, "
            f"limit {_number(each.limit, each.unit)}, p {_p(each.p_value)}"
            for each in self.measures
        ]
        return "\n".join(lines) + ">"

    def __str__(self) -> str:
        return self.sentence

    def to_frame(self) -> DataFrame:
        """One line per measure."""
        return frame_like(self.native, _columns(self.measures))

    def features_to_frame(self) -> DataFrame:
        """One line per feature: its mean and standard deviation in training and now."""
        return frame_like(self.native, _columns(self.features))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers; what is no finite number is None."""
        skipped = ("angle", "variance", "mean", "score", "features", "native")
        result = {"sentence": self.sentence, "drifted": self.drifted}
        result |= {name: value for name, value in vars(self).items() if name not in skipped}
        result["measures"] = [asdict(each) for each in self.measures]
        result["features"] = [asdict(each) for each in self.features]
        return dict(to_json_value(result))

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False)


def _clear(features: Sequence[FeatureDrift], p_value: Callable[[FeatureDrift], float]) -> list[FeatureDrift]:
    """The features that changed most clearly."""
    return sorted((each for each in features if p_value(each) < SIGNIFICANCE), key=p_value)[:_NAMED]


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"= {value:.2g}"


def _number(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}".rstrip()


def _list(features: Sequence[FeatureDrift], told: Callable[[FeatureDrift], str]) -> str:
    return f" ({', '.join(told(each) for each in features)})" if features else ""


def _columns(lines: Sequence[Any]) -> dict[str, list[Any]]:
    return {name: [vars(line)[name] for line in lines] for name in (vars(lines[0]) if lines else ())}
