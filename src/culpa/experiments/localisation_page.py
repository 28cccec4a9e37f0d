"""Write ``localisation.md`` from the numbers of ``localisation.json``: no result is typed by hand."""

import json
import re
from typing import Any

import numpy as np

from culpa._core.choices import FAULT_KINDS
from culpa.calibration.evaluation import MOST_RETRAINED
from culpa.experiments.localisation import MODELS, MOST_FEATURES_OF_MODELS, SIMULTANEOUS_FAULTS
from culpa.experiments.report import to_page
from culpa.experiments.sheets import Sheet, number, to_markdown

Result = dict[str, Any]

WITHIN = 0.03  # of the best criterion, where a calibrated choice counts as good
_DEFAULT, _PLOT, _RBC = "spe, conditional Shapley", "spe, cdc", "spe, rbc"
# Lines of the tables that compare a few criteria: what people use, what the paper proposes, what does well here.
_SHOWN = (
    "z-score",
    _PLOT,
    _RBC,
    "spe, pdc",
    _DEFAULT,
    "spe, minimal Shapley",
    "combined, conditional Shapley",
    "mahalanobis, pdc; shrinkage 0.01",
    "mahalanobis, conditional Shapley; shrinkage 0.01",
    "mahalanobis, rbc; shrinkage 0.01",
    "fault-odds; shrinkage 0.01",
)
_LINES_OF_CARS = 12

_HEAD = """\
# Fault isolation: which criterion finds the faulty features?

This page compares criteria that rank the features of a row. Faults are injected into normal rows, so that the faulty
features (the *culprits*) are known. A good criterion ranks the culprits first. The names of the criteria are
[explained below](#how-to-read-the-names-of-criteria).

`culpa reproduce localisation` writes this page, together with its numbers in [localisation.json](localisation.json).
"""

_NAMES = """\
## How to read the names of criteria

A name has up to three parts: the score, the way to divide the score among the features, and the model. By default the model
is a PCA that explains 95% of the variance. "Shrinkage 0.01" means that the model is the full sample covariance, shrunk
towards its diagonal by 1%. "Noise x10" means ten times the maximum-likelihood noise variance.

- `cdc` is the classical contribution plot. For SPE it is the squared residual. `culpa.ranking.contributions` defines `pdc`,
  `dc`, `rbc` and `relative`, with references. `abc` is left out, because it ranks the features of a row exactly as `rbc`
  does.
- "mahalanobis, rbc" is how much the Mahalanobis distance falls if the feature is left out. To use it, set
  `ranking="leave-one-out"`. "mahalanobis, pdc" is the Shapley value of the Mahalanobis distance in closed form. To use it,
  set `ranking="mahalanobis-shapley"`.
- `fault-odds` are the odds that a feature is at fault, summed over all sets of up to three faulty features. With more
  than 44 features the sets have at most two features, and with more than 172 features only one. The odds assume faults like
  those injected here, with independent errors of about two standard deviations in a few features. They do not cover a fault
  of the whole process that moves many features together. We tuned the size of the errors (2) and the prior odds (0.1) on
  seven of these data sets (cars, wine, vowels, mammography, shuttle, cover, cardio), and did not use the other five
  (ionosphere, musk, satimage-2, wbc and the plant) for this.
- "conditional Shapley" is what `explain` shows. For SPE it is the paper's method. Interventional Shapley values differ from
  `pdc` by a constant per feature.
- "minimal Shapley" is `game="minimal"` with the default locality 0.01. Unknown features take the values near the row that
  make the score smallest. `calibrate` does not try it.
"""


def to_json(result: Result) -> str:
    """JSON with each innermost list or dictionary on one line, so that a diff can be read."""
    text = json.dumps(result, indent=1)
    for innermost in (r"\[[^\[\]{}]*\]", r"\{[^{}]*\}"):
        text = re.sub(innermost, lambda match: " ".join(match.group().split()), text)
    return text + "\n"


def from_json(text: str) -> Result:
    """Inverse of `to_json`."""
    kept: Result = json.loads(text)
    return kept


def page(result: Result) -> str:
    """The whole page."""
    return to_page(
        (
            _HEAD,
            _in_short(result),
            _protocol(result),
            f"## All data sets\n\n{to_markdown(overall_sheet(result))}",
            f"## Calibration, data set by data set\n\n{_calibration(result)}\n\n{to_markdown(sets_sheet(result))}",
            f"## Some criteria, data set by data set\n\n{to_markdown(_by_set(result))}",
            f"## By kind of fault\n\n{to_markdown(_by_fault(result))}",
            _models(result),
            _cars(result),
            _NAMES,
        )
    )


