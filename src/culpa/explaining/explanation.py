"""What the user takes away: Shapley values that add up to the score, with everything needed to act on them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, overload

import numpy as np
from numpy.typing import NDArray

from culpa._core.border import entered
from culpa._core.choices import PART_NAMES, PartName
from culpa._core.native import frame_like
from culpa._core.types import DataFrame, Floats, FrameT, Positions, TableT
from culpa._core.words import count
from culpa.explaining.like_shap import LikeShap
from culpa.explaining.lines import as_text, how_exact, labels_of, size_of, top_columns

if TYPE_CHECKING:
    from culpa.explaining.counterfactual import Counterfactual
    from culpa.explaining.interactions import Interactions
    from culpa.explaining.origin import Origin
    from culpa.explaining.shortest import Shortest
    from culpa.plots import ExplanationPlots

# Fields that ``explain(parts=...)`` can leave out, and the parts that they belong to.
FIELDS_OF_PARTS: dict[str, PartName] = {
    "values": "values",
    "std_error": "values",
    "base_value": "values",
    "score": "score",
    "expected": "expected",
    "score_if_fixed": "score_if_fixed",
}

# Fields with one entry per row: what slicing cuts and concatenation joins.
_PER_ROW = (
    "values",
    "std_error",
    "score",
    "base_value",
    "expected",
    "data",
    "score_if_fixed",
    "suspicion",
    "furthest",
    "row_labels",
)


@entered
@dataclass(frozen=True, eq=False)
class Explanation(LikeShap, Generic[TableT]):
    """Who is to blame for each row's score.

    ``values.sum(axis=1) + base_value == score`` for every engine but "algorithm1". Fields that were left out with
    ``explain(X, parts=...)`` raise an error that says so; `parts` has those that are there.

    Attributes
    ----------
    values : ndarray of shape (rows, players)
        Shapley values. A player is a feature, or a group of features. Zero for a player whose cells are all missing.
    std_error : ndarray of shape (rows, players)
        Standard errors of the values; zero where exact.
    score : ndarray of shape (rows,)
        The score that is explained: what the values add up to. Where cells are missing, it is the expected score given
        the observed cells, in every game. Only the interventional game of a score that is a function draws missing
        cells as if they had nothing to do with the observed ones.
    base_value : float, or ndarray of shape (rows,)
        Value of knowing nothing: the mean score of normal rows (0 for the retraining game). Where features are given, the
        value of knowing these in each row. For the minimal game, the smallest score near each row.
    data, expected : ndarray of shape (rows, features)
        The rows, and what the other features imply each feature should have been, both in the user's units. Arrays of
        objects where columns of text are among them; NaN where several columns were mixed.
    score_if_fixed : ndarray of shape (rows, players)
        What the score would be with that player at its expected values.
    feature_names : tuple of str
        Names of the columns of ``data``.
    row_labels : ndarray of shape (rows,)
        What the user calls the rows: the pandas index, else positions in the table that was explained.
    groups : tuple of (name, positions) or None
        The players, where they are groups of features.
    exact : bool
        Whether all values are exact.
    n_evaluations : int
        Number of coalitions that were valued; of a score that is a function, evaluations of the function per row.
    n_replicates : int
        Number of independent estimates that each standard error is worth, at least; 0 where exact. Its degrees of freedom
        are one less.
    score_name, game, method : str
        Which score, which game, and how its values were computed: ``method`` is "asymmetric" where causes join before
        their effects (``upstream``), exact or not, and "simulated" where the score is a function.
    ranking : str
        Whom `top` lists first: "shapley", or a criterion of `culpa.ranking.contributions`.
    suspicion : ndarray of shape (rows, players) or None
        The criterion, where ``ranking`` is one.
    furthest : ndarray of shape (rows, players) or None
        With groups, the position of each group's feature that is furthest from its expected value, in standard deviations.

    Examples
    --------
    >>> from culpa import PCADetector
    >>> from culpa.datasets import make_plant
    >>> plant = make_plant()
    >>> why = PCADetector().fit(plant.normal).explain(plant.new[50:53])
    >>> print(why)
    Explanation of mahalanobis: 3 rows x 12 players, exact
    row  score  culprits and their part of the score
      0  481.4  x2 314.6, x3 36.27, x5 24.5
      1  487.8  x2 322.3, x3 33.35, x0 24.45
      2  480.5  x2 313, x0 22.95, x3 22.31
    >>> why.top(1)["feature"].tolist(), why[:, "x2"].round(1)
    (['x2', 'x2', 'x2'], array([314.6, 322.3, 313. ]))
    """

    values: Floats
    std_error: Floats
    score: Floats
    base_value: float | Floats
    data: NDArray[Any]
    expected: NDArray[Any]
    score_if_fixed: Floats
    feature_names: tuple[str, ...]
    row_labels: NDArray[Any]
    exact: bool
    n_evaluations: int
    score_name: str
    game: str
    method: str
    n_replicates: int = 0
    groups: tuple[tuple[str, tuple[int, ...]], ...] | None = None
    ranking: str = "shapley"
    suspicion: Floats | None = None
    furthest: Positions | None = None
    native: Any = None  # the table that was explained, without its rows, to answer in kind
    origin: "Origin | None" = field(default=None, repr=False)  # what made it, kept for further questions

    def __post_init__(self) -> None:
        for name in FIELDS_OF_PARTS:
            if vars(self)[name] is None:  # not computed: without the attribute, `__getattr__` explains that
                object.__delattr__(self, name)

    if not TYPE_CHECKING:  # or a type checker would take any attribute for granted

        def __getattr__(self, name: str) -> Any:
            if part := FIELDS_OF_PARTS.get(name):
                raise AttributeError(f"{name} was not computed: call explain without parts, or add {part!r} to them.")
            return object.__getattribute__(self, name)  # raises the error again, that of a property with its own words

    @property
    def parts(self) -> tuple[PartName, ...]:
        """What was computed: everything, unless ``explain`` was asked for less."""
        return tuple(name for name in PART_NAMES if name in vars(self))

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"origin": None}  # an explainer may hold large compiled forms

    def __len__(self) -> int:
        return len(self.row_labels)

    def __iter__(self) -> "Iterator[Explanation[TableT]]":
        return (self[row] for row in range(len(self)))

    @overload
    def __getitem__(self, key: tuple[Any, Any]) -> Any: ...

    @overload
    def __getitem__(self, key: Any) -> "Explanation[TableT]": ...

    def __getitem__(self, key: Any) -> Any:
        """One row (as a one-row explanation), a slice, a mask or a list of positions; with players, their values."""
        if isinstance(key, tuple):
            return self._values_of(*key)
        if isinstance(key, (int, np.integer)):
            if not -len(self) <= key < len(self):
                raise IndexError(f"row {key} is out of range: the explanation has {count(len(self), 'row')}.")
            key = [int(key)]
        origin = None if self.origin is None else self.origin.choose(key)
        return _changed(self, origin=origin, **{name: getattr(self, name)[key] for name in _per_row(self)})

    def __repr__(self) -> str:
        return f"<Explanation of {self.score_name}: {size_of(self)}, {how_exact(self)}>"

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        from culpa.explaining.lines import as_html

        return as_html(self)

    @property
    def player_names(self) -> tuple[str, ...]:
        """Names of the columns of ``values``: features, or groups of them."""
        return self.feature_names if self.groups is None else tuple(name for name, _ in self.groups)

    @property
    def players(self) -> tuple[tuple[int, ...], ...]:
        """Feature positions behind each column of ``values``."""
        if self.groups is None:
            return tuple((i,) for i in range(len(self.feature_names)))
        return tuple(members for _, members in self.groups)

    @property
    def blame(self) -> Floats:
        """What players are ranked by: Shapley values, or the suspicion of another criterion, (rows, players)."""
        return self.values if self.suspicion is None else self.suspicion

    @property
    def observed(self) -> NDArray[np.bool_]:
        """Which players have an observed cell in which row: the others cannot be fixed."""
        return ~np.isnan(self.score_if_fixed)

    @property
    def plot(self) -> "ExplanationPlots":
        """Pictures, with matplotlib: ``why.plot.waterfall(0)``, ``bar``, ``heatmap``, ``scatter``; see `culpa.plots`."""
        plots: ExplanationPlots = import_module("culpa.plots").ExplanationPlots(self)
        return plots

    @staticmethod
    def concatenate(parts: Sequence["Explanation"]) -> "Explanation":
        """Explanations of several tables by the same explainer, as one."""
        if not parts:
            raise ValueError("concatenate needs at least one explanation.")
        first = parts[0]
        for part in parts:
            alike = ("parts", "feature_names", "groups", "score_name", "game", "ranking")
            numbers = all(isinstance(getattr(one, "base_value", None), float) for one in (first, part))
            for name in (*alike, "base_value") if numbers else alike:
                if getattr(part, name) != getattr(first, name):
                    raise ValueError(
                        f"cannot concatenate explanations with different {name}: "
                        f"{getattr(first, name)!r} and {getattr(part, name)!r}."
                    )
        joined: dict[str, Any] = {
            name: np.concatenate([_cells_of(part, name) for part in parts])
            for name in {name for part in parts for name in _per_row(part)}
        }
        from culpa.explaining.origin import Origin
        from culpa.shapley.shares import fewest

        counts = {
            "n_evaluations": max(part.n_evaluations for part in parts),
            "n_replicates": fewest(*(part.n_replicates for part in parts)),
        }

        origin = Origin.joined([part.origin for part in parts])
        sampled = [part for part in parts if not part.exact]
        method = (sampled or parts)[0].method
        return _changed(first, **joined, **counts, exact=not sampled, method=method, origin=origin)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Lower and upper ends of confidence intervals of the values, (rows, players) each.

        The ends are ``std_error`` times a quantile of Student's t with ``n_replicates - 1`` degrees of freedom away from
        the values. docs/sampling.md shows how often the intervals contain the exact value.
        """
        from culpa._core import probability as stats

        half = self.std_error * (stats.t.ppf((1 + confidence) / 2, self.n_replicates - 1) if self.n_replicates else 0.0)
        return self.values - half, self.values + half

    def certain_ranks(self, k: int = 3, confidence: float = 0.95) -> NDArray[np.intp]:
        """How many of the first ranks of Shapley values are certain in each row.

        2 means that sampling has settled which player has the highest value and which the second highest. Exact values are
        certain unless they are equal.

        Parameters
        ----------
        k
            Number of ranks to look at.
        confidence
            Of the answer.

        Returns
        -------
        ndarray of shape (rows,)
            0 to ``k``.
        """
        from culpa.shapley.leading import certain_ranks

        known = self.observed & ~np.isnan(self.values)
        values, errors = np.where(known, self.values, -np.inf), np.where(known, self.std_error, 0.0)
        certain = certain_ranks(values, errors, max(1, self.n_replicates - 1), k, confidence)
        return np.where(known.sum(axis=1) < certain, known.sum(axis=1), certain)

    @overload
    def top(self: "Explanation[FrameT]", k: int = 3) -> FrameT: ...  # type: ignore[overload-overlap]

    @overload
    def top(self, k: int = 3) -> DataFrame: ...

    def top(self, k: int = 3) -> Any:
        """The ``k`` worst culprits of each row, as a table a person can act on.

        ``score_if_fixed`` tells what the score would be with that feature at its expected value: compare it with the
        limit to see whether fixing this feature would clear the alarm. ``share`` is the value over the row's score;
        in a row that is not abnormal (its score near or below the base value) there is no blame to share, and shares
        may be negative or above 1. Of a group, ``actual`` and ``expected`` are those of the ``member`` that is furthest
        from its expected value. Rows without any observed feature are left out. Where some features hold text,
        ``actual`` and ``expected`` are texts throughout; ``data`` and `expected` have the numbers.
        """
        columns = top_columns(self, k)
        return frame_like(self.native, columns, columns["row"])

    def nonnegative(self) -> "Explanation[TableT]":
        """The same explanation without negative values: the closest values that have none and the same sum.

        Players that keep some blame pay equally for those that had less than none, so nobody changes rank. In a row below
        its base value there is no blame to share: its values are 0, and its base value is its score. Standard errors are
        those of the values before.
        """
        from culpa.explaining.shortest import nonnegative

        base = np.minimum(self.base_value, np.where(np.isnan(self.score), np.inf, self.score))
        return _changed(self, values=nonnegative(self.values, self.observed), base_value=base)

    def shortest(self, share: float = 0.9) -> "Shortest":
        """The fewest players of each row whose values add up to a share of the score less the base value."""
        from culpa.explaining.shortest import shortest_of

        return shortest_of(self, share)

    def interactions(self) -> "Interactions":
        """Which players matter together: exact pairwise Shapley interactions, for up to 20 players."""
        from culpa.explaining.interactions import interactions_of

        if self.method == "asymmetric":
            raise ValueError("interactions() are those of symmetric Shapley values: explain without upstream.")
        return interactions_of(self)

    def counterfactual(self, limit: float | None = None) -> "Counterfactual":
        """The fewest players to change, and their new values, so that each row is not flagged.

        The limit is that of the detector that explained its own statistic, unless given.
        """
        from culpa.explaining.counterfactual import counterfactual_of

        return counterfactual_of(self, limit)

    @overload
    def to_frame(self: "Explanation[FrameT]") -> FrameT: ...  # type: ignore[overload-overlap]

    @overload
    def to_frame(self) -> DataFrame: ...

    def to_frame(self) -> Any:
        """One line per row: its label, its score, and a column of Shapley values per player."""
        columns: dict[str, Any] = {}
        for name, cells in (("row", self.row_labels), ("score", self.score)):
            while name in self.player_names:
                name += "_"
            columns[name] = cells
        values = dict(zip(labels_of(self), self.values.T, strict=True))
        return frame_like(self.native, columns | values, self.row_labels)


def _changed(why: Explanation, **changes: Any) -> Explanation:
    """The same explanation with other fields."""
    left_out: dict[str, Any] = dict.fromkeys(FIELDS_OF_PARTS)
    return Explanation(**(left_out | vars(why) | changes))


def _cells_of(why: Explanation, name: str) -> NDArray[Any]:
    """A field with one entry per row; the base value may be one number for all of them."""
    cells = np.asarray(getattr(why, name))
    return np.broadcast_to(cells, (len(why), *cells.shape[1:]))


def _per_row(why: Explanation) -> Iterator[str]:
    return (name for name in _PER_ROW if isinstance(getattr(why, name, None), np.ndarray))
