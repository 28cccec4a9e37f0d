"""model + score + game + engine -> Explanation."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from culpa import games, shapley
from culpa._missing import patterns
from culpa._validation import check_width, default_names, feature_positions, one_of, read_table
from culpa.explanation import Explanation
from culpa.limits import named_score
from culpa.models import Normal, as_normal
from culpa.shapley.base import Players

Floats = NDArray[np.float64]

METHODS = ("auto", "exact", "permutation", "algorithm1")


class Explainer:
    """Explains the scores of a fitted model.

    Parameters
    ----------
    model
        A culpa model, a fitted scikit-learn PCA, IncrementalPCA or FactorAnalysis, a Pipeline of scalers that ends in
        one, or a PCADetector.
    score : {"spe", "mse", "t2", "mahalanobis", "combined"}
        What is explained.
    game : {"conditional", "retraining", "interventional"}
        What a coalition of features is worth.
    method : {"auto", "exact", "permutation", "algorithm1"}
        How worth is shared out. "auto" is exact where that is affordable.
    features : list of names or positions, optional
        Explain the reconstruction error of these features only (with score "spe" or "mse").
    groups : dict of name to list of features, optional
        Features that are blamed together, such as one-hot columns or one subsystem. The others stay on their own.
    n_orders : int, optional
        Number of sampled orders for "permutation" (1024), per feature for "algorithm1" (1000).
    rank : {"components", "share"}
        How many components a retrained PCA keeps (retraining game only).
    seed : int
        Same seed, same numbers.
    progress : callable, optional
        Called with the share of the work done, between 0 and 1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.decomposition import PCA
    >>> X = load_iris().data
    >>> why = Explainer(PCA(2).fit(X)).explain(X[:5])
    >>> why.values.shape, why.exact
    ((5, 4), True)

    References
    ----------
    Takeishi (2019), "Shapley values of reconstruction errors of PCA for explaining anomaly detection".
    """

    def __init__(
        self,
        model: Any,
        score: str = "spe",
        game: str = "conditional",
        method: str = "auto",
        *,
        features: Sequence[str | int] | None = None,
        groups: Mapping[str, Sequence[str | int]] | None = None,
        n_orders: int | None = None,
        rank: Literal["components", "share"] = "components",
        seed: int = 0,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        self.normal: Normal = as_normal(model)
        self.method = one_of(method, METHODS, "method")
        self.game_name = one_of(game, games.NAMES, "game")
        names = self.normal.feature_names or default_names(self.normal.gaussian.n_features)
        chosen = None if features is None else feature_positions(features, names, "features")
        self.score = named_score(score, self.normal, chosen)
        self.groups = None if groups is None else _complete_groups(groups, names)
        self.n_orders = n_orders
        self.rank: Literal["components", "share"] = rank
        self.seed = seed
        self.progress = progress
        if game == "retraining":
            self._check_retraining(score, features)
        if self.method == "exact":
            shapley.check_affordable(self.game, len(self._players))

    def explain(self, X: Any) -> Explanation:
        """Split the score of every row among its features."""
        table = read_table(X, min_rows=0)
        check_width(table, self.normal.gaussian.n_features, self.normal.feature_names)
        rows = self.normal.standardise(table.array)
        n, players = len(rows), self._players
        values, std_error = np.zeros((n, len(players))), np.zeros((n, len(players)))
        score = np.empty(n)
        exact, n_evaluations, n_replicates = True, 0, 0
        for at, observed in patterns(rows):
            if not len(observed):
                _warn_about_empty_rows(table.row_labels()[at])
                values[at], std_error[at], score[at] = np.nan, np.nan, np.nan
                continue
            present = [k for k, player in enumerate(players) if np.isin(player, observed).any()]
            shares = self._share_out(rows[at], [np.intersect1d(players[k], observed).tolist() for k in present])
            values[at[:, None], present] = shares.values
            std_error[at[:, None], present] = shares.std_error
            score[at] = self.game.total(rows[at], observed)
            n_evaluations = max(n_evaluations, shares.n_evaluations)
            n_replicates = max(n_replicates, shares.n_replicates)
            exact = exact and not shares.n_replicates
        expected = self.score.gaussian.expected(rows, None if self.groups is None else players)
        return Explanation(
            values=values,
            std_error=std_error,
            score=score,
            base_value=self.game.base_value,
            data=table.array,
            expected=self.normal.to_user_units(expected),
            score_if_fixed=self.score.if_fixed(rows, expected, players),
            feature_names=self.normal.feature_names or table.feature_names(),
            rows=table.row_labels(),
            groups=self.groups,
            exact=exact,
            n_evaluations=n_evaluations,
            n_replicates=n_replicates,
            score_name=self.score.name,
            game=self.game_name,
            method="exact" if exact else self._sampling_method,
            native=table.native,
        )

    @cached_property
    def game(self) -> games.Game:
        """The game that is played, on standardised rows."""
        if self.game_name == "conditional":
            return games.Conditional(self.score)
        if self.game_name == "interventional":
            return games.Interventional(self.score)
        assert self.normal.sample_covariance is not None
        return games.Retraining(
            self.normal.sample_covariance,
            self.normal.gaussian.n_components,
            mean=self.score.name == "mse",
            rank=self.rank,
        )

    @cached_property
    def _players(self) -> Players:
        if self.groups is None:
            return [[i] for i in range(self.normal.gaussian.n_features)]
        return [list(members) for _, members in self.groups]

    @property
    def _sampling_method(self) -> str:
        return "permutation" if self.method == "auto" else self.method

    def _share_out(self, rows: Floats, players: Players) -> shapley.Shares:
        rows = np.where(np.isnan(rows), 0.0, rows)  # missing features are nobody's members, so any number will do
        how = self.method
        if how == "auto":
            how = "exact" if shapley.affordable(self.game, len(self._players)) else "permutation"
        if how == "exact":
            return shapley.exact(self.game, rows, players, progress=self.progress)
        if how == "algorithm1":
            return shapley.algorithm1(self.game, rows, players, n_orders=self.n_orders or 1000, seed=self.seed)
        return shapley.permutation(
            self.game, rows, players, n_orders=self.n_orders or 1024, seed=self.seed, progress=self.progress
        )

    def _check_retraining(self, score: str, features: object) -> None:
        if score not in ("spe", "mse") or features is not None:
            raise ValueError(
                "game='retraining' explains reconstruction errors of all features: "
                "use score='spe' or 'mse' without features."
            )
        if self.normal.sample_covariance is None:
            raise ValueError(
                "game='retraining' needs the sample covariance, which this model does not keep: "
                "fit culpa.PPCA or culpa.PCADetector instead."
            )


def _complete_groups(
    groups: Mapping[str, Sequence[str | int]], names: Sequence[str]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Groups by position; features in no group become players of their own, in the order of the columns."""
    owner: dict[int, str] = {}
    for group, members in groups.items():
        if not len(members):
            raise ValueError(f"group {group!r} is empty: give it at least one feature or leave it out.")
        for i in feature_positions(members, names, f"group {group!r}"):
            if i in owner:
                raise ValueError(
                    f"feature {names[i]!r} is in the groups {owner[i]!r} and {group!r}: groups must not overlap."
                )
            owner[i] = group
    players: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        if i not in owner and name in groups:
            raise ValueError(f"group {name!r} has the name of a feature outside it: choose another name.")
        players.setdefault(owner.get(i, name), []).append(i)
    return tuple((name, tuple(members)) for name, members in players.items())


def _warn_about_empty_rows(labels: NDArray[Any]) -> None:
    shown = ", ".join(map(str, labels[:5])) + (", ..." if len(labels) > 5 else "")
    warnings.warn(f"{len(labels)} row(s) have no observed feature and get no score: {shown}", UserWarning, stacklevel=3)
