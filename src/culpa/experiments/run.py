"""Run the experiments and write figures and pages, as ``culpa reproduce`` does."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from culpa._core.choices import one_of
from culpa._core.files import write_whole
from culpa.experiments import (
    alarms,
    alarms_page,
    culprits,
    culprits_page,
    drawing,
    false_alarms,
    figures,
    flow_sheets_page,
    limits_page,
    localisation,
    localisation_page,
    propagation,
    sheets,
    table1,
    table2,
)
from culpa.experiments.alarms import AlarmRates
from culpa.experiments.checks import Check, check_figures, check_localisation, check_table1, check_table2
from culpa.experiments.culprits import Culprits
from culpa.experiments.false_alarms import FalseAlarms
from culpa.experiments.figures import Figure, Figures
from culpa.experiments.propagation import PropagatedFaults
from culpa.experiments.published import Progress, silent
from culpa.experiments.report import report
from culpa.experiments.table1 import Table1
from culpa.experiments.table2 import Table2

PAPER = ("table1", "table2", "figures")  # what "all" means
PARTS = (*PAPER, "localisation", "limits", "alarms", "propagation", "culprits", "all")
# how to run each part, how to check it, and about how long it takes, for the progress bar
_EXPERIMENTS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any], float]] = {
    "table1": (table1.run, check_table1, 12.0),
    "table2": (table2.run, check_table2, 12.0),
    "figures": (figures.run, check_figures, 1.0),
    "localisation": (
        lambda data, *, n_seeds, progress: localisation.run(data, progress=progress),
        check_localisation,
        200.0,
    ),
    "limits": (false_alarms.run, lambda found: (), 60.0),
    "alarms": (alarms.run, lambda found: (), 300.0),
    "propagation": (lambda data, *, n_seeds, progress: propagation.run(progress=progress), lambda found: (), 200.0),
    "culprits": (lambda data, *, n_seeds, progress: culprits.run(data, progress=progress), lambda found: (), 40.0),
}
# pages beyond the paper: their file, and the module that writes it
_PAGES: dict[str, tuple[str, Any]] = {
    "localisation": ("localisation", localisation_page),
    "limits": ("limits", limits_page),
    "alarms": ("false-alarms", alarms_page),
    "propagation": ("flow-sheets", flow_sheets_page),
    "culprits": ("culprits", culprits_page),
}


@dataclass(frozen=True)
class Results:
    """Results of each part, comparisons with expected numbers, and the files written."""

    table1: Table1 | None
    table2: Table2 | None
    figures: Figures | None
    localisation: dict[str, Any] | None
    limits: FalseAlarms | None
    alarms: AlarmRates | None
    propagation: PropagatedFaults | None
    culprits: Culprits | None
    checks: tuple[Check, ...]
    files: tuple[Path, ...]

    def sheets(self) -> list[sheets.Sheet]:
        """Tables for people."""
        result = []
        if self.table1:
            result += [sheets.table1_sheet(self.table1), sheets.sweep_sheet(self.table1.sweep)]
        if self.figures:
            result.append(sheets.figures_sheet(self.figures))
        if self.table2:
            result += [sheets.table2_sheet(self.table2), sheets.algorithm1_sheet(self.table2)]
        if self.localisation:
            result += [
                localisation_page.overall_sheet(self.localisation),
                localisation_page.sets_sheet(self.localisation),
            ]
        if self.limits:
            result += limits_page.sheets(self.limits)
        if self.alarms:
            result += alarms_page.sheets(self.alarms)
        if self.propagation:
            result += flow_sheets_page.sheets(self.propagation)
        if self.culprits:
            result += culprits_page.sheets(self.culprits)
        return result

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, strings, lists and dictionaries."""
        result = asdict(self)
        result["checks"] = [asdict(check) | {"holds": check.holds} for check in self.checks]
        result["files"] = [str(path) for path in self.files]
        drawn: Sequence[Figure] = self.figures.figures if self.figures else ()
        for shown, figure in zip((result["figures"] or {}).get("figures", ()), drawn, strict=True):
            shown |= {"error_blames": figure.error_blames, "shapley_blames": figure.shapley_blames}
        return {name: part for name, part in result.items() if part is not None}


def reproduce(
    what: str = "all",
    *,
    data: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] = "culpa-reproduction",
    n_seeds: int = 20,
    progress: Progress = silent,
) -> Results:
    """Run one part, or all parts of the paper; figures and pages go to the folder ``output``."""
    one_of(what, PARTS, "part of the paper")
    parts = PAPER if what == "all" else (what,)
    if "figures" in parts:
        drawing.require_matplotlib()
        _make_folder(Path(output) / "figures")
    if what not in (*PAPER, "all"):
        _make_folder(Path(output))
    done: dict[str, Any] = dict.fromkeys(_EXPERIMENTS)
    checks: list[Check] = []
    for part in parts:
        run, check, _ = _EXPERIMENTS[part]
        done[part] = run(data, n_seeds=n_seeds, progress=_share_of(progress, part, parts))
        checks += check(done[part])
    files = _write_all(Path(output), done, checks)
    return Results(**done, checks=tuple(checks), files=tuple(files))


def write(path: Path, content: bytes) -> Path:
    """Write a file so that it is either complete or untouched."""
    with write_whole(path, force=True) as file:
        file.write(content)
    return path


def _write_all(output: Path, done: dict[str, Any], checks: list[Check]) -> list[Path]:
    files = []
    if done["figures"]:
        for name, content in drawing.draw(done["figures"]).items():
            files.append(write(output / "figures" / name, content))
    if all(done[part] for part in PAPER):
        page = report(done["table1"], done["table2"], done["figures"], checks)
        files.append(write(output / "reproduction.md", page.encode()))
    for part, (name, writer) in _PAGES.items():
        if done[part]:
            kept = writer.to_json(done[part])  # the page shows numbers as they are kept, rounded
            files.append(write(output / f"{name}.json", kept.encode()))
            files.append(write(output / f"{name}.md", writer.page(writer.from_json(kept)).encode()))
    return files


def _share_of(progress: Progress, part: str, parts: Sequence[str]) -> Progress:
    """Progress of one part as progress of the whole."""
    work = {name: _EXPERIMENTS[name][2] for name in parts}
    before = sum(work[name] for name in parts[: parts.index(part)])
    return lambda share, doing: progress((before + share * work[part]) / sum(work.values()), doing)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"cannot create the folder {str(folder)!r} ({error.strerror}): choose another --output."
        ) from error
