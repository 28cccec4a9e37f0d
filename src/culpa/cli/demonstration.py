"""`culpa demo`: from fit to report on a real data set that ships with scikit-learn."""

from pathlib import Path

import numpy as np
import pandas as pd
import typer

from culpa.cli.terminal import Screen, say
from culpa.datasets import load_wine_outliers
from culpa.detecting.detector import PCADetector
from culpa.explaining.lines import top_columns
from culpa.fitting.diagnostics import rate_in_words

_NEXT = """
Next, try your own table, with one row per observation and a header. On the command line:

    culpa fit normal.csv -o plant.culpa           # rows that you trust
    culpa explain new.csv -m plant.culpa          # this table, for flagged rows
    culpa report new.csv -m plant.culpa           # a page for your browser

In Python:

    from culpa import PCADetector
    detector = PCADetector().fit(normal)
    detector.explain(new[detector.predict(new) == -1]).top(3)
    detector.report(new).save("report.html")
"""


def run(output: Path) -> None:
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
    say(
        f"culpa demo: {len(train)} normal wines, {train.shape[1]} measurements each; {len(new)} new wines, "
        f"{int(other.sum())} of them from another cultivar.\n"
        f"The model keeps {detector.model_.n_components_} components "
        f"({detector.model_.explained_variance_ratio_.sum():.0%} of the variance). "
        f"Rows with a Mahalanobis distance above {detector.limit_:.2f} (95% limit) are flagged; "
        f"{rate_in_words(detector.fitted)}.\n"
        f"{int(flagged.sum())} wines are flagged, {int(other[flagged].sum())} of them from the other cultivar. "
        f"Shapley values are {'exact' if why.exact else 'sampled'}: "
        f"culpa evaluated {why.n_evaluations:,} coalitions of features.\n"
    )
    screen, top = Screen(), top_columns(why, 2)
    columns = {"wine": top.pop("row"), "distance": top.pop("score"), "limit": [detector.limit_] * len(top["rank"])}
    screen.write(columns | top)
    screen.finish()
    say(_NEXT)
    typer.echo(f"Report with charts and all details: {saved}")
