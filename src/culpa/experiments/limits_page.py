"""``limits.md`` and ``limits.json``: realised false alarms, written from the measurements; no result is typed."""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from culpa.experiments.false_alarms import CONFIDENCES, KINDS, FalseAlarms, Rate, Source, TrainingRate, Trimmed
from culpa.experiments.report import flow
from culpa.experiments.sheets import Sheet, to_markdown

_SMALL, _GOOD, _FEW = "Gaussian, 100 rows", "Gaussian, 1000 rows", "Gaussian, one component too few"
_HEAVY = "heavy tails (t, 4 degrees of freedom)"
_TITLES = {"spe": "SPE", "t2": "T2", "combined": "combined index"}


def to_json(result: FalseAlarms) -> str:
    """All measurements, for programs and for `from_json`."""
    return json.dumps(_rounded(asdict(result)), indent=1) + "\n"


def from_json(text: str) -> FalseAlarms:
    """What `to_json` wrote."""
    content = json.loads(text)
    sources = [
        Source(**source | {"rates": tuple(Rate(**rate) for rate in source["rates"])}) for source in content["sources"]
    ]
    training = tuple(TrainingRate(**rate) for rate in content["training"])
    return FalseAlarms(tuple(sources), training, tuple(Trimmed(**line) for line in content["trimmed"]))


def sheets(result: FalseAlarms) -> list[Sheet]:
    """Tables for people."""
    return [*(_rates(result, score) for score in KINDS), _training(result), _trimmed(result)]


def page(result: FalseAlarms) -> str:
    """The whole of limits.md."""
    parts = [_HEAD, _in_short(result)]
    for sheet in sheets(result):
        parts += [f"## {sheet.title}", to_markdown(sheet)]
    return "\n\n".join(flow(block) for part in parts for block in re.split(r"\n{2,}", part.strip())) + "\n"


_HEAD = """\
# Limits: realised false alarms

Written by `culpa reproduce limits -o docs`; every number comes from [limits.json](limits.json) beside it.
[monitoring.md](monitoring.md) says which limit to use when.
"""


def _in_short(result: FalseAlarms) -> str:
    def alarms(name: str, kind: str) -> str:
        return _percent(result.source(name).alarms("spe", kind, 0.99))

    def formulas(name: str) -> str:
        return (
            f"{alarms(name, 'jackson-mudholkar')} after Jackson and Mudholkar, {alarms(name, 'box')} after Box, "
            f"{alarms(name, 'imhof')} by the exact distribution (Imhof)"
        )

    real = [source for source in result.sources if source.real]
    formula = [rate for source in real if (rate := source.alarms("spe", "jackson-mudholkar", 0.99)) is not None]
    conformal = [rate for source in real if (rate := source.alarms("spe", "conformal", 0.99)) is not None]
    memory = result.source("simulated plant, states with memory")
    clean = {line.trim: line for line in result.trimmed if not line.dirty}
    return f"""
- False alarms of the 99% limit of SPE where the formulas' assumptions hold (Gaussian rows, 1,000 of them):
  {formulas(_GOOD)}, {alarms(_GOOD, "empirical")} by the quantile of the training rows, {alarms(_GOOD, "conformal")} by the
  conformal limit.
- With one component too few, one direction dominates the residuals: {formulas(_FEW)},
  {alarms(_FEW, "conformal")} conformal.
- With 100 rows, the residuals of the rows to fit are smaller than those of new ones, which no formula for SPE knows:
  {formulas(_SMALL)}.
- With heavy tails: {formulas(_HEAVY)}, {alarms(_HEAVY, "conformal")} conformal.
- On {len(real)} real data sets, whose rows are not Gaussian, the formula of Jackson and Mudholkar raises from
  {_from_to(formula)} false alarms where 1% were asked for; the conformal limit, on the
  {len(conformal)} sets with rows enough for it, from {_from_to(conformal)}.
- The guarantee is for rows that could have come in any order. Rows with memory could not: in the simulated plant,
  conformal 99% limits raise {_percent(memory.alarms("spe", "conformal", 0.99))} false alarms for SPE, whose noise has no
  memory, and {_percent(memory.alarms("t2", "conformal", 0.99))} for T2, whose states have.
- Trimming rows that were clean takes away the largest of the normal ones, and the limit gets tighter: with trim = 0.05 the
  limit is {clean[0.05].limit:.2f} times as large and false alarms go from {_percent(clean[0.0].alarms)} to
  {_percent(clean[0.05].alarms)}, with trim = 0.1 to {_percent(clean[0.1].alarms)}.
"""


def _rates(result: FalseAlarms, score: str) -> Sheet:
    rows = tuple(
        (
            source.name,
            f"{source.n_fit:,} x {source.n_features}",
            *(" / ".join(_percent(source.alarms(score, kind, c)) for c in CONFIDENCES) for kind in KINDS[score]),
        )
        for source in result.sources
    )
    return Sheet(
        f"False alarms of the {_TITLES[score]} at 95% / 99%",
        ("normal rows", "rows to fit x features", *KINDS[score]),
        rows,
        "Share of new normal rows above the limit; 5% / 1% were asked for. A dash: too few rows to hold out (19 for 95%, "
        f"99 for 99%). Simulated rows: mean of {result.sources[0].n_runs} runs; real ones: of "
        f"{result.sources[-1].n_runs} random divisions. Conformal limits hold out 20% of the rows to fit.",
    )


def _training(result: FalseAlarms) -> Sheet:
    rows = tuple(
        (f"{rate.n_fit}", f"{rate.confidence:.0%}", _percent(rate.f), _percent(rate.beta)) for rate in result.training
    )
    return Sheet(
        "T2 of the training rows themselves",
        ("rows", "confidence", "above the F limit", "above the Beta limit"),
        rows,
        "12 sensors, 3 components, Gaussian rows. F is for new rows, Beta for the rows that the model was fitted to.",
    )


def _trimmed(result: FalseAlarms) -> Sheet:
    rows = tuple(
        (
            f"{line.dirty:.0%}",
            f"{line.trim:.2f}",
            "-" if line.found is None else f"{line.found:.0%}",
            _percent(line.alarms),
            f"{line.detected:.0%}",
            f"{line.limit:.2f}",
        )
        for line in result.trimmed
    )
    return Sheet(
        "Dirty training rows",
        ("abnormal training rows", "trim", "of them listed", "false alarms", "faults detected", "limit"),
        rows,
        "500 Gaussian training rows, 12 sensors, 99% limit of SPE. Abnormal training rows have one sensor 6 standard "
        "deviations off, the faults to detect 3. Limit: relative to that of a detector fitted to the clean rows.",
    )


def _from_to(shares: list[float]) -> str:
    return f"{_percent(min(shares, default=None))} to {_percent(max(shares, default=None))}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def _rounded(value: Any) -> Any:
    """Numbers with the digits that mean something, so that another machine writes the same file."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
