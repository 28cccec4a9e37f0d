"""The names that users choose from, once as types for type checkers and once as tuples for checks and help texts."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Literal, NoReturn, get_args

QuadraticName = Literal["spe", "mse", "t2", "mahalanobis", "combined"]
QUADRATIC_NAMES: tuple[QuadraticName, ...] = get_args(QuadraticName)
ScoreName = Literal[QuadraticName, "nll"]
SCORE_NAMES: tuple[ScoreName, ...] = get_args(ScoreName)
StatisticName = Literal["auto", QuadraticName]
GameName = Literal["conditional", "retraining", "interventional", "minimal"]
GAME_NAMES: tuple[GameName, ...] = get_args(GameName)
Method = Literal["auto", "exact", "permutation", "kernel", "algorithm1"]
METHODS: tuple[Method, ...] = get_args(Method)
DeviceName = Literal["auto", "cpu", "gpu"]
LimitKind = Literal["auto", "formula", "jackson-mudholkar", "box", "f", "empirical", "conformal"]
LIMIT_KINDS: tuple[LimitKind, ...] = get_args(LimitKind)
_Contribution = Literal["cdc", "pdc", "dc", "rbc", "relative"]
Criterion = Literal[_Contribution, "z-score", "leave-one-out", "mahalanobis-shapley", "fault-odds", "propagated"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
Ranking = Literal["shapley", Criterion]
RANKINGS: tuple[Ranking, ...] = get_args(Ranking)
RetrainingRank = Literal["components", "share"]
FitMethod = Literal["auto", "closed-form", "em"]
ModelName = Literal["ppca", "student", "copula"]
MODEL_NAMES: tuple[ModelName, ...] = get_args(ModelName)
Robustness = Literal["cells"]
_FaultOfARow = Literal[
    "bias 1 sd",
    "bias 2 sd",
    "bias 3 sd",
    "bias 4 sd",
    "bias 5 sd",
    "maximum",
    "minimum",
    "stuck",
    "sign flip",
    "lost correlation",
]
FaultKind = Literal[_FaultOfARow, "drift"]
FAULT_KINDS: tuple[FaultKind, ...] = get_args(_FaultOfARow)  # in rows that are judged on their own
LASTING_FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)  # with lags
TableFormat = Literal["csv", "parquet", "arrow", "ndjson"]
TABLE_FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)
PartName = Literal["values", "score", "expected", "score_if_fixed"]  # of an explanation
PART_NAMES: tuple[PartName, ...] = get_args(PartName)
Parts = PartName | Sequence[PartName] | None
InputFormat = Literal[TableFormat, "excel"]
INPUT_FORMATS: tuple[InputFormat, ...] = get_args(InputFormat)


def one_of(value: str, allowed: Iterable[str], argument: str) -> str:
    """``value`` if it is allowed, else a ValueError that lists the allowed values and suggests the nearest."""
    allowed = list(allowed)
    if value not in allowed:
        unknown(value, allowed, argument)
    return value


def parts_of(parts: Parts) -> tuple[PartName, ...]:
    """Names of the parts of an explanation that were asked for: one, several, or all if nothing was asked."""
    if parts is None:
        return PART_NAMES
    named = (parts,) if isinstance(parts, str) else tuple(parts)
    if not named:
        raise ValueError(f"parts names nothing to compute: choose from {', '.join(map(repr, PART_NAMES))}.")
    for name in named:
        one_of(name, PART_NAMES, "part")
    return named


def unknown(value: object, allowed: Iterable[str], argument: str) -> NoReturn:
    """Raise the error that `one_of` raises, with the nearest name that is allowed."""
    allowed = list(allowed)
    raise ValueError(
        f"unknown {argument} {short(value)}: choose one of {', '.join(map(repr, allowed))}{suggestion(value, allowed)}"
    )


def short(value: object) -> str:
    """A value in an error message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def suggestion(value: object, allowed: Iterable[str]) -> str:
    """The end of an error message that suggests the allowed name nearest to ``value``, or nothing.

    >>> suggestion("gmae", ["game", "score"])
    "; did you mean 'game'?"
    """
    near = get_close_matches(str(value), list(allowed), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
