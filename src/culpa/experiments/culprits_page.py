"""Write ``culprits.md`` and ``culprits.json``: which rankings find the culprits of real incidents."""

import json
from dataclasses import asdict

from culpa.experiments.culprits import GAP, MIN_LENGTH, MOST_ROWS, Culprits, Hits, PlantFault
from culpa.experiments.report import to_page
from culpa.experiments.sheets import Sheet, number, to_markdown

_HEAD = """\
# Culprits of real incidents

`culpa reproduce culprits` writes this page. It needs two sets of recorded data in the folder that `CULPA_DATA` names:
servers with labelled culprits (`asd/`) and fault runs of the Tennessee Eastman process (`tep/`).

Incidents raise two different questions, and culpa answers both:

- **What moved?** `incident.ranking` lists all features by how far they moved, in units of what normal stretches of rows
  reach. Rows count less the later they come after the onset.
- **What is wrong?** `incident.onset.culprits` names the few features that disagree with all others, with probabilities.
  If no small set of features explains the first rows, the incident is an upset of the whole process. Then culpa names the
  features that moved early and did not return.
"""
_SERVERS = """\
## Servers

{n} incidents of six servers with 19 metrics each; a person marked which metrics explain each incident. All rankings see the
same labelled stretches of rows. There are three measures, each averaged over the incidents. For an incident with m
culprits:

- **HitRate@100%** is the share of the culprits that are among the first m features of the ranking.
- **HitRate@150%** is the share of the culprits that are among the first 1.5 m features.
- **Hits@1** is 1 if the first feature is a culprit, and 0 otherwise.

{chance} of all metrics are culprits on average, so a random order would reach HitRates of about {chance} and {more}.

Rankings of rows are combined by the maximum over the rows of the incident. `incident.ranking` needs no combining.
"""
_BY_ROW = """\
The same rankings by single row, averaged over the first {rows} rows of each incident. Single rows of a long incident often
look normal, so all figures are lower:
"""
_PLANT = """\
## Tennessee Eastman

Eight fault runs of a simulated chemical plant with 52 features. The detector is fitted to the normal run with default
settings. Incidents are found with `gap={gap}` and `min_length={length}`, and the first one after the start of the fault is
shown. "Kind" is `incident.kind`: `"features"` if a few features explain the first rows, and `"upset"` if the process
as a whole moved. The last column says whether one of the first two culprits is a feature next to the disturbance. In this
table and in the last one, a star marks the features next to the disturbance. These are:
"""
_OTHERS = """\
First two features of other rankings, by the maximum over the first three rows of the incident:
"""
_NOTES = """\
## Limits of these measurements

- Two constants of `incident.ranking` were chosen on these incidents: the reach of a feature is measured over 50 stretches
  of the training rows, and the weight of a row falls to 1/e within 50 rows after the onset. Neighbouring values give
  similar figures.
- Fault 1 is found by a narrow margin: in its first rows, other features move. XMEAS01 leads because it stays away from
  normal for hours. While the incident is young, XMEAS16 comes first.
- The labels of the servers list everything that moved. A ranking of what disagrees (fault-odds, leave-one-out) answers
  another question, so its lower figures here do not make it worse.
"""
_SHOWN = {  # names of rankings that read better on the page
    "moved (default)": "`incident.ranking`",
    "Shapley values, default": "Shapley values of the default statistic",
}


def page(found: Culprits) -> str:
    """The page in Markdown."""
    chance = f"{found.chance:.0%}"
    parts = (
        _HEAD,
        _SERVERS.format(n=found.n_incidents, chance=chance, more=f"{min(1.5 * found.chance, 1):.0%}"),
        to_markdown(_hits_sheet(found, "incident")),
        _BY_ROW.format(rows=MOST_ROWS),
        to_markdown(_hits_sheet(found, "row")),
        _PLANT.format(gap=GAP, length=MIN_LENGTH),
        "\n".join(f"- Fault {int(one.fault)}: {_next_to(one)}." for one in found.plant),
        to_markdown(_plant_sheet(found)),
        "The sentences:\n\n" + "\n".join(f"- Fault {int(one.fault)}: {one.sentence}" for one in found.plant),
        _OTHERS,
        to_markdown(_others_sheet(found)),
        _NOTES,
    )
    return to_page(parts)


def sheets(found: Culprits) -> list[Sheet]:
    """The tables, for the terminal."""
    return [_hits_sheet(found, "incident"), _hits_sheet(found, "row"), _plant_sheet(found)]


def to_json(found: Culprits) -> str:
    """All numbers, rounded."""
    return json.dumps(_rounded(asdict(found)), indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Culprits:
    """Inverse of `to_json`."""
    kept = json.loads(text)
    return Culprits(
        kept["n_incidents"],
        kept["chance"],
        [Hits(**one) for one in kept["hits"]],
        [PlantFault(**one) for one in kept["plant"]],
    )


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 4) if isinstance(value, float) else value


def _hits_sheet(found: Culprits, by: str) -> Sheet:
    chosen = sorted((one for one in found.hits if one.by == by), key=lambda one: -one.hit_rate_100)
    rows = tuple(
        (_shown(one.ranking), number(one.hit_rate_100, 3), number(one.hit_rate_150, 3), number(one.hits_1, 3))
        for one in chosen
    )
    return Sheet(f"Culprits found, by {by}", ("ranking", "HitRate@100%", "HitRate@150%", "Hits@1"), rows)


def _plant_sheet(found: Culprits) -> Sheet:
    rows = tuple(
        (
            str(int(one.fault)),
            one.disturbance,
            str(one.onset),
            one.kind,
            f"{one.explained:.0%}",
            ", ".join(_starred(one.culprits, one)),
            {True: "yes", False: "no", None: "none named"}[one.is_found],
        )
        for one in found.plant
    )
    header = ("fault", "disturbance", "first row", "kind", "explained by few", "culprits at the onset", "found")
    return Sheet("Onset of faults of Tennessee Eastman", header, rows)


def _others_sheet(found: Culprits) -> Sheet:
    names = list(found.plant[0].others)
    rows = tuple((_shown(name), *(", ".join(_starred(one.others[name], one)) for one in found.plant)) for name in names)
    return Sheet("Other rankings", ("ranking", *(f"fault {int(one.fault)}" for one in found.plant)), rows)


def _shown(ranking: str) -> str:
    return _SHOWN.get(ranking, ranking)


def _next_to(fault: PlantFault) -> str:
    return ", ".join(fault.next_to) or f"none ({fault.disturbance})"


def _starred(features: list[str], fault: PlantFault) -> list[str]:
    return [f"{name}*" if name in fault.next_to else name for name in features]
