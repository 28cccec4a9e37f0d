"""Keyword options that methods pass on to others, as types: a type checker knows their names and values."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from culpa._core.choices import DeviceName, GameName, Method, Ranking, RetrainingRank, ScoreName
from culpa.scores import Score
from culpa.shapley import Progress

__all__ = ["BlameOptions", "ExplainerOptions", "ReportOptions"]


class BlameOptions(TypedDict, total=False):
    """Options of `Explainer` that leave the score to the detector."""

    game: GameName
    method: Method
    ranking: Ranking
    groups: Mapping[str, Sequence[str | int]] | None
    upstream: Sequence[Sequence[str | int]] | None
    tolerance: float | str
    max_coalitions: int | None
    n_orders: int | None
    exact_operations: float
    device: DeviceName
    memory_bytes: float
    retraining_rank: RetrainingRank
    locality: float
    seed: int | None
    random_state: int | None
    n_jobs: int | None
    progress: Progress | bool | None


class ExplainerOptions(BlameOptions, total=False):
    """All options of `Explainer`."""

    score: ScoreName | Score | None
    statistic: ScoreName | None
    features: Sequence[str | int] | None


class ReportOptions(BlameOptions, total=False):
    """Options of a report: its title, the name of the data, and how incidents are found and explained."""

    title: str
    source: str
    gap: Any
    min_length: int
    baseline: int
    units: Mapping[str, str] | None