def gaps(result: Result) -> dict[str, float]:
    """Per data set, how far the Hits@1 of the calibrated choice fall short of the best criterion's."""
    return {part["name"]: round(_best(part)[1][0] - _calibrated(part)[0], 4) for part in result["sets"]}


def overall_sheet(result: Result) -> Sheet:
    """Means over data sets of every setting that all of them have, best first."""
    means = sorted(((label, _means(result, label)) for label in _common(result)), key=lambda item: -item[1]["hits1"][0])
    rows = tuple(
        (
            label,
            f"{number(mean['hits1'][0])} ± {number(mean['hits1'][1])}",
            f"{number(mean['hits3'][0])} ± {number(mean['hits3'][1])}",
            f"{mean['rank'][0]:.2f} ± {mean['rank'][1]:.2f}",
        )
        for label, mean in means
    )
    return Sheet(
        f"Mean over {len(result['sets'])} data sets",
        ("criterion", "Hits@1", "Hits@3", "mean rank"),
        rows,
        "± is half the width of a 95% interval. The intervals come from resampling the test rows of each data set. The "
        "line in bold is the paper's method, which is the default of `Explainer` for a PCA. The default of `PCADetector` "
        'is closest to "mahalanobis, conditional Shapley".',
        frozenset(k for k, row in enumerate(rows) if row[0] == _DEFAULT),
    )


def sets_sheet(result: Result) -> Sheet:
    """Best criterion and calibrated choice of every data set."""
    rows = []
    for part in result["sets"]:
        label, best = _best(part)
        rows.append(
            (
                part["name"],
                str(part["features"]),
                f"{part['training']:,}",
                f"{part['trials']:,}",
                label,
                _interval(best),
                part["calibrated"],
                _interval(_calibrated(part)),
                number(gaps(result)[part["name"]]),
            )
        )
    return Sheet(
        "Best criterion and calibrated choice, Hits@1",
        (
            "data set",
            "d",
            "training rows",
            "trials",
            "best criterion",
            "Hits@1",
            "calibrated choice",
            "Hits@1",
            "short of the best",
        ),
        tuple(rows),
        "The best criterion is selected with the same trials that judge it, which favours it. So even an ideal calibrated "
        "choice would look slightly worse.",
    )


def _in_short(result: Result) -> str:
    (winner, first), *_ = [(label, _means(result, label)) for label in _sorted_common(result)]
    plot, rbc, default = (_means(result, label)["hits1"][0] for label in (_PLOT, _RBC, _DEFAULT))
    found = gaps(result)
    others = [name for name in found if name not in ("cars", "plant")]
    close = sum(found[name] <= WITHIN for name in others)
    cars, calibrated = _cars_best(result), result["cars"]["entries"][result["cars"]["calibrated"]]
    return f"""
## In short

- **Best over all data sets.** The criterion "{winner}" ranks a culprit first in {_percent(first["hits1"][0])} of the
  trials. The classical contribution plot (`cdc` of SPE) reaches {_percent(plot)}, reconstruction-based contributions of
  SPE reach {_percent(rbc)}, and the paper's Shapley values of SPE reach {_percent(default)}.
- **You can choose a criterion with the training rows alone.** Inject faults into them, and take the criterion that ranks a
  culprit first most often (Hits@1). On {close} of {len(others)} ODDS data sets, the Hits@1 of this choice on the test
  rows is at most {number(WITHIN, 2)} below that of the best criterion.{_cars_gap(found)}
- **The paper's own trials** (cars, one cell at its maximum or minimum). The best criterion, "{cars[0]}", finds the
  culprit in {_percent(cars[1]["MAX"][0])} (MAX) and {_percent(cars[1]["MIN"][0])} (MIN) of the trials.
  If you inject these two kinds of faults into the training rows, the chosen criterion finds the culprit in
  {_percent(calibrated["MAX"][0])} and {_percent(calibrated["MIN"][0])}.{_mixed_choice(result)}
"""


def _mixed_choice(result: Result) -> str:
    """How the choice for all kinds of faults does in the paper's trials: naming the expected faults pays off."""
    chosen = next((part["calibrated"] for part in result["sets"] if part["name"] == "cars"), None)
    entry = result["cars"]["entries"].get(chosen)
    if entry is None or chosen == result["cars"]["calibrated"]:
        return ""
    shares = f"{_percent(entry['MAX'][0])} and {_percent(entry['MIN'][0])}"
    return f' If you inject all kinds of faults, the choice is "{chosen}", which finds it in {shares}.'


