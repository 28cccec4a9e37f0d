"""Random tables through the commands: the answer is that of an independent reading, or one sentence says what is wrong."""

import contextlib
import functools
from dataclasses import dataclass

import numpy as np
import pandas as pd

import culpa
from culpa import PCADetector
from fuzz import binary, delimited, lines
from fuzz.case import NAMES, Unreadable
from fuzz.command import run
from fuzz.damage import damaged
from fuzz.finding import must

KINDS = (*[delimited.draw] * 6, *[lines.draw] * 2, binary.draw_arrow, binary.draw_parquet, binary.draw_excel)
KINDS_WEIGHTS = np.array([*[0.1] * 6, *[0.08] * 2, 0.115, 0.115, 0.01])
COMMANDS = ("score", "fit", "explain", "incidents", "update", "compare", "report")
COMMAND_WEIGHTS = (0.69, 0.14, 0.08, 0.04, 0.02, 0.02, 0.01)
OLD = b"the output of an earlier run"


@dataclass
class Plant:
    """A model, and what it says in Python."""

    path: str
    detector: PCADetector

    def scores(self, X):
        result = np.full(len(X), np.nan)
        some = ~np.isnan(X).all(axis=1)
        if some.any():
            result[some] = -self.detector.score_samples(pd.DataFrame(X[some], columns=NAMES))
        return result


@functools.cache
def plant(folder):
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3)) + [5, -3, 100]
    detector = PCADetector(1, limit="formula").fit(pd.DataFrame(normal, columns=NAMES))
    detector.save(folder / "plant.model")
    return Plant(str(folder / "plant.model"), detector)


def try_table(rng, folder):
    """One random table through one random command; returns what became of it."""
    known = plant(folder)
    for path in folder.iterdir():
        if path.name != "plant.model":
            path.unlink()
    case = KINDS[rng.choice(len(KINDS), p=KINDS_WEIGHTS)](rng)
    if rng.random() < 0.2:
        damage(case, rng)
    path = folder / case.name
    path.write_bytes(case.content)
    command = COMMANDS[rng.choice(len(COMMANDS), p=COMMAND_WEIGHTS)]
    piped = case.may_be_piped and rng.random() < 0.2
    out, force = folder / ("o.html" if command == "report" else "o.model" if command in MODELS else "o.csv"), []
    if command not in ("compare",) and rng.random() < 0.3:
        out.write_bytes(OLD)
        force = ["--force"]
    result = run(words(command, "-" if piped else str(path), known, out, case) + force, case.content if piped else b"")
    clean(result, out, bool(force), folder, command)
    if result.exit_code == 2:
        must(not case.must_be_read or command != "score", f"refused: {result.stderr[:300]}")
        return "refused"
    if piped and "The row is skipped." in result.stderr:  # a pipe is answered before its decimal mark is known
        return "answered but for some rows"
    if command == "score":
        compare_scores(pd.read_csv(out, keep_default_na=False, dtype=str), known, case)
    elif command == "fit":
        compare_model(out, case)
    return "answered"


MODELS = ("fit", "update")


def damage(case, rng):
    case.content, case.witness, case.must_be_read = damaged(case.content, rng), case.witness_of_damage, False
    case.may_be_piped &= case.name.endswith("json")  # rows of a CSV pipe that cannot be read are skipped


def words(command, table, known, out, case):
    target, model = ["-o", str(out)], ["-m", known.path]
    return {
        "score": ["score", table, *model, *target, *(["--id", "id"] if case.ids else [])],
        "fit": ["fit", table, "--columns", ",".join(NAMES), "--limit", "formula", *target],
        "explain": ["explain", table, *model, "--top", "2", *target],
        "incidents": ["incidents", table, *model, *target],
        "update": ["update", known.path, table, *target],
        "compare": ["compare", table, table, *model],
        "report": ["report", table, *model, *target],
    }[command] + case.options


def clean(result, out, forced, folder, command):
    """No traceback, no odd exit code, no half output, nothing left behind."""
    must("Traceback" not in result.stdout + result.stderr, "a traceback")
    must(result.exit_code in (0, 2), f"exit code {result.exit_code}")
    must(not [path for path in folder.iterdir() if path.name.startswith(".")], "a hidden file stays behind")
    if result.exit_code == 2:
        must("Error: " in result.stderr or "Usage: " in result.stderr, "no sentence says what is wrong")
        must("Usage: " not in result.stderr, f"wrong usage: {result.stderr[-300:]}")
        must(out.read_bytes() == OLD if forced else not out.exists(), "an output in spite of an error")
    elif command != "compare":
        must(out.exists() and out.read_bytes() != OLD, "no output")


def witnessed(case):
    """What the witness reads, which culpa has read as well; ``None`` if there is no witness."""
    try:
        return case.witness()
    except Unreadable as error:
        must(False, f"read what cannot be read: {error}")


def compare_scores(table, known, case):
    """The scores and labels are those of the rows that the witness reads."""
    reading = witnessed(case)
    if reading is None:
        return
    must(len(table) == len(reading.X), f"{len(table)} rows instead of {len(reading.X)}")
    if reading.ids is not None and "id" in table:
        must(table["id"].tolist() == reading.ids, "labels of other rows")
    if reading.rows is not None:
        must(table["row"].astype(int).tolist() == reading.rows, "numbers of other rows")
    found = np.array([float(score or "nan") for score in table["score"]])
    with np.errstate(all="ignore"):
        meant = known.scores(reading.X)
    must(np.allclose(found, meant, rtol=1e-9, equal_nan=True), f"scores {found[:5]} instead of {meant[:5]}")


def compare_model(out, case):
    """The model has learned from the rows that the witness reads."""
    reading = witnessed(case)
    if reading is None:
        return
    detector = culpa.load(out)
    must(detector.fitted.ppca.n_samples_ == len(reading.X), f"{detector.fitted.ppca.n_samples_} rows learned")
    complete = ~np.isnan(reading.X).any(axis=0)
    with contextlib.suppress(AttributeError):
        found = detector.fitted.model.centre
        must(np.allclose(found[complete], reading.X.mean(axis=0)[complete], rtol=1e-6, atol=1e-9), "other means")
