"""Write ``flow-sheets.md`` and ``flow-sheets.json``: how to use a flow sheet, and what it is worth in simulations."""

import json
from dataclasses import asdict

from culpa.experiments.propagation import FAULTS, N_TRAINING, SIZES, Fault, Found, PropagatedFaults
from culpa.experiments.report import to_page
from culpa.experiments.sheets import Sheet, number, to_markdown

_HEAD = """\
# Flow sheets

A process fault spreads downstream. The feed fails, then the reactor cools down, then the product is off-spec. Shapley
values share the blame among all three, because each of them implies the others. If you know which features are upstream
of which, pass this flow sheet as `upstream`. culpa then blames causes before their effects. If you do not know it,
`"propagated"` estimates at which feature the fault entered:

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

The first line shows ordinary Shapley values. With the flow sheet (second line), nearly all blame goes to the feed. The
third line shows the result of `"propagated"`: the log-odds that the fault entered at each feature.
"""
_USE = """\
## upstream

You can pass `upstream` to `detector.explain`, `detector.incidents`, `detector.report` and `Explainer`. It is a list of
chains. A chain lists names in the direction of flow, causes before effects.

- A chain has two or more names: `("feed", "reactor", "product")`. Several chains make a network:
  `[("feed", "reactor"), ("steam", "reactor"), ("reactor", "product")]`.
- Relations are transitive. If the reactor's cell is missing in a row, the feed still comes before the product.
- Features that are in no chain can have any place in the order. They may come before, between or after the others.
- With `groups`, name the groups: `groups={"feed": ["F1", "T1"]}, upstream=[("feed", "reactor")]`. To put all features of
  one stage before all features of the next without blaming them together, use
  `upstream=list(itertools.product(stage_1, stage_2))`.
- Cycles are rejected. If a control loop makes the flow sheet cyclic, put the loop into a group, or leave out the weaker
  relation.
- Context columns (`given`) are also rejected, because they come before all others anyway.

On the command line, only `culpa explain` has `--upstream`. Join the names of a chain with colons. Separate chains with
commas, or repeat the option. No quotes are needed unless a name contains spaces or shell characters. A name may itself
contain a colon or a comma. culpa recognises it if it is the name of a column.

    culpa explain new.csv -m plant.culpa --top 3 --upstream feed:reactor:product,steam:reactor

## What the values mean

A Shapley value is what a feature adds to the score, averaged over all orders in which features become known. With
`upstream`, the average is only over orders in which causes become known before their effects. The results are *asymmetric*
Shapley values (Frye, Rowat and Feige 2020). They blame the feed for everything that it implies about the reactor. They
blame the reactor only for what the feed does not explain.

- Values still add up to the score: `why.values.sum(1) + why.base_value == why.score`. `why.method` is `"asymmetric"`.
- All games, groups and missing cells work as usual. `expected` and `score_if_fixed` do not change.
- Without any relation, the values are ordinary Shapley values.
- Asymmetric values mislead if a sensor is wrong. Suppose the reactor's sensor is wrong, and the process is fine. Then the
  product does not match the reactor's reading, and asymmetric values move blame to the product. Use `upstream` for faults
  of the process, not for faults of sensors.

**A wrong flow sheet misleads.** A reversed one is much worse than none (see the tables below). State only relations that
you are sure of. Even half of the true relations help.

## propagated

`ranking="propagated"` looks for the feature at which a fault entered. It needs no flow sheet, only the correlations of
normal rows.

Suppose that features are ordered with causes before effects. If you whiten a row with the Cholesky factor of the
covariance in this order, you get the disturbance that entered at each feature. A fault that entered at one feature then
shows up as one large disturbance at that feature, even if it moved many others. The right order is unknown, so culpa tries
200 random orders. It weights each order by how well a single disturbance explains the row. This follows Li, Chu, Scheller,
Gagneur and Maathuis (2024, [arXiv:2410.12151](https://arxiv.org/abs/2410.12151)), who search for suitable orders instead.

```python
why = detector.explain(row, ranking="propagated")
why.top(1)  # the column "suspicion" contains the log-odds that the fault entered there
```

`culpa.ranking.propagated_together(detector, rows)` does the same for all rows of one incident. It assumes that the
fault entered at the same feature in all rows, and adds up the evidence.

- Use `"propagated"` for faults that enter at one feature and travel along the normal correlations, and for single wrong
  sensors.
- Do not use it for faults that enter in several places at once, or for processes that are far from linear. If several
  sensors may be wrong, use `"fault-odds"`.
- The log-odds compare "the fault entered here" with "it entered elsewhere, or there is no fault". Use them to rank
  features. They are not calibrated probabilities.
"""
_COST = """\
## Exact or sampled

`detector.explainer(upstream=...).chosen` shows which method culpa uses.

- By default, values are exact if the flow sheet allows at most about 300,000 coalitions (more with a larger
  `exact_operations`). A coalition is a set of known features. The flow sheet allows it if it contains all causes of its
  features. A chain of 200 features has 201 such coalitions, three stages of ten features have 3,070, and 18 features
  with a single relation have 196,608. culpa visits each coalition once and weights it by the number of orders that pass
  through it.
- Otherwise, culpa samples orders that the flow sheet allows until `tolerance` is met, and `why.std_error` shows the
  uncertainty. culpa first splits the flow sheet into stages that follow each other and into unrelated parts. If all
  parts are small enough, it draws orders directly, all equally likely, and `Explainer.chosen` says `counted`. If not, it
  makes orders by random swaps of neighbouring features, and `Explainer.chosen` says `by random swaps`. This takes
  seconds to minutes for about 60 features with an irregular flow sheet.
- For many rows, culpa compiles the explainer, as it does without a flow sheet. It computes quadratic forms once and uses
  them for all rows.
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
## How well it works

`culpa reproduce propagation -o docs` writes this page from the numbers in [flow-sheets.json](flow-sheets.json). It
simulates random linear processes, {result.n_processes} for each number of features. Every feature is a weighted
sum of some features upstream, plus an error of its own. A detector learns from {N_TRAINING:,} normal rows. Then one of two
faults is simulated:

- A *shock* is added to the error of one feature, and spreads downstream. Its size is in standard deviations of that error.
- A *wrong sensor* is off by the same amount, but no other feature moves.

The tables show the share of processes in which a criterion ranks the faulty feature first. The share in which it is among
the first three is in brackets. The standard error is at most .035. If several rows are judged together, blame is summed
over the rows. For z-scores, the squares are summed, and "propagated" stands for `propagated_together`.

In short, this is the share ranked first with {most} features and a shock of 4 standard deviations:

- **Without a flow sheet**, Shapley values reach {first("Shapley")}, z-scores {first("z-score")} and "propagated"
  {first("propagated")}.
- **With a flow sheet**, asymmetric values reach {first("asymmetric, true flow sheet")} if it is true,
  {first("asymmetric, half of it")} with a random half of its relations, and {first("asymmetric, reversed")} if it is
  reversed.
- **If a sensor is wrong instead**, the true flow sheet does harm. Asymmetric values reach
  {first("asymmetric, true flow sheet", sensor)}, compared with {first("Shapley", sensor)} for Shapley values and
  {first("propagated", sensor)} for "propagated".
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
