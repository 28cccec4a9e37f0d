"""`culpa demo`: from fit to report on a real data set that ships with scikit-learn."""

from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from culpa.datasets import load_wine_outliers
from culpa.detecting.detector import PCADetector
from culpa.fitting.diagnostics import rate_in_words

_NEXT = """\
Next, try your own table of numbers, with one row per observation:

    from culpa import PCADetector
    detector = PCADetector().fit(normal)   # rows you trust
    strange = new[detector.predict(new) == -1]
    detector.explain(strange).top(3)       # features to blame, expected values
    detector.report(new).save("report.html")
"""


def run(console: Console, output: Path) -> None:
    """Fit normal wines, flag strange ones, name the features to blame, and write the report."""
    wine = load_wine_outliers()
    frame = pd.DataFrame(wine.X, columns=list(wine.feature_names))
    # train on the first normal rows, as the benchmark does; the others and all anomalies are new
    normal = np.flatnonzero(wine.y == 0)
    n_train = len(normal) - int(wine.y.sum())
    train = frame.iloc[normal[:n_train]]
    new = frame.drop(index=train.index).sample(frac=1, random_state=0)  # in random order, not sorted by label
    other = wine.y[new.index] == 1
    new = new.reset_index(drop=True)
    detector = PCADetector(confidence=0.95).fit(train)  # so few rows do not tell where a 99% limit lies
    flagged = detector.predict(new) == -1
    why = detector.explain(new[flagged])

    # first, because the reader of a pipe may stop in the middle, as "head" does
    report = detector.report(new, title="Strange wines: whose fault is it?", source="wines of scikit-learn")
    saved = report.save(output)
    console.print(
        f"[bold]culpa demo[/bold]: {len(train)} normal wines, {train.shape[1]} measurements each; "
        f"{len(new)} new wines, {int(other.sum())} of them from another cultivar.\n"
        f"The model keeps {detector.model_.n_components_} components "
        f"({detector.model_.explained_variance_ratio_.sum():.0%} of the variance). "
        f"Rows with a Mahalanobis distance above {detector.limit_:.2f} (95% limit) are flagged; "
        f"{rate_in_words(detector.fitted)}.\n"
        f"{int(flagged.sum())} wines are flagged, {int(other[flagged].sum())} of them from the other cultivar. "
        f"Shapley values are {'exact' if why.exact else 'sampled'}: "
        f"culpa evaluated {why.n_evaluations:,} coalitions of features.\n"
    )
    console.print(_culprits(why.top(2), dict(zip(why.row_labels, why.score, strict=True)), detector.limit_))
    console.print(
        "share: part of the wine's distance that is due to this measurement. expected: value that the other 12 "
        "measurements imply. if fixed: distance with this measurement at its expected value. A tick means that the alarm "
        "is cleared.\n",
        style="dim",
    )
    console.print(_NEXT, markup=False, highlight=False)
    console.print(f"Report with charts and all details: {saved}", markup=False, highlight=False, soft_wrap=True)


def _culprits(top: pd.DataFrame, scores: dict[int, float], limit: float) -> Table:
    table = Table(title="Whose fault is it?", title_justify="left")
    table.add_column("wine")
    table.add_column("distance", justify="right")
    table.add_column("culprit")
    for heading in ("share", "actual", "expected", "if fixed"):
        table.add_column(heading, justify="right")
    for line in top.itertuples():
        first = line.rank == 1
        fixed = f"{line.score_if_fixed:.2f}"
        table.add_row(
            str(line.row) if first else "",
            f"{scores[line.row]:.2f}" if first else "",
            line.feature,
            f"{line.share:.0%}",
            f"{line.actual:.4g}",
            f"{line.expected:.4g}",
            f"[green]✓ {fixed}[/green]" if line.score_if_fixed <= limit else fixed,
            end_section=not first,
        )
    return table
