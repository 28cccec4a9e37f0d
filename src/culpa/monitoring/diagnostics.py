"""What a user should know before trusting a fitted detector."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from culpa._core.types import Mask
from culpa.columns import lagged_names
from culpa.columns.units import short_names
from culpa.fitted import FittedDetector
from culpa.models import PPCA
from culpa.models.latent import RELATIVE_FLOOR
from culpa.models.ties import SuggestedGroup

_FEWEST_ROWS = 30  # for held-out scores
_ROWS_PER_FEATURE = 5  # fewer training rows than this lie closer to the model than new ones will
_TIES_TOLD = 10
_SAME = 1 - 1e-9  # correlation of two columns that are one and the same


@dataclass(frozen=True)
class Remedies:
    """How to do what warnings advise, in Python or on the command line."""

    drop: str
    more_confidence: str
    read_again: str


IN_PYTHON = Remedies("drop it", "confidence=", "fit, which has all rows at hand")
ON_THE_COMMAND_LINE = Remedies("leave it out with --drop", "--confidence", "a file, which can be read twice")


def rate_in_words(fitted: FittedDetector) -> str:
    """How often held-out rows exceed the limit, or nothing where that is not known.

    For example "held-out rows: 1.1% above the 99% limit, 95% interval 0.4 to 2.3%".
    """
    rate = fitted.false_alarm_rate
    if rate is None:
        return ""
    value, low, high = (f"{100 * share:.2g}" for share in rate)
    return f"held-out rows: {value}% above the {100 * fitted.confidence:.6g}% limit, 95% interval {low} to {high}%"


def ties_in_words(fitted: FittedDetector) -> list[str]:
    """Which columns imply each other, and the option of ``culpa fit`` that blames them together; strongest first."""
    short = dict(zip(fitted.columns.names, short_names(fitted.columns.names), strict=True))
    found = fitted.suggested_groups()
    told = [_tie_in_words(group, [short[name] for name in group.features]) for group in found[:_TIES_TOLD]]
    if len(found) > _TIES_TOLD:
        told.append(f"{len(found) - _TIES_TOLD} more such groups: see suggested_groups in 'culpa info --json'.")
    return told


def _tie_in_words(group: SuggestedGroup, names: list[str]) -> str:
    option = shlex.quote(f"{'/'.join(names)}={','.join(group.features)}")
    if len(names) == 2:
        return (
            f"{names[0]} and {names[1]} imply each other (partial correlation {group.strength:.2f}): faults in one cannot "
            f"be told from faults in the other. Consider --group {option}"
        )
    return (
        f"{', '.join(names[:-1])} and {names[-1]} imply each other (partial correlations of {group.strength:.2f} or more): "
        f"faults in one cannot be told from faults in another. Consider --group {option}"
    )


def unfinished(model: PPCA) -> list[str]:
    """What fitting warned of."""
    if model.converged_:
        return []
    return [
        f"expectation-maximisation stopped after {model.n_iter_} steps without converging: use fewer components, or leave "
        "out columns or rows with many missing cells."
    ]


def _did_not_vary(fitted: FittedDetector) -> Mask:
    variance = np.diag(fitted.ppca.covariance_)
    if fitted.parameters["scale"]:  # then others have a variance of 1, and these one that missing cells lend them
        return np.asarray((fitted.model.scale == 1.0) & (variance < 0.5))
    return np.asarray(variance <= RELATIVE_FLOOR * variance.max())


def oddities(fitted: FittedDetector, remedies: Remedies = IN_PYTHON) -> list[str]:
    """What a user should know before relying on a detector."""
    return [
        *unfinished(fitted.ppca),
        *_about_the_limit(fitted, remedies),
        *_about_columns(fitted, remedies),
        *_about_components(fitted),
    ]


def _about_the_limit(fitted: FittedDetector, remedies: Remedies) -> Iterator[str]:
    n, d = fitted.ppca.n_samples_, fitted.ppca.n_features_in_
    held_out = fitted.limits.held_out(fitted.statistic)
    if held_out is not None:
        found = held_out.limit(fitted.confidence)
        if found.blocks_differ:
            yield (
                f"the training rows are not alike from one stretch to the next, so the limit was raised; rows of a new "
                f"stretch may still exceed it more often than the {1 - fitted.confidence:.4g} asked for."
            )
        if found.extrapolated:
            yield (
                f"{held_out.n:,} rows are few for a limit at {fitted.confidence:.4g}: it lies beyond all of them and is "
                f"extrapolated. Pass more rows, or ask for less confidence ({remedies.more_confidence})."
            )
        return
    if fitted.parameters["limit"] == "auto" and fitted.limit_kind != "conformal":
        why = (
            f"{n:,.0f} rows are too few"
            if n < _FEWEST_ROWS
            else f"the rows were read once only (use {remedies.read_again})"
        )
        yield f"the limit is a formula and may be too low: {why} to check it on rows that the model did not see."
    elif n < _ROWS_PER_FEATURE * d and fitted.limit_kind not in ("conformal",):
        yield (
            f"{n:,.0f} rows are few for {d:,} features and a limit that is not checked on other rows: more rows than asked "
            'for will be flagged. The limit "auto" has no such fault.'
        )
    if fitted.limit == 0:
        yield "the limit is 0, so every row is flagged."


def _about_columns(fitted: FittedDetector, remedies: Remedies) -> Iterator[str]:
    model, names = fitted.ppca, lagged_names(fitted.columns.names, fitted.columns.lags)
    variance = np.diag(model.covariance_)
    constant = [name for name, still in zip(names, _did_not_vary(fitted), strict=True) if still]
    if constant:
        yield (
            f"column {constant[0]!r} did not vary in training, so nothing tells which changes of it are unusual; "
            f"{remedies.drop} if it may change."
        )
    std = np.sqrt(np.where(variance > 0, variance, 1.0))
    n = len(fitted.columns.names)  # of the present only: nobody can drop the past of a column
    correlation = np.triu(np.abs(model.covariance_ / np.outer(std, std)), 1)[:n, :n]
    for a, b in np.argwhere(correlation > _SAME):
        if not {names[a], names[b]} & set(constant):
            yield (
                f"columns {names[a]!r} and {names[b]!r} always move together: if one is computed from the other, "
                f"{remedies.drop}; if both are measured, keep them, for a difference shows that one fails."
            )
            break


def _about_components(fitted: FittedDetector) -> Iterator[str]:
    model = fitted.ppca
    everything = model.noise_variance_ <= 10 * RELATIVE_FLOOR * model.explained_variance_.max()
    if everything and fitted.statistic.name in ("spe", "mse"):
        yield "the components explain everything: the smallest deviation will be flagged; use fewer components."
