"""Tables for people, on the terminal and in Markdown: cells as plain text."""

from dataclasses import dataclass

from culpa.paper.figures import Figures
from culpa.paper.pages import number, table
from culpa.paper.sampling import Spread
from culpa.paper.table1 import PER_TRIAL_SEEDS, SweepPoint, Table1
from culpa.paper.table2 import Table2, Triple


@dataclass(frozen=True)
class Sheet:
    """A titled table of text; ``strong`` has the positions of lines in bold."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    strong: frozenset[int] = frozenset()

    def to_markdown(self) -> str:
        """The sheet as a Markdown table."""
        text = table(self.columns, self.rows, self.strong)
        return f"{text}\n\n{self.note}" if self.note else text


def table1_sheet(result: Table1) -> Sheet:
    """The sheet for Table I of the paper."""
    rows = tuple((row.criterion, *_hits(row.max), *_hits(row.min)) for row in result.rows)
    return Sheet(
        "Table I: Hits@n, the share of trials whose corrupted feature is among the n most blamed",
        ("criterion", "MAX @1", "@2", "@3", "MIN @1", "@2", "@3"),
        rows,
        f"{result.n_trials} trials per setting. Algorithm 1: mean ± standard deviation over {result.n_seeds} seeds. All "
        f'trials share the same orders. In the lines "orders per trial", each trial has its own ({PER_TRIAL_SEEDS} seeds). '
        "|.| means that features are ranked by absolute value.",
        frozenset(k for k, row in enumerate(result.rows) if row.origin == "paper"),
    )


def sweep_sheet(sweep: tuple[SweepPoint, ...]) -> Sheet:
    """Hits@1 by noise variance."""
    rows = tuple((f"{point.factor:g}", number(point.max), number(point.min)) for point in sweep)
    return Sheet(
        "Noise variance: Hits@1 of the exact Shapley values",
        ("times the maximum-likelihood noise variance", "MAX @1", "MIN @1"),
        rows,
    )


def table2_sheet(result: Table2) -> Sheet:
    """Table II: ours, the paper's, and the values that skip first and last places."""
    rows = tuple(
        (
            row.name,
            str(row.n_features),
            f"{row.n_rows:,}",
            str(row.n_components),
            number(row.auroc),
            "exact" if row.exact else "sampled",
            _triple(row.r, 4 if row.exact else 3),
            _triple(row.paper),
            _triple(row.skipping_ends),
        )
        for row in result.rows
    )
    return Sheet(
        "Table II: median correlation of reconstruction errors and their Shapley values",
        ("data set", "d", "rows", "p", "AUROC", "values", "r all / good / bad", "paper", "ends skipped"),
        rows,
        "AUROC measures how well the reconstruction error detects the anomalies. Sampled values come from the default rule "
        'at 1% relative error. "Ends skipped" shows the limit for infinitely many orders, without those in which the '
        "feature comes first or last.",
    )


def algorithm1_sheet(result: Table2) -> Sheet:
    """Algorithm 1 beside the paper, where all coalitions fit a table."""
    rows = tuple(
        (row.name, _triple(row.paper), _range(row.algorithm1), _range(row.algorithm1_skipping_ends))
        for row in result.rows
        if row.algorithm1 is not None and row.algorithm1_skipping_ends is not None
    )
    return Sheet(
        "Table II by Algorithm 1 with Q = 100 orders: minimum and maximum over seeds",
        ("data set", "paper: r all / good / bad", "as described in the paper", "ends skipped"),
        rows,
        f"{result.n_seeds} seeds. All rows share the same orders.",
    )


def figures_sheet(result: Figures) -> Sheet:
    """Which feature the errors and the Shapley values blame in Figures 1-3."""
    rows = tuple(
        (
            str(figure.figure),
            str(figure.row),
            f"{figure.feature} {figure.feature_names[figure.feature - 1]}",
            f"{figure.error_blames} {figure.feature_names[figure.error_blames - 1]}",
            f"{figure.shapley_blames} {figure.feature_names[figure.shapley_blames - 1]}",
        )
        for figure in result.figures
    )
    columns = ("figure", "test row", "corrupted feature", "largest error", "largest Shapley value")
    return Sheet("Figures 1-3: which feature is blamed", columns, rows)


def _hits(hits: Spread) -> tuple[str, ...]:
    if hits.sd is None:
        return tuple(number(value) for value in hits.mean)
    return tuple(f"{number(mean)}±{number(sd)}" for mean, sd in zip(hits.mean, hits.sd, strict=True))


def _triple(values: Triple, digits: int = 3) -> str:
    return " ".join(number(value, digits) for value in values)


def _range(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    return "  ".join(f"{number(low)}-{number(high)}" for low, high in zip(spread.low, spread.high, strict=True))
