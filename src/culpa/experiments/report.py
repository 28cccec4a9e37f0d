"""Write ``reproduction.md`` from the results: no result is typed by hand."""

import re
import textwrap
from collections.abc import Iterable, Iterator

import numpy as np

from culpa.experiments import sheets
from culpa.experiments.checks import Check
from culpa.experiments.figures import Figures
from culpa.experiments.published import paper
from culpa.experiments.sampling import Spread
from culpa.experiments.sheets import number
from culpa.experiments.table1 import Hits, Row, Table1
from culpa.experiments.table2 import Table2, Triple

_HEAD = """\
# The paper, reproduced

This page compares culpa with the paper it builds on: N. Takeishi, *Shapley Values of Reconstruction Errors of PCA for
Explaining Anomaly Detection* ([arXiv:1909.03495](https://arxiv.org/abs/1909.03495)). It repeats every table and figure.
The paper samples Shapley values. culpa computes them exactly, except for the data sets of Table II with many features.

`culpa reproduce all` writes this page. Every number comes from that run or from the paper.
"""


def report(table1: Table1, table2: Table2, figures: Figures, checks: list[Check], pictures: str = "figures") -> str:
    """The whole page; ``pictures`` is the folder of the figures, relative to it."""
    parts = (
        _HEAD,
        _in_short(table1, table2, checks),
        _table1(table1),
        _noise(figures, pictures),
        _figures(figures, pictures),
        _table2(table2),
        _afterword(),
    )
    return to_page(parts)


def to_page(parts: Iterable[str]) -> str:
    """Markdown with its paragraphs wrapped."""
    return "\n\n".join(flow(block) for part in parts for block in _blocks(part)) + "\n"


def _blocks(part: str) -> Iterator[str]:
    """Paragraphs, lists, tables and headings, and code between fences as a whole."""
    for piece in re.split(r"^(```.*?^```)$", part, flags=re.MULTILINE | re.DOTALL):
        if piece.startswith("```"):
            yield piece
        else:
            yield from (block for block in re.split(r"\n{2,}", piece.strip("\n")) if block)


def flow(block: str) -> str:
    """Wrap a paragraph or a list; leave tables, headings, pictures and code alone."""
    if block.startswith(("|", "#", "!", "    ", "```")):
        return block
    items = re.split(r"\n(?=- )", block)
    hang = "  " if block.startswith("- ") else ""
    return "\n".join(
        textwrap.fill(
            " ".join(item.split()), 120, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False
        )
        for item in items
    )


def inside(printed: Triple, spread: Spread | None) -> int:
    """How many of the paper's numbers lie in the range over seeds; the paper rounds to three digits."""
    if spread is None:
        return 0
    bounds = zip(printed, spread.low, spread.high, strict=True)
    return sum(low - 5e-4 <= value <= high + 5e-4 for value, low, high in bounds)


def _in_short(table1: Table1, table2: Table2, checks: list[Check]) -> str:
    exact, printed = table1.row("Shapley, exact"), paper()["table1"]["Shapley"]
    plain, skipping, numbers = _counts(table2)
    best = table1.row("Mahalanobis leave-one-out")
    return f"""
## In short

Hits@n is the share of trials in which the corrupted feature is among the n most blamed ones. One cell is corrupted in each
trial. It is set to the largest (MAX) or smallest (MIN) value of its feature.

- **Reproduced exactly.** The paper's reconstruction errors (first row of Table I) and the culprits in its three figures
  are the same here. {_share(sum(check.holds for check in checks), len(checks))} numbers of an independent prototype agree
  with this run.
- **Mislabelled.** Table I has a row for reconstruction errors and a row for Shapley values. In the first, one number that
  the paper calls Hits@3 is really Hits@2. In the second, both numbers that it calls Hits@3 seem to be Hits@2.
- **Sampling noise.** The paper's Shapley row is a single Monte Carlo run, and such runs vary widely from seed to seed.
- **A bias.** For each feature, the author's published code skips the orders in which that feature comes first or last.
  We ran this variant with {table2.n_seeds} seeds and compared {numbers} numbers of Table II.
  {_share(skipping, numbers)} lie between the
  lowest and the highest result of our runs. Algorithm 1 as described in the paper skips nothing. Only {plain} of the
  numbers lie in the range of its results.
- **What exact values gain.** The corrupted feature gets the most blame in {_percent(exact.max.mean[0])} (MAX) and
  {_percent(exact.min.mean[0])} (MIN) of the trials. The paper reports {_percent(printed["MAX"]["1"])} and
  {_percent(printed["MIN"]["1"])}. Exact values also do not depend on a seed.
- **Where exact values do not win.** If a single cell is wrong, another criterion finds it even more often
  ({_percent(best.max.mean[0])} and {_percent(best.min.mean[0])}). It ranks features by how much the Mahalanobis distance
  falls if the feature is left out. Shapley values answer a different question. They split the error that raised the alarm,
  and they add up to it.
"""


