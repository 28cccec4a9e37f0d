"""Compare results with the expected numbers in ``expected.json``."""

from collections.abc import Iterator
from dataclasses import dataclass

from culpa.paper.figures import Figures
from culpa.paper.published import expected
from culpa.paper.table1 import Table1
from culpa.paper.table2 import Table2

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
        """Whether they agree."""
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