def _cars_gap(found: dict[str, float]) -> str:
    return f" On the cars, the gap is {number(found['cars'])}." if "cars" in found else ""


def _protocol(result: Result) -> str:
    several = ", ".join(map(str, SIMULTANEOUS_FAULTS[:-1]))
    return f"""
## Method

There are {_count(len(result["sets"]))} data sets:

- Cars: the first 300 complete rows train the model. The other 87 get the faults.
- Plant: the simulated plant of `culpa.datasets` without its own faults, with 1,000 training rows and 400 rows for faults.
- ODDS: the ten anomaly detection data sets of the paper's Table II. We shuffle their normal rows and use at most 3,000 of
  them. Two thirds train the model, and the others get the faults.

Each data set gets about {result["trials"]:,} faults. The kinds are {", ".join(FAULT_KINDS[:-1])} and {FAULT_KINDS[-1]}.
Each kind affects {several} or {SIMULTANEOUS_FAULTS[-1]} features at once, equally often. Trials in which no value
changes are dropped.

- **Hits@1** is the share of trials in which the most blamed feature is a culprit.
- **Hits@3** is the share of the culprits that are among the three most blamed features.
- **Mean rank** is the mean position of the culprits. The best possible value is 1, 1.5 and 2 for one, two and three
  culprits.

With several culprits, Hits@3 can be below Hits@1. For Hits@1, it is enough that one culprit is in first position. For
Hits@3, all culprits must be in the first three positions to reach 100%. Features with equal blame share their positions,
so the order of the columns has no effect. Shapley values are exact for up to 13 features, and sampled for more. The
retraining game is only computed for up to {MOST_RETRAINED} features. Intervals come from resampling rows, because trials of
the same row are similar.
"""


def _calibration(result: Result) -> str:
    return f"""\
`culpa.calibration.most_hits` makes the same comparison within the training rows. It splits them into five consecutive
folds and injects faults into each fold. The models of a fold are fitted to the other four folds. It tries the criteria of
the table above, except for "minimal Shapley", and takes the one with the highest Hits@1. A criterion that is not a
Shapley value must win by more than one standard error. On the {_count(len(result["sets"]))} data sets, the
Hits@1 of this choice is at most {number(max(gaps(result).values()))} below that of the best criterion.

This choice compares how features are blamed, not which rows are flagged. `culpa.calibrate` and `culpa calibrate` compare
both, at the same rate of false alarms. They change a detector only if intervals do not overlap (see
[monitoring.md](monitoring.md#calibration)).

If you know which faults to expect, pass them. On the command line, use `--kinds 'maximum,minimum' --at-once 1`. In Python,
use `kinds=` and `at_once=`.
"""


def _count(n: int) -> str:
    return "twelve" if n == 12 else str(n)


def _by_set(result: Result) -> Sheet:
    shown = [*_SHOWN, "spe, retraining Shapley"]
    rows = tuple(
        (label, *(number(part["entries"].get(label, {"hits1": [None]})["hits1"][0]) for part in result["sets"]))
        for label in shown
    )
    return Sheet("Hits@1", ("criterion", *(part["name"] for part in result["sets"])), rows, "All cells are Hits@1.")


def _by_fault(result: Result) -> Sheet:
    faults = (*FAULT_KINDS, *map(str, SIMULTANEOUS_FAULTS))
    rows = tuple(
        (label, *(number(result["breakdown"][label][fault]) for fault in faults))
        for label in _SHOWN
        if label in result["breakdown"]
    )
    columns = ("criterion", *FAULT_KINDS, *(f"{k} feature{'s' * (k > 1)}" for k in SIMULTANEOUS_FAULTS))
    note = (
        "Hits@1, mean over data sets. A trial with several culprits is a hit if the most blamed feature is one of them."
    )
    return Sheet("Hits@1", columns, rows, note)


