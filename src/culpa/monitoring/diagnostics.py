"""What a user should know before trusting a fitted detector."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from culpa._core.types import Mask
from culpa.columns import lagged_names
from culpa.fitted import FittedDetector
from culpa.models import PPCA
from culpa.models.latent import RELATIVE_FLOOR

_FEWEST_ROWS = 30  # for held-out scores
_ROWS_PER_FEATURE = 5  # fewer training rows than this lie closer to the model than new ones will
_SAME = 1 - 1e-9  # correlation of two columns that are one and the same


@dataclass(frozen=True)
class Remedies:
    """How to do what warnings advise, in Python or on the command line."""

    drop: str
    more_confidence: str
    read_again: str


IN_PYTHON = Remedies("drop it", "confidence=", "fit, which keeps all rows in memory")
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


def unfinished(model: PPCA) -> list[str]:
    """What fitting warned of."""
    if model.converged_:
        return []
    return [
        f"expectation-maximisation stopped after {model.n_iter_} steps without converging. Use fewer components, or leave "
        "out columns or rows with many missing cells."
    ]


def _did_not_vary(fitted: FittedDetector) -> Mask:
    variance = np.diag(fitted.ppca.covariance_)
    if fitted.parameters[
        "scale"
    ]:  # then other columns have a variance of 1, and constant ones only what missing cells add
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
                f"the training rows are not alike from one stretch to the next, so the limit was raised. Rows of a new "
                f"stretch may still exceed it more often than the {1 - fitted.confidence:.4g} asked for."
            )
        if found.extrapolated:
            yield (
                f"{held_out.n:,} rows are few for a limit at {fitted.confidence:.4g}. The limit is higher than all their "
                f"scores and is extrapolated. Pass more rows, or choose a lower confidence ({remedies.more_confidence})."
            )
        return
    if fitted.parameters["limit"] == "auto" and fitted.limit_kind != "conformal":
        why = (
            f"{n:,.0f} rows are too few to check it on held-out rows."
            if n < _FEWEST_ROWS
            else f"rows that are read only once cannot be held out. Use {remedies.read_again}."
        )
        yield f"the limit is a formula and may be too low, because {why}"
    elif n < _ROWS_PER_FEATURE * d and fitted.limit_kind not in ("conformal",):
        yield (
            f"{n:,.0f} rows are few for {d:,} features, and the limit is not checked on held-out rows, so too many normal "
            'rows will be flagged. Use the limit "auto", which is checked.'
        )
    if fitted.limit == 0:
        yield "the limit is 0, so every row is flagged."


def _about_columns(fitted: FittedDetector, remedies: Remedies) -> Iterator[str]:
    model, names = fitted.ppca, lagged_names(fitted.columns.names, fitted.columns.lags)
    variance = np.diag(model.covariance_)
    constant = [name for name, still in zip(names, _did_not_vary(fitted), strict=True) if still]
    if constant:
        yield (
            f"column {constant[0]!r} did not vary in training, so the model cannot tell which changes of it are "
            f"unusual. If it may change, {remedies.drop}."
        )
    std = np.sqrt(np.where(variance > 0, variance, 1.0))
    n = len(fitted.columns.names)  # present values only: the past of a column cannot be dropped
    correlation = np.triu(np.abs(model.covariance_ / np.outer(std, std)), 1)[:n, :n]
    for a, b in np.argwhere(correlation > _SAME):
        if not {names[a], names[b]} & set(constant):
            yield (
                f"columns {names[a]!r} and {names[b]!r} always move together. If one is computed from the other, "
                f"{remedies.drop}. If both are measured, keep them, so that a fault of one of them shows."
            )
            break


def _about_components(fitted: FittedDetector) -> Iterator[str]:
    model = fitted.ppca
    everything = model.noise_variance_ <= 10 * RELATIVE_FLOOR * model.explained_variance_.max()
    if everything and fitted.statistic.name in ("spe", "mse"):
        yield "the components explain all variance, so the smallest deviation will be flagged. Use fewer components."
