"""Write ``limits.md`` and ``limits.json``, the measured false alarms: no result is typed by hand."""

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
_TITLES = {"spe": "SPE", "t2": "T2", "combined": "the combined index"}


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
# False alarms of control limits

This page shows how many false alarms each kind of limit raises. A false alarm is a normal row above the limit. To choose a
limit, see [monitoring.md](monitoring.md#limits), which also describes each kind.

SPE is the reconstruction error, and T2 is the distance from the mean within the principal components (Hotelling's T2). The
combined index is SPE / SPE limit + T2 / T2 limit.

`culpa reproduce limits -o docs` writes this page from the numbers in [limits.json](limits.json).
"""


def _in_short(result: FalseAlarms) -> str:
    def alarms(name: str, kind: str) -> str:
        return _percent(result.source(name).alarms("spe", kind, 0.99))

    def formulas(name: str) -> str:
        return (
            f"{alarms(name, 'jackson-mudholkar')} (Jackson-Mudholkar), {alarms(name, 'box')} (Box), "
            f"{alarms(name, 'imhof')} (Imhof)"
        )

    real = [source for source in result.sources if source.real]
    formula = [rate for source in real if (rate := source.alarms("spe", "jackson-mudholkar", 0.99)) is not None]
    conformal = [rate for source in real if (rate := source.alarms("spe", "conformal", 0.99)) is not None]
    memory = result.source("simulated plant, states with memory")
    clean = {line.trim: line for line in result.trimmed if not line.dirty}
    return f"""
## In short

The percentages are false alarms with the 99% limit of SPE, unless a line names another statistic. The target is 1%.

- **The assumptions are met.** With 1,000 Gaussian training rows: {formulas(_GOOD)}, {alarms(_GOOD, "empirical")}
  (empirical), {alarms(_GOOD, "conformal")} (conformal).
- **One component too few.** {formulas(_FEW)}, {alarms(_FEW, "conformal")} (conformal). The direction of the missing
  component dominates the residuals.
- **Only 100 training rows.** {formulas(_SMALL)}. A model of so few rows has smaller residuals in its training rows than
  in new rows. No formula for SPE corrects for that.
- **Heavy tails.** {formulas(_HEAVY)}, {alarms(_HEAVY, "conformal")} (conformal).
- **Real data.** The {len(real)} data sets are not Gaussian. The Jackson-Mudholkar limit raises {_from_to(formula)} false
  alarms on them. The conformal limit raises {_from_to(conformal)} on the {len(conformal)} data sets that have enough
  rows for it.
- **Rows that depend on earlier rows.** A conformal limit guarantees its rate only if the order of the rows carries no
  information. In the simulated plant, sensors measure hidden states plus noise. The states depend on earlier states,
  but the noise does not depend on earlier noise. SPE measures the noise, and T2 measures the states. The conformal 99%
  limit raises {_percent(memory.alarms("spe", "conformal", 0.99))} false alarms for SPE and
  {_percent(memory.alarms("t2", "conformal", 0.99))} for T2.
- **Trimming clean rows.** Trimming removes the most extreme normal rows, so the limit becomes tighter. With `trim=0.05`,
  the limit falls to {clean[0.05].limit:.2f} of its value without trimming, and false alarms rise from
  {_percent(clean[0.0].alarms)} to {_percent(clean[0.05].alarms)}. With `trim=0.1`, they rise to
  {_percent(clean[0.1].alarms)}.
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
        f"False alarms of {_TITLES[score]} at 95% / 99%",
        ("normal rows", "training rows x features", *KINDS[score]),
        rows,
        "Share of new normal rows above the limit. The targets are 5% / 1%. A dash means that there are too few rows: a "
        "conformal limit needs 19 held-out rows for 95% and 99 for 99%. It holds out 20% of the training rows. Rates are "
        f"means of {result.sources[0].n_runs} runs for simulated rows, and of {result.sources[-1].n_runs} random splits "
        "for real rows.",
    )


def _training(result: FalseAlarms) -> Sheet:
    rows = tuple(
        (f"{rate.n_fit}", f"{rate.confidence:.0%}", _percent(rate.f), _percent(rate.beta)) for rate in result.training
    )
    return Sheet(
        "T2 of the training rows themselves",
        ("rows", "confidence", "above the F limit", "above the Beta limit"),
        rows,
        "Share of the training rows above each limit, with 12 features, 3 components and Gaussian rows. The F limit is "
        "meant for new rows, and the Beta limit for training rows.",
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
        ("abnormal training rows", "trim", "abnormal rows listed", "false alarms", "faults detected", "limit"),
        rows,
        "500 Gaussian training rows, 12 features, 99% limit of SPE (Jackson-Mudholkar). In each abnormal training row, one "
        "feature is off by 6 standard deviations. In each fault to detect, one feature is off by 3 standard deviations. "
        '"Abnormal rows listed" is the share of the abnormal training rows that `abnormal_training_rows_` lists. The last '
        "column is the limit, divided by the limit without abnormal rows and without trimming.",
    )


def _from_to(shares: list[float]) -> str:
    return f"{_percent(min(shares, default=None))} to {_percent(max(shares, default=None))}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def _rounded(value: Any) -> Any:
    """Numbers rounded to significant digits, so that another machine writes the same file."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
