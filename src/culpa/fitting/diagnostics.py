"""What a user should know before trusting a fitted detector."""

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from culpa._core.types import Mask
from culpa._core.words import count, count_are, in_percent
from culpa.columns import lagged_names
from culpa.columns.units import short_names
from culpa.fitted import FittedDetector, excess_of
from culpa.fitting.trimming import GROSS
from culpa.models import Estimator
from culpa.models.blocks import FEWEST_PER_BLOCK, N_BLOCKS
from culpa.models.latent import RELATIVE_FLOOR, marginal
from culpa.models.ties import SuggestedGroup, suggested_groups, ties_in_model, ties_of
from culpa.scores.held_out import FEWEST_ROWS

_ROWS_PER_FEATURE = 5  # fewer training rows than this lie closer to the model than new ones will
_TIES_TOLD = 10
_CLEARLY_APART, _MODES_TOLD = 3.0, 3  # standard deviations from which means of modes differ, and columns that are named
_SAME = 1 - 1e-9  # correlation of two columns that are one and the same


@dataclass(frozen=True)
class Remedies:
    """How to do what warnings advise, in Python or on the command line."""

    drop: str
    more_confidence: str
    read_again: str
    trim: str


IN_PYTHON = Remedies("drop it", "confidence=", "fit, which keeps all rows in memory", "trim=")
ON_THE_COMMAND_LINE = Remedies("leave it out with --drop", "--confidence", "a file, which can be read twice", "--trim ")


def rate_in_words(fitted: FittedDetector) -> str:
    """How often normal rows exceed the limit, or that it cannot be promised; nothing where the limit is a formula.

    For example "held-out rows: 1.1% above the 99% limit, 95% interval 0.4 to 2.3%; about 1.5 false incidents per 1,000
    normal rows", or "rows drift: expect 8.0% above the 99% limit instead of 0.5%, 95% interval 0.1 to 21.4%; incidents and
    reports use a limit that follows".
    """
    if (stated := fitted.stated) is None:
        return ""
    if stated.rate is None:
        return f"no rate of false alarms can be promised: {_worth(fitted)} are too few"
    value, low, high = in_percent(stated.rate)
    limit = "the limit" if fitted.limit_source else f"the {100 * fitted.confidence:.6g}% limit"
    interval = f"95% interval {low} to {high}%"
    if stated.later is not None and stated.later.value <= stated.held_out.value:
        return f"held-out rows: {value}% above {limit}, but rows drift: {interval}"
    if stated.later is not None:
        instead = f" instead of {100 * stated.held_out.value:.2g}%"
        told = f"rows drift: expect {value}% above {limit}{instead}, {interval}"
        return told if fitted.views is None else f"{told}; incidents and reports use a limit that follows"
    incidents = 1000 * excess_of(fitted).false_incidents(excess_of(fitted).bound())
    told = f"held-out rows: {value}% above {limit}, {interval}"
    return f"{told}; about {incidents:.2g} false incidents per 1,000 normal rows"


def modes_in_words(fitted: FittedDetector) -> list[str]:
    """What distinguishes each operating mode from the one with most rows: the columns whose means differ most.

    For example "mode 2 (25% of the rows) differs from mode 1 in temperature (365.2 instead of 340.1, 12 sd)".
    """
    if fitted.n_modes is None:
        return []
    names, model, told = fitted.columns.names, fitted.model, []
    first, *others = model.standard.modes
    for k, mode in enumerate(others, start=2):
        within = np.sqrt((first.variances + mode.variances) / 2)
        apart = (np.abs(mode.mean - first.mean) / np.maximum(within, RELATIVE_FLOOR))[: len(names)]
        differ = int((apart >= _CLEARLY_APART).sum())
        usual, here = (model.centre + model.scale * one.mean for one in (first, mode))
        columns = [
            f"{names[j]} ({here[j]:.4g} instead of {usual[j]:.4g}, {apart[j]:.2g} sd)"
            for j in np.argsort(-apart, kind="stable")[: max(min(differ, _MODES_TOLD), 1)].tolist()
        ]
        more = f" and {count(differ - _MODES_TOLD, 'more column')}" if differ > _MODES_TOLD else ""
        share = f"{model.standard.weights[k - 1]:.0%} of the rows"
        told.append(f"mode {k} ({share}) differs from mode 1 in {', '.join(columns)}{more}")
    return told


def groups_to_suggest(fitted: FittedDetector) -> list[SuggestedGroup]:
    """Columns that imply each other and are in no group together: see `PCADetector.suggested_groups`."""
    names, groups, ppca = fitted.columns.names, fitted.groups.values(), fitted.ppca
    n = len(names)  # of present values
    # few rows are correlated by chance, which the model smooths out
    if fitted.n_modes is not None or ppca.n_samples_ >= _ROWS_PER_FEATURE * n:
        ties = ties_of(ppca.within_covariance_[:n, :n])
    else:
        ties = ties_in_model(marginal(fitted.model.gaussian, range(n)))
    return suggested_groups(ties, names, [[names.index(name) for name in members] for members in groups])


