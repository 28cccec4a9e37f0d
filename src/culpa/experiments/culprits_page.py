"""Write ``culprits.md`` and ``culprits.json``: which rankings find the culprits of known incidents."""

import json
from dataclasses import asdict

from culpa.experiments.culprits import GAP, MIN_LENGTH, MOST_ROWS, Culprits, Hits, PlantFault
from culpa.experiments.report import to_page
from culpa.experiments.sheets import Sheet, number, to_markdown

_HEAD = """\
# Culprits of known incidents

This page shows how well culpa's rankings find the features behind incidents of servers and of a simulated chemical plant.
The causes of these incidents are known.

`culpa reproduce culprits` writes this page. It needs two data sets in the folder that the environment variable `CULPA_DATA`
points to: servers with labelled culprits (`asd/`) and fault runs of the Tennessee Eastman process (`tep/`).

Incidents raise two different questions, and culpa answers both:

- **What moved?** `incident.ranking` lists all features by how far they moved from their mean. The unit is the feature's
  *reach*, which is how far it usually strays in a stretch of normal rows. Later rows of the incident count less than rows
  near the onset.
- **What is wrong?** `incident.onset.culprits` lists the few features that disagree with all others, each with its
  probability of being faulty. If no small set of features explains the first rows, the incident is an upset of the whole
  process. Then culpa names the features that moved early and did not return.
"""
_SERVERS = """\
## Servers

The data have {n} incidents of six servers with 19 metrics each. A person marked which metrics explain each incident. These
metrics are the culprits. All rankings see the same labelled stretches of rows. There are three measures, each averaged
over the incidents. For an incident with m culprits:

- **HitRate@100%** is the share of the culprits that are among the first m features of the ranking.
- **HitRate@150%** is the share of the culprits that are among the first 1.5 m features.
- **Hits@1** is 1 if the first feature is a culprit, and 0 otherwise.

On average, {chance} of the metrics are culprits of an incident, so a random order would reach HitRates of about {chance}
and {more}.

`incident.ranking` ranks the features of a whole incident. All other rankings judge single rows. For these, the value of a
feature is its maximum over the rows of the incident.
"""
_BY_ROW = """\
The next table ranks the features in each row separately, and averages the measures over the first {rows} rows of each
incident. Single rows of a long incident often look normal, so nearly all figures are lower:
"""
_PLANT = """\
## Tennessee Eastman

Tennessee Eastman is a simulated chemical plant with 52 features. This page uses eight runs with a fault. The detector is
fitted to the normal run with default settings. Incidents are found with `gap={gap}` and `min_length={length}`, and the
first one after the start of the fault is shown. The features *next to the disturbance* are those that an engineer would
accept as the first answer. In the table below:

- "Kind" is `incident.kind`: `"features"` if a few features explain the first rows, and `"upset"` if the process as a whole
  moved.
- "Explained by few" is `incident.explained`. It is the share of the excess score of the first rows that one to three
  features explain.
- "Found" says whether one of the first two culprits is a feature next to the disturbance. For fault 13, no
  feature is known to be next to the disturbance, so the table says "none named".
- A star marks a feature next to the disturbance, here and in the last table of this section.

These features are next to the disturbance:
"""
_OTHERS = """\
For comparison, the next table shows the first two features of other rankings. The value of a feature is its maximum over
the first three rows of the incident:
"""
_NOTES = """\
## Limits of these measurements

- Two constants of `incident.ranking` were chosen on these incidents. The reach of a feature is measured in 50 stretches of
  the training rows, and the weight of a row falls to 1/e within 50 rows after the onset. Similar values give similar
  results.
- Fault 1 is found by a narrow margin, because other features move in its first rows. XMEAS01 comes first only because it
  stays away from normal for hours. Early in the incident, XMEAS16 comes first.
- The labels of the servers answer the first question: they list everything that moved. The rankings fault-odds and
  leave-one-out answer the second question, which features disagree with the others. Their lower results here do not mean
  that they answer it badly.
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
        "culpa describes these incidents as follows. The percentages in these sentences are Shapley values of the culprits "
        'in one row, divided by the score of this row. So they differ from "explained by few":\n\n'
        + "\n".join(f"- Fault {int(one.fault)}: {one.sentence}" for one in found.plant),
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
