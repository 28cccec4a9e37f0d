"""Table II: how closely do Shapley values follow the reconstruction errors on ten ODDS data sets?

With m_good normal rows and m_bad anomalies, the first m_good - m_bad normal rows in file order train the model. The other
normal rows and all anomalies test it. The PCA keeps the fewest components that explain 95% of the training variance. For
every feature, squared residuals and Shapley values are correlated over the test rows. The median over features is computed
through Fisher's z.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.datasets import ODDS_NAMES, Dataset, load_odds
from culpa.detecting.detector import PCADetector
from culpa.games import Game
from culpa.paper.published import Progress, paper, silent
from culpa.paper.sampling import CoalitionTable, Spread

Triple = tuple[float, float, float]  # all test rows, normal ones, anomalous ones

SHARE = 0.95
N_ORDERS = 100
LARGEST_TABLE = 13  # most features for which the values of all coalitions are tabulated


@dataclass(frozen=True)
class Row:
    """One data set: its size, the model, and the median correlations."""

    name: str
    n_features: int
    n_rows: int
    n_components: int
    auroc: float
    exact: bool
    how: str
    r: Triple
    paper: Triple
    paper_rows: int
    skipping_ends: Triple
    algorithm1: Spread | None
    algorithm1_skipping_ends: Spread | None


@dataclass(frozen=True)
class Table2:
    """All rows, and how many seeds are behind the sampled columns."""

    rows: tuple[Row, ...]
    n_seeds: int

    def row(self, name: str) -> Row:
        """The line of one data set."""
        return next(row for row in self.rows if row.name == name)


@dataclass(frozen=True)
class _Test:
    """Test rows as the model sees them, their squared residuals and labels."""

    rows: Floats
    residuals: Floats
    labels: NDArray[np.int64]

    def correlations(self, values: Floats) -> Triple:
        """Median correlation of squared residuals and ``values`` over all, normal and anomalous rows."""
        every_row = np.ones(len(self.labels), dtype=np.bool_)
        parts = (every_row, self.labels == 0, self.labels == 1)
        r_all, r_good, r_bad = (median_correlation(self.residuals[part], values[part]) for part in parts)
        return r_all, r_good, r_bad


def run(
    data: str | os.PathLike[str] | None = None,
    *,
    names: Sequence[str] = ODDS_NAMES,
    n_seeds: int = 20,
    progress: Progress = silent,
) -> Table2:
    """Compute the table, or some of its lines."""
    rows = []
    for done, name in enumerate(names):
        progress(done / len(names), f"Table II: {name}")
        rows.append(_row(name, load_odds(name, data), n_seeds))
    progress(1.0, "Table II")
    return Table2(tuple(rows), n_seeds)


def split(dataset: Dataset) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Training rows, test rows, and the labels of the test rows."""
    normal = np.flatnonzero(dataset.y == 0)
    train = np.zeros(len(dataset.y), dtype=np.bool_)
    train[normal[: len(normal) - int(dataset.y.sum())]] = True
    return dataset.X[train], dataset.X[~train], dataset.y[~train]


def median_correlation(first: Floats, second: Floats) -> float:
    """Median over columns of the correlation of two tables; columns that do not vary are left out."""
    first, second = first - first.mean(axis=0), second - second.mean(axis=0)
    spread = np.sqrt((first**2).sum(axis=0)), np.sqrt((second**2).sum(axis=0))
    # a column that is constant up to rounding is constant
    varies = (spread[0] > 1e-9 * spread[0].max()) & (spread[1] > 1e-9 * spread[1].max())
    r = (first * second).sum(axis=0)[varies] / (spread[0] * spread[1])[varies]
    return float(np.tanh(np.median(np.arctanh(r))))


def without_ends(game: Game, rows: Floats, values: Floats) -> Floats:
    """Shapley values without the orders in which the feature comes first or last.

    d phi_i is the sum, over the d places that feature i can have, of its mean change of value. Two places are taken away.
    """
    d = game.n_features
    every_feature = np.arange(d)
    total = game.total(rows, every_feature)
    result = d * values - total[:, None] + game.base_value
    for i in range(d):
        result[:, i] += game.value(rows, np.delete(every_feature, i)) - game.value(rows, every_feature[i : i + 1])
    return result / (d - 2)


def _row(name: str, dataset: Dataset, n_seeds: int) -> Row:
    from sklearn.metrics import roc_auc_score

    train, rows, labels = split(dataset)
    detector = PCADetector(SHARE, statistic="mse", limit="formula").fit(train)
    explainer = detector.explainer()
    why = explainer.explain(rows)
    standardised = detector.fitted.deciding_model.standardise(rows)
    test = _Test(standardised, detector.fitted.deciding_model.gaussian.residuals(standardised) ** 2, labels)
    printed = paper()["table2"][name]
    as_printed, skipping_ends = _algorithm1(explainer.game, test, n_seeds)
    return Row(
        name=name,
        n_features=dataset.X.shape[1],
        n_rows=len(dataset.X),
        n_components=detector.fitted.n_components,
        auroc=float(roc_auc_score(labels, why.score)),
        exact=why.exact,
        how=explainer.chosen,
        r=test.correlations(why.values),
        paper=tuple(printed["r"]),
        paper_rows=printed["rows"],
        skipping_ends=test.correlations(without_ends(explainer.game, standardised, why.values)),
        algorithm1=as_printed,
        algorithm1_skipping_ends=skipping_ends,
    )


def _algorithm1(game: Game, test: _Test, n_seeds: int) -> tuple[Spread | None, Spread | None]:
    """Algorithm 1 over seeds, as printed and with the ends skipped; ``None`` where a table would be too large."""
    if game.n_features > LARGEST_TABLE:
        return None, None
    table = CoalitionTable(game, test.rows)
    plain, skipping = (
        Spread.over_seeds(
            [test.correlations(run) for run in table.algorithm1(N_ORDERS, range(n_seeds), skip_ends=skip)]
        )
        for skip in (False, True)
    )
    return plain, skipping
