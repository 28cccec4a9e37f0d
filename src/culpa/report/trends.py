"""Every feature over all rows, beside what is normal: lowest and highest value of each stretch of rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from culpa._core.types import Floats, Positions
from culpa.columns import Reading
from culpa.explaining.explainer import Explainer
from culpa.monitoring import Incident
from culpa.report.phrases import Labels, Number, number, numbers

_FEWEST, _MOST = 60, 1000  # stretches
_DIGITS = 6


def trends(
    explainer: Explainer,
    reading: Reading,
    names: Sequence[str],
    listed: Sequence[Incident],
    labels: Labels,
    cap: int,
) -> dict[str, Any]:
    """Trends of as many features, called ``names``, as there is room for; those first that moved in incidents.

    Stretches of ``step`` rows begin in the rows ``row``; ``x`` has the places of their middle rows, or is ``None`` where
    these are positions. ``n_left_out`` features have no trend.
    """
    n, d = reading.cells.shape
    per_value = 1 if n <= min(cap // max(d, 1), _MOST) else 2
    stretches = int(np.clip(cap // (per_value * max(d, 1)), _FEWEST, _MOST))
    step = max(-(-n // stretches), 1)
    starts = np.arange(0, n, step)
    shown = _most_moved(names, listed)[: cap // (per_value * len(starts))]
    middle = np.minimum(starts + step // 2, n - 1)
    mean, sd = _normal(explainer, reading.choose(middle))
    return {
        "step": step,
        "row": labels.rows(starts),
        "middle": labels.rows(middle),
        "x": labels.places(middle),
        "label": labels.texts(middle),
        "features": [_trend(k, reading.cells[:, k], starts, mean[:, k], sd[:, k]) for k in sorted(shown)],
        "n_left_out": d - len(shown),
    }


def _most_moved(names: Sequence[str], listed: Sequence[Incident]) -> list[int]:
    """Features by the evidence that they moved, in any incident."""
    evidence = dict.fromkeys(names, 0.0)
    for incident in listed:
        for moved in incident.ranking:
            evidence[moved.feature] = max(evidence[moved.feature], moved.evidence)
    strength = np.array([evidence[name] for name in names])
    return [int(k) for k in np.argsort(-strength, kind="stable")]


def _normal(explainer: Explainer, reading: Reading) -> tuple[Floats, Floats]:
    """Mean and standard deviation of normal rows in place of these, column by column, in the user's units."""
    model = explainer.model
    sd = model.spread
    zeros = np.zeros((len(reading.labels), len(sd)))
    mean = model.to_cells(zeros, reading, explainer.columns)
    above = model.to_cells(zeros + sd, reading, explainer.columns)
    return np.asarray(mean, dtype=np.float64), np.abs(np.asarray(above - mean, dtype=np.float64))


def _trend(feature: int, values: Floats, starts: Positions, mean: Floats, sd: Floats) -> dict[str, Any]:
    """Lowest and highest value of every stretch (``high`` is empty where a stretch is one row).

    ``mean`` and ``sd`` are those of normal rows, one value, or one for each stretch where they depend on the row: on its
    context, or on how many rows were averaged.
    """
    low, high = np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)
    return {
        "feature": feature,
        "low": numbers(low, _DIGITS),
        "high": [] if len(starts) == len(values) else numbers(high, _DIGITS),
        "mean": _one_or_all(mean),
        "sd": _one_or_all(sd),
    }


def _one_or_all(values: Floats) -> list[Number]:
    same = np.isclose(values, values[0], rtol=1e-9, atol=0.0, equal_nan=True).all()
    return [number(values[0], 10)] if same else numbers(values, _DIGITS)
