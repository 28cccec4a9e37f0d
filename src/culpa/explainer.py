"""model + score + game + engine -> Explanation."""

import threading
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from culpa import games, shapley
from culpa._core.choices import GameName, Method, Ranking, RetrainingRank, ScoreName
from culpa._core.missing import patterns, warn_about_empty_rows
from culpa._core.parameters import EXACT_OPERATIONS, EXPLAINER, documented, known_keywords
from culpa._core.threads import one_blas_thread
from culpa._core.types import Floats
from culpa._core.validation import default_names, feature_positions
from culpa.columns import Columns, Opened, Reading
from culpa.explanation import Explanation
from culpa.models import FittedModel, as_fitted_model
from culpa.models.latent import shrunk
from culpa.ranking import contributions
from culpa.scores import QuadraticScore
from culpa.scores.by_name import named_score
from culpa.shapley import Players, Progress, QuadraticForms, Rule, Shares, plan

_ROWS_PER_CHUNK = 1 << 16  # rows explained at a time, so that memory beyond the result does not grow with their number
_REFERENCE_ROWS = 48
_ALGORITHM1_ORDERS = 1000  # per feature


@documented(EXPLAINER)
class Explainer:
    """Explains the scores of a fitted model.

    Parameters
    ----------
    model
        A culpa model, a fitted scikit-learn PCA, IncrementalPCA or FactorAnalysis, a PCADetector, or a Pipeline that ends
        in one. What goes into a Pipeline is blamed: columns as they were before one-hot encoding, scaling or lags.
    {parameters}

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.decomposition import PCA
    >>> X = load_iris().data
    >>> explainer = Explainer(PCA(2).fit(X))
    >>> explainer.chosen
    'exact: 16 coalitions of 4 players'
    >>> explainer.explain(X[:5]).values.shape
    (5, 4)

    References
    ----------
    Takeishi (2019), "Shapley values of reconstruction errors of PCA for explaining anomaly detection".
    """

    @known_keywords
    def __init__(
        self,
        model: Any,
        score: ScoreName | QuadraticScore | None = None,
        game: GameName = "conditional",
        method: Method = "auto",
        *,
        ranking: Ranking = "shapley",
        features: Sequence[str | int] | None = None,
        groups: Mapping[str, Sequence[str | int]] | None = None,
        tolerance: float = 0.01,
        max_coalitions: int | None = None,
        n_orders: int | None = None,
        exact_operations: float = EXACT_OPERATIONS,
        memory_bytes: float = 5e8,
        retraining_rank: RetrainingRank = "components",
        seed: int | None = None,
        n_jobs: int | None = -1,
        progress: Progress | None = None,
        statistic: ScoreName | None = None,
        random_state: int | None = None,
    ) -> None:
        self.seed: int = EXPLAINER["seed"].either(seed, random_state)
        self.method, self.game_name, self.ranking = method, game, ranking
        self.tolerance, self.max_coalitions, self.n_orders = tolerance, max_coalitions, n_orders
        self.exact_operations, self.memory_bytes = exact_operations, memory_bytes
        self.retraining_rank: RetrainingRank = retraining_rank
        self.n_jobs, self.progress = n_jobs, progress
        own = {name: value for name, value in vars(self).items() if name in EXPLAINER}
        EXPLAINER.check(own | {"game": game, "features": features, "groups": groups})
        self.normal: FittedModel = as_fitted_model(model)
        self.columns = _columns(self.normal, features, groups)
        names = self.columns.names
        chosen = None if features is None else feature_positions(features, names, "features")
        self.score = named_score(
            EXPLAINER["score"].either(score, statistic),
            self.normal,
            None if chosen is None else self.columns.features_of(chosen),
        )
        self.groups = None if groups is None else _complete_groups(groups, names)
        self._forms: QuadraticForms | None = None
        self._compiling = threading.RLock()
        self._n_rows = 0  # explained so far
        if game == "retraining":
            self._check_retraining(features)
        if self.method == "exact":
            plan.check_affordable(self.game, len(self.players))

    def __repr__(self) -> str:
        return f"<Explainer of {self.score.name}, {self.game_name} game, {len(self.players)} players, {self.method}>"

    @property
    def chosen(self) -> str:
        """What the method means for this model: how many coalitions are valued, and how."""
        n_players = len(self.players)
        if self._is_exact(n_players):
            closed = self.game.closed_form(np.zeros((1, self.game.n_features)), self.players) is not None
            return "exact: closed form" if closed else f"exact: {1 << n_players:,} coalitions of {n_players} players"
        if self.method == "algorithm1":
            return f"algorithm1: {self.n_orders or _ALGORITHM1_ORDERS:,} orders for each of {n_players} players"
        rule = self._rule(n_players)
        return f"permutation: {len(rule.orders):,} orders in {rule.n_replicates} replicates, {n_players} players"

    def explain(self, X: Any, rows: Any = None) -> Explanation:
        """Split the score of every row among its features.

        ``rows`` (positions or a mask) picks the rows to explain; where a model looks back in time, the others still
        count as what went before.
        """
        reading = X if isinstance(X, Reading) else self.columns.read(X)
        if rows is not None:
            reading = reading.choose(rows)
        if self.compiling_is_due(int((~np.isnan(reading.features).any(axis=1)).sum())):
            self.compile()
        return self.explain_reading(reading)

    def explain_reading(self, reading: Reading) -> Explanation:
        """`explain`, of rows that have been read, without ever compiling."""
        n, P = len(reading.features), len(self.players)
        shown = self.columns.decode(self.normal.location[None])
        parts = {
            "values": np.empty((n, P)),
            "std_error": np.zeros((n, P)),
            "score": np.empty(n),
            "expected": np.empty((n, shown.shape[1]), dtype=shown.dtype),
            "score_if_fixed": np.empty((n, P)),
        }
        if self.ranking != "shapley":
            parts["suspicion"] = np.empty((n, P))
        replicates, evaluations = 0, 0
        for start in range(0, n, _ROWS_PER_CHUNK):
            here = slice(start, start + _ROWS_PER_CHUNK)
            part = {name: array[here] for name, array in parts.items()}
            with one_blas_thread(len(part["score"])):
                done = self._explain_rows(self.normal.standardise(reading.features[here]), part, reading.labels[here])
            replicates, evaluations = max(replicates, done[0]), max(evaluations, done[1])
        return Explanation(
            **parts,
            base_value=self.game.base_value,
            data=reading.cells,
            feature_names=self.columns.known_names or reading.names or self.columns.names,
            rows=reading.labels,
            groups=self.groups,
            exact=not replicates,
            n_evaluations=evaluations,
            n_replicates=replicates,
            score_name=self.score.name,
            game=self.game_name,
            ranking=self.ranking,
            method="exact" if not replicates else "permutation" if self.method == "auto" else self.method,
            native=reading.native,
        )

    def expected(self, X: Any, rows: Any = None) -> NDArray[Any]:
        """What the other players imply each cell should have been, as `explain` has it, without sharing out anything."""
        reading = self.columns.read(X)
        if rows is not None:
            reading = reading.choose(rows)
        expected = self._expected(self.normal.standardise(reading.features))
        return np.asarray(self.columns.decode(self.normal.to_user_units(expected)))

    def shares(self, X: Any) -> Shares:
        """Shapley values alone, of complete rows in an array of any library: torch tensors on a GPU stay there.

        Returns values and standard errors like ``X``; `explain` has everything else. Rows hold the model's features:
        where these are made of the user's columns, they have been made before.
        """
        xp, normal = array_namespace(X), self.normal
        if X.ndim != 2 or X.shape[1] != self.game.n_features:
            raise ValueError(f"X has shape {tuple(X.shape)}, but the model has {self.game.n_features} features.")
        if bool(xp.any(xp.isnan(X))):
            raise ValueError("X has missing cells: use explain, which knows how to treat them.")
        centre, scale = (games.game.like(array, X) for array in (normal.location, normal.scale))
        return self._share_out((xp.astype(X, xp.float64) - centre) / scale, self.players)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_compiling"}  # locks cannot be copied

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _compiling=threading.RLock())

    def compile(self) -> Self:
        """Find the quadratic forms behind the Shapley values once, so that each row costs a matrix product.

        `explain` does this by itself when there have been enough rows to pay for it. Nothing is compiled, and a warning
        says so, where normal rows would lose digits: with noise below 1e-9 of the largest eigenvalue, for T2 below 1e-4.
        """
        if not self.game.forms_keep_digits:
            warnings.warn(
                "the noise is so small beside the components that compiled values would lose digits: every row is walked.",
                UserWarning,
                stacklevel=2,
            )
            return self
        with self._compiling:  # so that threads that share an explainer do it once
            if self._forms is None:
                self._forms = self._compile()
        return self

    def compiling_is_due(self, n_rows: int) -> bool:
        """Whether `compile` would have paid, counting so many complete rows more and those of earlier calls."""
        if self._forms is not None or self.method == "algorithm1" or not self.game.quadratic:
            return False
        rule = None if self._is_exact(len(self.players)) else self._rule(len(self.players))
        self._n_rows += n_rows
        return plan.compiling_pays(self.game, self.players, rule, self._n_rows, self.memory_bytes)

    @property
    def forms(self) -> QuadraticForms | None:
        """The compiled forms, if there are any; may be set to forms that were saved as plain arrays."""
        return self._forms

    @forms.setter
    def forms(self, forms: QuadraticForms | None) -> None:
        if forms is not None and (forms.n_features, forms.constants.shape[1]) != (
            self.game.n_features,
            len(self.players),
        ):
            raise ValueError(
                f"forms are for {forms.constants.shape[1]} players of {forms.n_features} features, "
                f"the model has {len(self.players)} of {self.game.n_features}."
            )
        self._forms = forms

    @cached_property
    def game(self) -> games.Game:
        """The game that is played, on standardised rows."""
        if self.game_name == "conditional":
            return games.Conditional(self.score)
        if self.game_name == "interventional":
            return games.Interventional(self.score)
        assert self.normal.sample_covariance is not None
        # a submatrix of the shrunk covariance is the shrunk submatrix: models are retrained as the whole one was trained
        return games.Retraining(
            shrunk(self.normal.sample_covariance, self.normal.shrinkage),
            self.normal.gaussian.n_components,
            mean=self.score.name == "mse",
            rank=self.retraining_rank,
        )

    @cached_property
    def players(self) -> Players:
        """The model's features behind each column, or each group of columns."""
        if self.groups is None:
            return [list(members) for members in self.columns.members]
        return [self.columns.features_of(members) for _, members in self.groups]

    def _explain_rows(self, rows: Floats, part: dict[str, Floats], labels: NDArray[Any]) -> tuple[int, int]:
        """Fill in the parts of the explanation; returns numbers of replicates and of evaluations."""
        replicates, evaluations = 0, 0
        for at, observed in patterns(rows):
            if not len(observed):
                warn_about_empty_rows(labels[at])
                part["values"][at], part["std_error"][at], part["score"][at] = np.nan, np.nan, np.nan
                continue
            present = [k for k, player in enumerate(self.players) if np.isin(player, observed).any()]
            shares = self._share_out(rows[at], [np.intersect1d(self.players[k], observed).tolist() for k in present])
            part["values"][at] = 0.0
            part["values"][at[:, None], present] = shares.values
            if shares.n_replicates:
                part["std_error"][at[:, None], present] = shares.std_error
            part["score"][at] = self.game.total(rows[at], observed)
            replicates, evaluations = max(replicates, shares.n_replicates), max(evaluations, shares.n_evaluations)
        expected = self._expected(rows)
        part["expected"][:] = self.columns.decode(self.normal.to_user_units(expected))
        if "suspicion" in part:
            found = contributions.of_rows(self.normal, rows, self.ranking, self.score)
            part["suspicion"][:] = contributions.of_players(found, self.players)
        part["score_if_fixed"][:] = self.score.if_fixed(rows, expected, self.players)
        return replicates, evaluations

    def _expected(self, rows: Floats) -> Floats:
        alone = all(len(player) == 1 for player in self.players)
        return self.score.gaussian.expected(rows, None if alone else self.players)

    def _share_out(self, rows: Any, players: Players) -> Shares:
        """Shapley values of rows with the same features observed."""
        complete = sum(map(len, players)) == self.game.n_features
        if complete and self._forms is not None:
            return self._forms(rows, n_jobs=self.n_jobs)
        if not complete:
            rows = np.where(np.isnan(rows), 0.0, rows)  # missing features are nobody's members, so any number will do
        if self._is_exact(len(players)):
            return shapley.exact(self.game, rows, players, n_jobs=self.n_jobs, progress=self.progress)
        if self.method == "algorithm1":
            return shapley.algorithm1(
                self.game, rows, players, n_orders=self.n_orders or _ALGORITHM1_ORDERS, seed=self.seed
            )
        rule = self._rule(len(players))
        return shapley.permutation(self.game, rows, players, rule, n_jobs=self.n_jobs, progress=self.progress)

    def _is_exact(self, n_players: int) -> bool:
        if self.method == "auto":
            return plan.affordable(self.game, n_players, self.exact_operations)
        return self.method == "exact"

    def _rule(self, n_players: int) -> Rule:
        return shapley.default_rule(n_players, self._net, self.seed)

    @cached_property
    def _net(self) -> int:
        """log2 of the orders per net, from what was asked for; found on rows that belong to the model."""
        if self.n_orders is not None:
            return plan.net_for_orders(self.n_orders)
        return plan.net_for_tolerance(
            self.game,
            self.players,
            self._reference_rows(),
            self.tolerance,
            budget=self.max_coalitions,
            seed=self.seed,
            n_jobs=self.n_jobs,
            progress=self.progress,
        )

    def _reference_rows(self) -> Floats:
        """Rows drawn from the model, every other one with one feature far off."""
        rng = np.random.default_rng(self.seed)
        rows = self.score.gaussian.sample(_REFERENCE_ROWS, rng)
        spoiled = np.arange(0, _REFERENCE_ROWS, 2)
        which = rng.integers(self.game.n_features, size=len(spoiled))
        rows[spoiled, which] += 5 * np.sqrt(np.diag(self.score.gaussian.covariance))[which]
        return rows

    def _compile(self) -> QuadraticForms:
        if not self.game.quadratic or self.method == "algorithm1":
            raise ValueError(f"game={self.game_name!r} with method={self.method!r} has nothing to compile.")
        if self._is_exact(len(self.players)):
            return shapley.compile_exact(self.game, self.players, n_jobs=self.n_jobs, progress=self.progress)
        rule = self._rule(len(self.players))
        return shapley.compile_rule(self.game, self.players, rule, n_jobs=self.n_jobs, progress=self.progress)

    def _check_retraining(self, features: object) -> None:
        if self.score.name not in games.RETRAINABLE or features is not None:
            raise ValueError(
                "game='retraining' explains reconstruction errors of all features: "
                "use score='spe' or 'mse' without features."
            )
        if self.normal.sample_covariance is None:
            raise ValueError(
                "game='retraining' needs the sample covariance, which this model does not keep: "
                "fit culpa.PPCA or culpa.PCADetector instead."
            )


def _columns(normal: FittedModel, features: Any, groups: Any) -> Columns:
    """The user's columns, taken apart where a single one of their features was asked for."""
    if normal.encoding is None:
        return normal.columns
    together = groups.values() if isinstance(groups, Mapping) else []
    wanted = [name for names in (features or [], *together) for name in ([names] if isinstance(names, str) else names)]
    n_features = normal.gaussian.n_features
    columns = Opened.for_names(normal.columns, normal.feature_names or default_names(n_features), wanted)
    if columns.obstacle:
        raise TypeError(
            f"{columns.obstacle}, so that blame cannot be traced back through it: use it in a ColumnTransformer, "
            "for one column at a time, or say with groups=... which of its outputs belong together."
        )
    return columns


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