def ties_in_words(fitted: FittedDetector) -> list[str]:
    """Which columns imply each other, and the option of ``culpa fit`` that blames them together; strongest first."""
    short = dict(zip(fitted.columns.names, short_names(fitted.columns.names), strict=True))
    found = groups_to_suggest(fitted)
    told = [_tie_in_words(group, [short[name] for name in group.features]) for group in found[:_TIES_TOLD]]
    if len(found) > _TIES_TOLD:
        told.append(f"{len(found) - _TIES_TOLD} more such groups: see suggested_groups in 'culpa info --json'.")
    return told


def _tie_in_words(group: SuggestedGroup, names: list[str]) -> str:
    option = shlex.quote(f"{'/'.join(names)}={','.join(group.features)}")
    if len(names) == 2:
        return (
            f"{names[0]} and {names[1]} imply each other (partial correlation {group.strength:.2f}): faults in one cannot "
            f"be distinguished from faults in the other. Consider --group {option}"
        )
    return (
        f"{', '.join(names[:-1])} and {names[-1]} imply each other (partial correlations of {group.strength:.2f} or more): "
        f"faults in one cannot be distinguished from faults in another. Consider --group {option}"
    )


def unfinished(model: Estimator) -> list[str]:
    """Sentences about steps of the fit that did not converge."""
    if model.converged_:
        return []
    return [
        f"expectation-maximisation stopped after {model.n_iter_} steps without converging. Use fewer components, or leave "
        "out columns or rows with many missing cells."
    ]


def _did_not_vary(fitted: FittedDetector) -> Mask:
    variance = fitted.ppca.sample_.diagonal
    if fitted.settings.scale:  # other columns have a variance of 1, and constant ones only what missing cells add
        return np.asarray((fitted.model.scale == 1.0) & (variance < 0.5))
    return np.asarray(variance <= RELATIVE_FLOOR * variance.max())


def oddities(fitted: FittedDetector, remedies: Remedies = IN_PYTHON) -> list[str]:
    """What a user should know before relying on a detector."""
    return [
        *unfinished(fitted.ppca),
        *_about_the_limit(fitted, remedies),
        *_about_faults(fitted, remedies),
        *_about_columns(fitted, remedies),
        *_about_components(fitted),
    ]


def _about_the_limit(fitted: FittedDetector, remedies: Remedies) -> Iterator[str]:
    if fitted.limit_source:  # the user has chosen it
        return
    n, d = fitted.ppca.n_samples_, fitted.ppca.n_features_in_
    held_out = fitted.limits.held_out(fitted.statistic)
    if held_out is not None:
        found = held_out.limit(fitted.confidence)
        differing = held_out.differing_block(fitted.confidence)
        if differing is not None:
            start, stop, rate = differing
            yield (
                f"the training rows differ from one stretch of rows to the next, so the limit was raised. Rows of a new "
                f"stretch may still exceed it more often than the chosen share of {1 - fitted.confidence:.4g}. The stretch "
                f"from {start:.0%} to {stop:.0%} of the rows has the largest share of high scores ({rate:.0%}). Leave it "
                "out if it was not normal, or pass rows of more stretches."
            )
        known = fitted.stated and fitted.stated.rate
        promise = f"only a rate of at most {100 * known.high:.2g}%" if known else "no rate of false alarms"
        if found.extrapolated:
            yield (
                f"{_worth(fitted)} are few for a limit at confidence {fitted.confidence:.4g}. The limit is "
                f"extrapolated and higher than all their scores, and {promise} can be promised. Pass more rows, or "
                f"choose a lower confidence ({remedies.more_confidence})."
            )
        elif known is None:
            yield f"{promise} can be promised: {_worth(fitted)} are too few. Pass rows of a longer time."
        return
    if fitted.settings.limit == "auto" and fitted.limit_kind == "empirical":
        yield f"{n:,.0f} rows are too few to check the limits of the modes on held-out rows. Pass more rows."
    elif fitted.settings.limit == "auto" and fitted.limit_kind != "conformal":
        yield f"the limit is a formula and may be too low, because {_why_a_formula(fitted, remedies)}."
    elif n < _ROWS_PER_FEATURE * d and fitted.limit_kind not in ("conformal",):
        yield (
            f"{n:,.0f} rows are few for {d:,} features, and the limit is not checked on held-out rows, so too many normal "
            'rows will be flagged. Use the limit "auto", which is checked.'
        )
    if fitted.limit == 0:
        yield "the limit is 0, so every row is flagged."