def _table1(result: Table1) -> str:
    return f"""
## Table I: artificial anomalies

The data are 387 cars of 2004 without missing values, with 11 features. The first 300 cars train the model and the last 87
test it. The model keeps 8 principal components. In each of the {result.n_trials} trials, one cell of a test car is replaced
by the largest (MAX) or smallest (MIN) value of that feature among the test cars. Column @n shows how often the corrupted
feature is among the n most blamed ones.

{sheets.to_markdown(sheets.table1_sheet(result))}

A is the matrix of the reconstruction error and C is the model's covariance. "Mahalanobis leave-one-out" is how much the
Mahalanobis distance falls if the feature is left out. "Sample covariance" means that C is the sample covariance, shrunk by
1% towards its diagonal. RBC is the reconstruction-based contribution. "Same share of variance" means that a retrained PCA
keeps this share instead of the number of components. "Ends skipped" means that orders in which the feature comes first or
last are left out (see Table II).

{_error_row(result)}
{_shapley_row(result)}
{_lessons(result)}
"""


def _error_row(result: Table1) -> str:
    ours, printed = result.row("reconstruction error"), paper()["table1"]["reconstruction error"]
    return f"""\
**The error row** is reproduced exactly: {number(ours.max.mean[0])} and {number(ours.max.mean[2])} for MAX,
{number(ours.min.mean[0])} for MIN. One label is wrong. The number that the paper calls MIN Hits@3,
{number(printed["MIN"]["3"])}, equals our Hits@2 ({number(ours.min.mean[1])}).
The true Hits@3 is {number(ours.min.mean[2])}.
"""


def _shapley_row(result: Table1) -> str:
    printed, own = paper()["table1"]["Shapley"], result.row("|Algorithm 1|, Q = 100, orders per trial")
    row, skipping = result.row("|Algorithm 1|, Q = 100"), result.row("|Algorithm 1|, Q = 100, ends skipped")
    return f"""\
**The Shapley row** of the paper comes from sampled values. The paper does not state its number of orders Q. [The author's
code](https://github.com/n-takeishi/pca_shapley) uses 100 by default, draws the orders once
for all rows, shows absolute values, and skips orders in which the feature comes first or last. Such runs give Hits@1 from
{_between(skipping.max, 1)} (MAX) and from {_between(skipping.min, 1)} (MIN) over {result.n_seeds} seeds. With nothing
skipped, the ranges are {_between(row.max, 1)} and {_between(row.min, 1)}. The paper prints {number(printed["MAX"]["1"])}
and {number(printed["MIN"]["1"])}. Its "Hits@3", {number(printed["MAX"]["3"])} and {number(printed["MIN"]["3"])}, match
our Hits@2 ({_between(skipping.max, 2)} and {_between(skipping.min, 2)}). They do not match our Hits@3
({_between(skipping.max, 3)} and {_between(skipping.min, 3)}). So these two numbers also seem to be Hits@2.

In these runs, all trials share the same orders, so a lucky or unlucky draw affects all of them at once. If each trial
draws its own orders, the luck averages out. Then Hits@1 depends little on the seed ({number(own.max.mean[0])} and
{number(own.min.mean[0])}), but it stays below that of the exact values.
"""


def _lessons(result: Table1) -> str:
    exact, absolute = result.row("Shapley, exact"), result.row("|Shapley|, exact")
    many, retrained = result.row("|Algorithm 1|, Q = 1000"), result.row("Shapley, retraining (v1)")
    plain, error = result.row("|x|"), result.row("reconstruction error")
    return f"""\
**What exact values gain.** {_pair("Hits@1 is", exact)} if you rank features by signed values, and
{_pair("", absolute)} if you rank them by absolute values. With Q = 1000, Algorithm 1 still reaches only {_pair("", many)}
on average. Exact values are also cheaper. They take {1 << 11:,} coalition values per row, while a thousand orders for each
of 11 features take {2 * 11 * 1000:,}. A negative value means that the feature made the row look *more* normal, so rank
features by signed values.

**What the paper left open.** If a PCA is retrained for every coalition (the paper's v1), {_pair("Hits@1 is", retrained)}.
That is better than the reconstruction errors, with {_pair("", error)}, and worse than the conditional game (v2 in the
paper). In this experiment, cells are set to extreme values.
So {_pair("Hits@1 is", plain)} even if you rank features by \\|x\\| alone. The experiment therefore favours criteria
that look at one column at a time. Such criteria would miss a fault that stays within the usual range of its column.
"""


def _noise(figures: Figures, pictures: str) -> str:
    sweep = figures.sweep
    least, best = sweep[0], max(sweep, key=lambda point: point.max + point.min)
    ours = next(point for point in sweep if point.factor == 1.0)
    return f"""
### The assumed noise matters

The conditional value function depends on the noise variance of probabilistic PCA. With the maximum-likelihood value,
Hits@1 is {number(ours.max)} (MAX) and {number(ours.min)} (MIN). As the noise approaches zero, it falls to
{number(least.max)} and {number(least.min)}. The best value that we tried, {best.factor:g} times maximum likelihood, gives
{number(best.max)} and {number(best.min)}.

![Hits@1 against the noise variance]({pictures}/noise-variance.png)

{sheets.to_markdown(sheets.sweep_sheet(sweep))}
"""