def _models(result: Result) -> str:
    sets = result["models"]
    if not sets:
        return ""
    rows = []
    for line in MODELS:
        entries = [part["entries"][line] for part in sets]
        mean, half = _mean_of(entries, "hits1")
        rows.append((line, f"{number(mean)} ± {number(half)}", *(number(entry["hits1"][0]) for entry in entries)))
    columns = ("model", "mean", *(part["name"] for part in sets))
    return f"""
## Other models of normal rows

These are the same faults, blamed by `PCADetector(model=...)` with its other parameters at their defaults. Features are
ranked by conditional Shapley values of the Mahalanobis distance, or of the negative log-likelihood where the line says
"nll". The number of components is the one with the highest held-out likelihood. The table has the data sets with at most
{MOST_FEATURES_OF_MODELS} features, because rows in several modes take too long with more.
[distributions.md](distributions.md) describes the models.

{to_markdown(Sheet("Hits@1", columns, tuple(rows), "All cells are Hits@1."))}

{_modes_found(sets)}
"""


def _modes_found(sets: list[Result]) -> str:
    several = [part for part in sets if part["modes"] > 1]
    if not several:
        return "The mixture finds one mode in all of these data sets, where it is the same model as PPCA."
    listed = ", ".join(f"{part['modes']} in {part['name']}" for part in several)
    plain, distance, density = (
        _percent(_mean_of([part["entries"][line] for part in several], "hits1")[0])
        for line in ("ppca", "mixture", "mixture, nll")
    )
    return f"""\
The mixture chooses its number of modes from the training rows. It finds several modes in some data sets ({listed}). In the
others it finds one mode, and is the same model as PPCA. With several modes, a fault often makes a wide mode the most
probable one, and in a wide mode the Mahalanobis distance of the row is small. The negative log-likelihood also
counts how wide the mode is. On the data sets with several modes, PPCA reaches {plain}. The mixture reaches
{distance} with the Mahalanobis distance, and {density} with the negative log-likelihood. To explain the
negative log-likelihood, use `Explainer(detector, score="nll")`."""


def _cars(result: Result) -> str:
    entries = result["cars"]["entries"]
    best = sorted(entries, key=lambda label: -entries[label]["MAX"][0] - entries[label]["MIN"][0])
    shown = best[:_LINES_OF_CARS] + [label for label in best[_LINES_OF_CARS:] if label in _SHOWN]
    rows = tuple(
        (label, *(number(value) for extreme in ("MAX", "MIN") for value in entries[label][extreme])) for label in shown
    )
    chosen = frozenset(k for k, label in enumerate(shown) if label == result["cars"]["calibrated"])
    sheet = Sheet("Cars", ("criterion", "MAX @1", "@3", "MIN @1", "@3"), rows, strong=chosen)
    return f"""
## The paper's trials

These are the trials of the paper's Table I. The model keeps 8 components. One cell of a test car is set to the maximum or
minimum of its feature, with 957 trials each (see [reproduction.md](reproduction.md)). The table shows the {_LINES_OF_CARS}
criteria with the highest Hits@1, summed over MAX and MIN, and some others. The calibrated choice is in bold. It was made
with faults of these two kinds in the 300 training cars.

{to_markdown(sheet)}
"""


def _best(part: Result) -> tuple[str, list[float]]:
    label = max(part["entries"], key=lambda label: part["entries"][label]["hits1"][0])
    return label, part["entries"][label]["hits1"]


def _cars_best(result: Result) -> tuple[str, dict[str, list[float]]]:
    entries = result["cars"]["entries"]
    label = max(entries, key=lambda label: entries[label]["MAX"][0] + entries[label]["MIN"][0])
    return label, entries[label]


def _calibrated(part: Result) -> list[float]:
    return part["entries"][part["calibrated"]]["hits1"]  # type: ignore[no-any-return]


def _common(result: Result) -> list[str]:
    first, *others = (part["entries"] for part in result["sets"])
    return [label for label in first if all(label in entries for entries in others)]


def _sorted_common(result: Result) -> list[str]:
    return sorted(_common(result), key=lambda label: -_means(result, label)["hits1"][0])


def _means(result: Result, label: str) -> dict[str, tuple[float, float]]:
    """Mean over data sets and half its 95% interval, per measure."""
    entries = [part["entries"][label] for part in result["sets"]]
    return {name: _mean_of(entries, name) for name in ("hits1", "hits3", "rank")}


def _mean_of(entries: list[dict[str, list[float]]], measure: str) -> tuple[float, float]:
    """The same of one measure; data sets are independent of each other."""
    each = np.array([entry[measure] for entry in entries])
    return float(each[:, 0].mean()), float(np.sqrt((((each[:, 2] - each[:, 1]) / 2) ** 2).sum()) / len(each))


def _interval(estimate: list[float]) -> str:
    value, low, high = estimate
    return f"{number(value)} ({number(low)}-{number(high)})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"
