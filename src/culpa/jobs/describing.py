"""What a model file holds, for people: the facts, and what looks odd about them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from culpa._core.version import __version__
from culpa._core.words import count, share
from culpa.fitted import FittedDetector
from culpa.fitting.diagnostics import (
    ON_THE_COMMAND_LINE,
    groups_to_suggest,
    modes_in_words,
    oddities,
    rate_in_words,
    ties_in_words,
)
from culpa.io.model_container import FORMAT
from culpa.io.model_file import open_model


def describe(path: Path) -> dict[str, Any]:
    """Read a model file and say what it is."""
    fitted, header = open_model(path)
    return describe_detector(fitted, header["format"], header["culpa"])


def describe_modes(fitted: FittedDetector) -> list[dict[str, Any]] | None:
    """Every operating mode in plain numbers; ``None`` where the detector does not tell modes apart."""
    if fitted.n_modes is None:
        return None
    standard = fitted.model.standard
    limits = fitted.mode_limits
    return [
        {
            "mode": k + 1,
            "share": float(standard.weights[k]),
            "components": standard.modes[k].n_components,
            "noise_variance": float(standard.modes[k].noise_variance),
            "limit": fitted.limit if limits is None else float(limits[k]),
        }
        for k in range(standard.n_modes)
    ]


def describe_detector(fitted: FittedDetector, format: int = FORMAT, culpa: str = __version__) -> dict[str, Any]:
    """What a detector is, in plain numbers and texts; ``format`` and ``culpa`` are those of its file.

    ``rows`` is the sum of their weights, ``false_alarm_rate`` what `false_alarm_rate_` is. ``modes`` has the
    share of the rows, components, noise variance and limit of each mode, ``suggested_groups`` features and the partial
    correlation that joins them, and ``suggestions`` in words the same and what distinguishes modes.
    """
    ppca, forms, rate = fitted.ppca, fitted.explainer().forms, fitted.stated and fitted.stated.rate
    standard = fitted.model.standard
    mean, std = fitted.model.centre, np.sqrt(ppca.sample_.diagonal) * fitted.model.scale
    if fitted.model.margins is not None:
        mean, std = fitted.model.usual, fitted.model.usual_spread
    return {
        "format": format,
        "culpa": culpa,
        "rows": ppca.n_samples_,
        "features": [
            {"name": name, "mean": float(middle), "std": float(spread), "unit": fitted.units.get(name, "")}
            for name, middle, spread in zip(fitted.columns.names, mean, std, strict=False)  # present values
        ],
        "model": fitted.settings.model,
        "degrees_of_freedom": fitted.degrees_of_freedom,
        "components": fitted.n_components,
        "explained_variance": float(fitted.ppca.explained_variance_ratio_.sum()),
        "noise_variance": float(standard.weights @ [float(mode.noise_variance) for mode in standard.modes]),
        "modes": describe_modes(fitted),
        "scaled": fitted.settings.scale,
        "lags": fitted.columns.lags,
        "given": [name for name in fitted.columns.inputs if name not in fitted.columns.names],
        "smooth": fitted.columns.smooth,
        "statistic": fitted.statistic.name,
        "limit": fitted.limit,
        "limit_kind": fitted.limit_kind,
        "false_alarm_rate": None if rate is None else rate._asdict(),
        "false_alarms": rate_in_words(fitted),
        "confidence": fitted.confidence,
        "noise": ppca.noise,
        "shrinkage": ppca.shrinkage,
        "game": fitted.settings.game,
        "ranking": fitted.settings.ranking,
        "groups": fitted.groups,
        "suggested_groups": [
            {"features": list(group.features), "strength": group.strength} for group in groups_to_suggest(fitted)
        ],
        "suggestions": [*modes_in_words(fitted), *ties_in_words(fitted)],
        "explainer": "not compiled" if forms is None else f"compiled, {forms.n_evaluations:,} coalitions",
        "warnings": oddities(fitted, ON_THE_COMMAND_LINE),
    }


def facts(about: Mapping[str, Any]) -> dict[str, str]:
    """The model in words, by subject, from what `describe_detector` says."""
    past = f" with {count(about['lags'], 'lag')}" if about["lags"] else ""
    past += f", given {', '.join(about['given'])}" if about["given"] else ""
    past += f"; rows smoothed with weight {about['smooth']:g}" if about["smooth"] is not None else ""
    modes = [
        f"{mode['mode']} ({share(mode['share'])} of the rows, {count(mode['components'], 'component')})"
        for mode in about["modes"] or ()
    ]
    explain = "explains" if about["components"] == 1 else "explain"
    tails = about["degrees_of_freedom"]
    return {
        "trained on": f"{about['rows']:,.0f} rows, {len(about['features'])} features{past}",
        "components": f"{about['components']}, which {explain} {share(about['explained_variance'])} of the variance",
        **({"modes": ", ".join(modes)} if modes else {}),
        "false alarms": about["false_alarms"] or "not known, because the limit is a formula",
        "model": about["model"]
        + ("" if tails is None else f" with {tails:.3g} degrees of freedom")
        + f", noise x{about['noise']:g}, shrinkage {about['shrinkage']:g}",
    }
