"""model + score + game + engine -> Explanation."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from culpa import games
from culpa._core.border import entered
from culpa._core.choices import GameName, Method, Parts, Ranking, RetrainingRank, ScoreName, unknown
from culpa._core.copies import CopiedInUse
from culpa._core.parameter import documented, signed
from culpa._core.parameters import EXPLAINER, ExplainerKeywords
from culpa._core.progress import as_progress
from culpa._core.types import Floats, TableT
from culpa._core.validation import default_names, feature_positions
from culpa._core.warning import warn
from culpa.columns import Columns, Reading, View
from culpa.columns.groups import complete_groups, without_given
from culpa.explaining.explanation import Explanation
from culpa.explaining.one_pass import OnePass
from culpa.games.arrays import as_array_like
from culpa.models import Distribution, FittedModel
from culpa.ranking import contributions
from culpa.scores import GameSettings, Score
from culpa.scores.subject import Subject, subject_of
from culpa.shapley import PartialOrder, Players, QuadraticForms, Shares
from culpa.shapley.engine import Engine
from culpa.shapley.leading import Doubts
from culpa.shapley.plan import Settings
from culpa.shapley.simulated import Simulation, draws_within

_REFERENCE_ROWS = 48


@entered
@documented(EXPLAINER)
class Explainer(CopiedInUse):
    """Explains the scores of a fitted model, or any other score of rows.

    Parameters
    ----------
    model
        A culpa model, a PCADetector, a fitted scikit-learn PCA, IncrementalPCA, FactorAnalysis, GaussianMixture or
        covariance estimator (EllipticEnvelope and the like), or a Pipeline that ends in one. Together with ``normal``,
        also any other fitted detector. What goes into a Pipeline is blamed: columns as they were before one-hot encoding,
        scaling or lags.
    {parameters}

    References
    ----------
    Takeishi (2019), "Shapley values of reconstruction errors of PCA for explaining anomaly detection".

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
    """

    if TYPE_CHECKING:  # parameters that are attributes, too
        method: Method
        ranking: Ranking
        tolerance: float | str
        max_evaluations: int | None
        retraining_rank: RetrainingRank
        locality: float
        seed: int
        n_jobs: int | None

    @signed(EXPLAINER, "score", "game", "method")
    def __init__(
        self,
        model: Any = None,
        score: ScoreName | Score | Callable[[Any], Any] | None = None,
        game: GameName | None = None,
        method: Method = "auto",
        **options: Unpack[ExplainerKeywords],
    ) -> None:
        chosen = EXPLAINER.completed({"score": score, "game": game, "method": method, **options})
        score, normal, *maps = (chosen.pop(name) for name in ("score", "normal", "reconstruct", "reconstruct_matrix"))
        subject = subject_of(model, score, normal, maps[0], maps[1], chosen["seed"])
        self.model, own, self._witness = subject.model, subject.model.own, subject.witness
        self.game_name: GameName = chosen.pop("game") or own.game
        players = [chosen.pop(name) for name in ("features", "groups", "given", "upstream")]
        vars(self).update(chosen, ranking=chosen["ranking"] or own.ranking, progress=as_progress(chosen["progress"]))
        chains = self._choose_players(subject, *players)
        self._engine = self._make_engine(_partial_order(chains, self._all_names, self.columns, self.groups))

    def _choose_players(
        self, subject: Subject, features: Any, groups: Any, given: Any, upstream: Any
    ) -> list[list[str]]:
        """Columns, score and groups; returns the chains of ``upstream`` by name.

        Positions are those of columns in the user's table, whatever else is given: from here on, all have names.
        """
        named = self.model.columns.named
        features = None if features is None else named(features, "features")
        given = None if given is None else named(given, "given")
        chains = [named(chain, "upstream") for chain in upstream or ()]
        if groups == "own":
            groups = without_given(self.model.own_groups, given or []) or None
        elif groups is not None:
            groups = {group: named(members, f"group {group!r}") for group, members in groups.items()}
        self.columns = _columns(self.model, features, groups, given, chains)
        names = self._all_names = self.columns.names
        chosen = None if features is None else sorted(set(feature_positions(features, names, "features")))
        self.score: Score = subject.score(None if chosen is None else self.columns.features_of(chosen))
        self._given: list[int] = []  # features of the model that are in every coalition
        if given is not None:
            self._hide(feature_positions(given, names, "given"))
        self.groups = None if groups is None else complete_groups(groups, self.columns.names)
        draws = draws_within(self.max_evaluations, len(self.players))
        self.score = self.score.with_draws(draws, independent=self.game_name == "interventional")
        about_rows = self.ranking in ("shapley", "z-score", *contributions.OF_MAHALANOBIS)
        if not (about_rows or self.score.is_quadratic):
            raise ValueError(f"ranking={self.ranking!r} is a part of a quadratic score: use 'shapley' or 'fault-odds'.")
        return chains

    def _hide(self, given: list[int]) -> None:
        """Columns that are given are no players."""
        self._given = self.columns.features_of(set(given))
        self.columns = View.without(self.columns, given)
        if not self.columns.names:
            raise ValueError("given names all features: at least one must be left to blame.")

    def _make_engine(self, order: PartialOrder | None) -> Engine | Simulation:
        if self.game.is_simulated:
            Simulation.check(self.method, self.tolerance, order)
            settings = {name: getattr(self, name) for name in ("seed", "n_orders", "max_evaluations", "progress")}
            return Simulation(self.game, self.players, **settings)
        engine = Engine(
            self.game,
            self.players,
            Settings(**{name: getattr(self, name) for name in Settings._fields}),
            order=order,
            reference=partial(_reference_rows, cast(Distribution, self.score.distribution), self.seed),
        )
        engine.check_method()
        return engine

    def __repr__(self) -> str:
        return f"<Explainer of {self.score.name}, {self.game_name} game, {len(self.players)} players, {self.method}>"

    @property
    def chosen(self) -> str:
        """What the method means for this model: how many coalitions are valued, and how."""
        return self._engine.chosen

    def explain(self, X: TableT, rows: Any = None, *, parts: Parts = None) -> Explanation[TableT]:
        """Explain the score of every row, or of those that ``rows`` picks.

        Parameters
        ----------
        X
            Rows. No rows give an empty explanation. Where a model looks back in time, rows that are not picked still
            count as what went before.
        rows
            Which rows to explain: positions, a mask, a slice, or labels of a pandas index. Whole numbers are positions,
            and a pandas Index holds labels.
        parts
            Fields of the explanation to compute, one or several of "values", "score", "expected" and "score_if_fixed";
            by default all of them.

        Returns
        -------
        Explanation
            With a Shapley value for each row and player.
        """
        reading = X if isinstance(X, Reading) else self.columns.read(X)
        if rows is not None:
            reading = reading.choose(rows)
        if self._witness is not None:
            self._witness.check(reading.features, reading.labels)
        return self._one_pass.explain(reading, parts)

    def __call__(self, X: TableT, rows: Any = None, *, parts: Parts = None) -> Explanation[TableT]:
        """`explain`, under the name that it has in shap."""
        return self.explain(X, rows, parts=parts)

    def expected(self, X: Any, rows: Any = None) -> NDArray[Any]:
        """What the other players imply each cell should have been, without sharing out anything.

        Parameters
        ----------
        X, rows
            As for `explain`.

        Returns
        -------
        ndarray of shape (rows, columns)
            ``expected`` of `explain`.
        """
        return self.explain(X, rows, parts="expected").expected

    def shares(self, X: Any) -> Shares:
        """Shapley values alone, of complete rows in an array of any library: torch tensors on a GPU stay there.

        Returns values and standard errors like ``X``; `explain` has everything else. Rows hold the model's features:
        where these are made of the user's columns, they have been made before. It compiles as `explain` does.
        """
        xp, model = array_namespace(X), self.model
        if X.ndim != 2 or X.shape[1] != self.game.n_features:
            raise ValueError(f"X has shape {tuple(X.shape)}, but the model has {self.game.n_features} features.")
        if model.context is not None or model.margins is not None:
            what = "given columns" if model.margins is None else "margins of their own"
            raise ValueError(f"shares does not support models with {what}. Use explain.")
        if bool(xp.any(xp.isnan(X))):
            raise ValueError("X has missing cells. Use explain, which supports them.")
        centre, scale = (as_array_like(array, X) for array in (model.centre, model.scale))
        self._engine.count_rows(X.shape[0])
        if self._engine.compiling_is_due:
            self._engine.compile()
        shares = self._engine.share_out((xp.astype(X, xp.float64) - centre) / scale, self.players)
        self._one_pass.tell_doubts(Doubts(X.shape[0], shares.n_uncertain, shares.n_evaluations))
        return shares

    def compile(self) -> Self:
        """Find the quadratic forms behind the Shapley values once, so that each row costs a matrix product.

        `explain` does this by itself when there have been enough rows to pay for it. Where noise is tiny, the forms are
        compared with values of reference rows. If rows would lose digits, nothing is compiled, and a warning says so.
        """
        if self.game.forms_keep_digits:
            if self.forms is None and not self._engine.can_compile:
                raise ValueError(f"game={self.game_name!r} with method={self.method!r} cannot be compiled.")
            self._engine.compile()
        if self.forms is None:
            warn(
                "not compiled, because the noise is so small compared with the components that compiled values would lose "
                "digits. Each row is computed separately.",
                UserWarning,
            )
        return self

    @property
    def forms(self) -> QuadraticForms | None:
        """The compiled forms, if there are any; may be set to forms that were saved as plain arrays."""
        return self._engine.forms

    @forms.setter
    def forms(self, forms: QuadraticForms | None) -> None:
        self._engine.forms = forms

    @cached_property
    def game(self) -> games.Game:
        """The game that is played, on standardised rows."""
        return games.Given(self._whole_game, np.array(self._given)) if self._given else self._whole_game

    @cached_property
    def _whole_game(self) -> games.Game:
        """The game of all features."""
        return self.score.game(self.game_name, GameSettings(self.model, self.locality, self.retraining_rank))

    @cached_property
    def players(self) -> Players:
        """The model's features behind each column, or each group of columns."""
        if self.groups is None:
            return [list(members) for members in self.columns.members]
        return [self.columns.features_of(members) for _, members in self.groups]

    @property
    def player_names(self) -> tuple[str, ...]:
        """Names of the columns, or of the groups of columns."""
        return self.columns.names if self.groups is None else tuple(name for name, _ in self.groups)

    @cached_property
    def _one_pass(self) -> OnePass:
        """What computes explanations, for culpa's own use: of rows that are scored already, and batch by batch."""
        return OnePass(
            self.model,
            self.columns,
            self.score,
            self.game,
            self._whole_game,
            self._engine,
            self.players,
            self.groups,
            self.game_name,
            self.ranking,
            self.tolerance,
            self.n_jobs,
        )


