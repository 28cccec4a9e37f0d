"""Write ``reproduction.md`` from the results: no result is typed by hand."""

from collections.abc import Sequence
from importlib.resources import files

import numpy as np

from culpa.paper import sheets
from culpa.paper.checks import Check
from culpa.paper.figures import Figures
from culpa.paper.pages import render
from culpa.paper.published import paper
from culpa.paper.sampling import Spread
from culpa.paper.table1 import Table1
from culpa.paper.table2 import Table2, Triple


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
