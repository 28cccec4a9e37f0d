"""Who finds the feature at which a fault entered? Random linear processes with one shock, with and without a flow sheet.

Every feature is a weighted sum of some features upstream of it and an error of its own, with variance 1. A *shock* is added
to the error of one feature and travels on to all features downstream. A *wrong sensor* adds the same amount to the reading
of one feature and moves nothing else.
"""

import os
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from culpa._core.types import Floats
from culpa.detecting.detector import PCADetector
from culpa.paper.pages import number, table
from culpa.paper.published import Progress, silent
from culpa.ranking import propagated_together

SIZES = {8: 0.3, 12: 0.25, 20: 0.15}  # number of features: probability that one acts on another one downstream
N_PROCESSES = 200
N_TRAINING = 1000
_WEAKEST, _STRONGEST = 0.4, 1.2  # effect of one feature on another

Edges = list[tuple[int, int]]  # upstream, downstream


class Fault(NamedTuple):
    """What happens: in how many rows, how far off in standard deviations of the feature's own error, and what moves."""

    rows: int
    shock: float
    travels: bool


FAULTS = (Fault(1, 4.0, True), Fault(1, 8.0, True), Fault(10, 2.0, True), Fault(1, 4.0, False))


def run(data: str | os.PathLike[str] | None = None, *, progress: Progress = silent) -> dict[str, Any]:
    """Simulate processes of every size; no data are read."""
    ranks: dict[tuple[int, Fault, str], list[int]] = {}
    for done, (d, process) in enumerate(product(SIZES, range(N_PROCESSES))):
        progress(done / (len(SIZES) * N_PROCESSES), f"{d} features")
        rng = np.random.default_rng([d, process])
        for fault, criterion, rank in _ranks(d, rng):
            ranks.setdefault((d, fault, criterion), []).append(rank)
    found = [
        {
            "features": d,
            "fault": fault._asdict(),
            "criterion": criterion,
            "first": float(np.mean(np.array(each) == 0)),
            "among_three": float(np.mean(np.array(each) < 3)),
        }
        for (d, fault, criterion), each in ranks.items()
    ]
    return {"n_processes": N_PROCESSES, "found": found}


def shown(found: dict[str, Any]) -> dict[str, Any]:
    """A table for every fault, and a function that looks up a share."""
    most = max(SIZES)
    return {
        "most": most,
        "n_training": f"{N_TRAINING:,}",
        "first": lambda criterion, fault=FAULTS[0]: number(share(found, criterion, most, fault), 2),
        "sensor": FAULTS[-1],
        "tables": [(_title(fault), _table(found, fault)) for fault in FAULTS],
    }


def share(found: dict[str, Any], criterion: str, features: int, fault: Fault, among: str = "first") -> float:
    """Share of processes in which the criterion ranks the faulty feature first, or among the first three."""
    wanted = {"criterion": criterion, "features": features, "fault": fault._asdict()}
    (one,) = (each for each in found["found"] if wanted.items() <= each.items())
    return one[among]  # type: ignore[no-any-return]


def _title(fault: Fault) -> str:
    what = "A shock of" if fault.travels else "A wrong sensor, off by"
    rows = "one row" if fault.rows == 1 else f"{fault.rows} rows together"
    return f"{what} {fault.shock:g} standard deviations, {rows}"


def _table(found: dict[str, Any], fault: Fault) -> str:
    rows = []
    for criterion in dict.fromkeys(one["criterion"] for one in found["found"]):
        shares = ((share(found, criterion, d, fault, among) for among in ("first", "among_three")) for d in SIZES)
        rows.append((criterion, *(f"{number(first, 2)} ({number(three, 2)})" for first, three in shares)))
    return table(("criterion", *(f"{d} features" for d in SIZES)), rows)


def random_process(d: int, rng: np.random.Generator) -> tuple[Edges, Floats]:
    """Relations of a random process, and the matrix that turns errors (n, d) into rows."""
    order, effects = rng.permutation(d).tolist(), np.zeros((d, d))
    edges: Edges = []
    for k, downstream in enumerate(order):
        for upstream in order[:k]:
            if rng.random() < SIZES[d]:
                effects[upstream, downstream] = rng.choice([-1, 1]) * rng.uniform(_WEAKEST, _STRONGEST)
                edges.append((upstream, downstream))
    return edges, np.asarray(np.linalg.inv(np.eye(d) - effects))


def _ranks(d: int, rng: np.random.Generator) -> Iterator[tuple[Fault, str, int]]:
    """One process: the place of the faulty feature in every ranking of every fault, from 0."""
    edges, mixing = random_process(d, rng)
    normal = rng.normal(size=(N_TRAINING, d)) @ mixing
    # as many components as there can be: the model is the covariance of the training rows
    detector = PCADetector(d - 1, statistic="mahalanobis", limit="formula").fit(normal)
    flow_sheets = {
        "asymmetric, true flow sheet": edges,
        "asymmetric, half of it": [edge for edge in edges if rng.random() < 0.5],
        "asymmetric, reversed": [(downstream, upstream) for upstream, downstream in edges],
    }
    for fault in FAULTS:
        culprit, off = int(rng.integers(d)), fault.shock * rng.choice([-1.0, 1.0])
        errors = rng.normal(size=(fault.rows, d))
        errors[:, culprit] += off if fault.travels else 0.0
        rows = errors @ mixing
        rows[:, culprit] += 0.0 if fault.travels else off
        for criterion, blame in _blames(detector, rows, flow_sheets):
            yield fault, criterion, int((blame > blame[culprit]).sum())


def _blames(detector: PCADetector, rows: Floats, flow_sheets: dict[str, Edges]) -> Iterator[tuple[str, Floats]]:
    """How much each criterion blames each feature for all rows together, (d,)."""
    yield "z-score", (detector.contributions(rows, "z-score") ** 2).sum(axis=0)
    yield "leave-one-out", detector.contributions(rows, "leave-one-out").sum(axis=0)
    yield "fault-odds", detector.contributions(rows, "fault-odds").sum(axis=0)
    yield "Shapley", detector.explain(rows).values.sum(axis=0)
    yield "propagated", propagated_together(detector, rows)
    for name, upstream in flow_sheets.items():
        yield name, detector.explain(rows, upstream=upstream).values.sum(axis=0)