def _figures(figures: Figures, pictures: str) -> str:
    images = "\n\n".join(
        f"![Figure {figure.figure}: test car {figure.row}, feature {figure.feature}]({pictures}/figure{figure.figure}.png)"
        for figure in figures.figures
    )
    return f"""
## Figures 1-3: three trials

One cell of a test car is set to the maximum of its feature. The corrupted feature is orange. The bars on the right
are exact values. The dots and whiskers show mean and standard deviation of Algorithm 1 with Q = 100 over {figures.n_seeds}
seeds.

{sheets.to_markdown(sheets.figures_sheet(figures))}

{images}

As in the paper, error and Shapley value agree in Figure 1. In Figures 2 and 3 the error points at an innocent feature, and
the Shapley value points at the corrupted one.
"""


def _table2(result: Table2) -> str:
    plain, skipping, numbers = _counts(result)
    distance, distance_skipping = _distances(result)
    exact = [row.n_features for row in result.rows if row.exact]
    return f"""
## Table II: ten anomaly detection data sets

The test rows are every anomaly and an equal number of normal rows, taken from the end of the file. The other normal rows
train the model. The number of components p is the smallest that explains 95% of the training variance. For every feature,
we correlate squared residuals and Shapley values over the test rows. The table shows the median of these correlations over
the features, computed on Fisher's z scale. It has one median for all test rows, one for the normal rows (good) and one for
the anomalous rows (bad).

{sheets.to_markdown(sheets.table2_sheet(result))}

{_wbc(result)}
Our values come from the default settings. They are exact for the {len(exact)} data sets with up to {max(exact)} features.
For the others they are sampled until the relative standard error is 1%.

**Why the paper's numbers are mostly lower.** One reason is sampling noise, which lowers the correlation of the values with
anything else. However, a bias explains the numbers better. [The author's code](https://github.com/n-takeishi/pca_shapley)
skips orders in which the feature comes first or last. More orders do not remove this bias, and the values no longer add up
to the score. With infinitely many orders, the biased values give correlations that differ from the paper's by
{number(distance_skipping)} on average. The correlations of the true Shapley values differ by {number(distance)}. The next
table shows Algorithm 1 with Q = 100 on the {numbers // 3} data sets that are small enough to tabulate all coalition values.

{sheets.to_markdown(sheets.algorithm1_sheet(result))}

Of the {numbers} numbers that the paper prints for these data sets, {plain} lie in the range of Algorithm 1 as described in
the paper, and {skipping} lie in the range of the variant that skips orders in which the feature comes first or last.
"""


def _counts(result: Table2) -> tuple[int, int, int]:
    """How many of the paper's numbers Algorithm 1 covers, as printed and with the ends skipped, and of how many."""
    rows = [row for row in result.rows if row.algorithm1 is not None]
    plain = sum(inside(row.paper, row.algorithm1) for row in rows)
    skipping = sum(inside(row.paper, row.algorithm1_skipping_ends) for row in rows)
    return plain, skipping, 3 * len(rows)


def _wbc(result: Table2) -> str:
    row = next((row for row in result.rows if row.n_rows != row.paper_rows), None)
    if row is None:
        return ""
    return (
        f"The paper prints {row.paper_rows} rows for {row.name}. The file has {row.n_rows}, and only this number is "
        "consistent with the share of anomalies that the source of the data states.\n"
    )


def _afterword() -> str:
    return """
## Run it yourself

    pip install '.[reproduce]'
    culpa reproduce all --data FOLDER      # or table1, table2, figures; --json for programs

`FOLDER` contains `cars04.csv` and `odds/<name>.npz`, or the original files `04cars.dat.txt` and `<name>.mat`. Without
`--data`, culpa downloads the original files and verifies their checksums.
"""


def _distances(result: Table2) -> tuple[float, float]:
    """Mean distance of the paper's correlations from the true ones and from those that skip ends."""
    printed = np.array([row.paper for row in result.rows])
    true = np.array([row.r for row in result.rows])
    skipping = np.array([row.skipping_ends for row in result.rows])
    return float(np.abs(true - printed).mean()), float(np.abs(skipping - printed).mean())


def _between(hits: Hits, n: int) -> str:
    assert hits.low is not None
    assert hits.high is not None
    return f"{number(hits.low[n - 1])} to {number(hits.high[n - 1])}"


def _pair(label: str, row: Row) -> str:
    return f"{label} {number(row.max.mean[0])} (MAX) and {number(row.min.mean[0])} (MIN)".strip()


def _share(k: int, n: int) -> str:
    return f"All {n}" if k == n else f"{k} of the {n}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
