"""Who finds the culprits of known incidents? Servers with labelled culprits, and faults of a chemical plant.

**Servers.** Every labelled incident of six servers is a stretch of rows and a set of metrics that explain it. A ranking
gets, for an incident with m culprits, the share of them among its first m features (HitRate@100%) and among its first 1.5 m
(HitRate@150%), and whether its first feature is a culprit (Hits@1). Rankings of rows are also combined to rankings of
incidents, by the maximum over the rows.

**Plant.** In every fault run of the Tennessee Eastman process, the incident that the fault begins is found by the detector,
and the first two culprits of its onset are compared with the features next to the disturbance.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from culpa._core.choices import Criterion
from culpa._core.types import Floats, Mask
from culpa.detecting.detector import PCADetector
from culpa.monitoring import Incident
from culpa.paper.pages import number, percent, table
from culpa.paper.published import Progress, silent
from studies.incident_figures import NEXT_TO, figures
from studies.recorded import SERVERS, Server, load_server, load_tennessee_eastman

MOST_ROWS = 60  # of an incident, for rankings of single rows
_CRITERIA: tuple[Criterion, ...] = ("leave-one-out", "mahalanobis-shapley", "fault-odds", "propagated")

FAULT_STARTS = 160
MACHINES = {
    "smd": [f"machine-{name}" for name in ("1-3", "1-5", "1-7", "2-1", "2-3", "2-5", "2-7", "3-3", "3-5")],
    "asd": [f"machine{name}" for name in SERVERS],
}
MEASURES = ("hit_rate_100", "hit_rate_150", "hits_1")


_SHOWN = {  # names of rankings that read better on the page
    "moved (default)": "`incident.ranking`",
    "Shapley values, default": "Shapley values of the default statistic",
}


def run(
    data: str | os.PathLike[str] | None = None, *, servers: Sequence[str] = SERVERS, progress: Progress = silent
) -> dict[str, Any]:
    """Measure on servers and on all fault runs in the folder ``data``."""
    found: dict[tuple[str, str], list[Floats]] = {}
    chances: list[float] = []
    for done, name in enumerate(servers):
        progress(0.8 * done / len(servers), f"server {name}")
        server = load_server(name, data)
        chances += server.culprits.mean(axis=1).tolist()
        for ranking, by, hits in _server(server):
            found.setdefault((ranking, by), []).append(hits)
    means = {key: np.mean(np.stack(rows), axis=0).tolist() for key, rows in found.items()}
    progress(0.8, "Tennessee Eastman")
    return _rounded(  # type: ignore[no-any-return]
        {
            "n_incidents": len(chances),
            "chance": float(np.mean(chances)),  # share of features that are culprits, which a random ranking gets
            "hits": [
                {"ranking": ranking, "by": by, **dict(zip(MEASURES, three, strict=True))}
                for (ranking, by), three in means.items()
            ],
            "plant": list(_plant(data)),
            "figures": [figure._asdict() for figure in figures(data, MACHINES)],
        }
    )


def shown(found: dict[str, Any]) -> dict[str, Any]:
    """Tables, and the settings that the text names."""
    plant = found["plant"]
    others = [
        (_SHOWN.get(name, name), *(", ".join(_starred(fault["others"][name], fault)) for fault in plant))
        for name in plant[0]["others"]
    ]
    return {
        "columns": ("ranking", "HitRate@100%", "HitRate@150%", "Hits@1"),
        "by_incident": _hit_lines(found, "incident"),
        "by_row": _hit_lines(found, "row"),
        "random_150": min(1.5 * found["chance"], 1),
        "most_rows": MOST_ROWS,
        "figures": [
            (one["what"], one["wanted"], one["found"], "yes" if one["reached"] else "no") for one in found["figures"]
        ],
        "plant": [_plant_line(fault) for fault in plant],
        "others": table(("ranking", *(f"fault {int(fault['fault'])}" for fault in plant)), others),
    }


def is_found(fault: dict[str, Any]) -> bool | None:
    """Whether a feature next to the disturbance is among the first two; ``None`` where there is none."""
    return bool(set(fault["culprits"][:2]) & set(fault["next_to"])) if fault["next_to"] else None


def _hit_lines(found: dict[str, Any], by: str) -> list[list[str]]:
    chosen = sorted((one for one in found["hits"] if one["by"] == by), key=lambda one: -one["hit_rate_100"])
    return [
        [_SHOWN.get(one["ranking"], one["ranking"]), *(number(one[measure]) for measure in MEASURES)] for one in chosen
    ]


def _plant_line(fault: dict[str, Any]) -> list[str]:
    return [
        str(int(fault["fault"])),
        fault["disturbance"],
        str(fault["onset"]),
        fault["extent"],
        fault["kind"],
        percent(fault["explained"], 0),
        ", ".join(_starred(fault["culprits"], fault)),
        {True: "yes", False: "no", None: "none named"}[is_found(fault)],
    ]


def _starred(features: list[str], fault: dict[str, Any]) -> list[str]:
    return [f"{name}*" if name in fault["next_to"] else name for name in features]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 4) if isinstance(value, float) else value


def hit_rate(blame: Floats, culprits: Mask, share: float) -> float:
    """Share of the culprits among the first ``share`` times as many features; ties count in part.

    >>> import numpy as np
    >>> culprits = np.array([True, True, False, False])
    >>> hit_rate(np.array([4.0, 1.0, 3.0, 2.0]), culprits, 1.0), hit_rate(np.array([1.0, 1.0, 1.0, 1.0]), culprits, 1.0)
    (0.5, 0.5)
    """
    m = int(culprits.sum())
    k = min(int(np.ceil(share * m - 1e-9)), len(blame))
    bound = np.sort(blame)[::-1][k - 1]
    slack = 1e-9 * max(float(np.abs(blame).max()), 1e-300)
    above, tied = blame > bound + slack, np.abs(blame - bound) <= slack
    inside = above + tied * (k - above.sum()) / tied.sum()
    return float((inside * culprits).sum() / m)


def hits_first(blame: Floats, culprits: Mask) -> float:
    """Whether the first feature is a culprit; ties count in part."""
    first = blame >= blame.max() - 1e-9 * max(float(np.abs(blame).max()), 1e-300)
    return float(culprits[first].mean())


def _hits(blame: Floats, culprits: Mask) -> Floats:
    return np.array([hit_rate(blame, culprits, 1.0), hit_rate(blame, culprits, 1.5), hits_first(blame, culprits)])


def _server(server: Server) -> Iterator[tuple[str, str, Floats]]:
    detector = PCADetector().fit(server.normal)
    stretches = [(int(a), int(b) - 1) for a, b in zip(server.start, server.stop, strict=True)]
    incidents = detector.incidents(server.new, stretches=stretches)
    by_row = dict(_rankings(detector, server.normal))
    for (first, last), culprits, incident in zip(stretches, server.culprits, incidents, strict=True):
        rows = server.new[first : last + 1]
        yield "moved (default)", "incident", _hits(_evidence(incident, len(culprits)), culprits)
        for name, blame in by_row.items():
            found = np.asarray(blame(rows[:MOST_ROWS] if name in _SLOW else rows), dtype=np.float64)
            yield name, "incident", _hits(found.max(axis=0), culprits)
            each = np.stack([_hits(row, culprits) for row in found[:MOST_ROWS]])
            yield name, "row", each.mean(axis=0)


def _evidence(incident: Incident, d: int) -> Floats:
    """Evidence by feature; those of a table without names are called x0, x1, ..."""
    result = np.zeros(d)
    for one in incident.ranking:
        result[int(one.feature.removeprefix("x"))] = one.evidence
    return result


_SLOW = ("Shapley values of SPE", "Shapley values, default", "fault-odds", "propagated")


def _rankings(detector: PCADetector, normal: Floats) -> Iterator[tuple[str, Callable[[Floats], Floats]]]:
    mean, sd = normal.mean(axis=0), normal.std(axis=0)
    median, spread = np.median(normal, axis=0), np.subtract(*np.quantile(normal, [0.75, 0.25], axis=0)) / 1.349
    yield "z-scores", lambda X: np.abs(X - mean) / np.where(sd > 1e-12, sd, 1.0)
    yield "robust z-scores (median and IQR)", lambda X: np.abs(X - median) / np.where(spread > 1e-12, spread, 1.0)
    by_error = PCADetector(0.95, statistic="spe").fit(normal)
    yield "raw errors", lambda X: by_error.contributions(X, "cdc")
    yield "Shapley values of SPE", lambda X: by_error.explain(X).values
    yield "Shapley values, default", lambda X: detector.explain(X).values
    for criterion in _CRITERIA:
        yield criterion, partial(_contributions, detector, criterion)


def _contributions(detector: PCADetector, criterion: Criterion, X: Floats) -> Floats:
    return np.asarray(detector.contributions(X, criterion))


def _plant(data: str | os.PathLike[str] | None) -> Iterator[dict[str, Any]]:
    """The story of every fault run."""
    plant = load_tennessee_eastman(data)
    names = list(plant.feature_names)
    detector = PCADetector().fit(pd.DataFrame(plant.normal, columns=names))
    by_row = dict(_rankings(PCADetector().fit(plant.normal), plant.normal))
    for fault, (disturbance, next_to) in NEXT_TO.items():
        rows = pd.DataFrame(plant.faults[fault], columns=names)
        found = detector.incidents(rows)
        incident = next(one for one in found if one.last >= FAULT_STARTS and one.n_flagged)
        first = rows[incident.first : incident.first + 3]
        yield {
            "fault": fault,
            "disturbance": disturbance,
            "next_to": next_to.split(),
            "onset": incident.first,
            "kind": incident.kind,
            "extent": incident.extent,
            "explained": incident.explained,
            "culprits": [culprit.feature for culprit in incident.onset.culprits],
            "ranking": [one.feature for one in incident.ranking[:2]],
            "others": {name: _first_two(blame(first.to_numpy()), names) for name, blame in by_row.items()},
            "sentence": incident.sentence,
        }


def _first_two(blame: Floats, names: list[str]) -> list[str]:
    return [names[k] for k in np.argsort(-np.asarray(blame).max(axis=0), kind="stable")[:2]]
