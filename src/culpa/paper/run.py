"""Compute the tables and figures of the paper, and write figures and page, as ``culpa reproduce`` does."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from culpa._core.choices import one_of
from culpa._core.files import write_whole
from culpa.paper import drawing, figures, sheets, table1, table2
from culpa.paper.checks import Check, check_figures, check_table1, check_table2
from culpa.paper.figures import Figure, Figures
from culpa.paper.published import Progress, silent
from culpa.paper.report import report
from culpa.paper.table1 import Table1
from culpa.paper.table2 import Table2

# how to compute each part, how to check it, and about how long it takes, for the progress bar
_PARTS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any], float]] = {
    "table1": (table1.run, check_table1, 12.0),
    "table2": (table2.run, check_table2, 12.0),
    "figures": (figures.run, check_figures, 1.0),
}
PARTS = (*_PARTS, "all")


@dataclass(frozen=True)
class Results:
    """Results of each part, comparisons with expected numbers, and the files written."""

    table1: Table1 | None
    table2: Table2 | None
    figures: Figures | None
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
    """Compute one part of the paper, or all of them; figures and page go to the folder ``output``."""
    one_of(what, PARTS, "part of the paper")
    parts = tuple(_PARTS) if what == "all" else (what,)
    if "figures" in parts:
        drawing.require_matplotlib()
        _make_folder(Path(output) / "figures")
    done: dict[str, Any] = dict.fromkeys(_PARTS)
    checks: list[Check] = []
    for part in parts:
        run, check, _ = _PARTS[part]
        done[part] = run(data, n_seeds=n_seeds, progress=_share_of(progress, part, parts))
        checks += check(done[part])
    return Results(**done, checks=tuple(checks), files=tuple(_write_all(Path(output), done, checks)))


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
    if all(done.values()):
        files.append(write(output / "reproduction.md", report(**done, checks=checks).encode()))
    return files


def _share_of(progress: Progress, part: str, parts: Sequence[str]) -> Progress:
    """Progress of one part as progress of the whole."""
    work = {name: _PARTS[name][2] for name in parts}
    before = sum(work[name] for name in parts[: parts.index(part)])
    return lambda share, doing: progress((before + share * work[part]) / sum(work.values()), doing)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"cannot create the folder {str(folder)!r} ({error.strerror}): choose another --output."
        ) from error