def _worth(fitted: FittedDetector) -> str:
    """How many rows there are, and how many independent ones they are worth, where these are clearly fewer."""
    n, stated, held_out = fitted.ppca.n_samples_, fitted.stated, fitted.limits.held_out(fitted.statistic)
    if stated is None or held_out is None:
        return f"{n:,.0f} rows"
    if held_out.dependence > 1:
        alone = max(held_out.n / (held_out.clustering * held_out.dependence), 1)
        return f"{n:,.0f} rows, which after smoothing are worth about {alone:,.0f} independent ones,"
    if stated.worth > n / 2:
        return f"{n:,.0f} rows"
    return f"{n:,.0f} rows, which resemble each other and are worth about {stated.worth:,.0f} independent ones,"


def _about_faults(fitted: FittedDetector, remedies: Remedies) -> Iterator[str]:
    """A Student model withstands faults among its training rows, so it can tell how many there are. A limit cannot."""
    abnormal = fitted.abnormal_training_rows
    if abnormal is None or fitted.degrees_of_freedom is None or fitted.limits.held_out(fitted.statistic) is None:
        return
    gross = int(((np.asarray(abnormal["times_limit"]) > GROSS) & ~np.asarray(abnormal["trimmed"])).sum())
    share = gross / fitted.ppca.n_samples_
    if share > 1 - fitted.confidence:
        yield (
            f"{share:.1%} of the training rows are more than {GROSS:g} times as abnormal as the model expects, and the "
            f"limit counts them as normal. If they are faults, pass {remedies.trim}{math.ceil(100 * share) / 100:g}."
        )


def _why_a_formula(fitted: FittedDetector, remedies: Remedies) -> str:
    scored = max((round(tail.n) for tail in fitted.limits.tails.values()), default=0)
    n = fitted.ppca.n_samples_
    if n < FEWEST_ROWS or scored:
        few = count_are(n, "row") if n < FEWEST_ROWS else count_are(scored, "scored row")
        return f"{few} too few to check it on held-out rows. Pass at least {FEWEST_ROWS}"
    blocks, lags = fitted.blocks, fitted.columns.lags
    if blocks is None:
        return (
            f"fewer than {FEWEST_ROWS} rows have at least half of their cells, so it cannot be checked on held-out rows"
        )
    if lags and n < N_BLOCKS * (FEWEST_PER_BLOCK + 2 * lags + 1):
        return f"{n:,.0f} rows are too few to check it on held-out rows with {count(lags, 'lag')}"
    if len(blocks) > 1 and any(not blocks.without(k).variances.any() for k in range(len(blocks))):
        return "the rows vary only within one stretch, so it cannot be checked on other stretches"
    return f"rows that are read only once cannot be held out. Use {remedies.read_again}"


def _about_columns(fitted: FittedDetector, remedies: Remedies) -> Iterator[str]:
    names = lagged_names(fitted.columns.names, fitted.columns.lags)
    constant = [name for name, still in zip(names, _did_not_vary(fitted), strict=True) if still]
    if constant:
        yield (
            f"column {constant[0]!r} did not vary in training, so the model cannot tell which of its values are "
            f"unusual. If the column may change, {remedies.drop}."
        )
    same = next((pair for pair in _same_columns(fitted) if not {names[at] for at in pair} & set(constant)), None)
    if same is not None:
        a, b = (names[at] for at in same)
        yield (
            f"columns {a!r} and {b!r} always move together. If one is computed from the other, "
            f"{remedies.drop}. If both are measured, keep them, because a difference shows that one of them is faulty."
        )


def _same_columns(fitted: FittedDetector) -> Iterator[tuple[int, int]]:
    """Pairs of columns with a correlation of 1 in training; the past of columns cannot be dropped and does not count."""
    n, sample = len(fitted.columns.names), fitted.ppca.sample_
    std = np.sqrt(np.where(sample.diagonal > 0, sample.diagonal, 1.0))
    for start, strip in sample.over(std).strips():
        np.abs(strip, out=strip)
        strip[np.tril_indices(len(strip))] = 0.0
        if strip.max() > _SAME:
            for a, b in (start + np.argwhere(strip > _SAME)).tolist():
                if max(a, b) < n:
                    yield a, b


def _about_components(fitted: FittedDetector) -> Iterator[str]:
    if fitted.n_modes is not None:
        return
    gaussian = fitted.model.gaussian
    everything = float(gaussian.noise_variance) <= 10 * RELATIVE_FLOOR * (gaussian.loadings**2).sum(axis=0).max()
    if everything and fitted.statistic.name in ("spe", "mse"):
        yield "the components explain all variance, so the smallest deviation will be flagged. Use fewer components."