def _reference_rows(gaussian: Distribution, seed: int) -> Floats:
    """Rows drawn from the model, every other one with one feature far off."""
    rng = np.random.default_rng(seed)
    rows = gaussian.sample(_REFERENCE_ROWS, rng)
    spoiled = np.arange(0, _REFERENCE_ROWS, 2)
    which = rng.integers(gaussian.n_features, size=len(spoiled))
    rows[spoiled, which] += 5 * np.sqrt(gaussian.variances)[which]
    return rows


def _columns(model: FittedModel, features: Any, groups: Any, given: Any, upstream: Any) -> Columns:
    """The user's columns, taken apart where a single one of their features was asked for."""
    if model.encoding is None:
        return model.columns
    together = groups.values() if isinstance(groups, Mapping) else []
    wanted = [
        name
        for names in (features or [], given or [], *(upstream or []), *together)
        for name in ([names] if isinstance(names, str) else names)
    ]
    n_features = model.standard.n_features
    columns = View.for_names(model.columns, model.feature_names or default_names(n_features), wanted)
    if columns.obstacle:
        raise TypeError(
            f"{columns.obstacle}, so culpa cannot tell which column a feature comes from. Use a ColumnTransformer "
            "that applies the step to one column at a time, or use groups=... to say which of its outputs belong together."
        )
    return columns


def _partial_order(
    upstream: Sequence[Sequence[str]],
    names: Sequence[str],
    columns: Columns,
    groups: tuple[tuple[str, tuple[int, ...]], ...] | None,
) -> PartialOrder | None:
    """Who is upstream of whom; ``None`` if nobody is. ``names`` are those of all columns, given ones included."""
    if not upstream:
        return None
    players = list(columns.names) if groups is None else [name for name, _ in groups]
    group_of = {columns.names[i]: name for name, members in groups or () for i in members}

    def position(name: str) -> int:
        if name in players:
            return players.index(name)
        if name in group_of:
            raise ValueError(
                f"upstream contains {name!r}, which is in the group {group_of[name]!r}. Use the group instead."
            )
        if name in (*names, *columns.inputs) and name not in columns.names:
            raise ValueError(
                f"upstream contains {name!r}, which is given or not used, so it is never blamed. Leave it out of upstream."
            )
        unknown(name, players, "feature or group in upstream:")

    return PartialOrder.from_chains([[position(player) for player in chain] for chain in upstream], players)
