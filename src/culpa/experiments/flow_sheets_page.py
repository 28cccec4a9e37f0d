"""Write ``flow-sheets.md`` and ``flow-sheets.json``: how to use a flow sheet, and what it is worth in simulations."""

import json
from dataclasses import asdict

from culpa.experiments.propagation import FAULTS, N_TRAINING, SIZES, Fault, Found, PropagatedFaults
from culpa.experiments.report import to_page
from culpa.experiments.sheets import Sheet, number, to_markdown

_HEAD = """\
# Flow sheets

A fault of the process travels: the feed fails, then the reactor cools down, then the product is off. Shapley values share
the blame among all three, because each of them implies the others. If you know what is upstream of what, pass it, and
causes are blamed before their effects:

```python
import numpy as np
import pandas as pd
from culpa import PCADetector

rng = np.random.default_rng(0)


def plant(n, shock=0.0):
    feed = rng.normal(size=n) + shock
    reactor = 0.9 * feed + 0.5 * rng.normal(size=n)
    product = 0.9 * reactor + 0.5 * rng.normal(size=n)
    return pd.DataFrame({"feed": feed, "reactor": reactor, "product": product})


detector = PCADetector(2, statistic="mahalanobis").fit(plant(500))
row = plant(1, shock=5.0)
for upstream in (None, [("feed", "reactor", "product")]):
    why = detector.explain(row, upstream=upstream)
    print(dict(zip(why.player_names, why.values[0].round(1).tolist())))
print(detector.contributions(row, "propagated").round(1).to_dict("records")[0])
```

    {'feed': 21.2, 'reactor': 10.3, 'product': 5.5}
    {'feed': 36.7, 'reactor': -0.7, 'product': 1.0}
    {'feed': 5.3, 'reactor': -5.3, 'product': -11.0}
"""
_USE = """\
## upstream

`upstream` is a list of chains, causes before effects. `detector.explain`, `detector.incidents`, `detector.report` and
`Explainer` take it.

- A chain has two names or more: `("feed", "reactor", "product")`. Several chains make a network:
  `[("feed", "reactor"), ("steam", "reactor"), ("reactor", "product")]`.
- Relations are transitive. If the reactor's cell is missing in a row, the feed still comes before the product.
- Features that no chain names have no fixed place. They may come before, between or after the others.
- With `groups`, name the groups: `groups={"feed": ["F1", "T1"]}, upstream=[("feed", "reactor")]`. To put all features of
  one stage before all features of the next without blaming them together, use
  `upstream=list(itertools.product(stage_1, stage_2))`.
- Cycles are rejected. So are `given` columns, because they are always known first. If a control loop makes the flow sheet
  cyclic, put the loop into a group, or leave out the weaker relation.

On the command line, only `culpa explain` has `--upstream`. Join names by colons, and separate chains by commas or repeat
the option. No quotes are needed unless a name contains spaces or shell characters. A name may itself contain a colon or a
comma: culpa recognises it if it is the name of a column.

    culpa explain new.csv -m plant.culpa --top 3 --upstream feed:reactor:product,steam:reactor

## What the values mean

A Shapley value is what a feature adds to the score, averaged over all orders in which features become known. With
`upstream`, only orders count in which causes become known before their effects. These are *asymmetric* Shapley values
(Frye, Rowat and Feige 2020). So the feed gets the credit for what it implies about the reactor, and the reactor only for
what is off given the feed.

- Values still add up to the score: `why.values.sum(1) + why.base_value == why.score`. `why.method` is `"asymmetric"`.
- All games, groups and missing cells work as usual. `expected` and `score_if_fixed` do not change.
- Without any relation, the values are the Shapley values.
- Suppose only the reactor's sensor is wrong. The product then does not follow its reading, so the product looks wrong given
  the reactor, and asymmetric values blame it. Use `upstream` for faults of the process, not for faults of sensors.

**A wrong flow sheet misleads.** A reversed one is much worse than none (see the tables below). State only relations that
you are sure of. Even half of the true relations help.

## propagated

`ranking="propagated"` finds where a fault entered without any flow sheet. It needs no more than the correlations of normal
rows. In an order with causes before effects, whitening a row by the Cholesky factor of the covariance recovers the
disturbance that entered at each feature. A fault that entered at one feature leaves one large disturbance there, whatever
else it moved. The right order is unknown, so culpa tries 200 random orders and weights each by how well a single
disturbance explains the row. This follows Li, Chu, Scheller, Gagneur and Maathuis (2024,
[arXiv:2410.12151](https://arxiv.org/abs/2410.12151)), who search for suitable orders instead.

```python
why = detector.explain(row, ranking="propagated")
why.top(1)  # "suspicion" has the log-odds that the fault entered there
```

`culpa.ranking.propagated_together(detector, rows)` does the same for the rows of one incident: the feature is the same in
all rows, and the evidence adds up.

- For: faults that enter at one feature and travel along the normal correlations, and single wrong sensors.
- Against: faults that enter in several places at once, and processes that are far from linear. Use `"fault-odds"` if
  several sensors may be wrong.
- The log-odds compare 'the fault entered here' with 'it entered elsewhere, or there is no fault'. They
  rank features; they are not calibrated probabilities.
"""
_COST = """\
## Exact or sampled

`detector.explainer(upstream=...).chosen` tells what is done.

- Values are exact if the coalitions that the flow sheet allows are few enough: about 300,000 by default
  (`exact_operations`). A chain of 200 features has 201 of them, three stages of ten features 3,070, and 18 features with
  a single relation 196,608. culpa visits each coalition once and weights it by the
  number of orders that pass through it.
- Otherwise culpa samples orders until `tolerance` is met, and `why.std_error` shows the uncertainty. All orders that the
  flow sheet allows are equally likely. They are drawn exactly if the flow sheet consists of stages and
  independent parts, or of parts that are small enough: `Explainer.chosen` then says `counted`. If not, they come from
  random swaps of neighbours, and `Explainer.chosen` says `by random swaps`. This takes seconds to minutes for about 60
  features with an irregular flow sheet.
- For many rows, culpa compiles the explainer as usual.
"""


