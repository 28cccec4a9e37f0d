"""What incidents are worth: how many there are, whether they are false, whom they name first, and what kind they are.

Everything is measured with default settings, on the plant of `make_plant`, on runs of the Tennessee Eastman process, and on
servers with labelled incidents in the order of time.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from culpa import PCADetector
from culpa._core.types import Floats
from culpa.datasets import make_plant
from culpa.fitted import excess_of
from culpa.models.normal_signals import NormalSignals
from culpa.monitoring import Incident
from culpa.monitoring.judged import RowJudge
from culpa.monitoring.signals import Signals
from culpa.monitoring.unit_changes import CONVERSIONS
from culpa.scores.grouping import Grouping, Profiles, Rule
from studies.recorded import load_tennessee_eastman, read_machine

PLANT_FAULTS = ((50, 80), (100, 150), (170, 210), (230, 231), (250, 290), (310, 340))
ONSET = 160  # of the faults of Tennessee Eastman
STEPS = 20  # usual steps of a column within which a frozen reading is to be found
_FAULTS = ("bias", "drift", "noise", "gain")
_SEEDS, _TRIALS = 24, 24


# features next to each disturbance that an engineer would accept first
NEXT_TO = {
    "01": ("A/C feed ratio in stream 4, step", "XMEAS01 XMV03 XMEAS04 XMV04 XMEAS23 XMEAS25"),
    "02": ("B composition in stream 4, step", "XMEAS10 XMV06 XMEAS24 XMEAS30"),
    "04": ("reactor cooling water inlet temperature, step", "XMV10 XMEAS09"),
    "06": ("A feed lost, step", "XMEAS01 XMV03"),
    "07": ("C header pressure loss, step", "XMEAS04 XMV04"),
    "08": (
        "A, B, C composition in stream 4, random",
        "XMEAS23 XMEAS24 XMEAS25 XMEAS29 XMEAS30 XMEAS31 XMEAS16 XMEAS20",
    ),
    "11": ("reactor cooling water inlet temperature, random", "XMV10 XMEAS09"),
    "13": ("reaction kinetics, slow drift", ""),
    "14": ("reactor cooling water valve, sticking", "XMV10 XMEAS09 XMEAS21"),
}


class Figure(NamedTuple):
    """A line of the table: what was measured, what is wanted, and what was found."""

    what: str
    wanted: str
    found: str
    reached: bool


def figures(data: str | os.PathLike[str] | None, machines: Mapping[str, Sequence[str]]) -> Iterator[Figure]:
    """All lines; ``machines`` are the names of servers by folder."""
    yield from _plant_figures()
    tep = load_tennessee_eastman(data)
    detector = PCADetector().fit(pd.DataFrame(tep.normal, columns=list(tep.feature_names)))
    runs = {
        name: list(detector.incidents(pd.DataFrame(rows, columns=list(tep.feature_names))))
        for name, rows in {"normal": tep.normal_later, **tep.faults}.items()
    }
    yield from _run_figures(runs)
    for folder, names in machines.items():
        yield from _event_figures(folder, names, data)
    yield from _frozen_figures(tep.normal, tep.normal_later, machines, data)
    yield from _kind_figures(detector, tep.normal_later, runs, machines, data)
    yield from _unit_figures(detector, tep.normal_later)


def _plant_figures() -> Iterator[Figure]:
    counts, false, faults = [], [], []
    for seed in range(_SEEDS):
        plant = make_plant(seed=seed)
        found = PCADetector().fit(plant.normal).incidents(plant.new)
        wrong = np.asarray(plant.culprits.any(axis=1))
        counts.append(len(found))
        false.append(sum(not bool(np.any(wrong[one.first : one.last + 1])) for one in found))
        faults.append(sum(any(one.first < b and one.last >= a for one in found) for a, b in PLANT_FAULTS))
    told = f"{min(counts)} to {max(counts)}, {np.mean(faults):.2f} faults found"
    yield Figure(
        f"plant, {_SEEDS} seeds: incidents for six faults", "6 to 8", told, 6 <= min(counts) <= max(counts) <= 8
    )
    mean = float(np.mean(false))
    yield Figure("plant: false incidents per run", "at most 0.1", f"{mean:.2f}", mean <= 0.1)


def _run_figures(runs: dict[str, list[Incident]]) -> Iterator[Figure]:
    n = len(runs["normal"])
    yield Figure("Tennessee Eastman, 960 normal rows: incidents", "at most 2", str(n), n <= 2)
    counts = {name: len(found) for name, found in runs.items() if name != "normal"}
    told = ", ".join(f"{name}: {n}" for name, n in counts.items() if n > 1) or "1 each"
    yield Figure("fault runs: incidents of each", "at most 2", told, max(counts.values()) <= 2)
    named = {
        name: one.blamed_first or {each.feature: 1.0 for each in one.onset.culprits}
        for name, found in runs.items()
        for one in found[:1]
    }
    wanted = {name: next_to.split() for name, (_, next_to) in NEXT_TO.items() if next_to and name in named}
    right = [name for name, next_to in wanted.items() if next(iter(named[name]), "") in next_to]
    told = f"{len(right)} of {len(wanted)}"
    yield Figure("fault runs: first named feature next to the disturbance", "all", told, len(right) == len(wanted))
    first = runs["21"][0]
    yield Figure(
        "fault 21: first incident", "XMV04 frozen", f"{' '.join(first.suspects)} {first.kind}",
        (first.kind, first.suspects) == ("frozen", ("XMV04",)),
    )  # fmt: skip
    kind = next(one.kind for one in runs["13"] if one.last >= ONSET)
    yield Figure("fault 13: kind", "process", kind, kind == "process")
    words = [len(one.sentence.split(". ")[0].split()) for found in runs.values() for one in found]
    yield Figure("words in the first sentence", "at most 30", str(max(words)), max(words) <= 30)


def _event_figures(folder: str, names: Sequence[str], data: Any) -> Iterator[Figure]:
    announced: list[bool] = []
    seen: list[bool] = []
    false, n_normal = 0, 0
    for name in names:
        machine = read_machine(folder, name, data)
        stretches = _stretches(PCADetector().fit(machine.normal), machine.new)
        label = np.zeros(len(machine.new), dtype=bool)
        for a, b in zip(machine.start, machine.stop, strict=True):
            label[a:b] = True
            within = [told for rows, told in stretches if ((rows >= a) & (rows < b)).any()]
            announced.append(any(within))
            seen.append(bool(within))
        false += sum(told and not label[int(rows[0]) : int(rows[-1]) + 1].any() for rows, told in stretches)
        n_normal += int((~label).sum())
    events = {"smd": (0.90, 0.95), "asd": (0.75, 0.82)}[folder]
    for what, share, wanted in (("announced", announced, events[0]), ("or unconfirmed", seen, events[1])):
        found = float(np.mean(share))
        yield Figure(
            f"{folder}: events {what}", f"at least {wanted:.2f}", f"{found:.3f} of {len(share)}", found >= wanted
        )
    rate = 1000 * false / n_normal
    yield Figure(f"{folder}: false incidents per 1,000 normal rows", "at most 1.5", f"{rate:.2f}", rate <= 1.5)


def _stretches(detector: PCADetector, new: Floats) -> list[tuple[np.ndarray, bool]]:
    """The flagged rows of each stretch, and whether it is an incident, as `PCADetector.incidents` groups them."""
    fitted = detector.fitted
    judge = RowJudge(fitted)
    judged = judge.judge(fitted.rows(new))
    at, grouping = np.flatnonzero(judged.flagged), Grouping(Rule.of(excess_of(fitted)))
    profiles, excess = np.zeros((len(at), new.shape[1])), judged.excess[at]
    for number, one in judge.in_views.items():
        here = judged.seen.view == number
        profiles[here] = Profiles(one.model)(judged.seen.rows.standard[here])
    rows: dict[int, list[int]] = {}
    told: dict[int, bool] = {}
    for row, y, profile in zip(at.tolist(), excess.tolist(), profiles, strict=True):
        step = grouping.add(row, y, profile)
        for key in step.same:
            rows[step.key] = rows.get(step.key, []) + rows.pop(key)
        rows.setdefault(step.key, []).append(row)
        told[step.key] = step.announced
    return [(np.sort(each), told[key]) for key, each in rows.items()]


def _frozen_figures(
    normal: Floats, later: Floats, machines: Mapping[str, Sequence[str]], data: Any
) -> Iterator[Figure]:
    plant = make_plant(n_new=960, faults=())
    for name, learned, rows in (("tep", normal, later), ("plant", plant.normal, plant.new)):
        signals = Signals(NormalSignals.of(learned))
        found = _frozen(signals, rows, name)
        yield Figure(f"{name}: frozen readings found", "100%", f"{np.mean(found):.1%} of {len(found)}", all(found))
        n = len(signals.look(signals.start(), rows)[1])
        yield Figure(f"{name}: wrong signals in a normal run", "0", str(n), n == 0)
    false = n_rows = 0
    for folder, names in machines.items():
        found = []
        for name in names:
            machine = read_machine(folder, name, data)
            half = len(machine.normal) // 2
            for one, other in (
                (machine.normal[:half], machine.normal[half:]),
                (machine.normal[half:], machine.normal[:half]),
            ):
                signals = Signals(NormalSignals.of(one))
                false += sum(each.until is None for each in signals.look(signals.start(), other)[1])
                n_rows += len(other)
            found += _frozen(signals, machine.normal[:half], name)
        wanted = {"smd": 0.9, "asd": 0.8}[folder]
        share = float(np.mean(found))
        yield Figure(
            f"{folder}: frozen readings found", f"{wanted:.0%}", f"{share:.1%} of {len(found)}", share >= wanted
        )
    rate = 1e5 * false / n_rows
    yield Figure("servers: wrong signals per 100,000 normal rows", "at most 5", f"{rate:.1f}", rate <= 5)


def _frozen(signals: Signals, rows: Floats, name: str) -> list[bool]:
    """Whether readings that freeze are found in time, in each column that moves."""
    rng, result = np.random.default_rng(sum(map(ord, name))), []
    usual = signals.normal.usual
    for j in np.flatnonzero(signals.judged).tolist():
        lasts = int(np.ceil(STEPS * usual[j]))
        if len(rows) < lasts + 240:
            continue
        start = int(rng.integers(200, len(rows) - lasts - 20))
        new = rows[start - 200 : start + lasts + 10].copy()
        new[200:, j] = new[200, j]
        found = signals.look(signals.start(), new)[1]
        result.append(any(one.column == j and one.row <= 200 + lasts for one in found if one.kind != "range"))
    return result


def _kind_figures(
    detector: PCADetector,
    later: Floats,
    runs: dict[str, list[Incident]],
    machines: Mapping[str, Sequence[str]],
    data: Any,
) -> Iterator[Figure]:
    """Sensor faults in normal rows, against disturbances and labelled incidents with three culprits or more."""
    plant = make_plant(n_new=960, faults=())
    sensors = _sensor_kinds(detector, later, 0) + _sensor_kinds(PCADetector().fit(plant.normal), plant.new, 1)
    processes = [found[0].kind for name, found in runs.items() if name not in ("normal", "21")]
    for folder, names in machines.items():
        for name in names[:3]:
            machine = read_machine(folder, name, data)
            server = PCADetector().fit(machine.normal)
            sensors += _sensor_kinds(server, machine.normal[-1500:], 2)[: _TRIALS // 4]
            several = machine.culprits.sum(axis=1) >= 3
            stretches = [
                (int(a), int(b) - 1) for a, b in zip(machine.start[several], machine.stop[several], strict=True)
            ]
            processes += [one.kind for one in server.incidents(machine.new, stretches=stretches)] if stretches else []
    decided = [[kind for kind in kinds if kind != "undecided"] for kinds in (sensors, processes)]
    right = (
        np.mean([kind in ("sensor", "unit", "frozen") for kind in decided[0]]),
        np.mean([kind == "process" for kind in decided[1]]),
    )
    undecided = 1 - sum(map(len, decided)) / (len(sensors) + len(processes))
    of = [len(kinds) for kinds in decided]
    told = f"{np.mean(right):.1%} (sensors {right[0]:.1%} of {of[0]}, process {right[1]:.1%} of {of[1]})"
    yield Figure("sensor or process: decided ones right", "at least 95%", told, bool(np.mean(right) >= 0.95))
    yield Figure("sensor or process: undecided", "at most 20%", f"{undecided:.1%}", undecided <= 0.2)


def _sensor_kinds(detector: PCADetector, rows: Floats, seed: int) -> list[str]:
    """The kinds of incidents of sensors that fail in normal rows, of those that are found."""
    rng, kinds = np.random.default_rng(seed), list[str]()
    names = getattr(detector, "feature_names_in_", None)
    spread = rows.std(axis=0)
    moving = np.flatnonzero(spread > 0)
    for trial in range(_TRIALS):
        j, start = int(rng.choice(moving)), int(rng.integers(150, len(rows) - 100))
        new = rows[start - 150 : start + 60].copy()
        size = rng.choice([-1, 1]) * rng.uniform(1.0, 3.0) * spread[j]
        fault = _FAULTS[trial % len(_FAULTS)]
        if fault == "bias":
            new[150:, j] += size
        elif fault == "drift":
            new[150:, j] += size * np.linspace(0, 2, 60)
        elif fault == "noise":
            new[150:, j] += 1.5 * size * rng.normal(size=60)
        else:
            new[150:, j] += (new[150:, j] - rows[:, j].mean()) * rng.uniform(2, 4)
        table = new if names is None else pd.DataFrame(new, columns=list(names))
        found = [one for one in detector.incidents(table) if one.last >= 150 and one.first >= 145]
        kinds += [one.kind for one in found[:1]]
    return kinds


def _unit_figures(detector: PCADetector, later: Floats) -> Iterator[Figure]:
    plant = make_plant(n_new=960, faults=())
    rng, found, false = np.random.default_rng(0), [], []
    for own, rows in ((detector, later), (PCADetector().fit(plant.normal), plant.new)):
        names = [str(name) for name in getattr(own, "feature_names_in_", [f"x{k}" for k in range(rows.shape[1])])]
        for j, name in enumerate(names):
            one = CONVERSIONS[int(rng.integers(len(CONVERSIONS)))]
            new = rows[:210].copy()
            new[150:, j] = one.factor * new[150:, j] + one.offset
            changed = np.abs(new[150:, j] - rows[150:210, j]).mean() > 3 * rows[:, j].std()
            table = pd.DataFrame(new, columns=names) if hasattr(own, "feature_names_in_") else new
            kinds = [(each.kind, each.suspects[:1]) for each in own.incidents(table) if each.last >= 150]
            if changed:
                found.append(("unit", (name,)) in kinds)
        false += [kind == "unit" for kind in _sensor_kinds(own, rows, 3)]
    share, wrong = float(np.mean(found)), float(np.mean(false))
    yield Figure("unit changed: recognised", "at least 90%", f"{share:.1%} of {len(found)}", share >= 0.9)
    yield Figure("sensor faults called a changed unit", "below 2%", f"{wrong:.1%} of {len(false)}", wrong < 0.02)
