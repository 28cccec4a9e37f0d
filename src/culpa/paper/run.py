"""Compute the tables and figures of the paper, compare them with the expected numbers, and write figures and page."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from culpa._core.choices import one_of
from culpa._core.files import write_whole
from culpa.paper import drawing, figures, sheets, table1, table2
from culpa.paper.figures import Figure, Figures
from culpa.paper.pages import render
from culpa.paper.published import Progress, expected, paper, silent
from culpa.paper.sampling import Spread
from culpa.paper.table1 import Table1
from culpa.paper.table2 import Table2, Triple

# Three digits: half a unit of the last digit, and a little more, because one expected number was rounded twice.
THREE_DIGITS = 0.00055


@dataclass(frozen=True)
class Check:
    """One expected number, the one found, and how far apart they may be."""

    what: str
    expected: float
    found: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether the computed numbers agree with the published ones."""
        return abs(self.found - self.expected) <= self.tolerance


def check_table1(result: Table1) -> Iterator[Check]:
    """Every exact row, to three digits."""
    for criterion, settings in expected()["table1"].items():
        row = result.row(criterion)
        for setting, hits in (("MAX", row.max), ("MIN", row.min)):
            for n, value in settings[setting].items():
                found = hits.mean[int(n) - 1]
                assert found is not None
                yield Check(f"Table I, {criterion}, {setting} Hits@{n}", value, found, THREE_DIGITS)


def check_table2(result: Table2) -> Iterator[Check]:
    """Every data set: number of components, and correlations to three digits where exact."""
    table = expected()["table2"]
    for row in result.rows:
        wanted = table[row.name]
        yield Check(f"Table II, {row.name}, components", wanted["p"], row.n_components, 0)
        tolerance = THREE_DIGITS if wanted["exact"] else table["tolerance_where_sampled"]
        for part, value, found in zip(("all", "good", "bad"), wanted["r"], row.r, strict=True):
            yield Check(f"Table II, {row.name}, r_{part}", value, found, tolerance)


def check_figures(result: Figures) -> Iterator[Check]:
    """The culprits of the three figures."""
    for wanted, figure in zip(expected()["figures"], result.figures, strict=True):
        found = {"error_blames": figure.error_blames, "shapley_blames": figure.shapley_blames}
        for name, feature in found.items():
            yield Check(f"Figure {figure.figure}, {name}", wanted[name], feature, 0)


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
        """Tables of the results, as people read them."""
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


def report(table1: Table1, table2: Table2, figures: Figures, checks: Sequence[Check]) -> str:
    """The whole page; its pictures are in the folder ``figures`` beside it."""
    sampled = [row for row in table2.rows if row.algorithm1 is not None]
    printed = np.array([row.paper for row in table2.rows])
    values = {
        "table1": table1,
        "table2": table2,
        "figures": figures,
        "checks": checks,
        "paper": paper(),
        "sheets": sheets,
        "best_noise": max(figures.sweep, key=lambda point: point.max + point.min),
        # how many of the paper's numbers Algorithm 1 covers, as described and with the ends skipped, and of how many
        "inside_plain": sum(inside(row.paper, row.algorithm1) for row in sampled),
        "inside_skipping": sum(inside(row.paper, row.algorithm1_skipping_ends) for row in sampled),
        "numbers": 3 * len(sampled),
        # mean distance of the paper's correlations from the true ones and from those that skip ends
        "distance": np.abs(np.array([row.r for row in table2.rows]) - printed).mean(),
        "distance_skipping": np.abs(np.array([row.skipping_ends for row in table2.rows]) - printed).mean(),
    }
    return render(files("culpa.paper").joinpath("reproduction.md.jinja").read_text(encoding="utf-8"), values)


def inside(printed: Triple, spread: Spread | None) -> int:
    """How many of the paper's numbers lie in the range over seeds; the paper rounds to three digits."""
    if spread is None:
        return 0
    bounds = zip(printed, spread.low, spread.high, strict=True)
    return sum(low - 5e-4 <= value <= high + 5e-4 for value, low, high in bounds)