def to_json(result: PropagatedFaults) -> str:
    """All measurements, for programs and for `from_json`."""
    return json.dumps(asdict(result), indent=1) + "\n"


def from_json(text: str) -> PropagatedFaults:
    """What `to_json` wrote."""
    content = json.loads(text)
    found = [Found(**line | {"fault": Fault(**line["fault"])}) for line in content["found"]]
    return PropagatedFaults(content["n_processes"], tuple(found))


def sheets(result: PropagatedFaults) -> list[Sheet]:
    """Tables for people."""
    return [_sheet(result, fault) for fault in FAULTS]


def page(result: PropagatedFaults) -> str:
    """The whole of flow-sheets.md."""
    measured = [part for sheet in sheets(result) for part in (f"### {sheet.title}", to_markdown(sheet))]
    return to_page([_HEAD, _USE, _in_short(result), *measured, _COST])


def _in_short(result: PropagatedFaults) -> str:
    most, sensor = max(SIZES), FAULTS[-1]

    def first(criterion: str, fault: Fault = FAULTS[0]) -> str:
        return number(result.first(criterion, most, fault), 2)

    return f"""
## What it is worth

`culpa reproduce propagation -o docs` writes this page from the numbers in [flow-sheets.json](flow-sheets.json). It
simulates random linear processes: every feature is a weighted sum of some features upstream and an error of its own. A
detector learns from {N_TRAINING:,} normal rows. Then a shock is added to the error of one feature and travels downstream.
Its size is in standard deviations of that error. The tables show how often a criterion ranks the feature first, and in
brackets among the first three, in {result.n_processes} processes of each size (standard error at most .035). For several
rows together, blame is summed over the rows (for z-scores, their squares), and "propagated" is `propagated_together`. A
wrong sensor adds the same amount to the reading of one feature, and nothing else moves.

In short, with {most} features and a shock of 4 standard deviations:

- Shapley values rank the feature first in {first("Shapley")}, z-scores in {first("z-score")}, and "propagated" in
  {first("propagated")} of the processes.
- With the true flow sheet, asymmetric values do so in {first("asymmetric, true flow sheet")}, with a random half of its
  relations in {first("asymmetric, half of it")}, and with a reversed flow sheet in {first("asymmetric, reversed")}.
- If a sensor is wrong instead, and nothing else moves, the true flow sheet does harm:
  {first("asymmetric, true flow sheet", sensor)} against {first("Shapley", sensor)} of the Shapley values and
  {first("propagated", sensor)} of "propagated".
"""


def _sheet(result: PropagatedFaults, fault: Fault) -> Sheet:
    criteria = list(dict.fromkeys(one.criterion for one in result.found))
    cells = {
        (one.criterion, one.features): f"{number(one.first, 2)} ({number(one.among_three, 2)})"
        for one in result.found
        if one.fault == fault
    }
    what = "A shock" if fault.travels else "A wrong sensor, off by"
    of = " of" if fault.travels else ""
    rows = "one row" if fault.rows == 1 else f"{fault.rows} rows together"
    return Sheet(
        f"{what}{of} {fault.shock:g} standard deviations, {rows}",
        ("criterion", *(f"{d} features" for d in SIZES)),
        tuple((criterion, *(cells[criterion, d] for d in SIZES)) for criterion in criteria),
    )
