"""What the user takes away: Shapley values that add up to the score, with everything needed to act on them."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from culpa._core import markup
from culpa._core.border import entered
from culpa._core.choices import PART_NAMES, PartName
from culpa._core.comparing import ranked
from culpa._core.json_values import to_json_value
from culpa._core.native import column_labels, frame_like
from culpa._core.types import DataFrame, Floats
from culpa._core.words import count

if TYPE_CHECKING:
    from culpa.explaining.counterfactual import Counterfactual
    from culpa.explaining.interactions import Interactions
    from culpa.explaining.origin import Origin
    from culpa.explaining.shortest import Shortest
    from culpa.plots import ExplanationPlots

_NOT_STORED = ("native", "origin")  # fields that are not data
# Fields that ``explain(parts=...)`` can leave out, and the parts that they belong to.
FIELDS_OF_PARTS: dict[str, PartName] = {
    "values": "values",
    "std_error": "values",
    "base_value": "values",
    "score": "score",
    "expected": "expected",
    "score_if_fixed": "score_if_fixed",
}

_ROWS_SHOWN, _CULPRITS_SHOWN = 10, 3  # in a notebook

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
    "row_labels",
)


@entered
@dataclass(frozen=True, eq=False)
class Explanation:
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
    row_labels : ndarray of shape (rows,)
        What the user calls the rows: the pandas index, else positions in the table that was explained.
    groups : tuple of (name, positions) or None
        The players, where they are groups of features.
    exact : bool
    n_evaluations : int
        Number of coalitions that were valued; of a score that is a function, evaluations of the function per row.
    n_replicates : int
        Number of independent estimates that each standard error is worth, at least; 0 where exact. Its degrees of freedom
        are one less.
    score_name, game, method : str
        ``method`` is "asymmetric" where causes join before their effects (``upstream``), exact or not, and "simulated"
        where the score is a function.
    ranking : str
        Whom `top` lists first: "shapley", or a criterion of `culpa.ranking.contributions`.
    suspicion : ndarray of shape (rows, players) or None
        The criterion, where ``ranking`` is one.
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

    def judged_by(self, limit: float) -> Self:
        """The same explanation, by a detector with this limit: what `counterfactual` aims at."""
        return self._but(origin=None if self.origin is None else self.origin.judged_by(limit))

    def _but(self, **changes: Any) -> Self:
        """The same explanation with other fields."""
        left_out: dict[str, Any] = dict.fromkeys(FIELDS_OF_PARTS)
        return type(self)(**(left_out | vars(self) | changes))

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"origin": None}  # an explainer may hold large compiled forms

    def __len__(self) -> int:
        return len(self.row_labels)

    def __iter__(self) -> Iterator[Self]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, key: Any) -> Self:
        """One row (as a one-row explanation), a slice, a mask or a list of positions."""
        if isinstance(key, (int, np.integer)):
            if not -len(self) <= key < len(self):
                raise IndexError(f"row {key} is out of range: the explanation has {count(len(self), 'row')}.")
            key = [int(key)]
        origin = None if self.origin is None else self.origin.choose(key)
        return self._but(origin=origin, **{name: getattr(self, name)[key] for name in self._per_row()})

    def __repr__(self) -> str:
        return f"<Explanation of {self.score_name}: {self._size}, {self._how}>"

    @property
    def _size(self) -> str:
        return f"{count(len(self), 'row')} x {count(len(self.player_names), 'player')}"

    @property
    def _how(self) -> str:
        if self.exact:
            return "asymmetric, exact" if self.method == "asymmetric" else "exact"
        return f"{self.method}, {count(self.n_evaluations, 'evaluation')}"

    def _repr_html_(self) -> str:
        if set(self.parts) < set(PART_NAMES):
            return markup.block(f"Explanation of {self.score_name}: {self._size}", markup.note(", ".join(self.parts)))
        shown = self[:_ROWS_SHOWN]._but(native=None)
        lines = shown.top_columns(_CULPRITS_SHOWN)
        longest = float(np.nanmax(np.abs(lines["value"]))) if len(lines["value"]) else 1.0
        first = [bool(rank == 1) for rank in lines["rank"]]
        names = ("row", "score", "feature", "value", "actual", "expected", "score_if_fixed")
        rows = [
            (
                label if begins else "",
                score if begins else "",
                feature,
                markup.bar(abs(value) / (longest or 1.0), markup.RAISES if value > 0 else markup.LOWERS),
                value,
                *others,
            )
            for begins, label, score, feature, value, *others in zip(
                first, *(lines[name] for name in names), strict=True
            )
        ]
        headers = ("row", self.score_name, "culprit", "", "blame", "actual", "expected", f"{self.score_name} if fixed")
        rest = len(self) - len(shown)
        more = f"{count(rest, 'more row')}. " if rest else ""
        k = min(_CULPRITS_SHOWN, len(self.player_names))
        return markup.block(
            f"Explanation of {self.score_name}: {self._size}",
            markup.table(headers, rows, new=first),
            markup.note(f"{more}The {count(k, 'player')} with the most blame in each row. {self._how.capitalize()}."),
        )

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
            name: np.concatenate([part._cells_of(name) for part in parts])
            for name in {name for part in parts for name in part._per_row()}
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
        return first._but(**joined, **counts, exact=not sampled, method=method, origin=origin)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Lower and upper ends of confidence intervals of the values, (rows, players) each.

        The ends are ``std_error`` times a quantile of Student's t with ``n_replicates - 1`` degrees of freedom away from
        the values. docs/sampling.md shows how often the intervals contain the exact value.
        """
        from scipy import stats

        half = self.std_error * (stats.t.ppf((1 + confidence) / 2, self.n_replicates - 1) if self.n_replicates else 0.0)
        return self.values - half, self.values + half

    def certain_ranks(self, k: int = 3, confidence: float = 0.95) -> NDArray[np.intp]:
        """How many of the first ``k`` ranks of Shapley values are certain in each row, (rows,).

        2 means that sampling has settled which player has the highest value and which the second highest. Exact values are
        certain unless they are equal.
        """
        from culpa.shapley.leading import certain_ranks

        known = self.observed & ~np.isnan(self.values)
        values, errors = np.where(known, self.values, -np.inf), np.where(known, self.std_error, 0.0)
        certain = certain_ranks(values, errors, max(1, self.n_replicates - 1), k, confidence)
        return np.where(known.sum(axis=1) < certain, known.sum(axis=1), certain)

    def top(self, k: int = 3) -> DataFrame:
        """The ``k`` worst culprits of each row, as a table a person can act on.

        ``score_if_fixed`` tells what the score would be with that feature at its expected value: compare it with the
        limit to see whether fixing this feature would clear the alarm. ``share`` is the value over the row's score;
        in a row that is not abnormal (its score near or below the base value) there is no blame to share, and shares
        may be negative or above 1. Rows without any observed feature are left out. Where some features hold text,
        ``actual`` and ``expected`` are texts throughout; ``data`` and `expected` have the numbers.
        """
        columns = self.top_columns(k)
        return frame_like(self.native, columns, columns["row"])

    def top_columns(self, k: int = 3) -> dict[str, Any]:
        """The columns of `top` by name, as arrays and lists; where a table of one row would take longer than its answer."""
        if not isinstance(k, (int, np.integer)) or k < 1:
            raise ValueError(f"top(k) needs a whole number of at least 1, got {k!r}.")
        present = self.observed
        ranking = ranked(np.where(present, self.blame, -np.inf))[:, :k]
        chosen = present[np.arange(len(self))[:, None], ranking] & ~np.isnan(self.score)[:, None]
        row, rank = chosen.nonzero()
        player = ranking[row, rank]
        values = self.values[row, player]
        # actual and expected are numbers of one feature; a group has none of its own
        single = np.array([members[0] if len(members) == 1 else -1 for members in self.players])[player]
        columns: dict[str, Any] = {
            "row": self.row_labels[row],
            "score": self.score[row],
            "rank": rank + 1,
            "feature": self._labels()[player],
            "value": values,
        }
        if self.suspicion is not None:
            columns["suspicion"] = self.suspicion[row, player]
        if not self.exact:
            columns["std_error"] = self.std_error[row, player]
        with np.errstate(divide="ignore", invalid="ignore"):
            columns["share"] = values / self.score[row]
        for name in ("data", "expected"):
            cells = getattr(self, name)[row, single]
            columns["actual" if name == "data" else name] = _readable(np.where(single >= 0, cells, np.nan))
        columns["score_if_fixed"] = self.score_if_fixed[row, player]
        return columns

    def nonnegative(self) -> Self:
        """The same explanation without negative values: the closest values that have none and the same sum.

        Players that keep some blame pay equally for those that had less than none, so nobody changes rank. In a row below
        its base value there is no blame to share: its values are 0, and its base value is its score. Standard errors are
        those of the values before.
        """
        from culpa.explaining.shortest import nonnegative

        base = np.minimum(self.base_value, np.where(np.isnan(self.score), np.inf, self.score))
        return self._but(values=nonnegative(self.values, self.observed), base_value=base)

    def shortest(self, share: float = 0.9) -> "Shortest":
        """The fewest players of each row whose values add up to a share of the score less the base value."""
        from culpa.explaining.shortest import Shortest

        return Shortest.of(self, share)

    def interactions(self) -> "Interactions":
        """Which players matter together: exact pairwise Shapley interactions, for up to 20 players."""
        from culpa.explaining.interactions import Interactions

        if self.method == "asymmetric":
            raise ValueError("interactions() are those of symmetric Shapley values: explain without upstream.")
        return Interactions.of(self)

    def counterfactual(self, limit: float | None = None) -> "Counterfactual":
        """The fewest players to change, and their new values, so that each row is not flagged.

        The limit is that of the detector that explained its own statistic, unless given.
        """
        from culpa.explaining.counterfactual import Counterfactual

        return Counterfactual.of(self, limit)

    def known_origin(self, asked: str) -> "Origin":
        """What made the explanation; an error if that is not known."""
        if self.origin is None:
            raise ValueError(
                f"{asked} needs the explainer, which stored and copied explanations do not keep: explain again."
            )
        return self.origin

    def to_frame(self) -> DataFrame:
        """One line per row: its label, its score, and a column of Shapley values per player."""
        columns: dict[str, Any] = {}
        for name, cells in (("row", self.row_labels), ("score", self.score)):
            while name in self.player_names:
                name += "_"
            columns[name] = cells
        values = dict(zip(self._labels(), self.values.T, strict=True))
        return frame_like(self.native, columns | values, self.row_labels)

    def _labels(self) -> NDArray[Any]:
        """What the table calls the players: text, but a number or a tuple where that is the name of a pandas column."""
        labels = column_labels(self.native, self.player_names)
        if all(isinstance(label, str) for label in labels):
            return np.array(labels, dtype=np.str_)
        result = np.empty(len(labels), dtype=object)
        result[:] = labels
        return result

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers; `from_dict` reads it back."""
        return {
            field.name: to_json_value(vars(self).get(field.name))
            for field in fields(self)
            if field.name not in _NOT_STORED
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Inverse of `to_dict`, also after a trip through JSON."""
        known = {field.name for field in fields(cls)} - set(_NOT_STORED)
        if missing := known - content.keys():
            raise ValueError(f"not an explanation: {sorted(missing)[0]!r} is missing.")
        read = {name: content[name] for name in known}
        n, d, players = (
            len(read["row_labels"]),
            len(read["feature_names"]),
            len(read["groups"] or read["feature_names"]),
        )
        for name in ("data", "expected"):
            read[name] = None if read[name] is None else _cells(read[name], (n, d))
        for name in ("values", "std_error", "score", "score_if_fixed", "suspicion"):
            if read[name] is None:
                continue
            width = () if name == "score" else (players,)  # an empty list does not know its width
            read[name] = np.array(read[name], dtype=np.float64).reshape(n, *width)
        if isinstance(read["base_value"], list):
            read["base_value"] = np.array(read["base_value"], dtype=np.float64)
        labels = read["row_labels"]
        if any(isinstance(label, (list, tuple)) for label in labels):  # of a MultiIndex
            read["row_labels"] = np.empty(n, dtype=object)
            read["row_labels"][:] = [tuple(label) for label in labels]
        else:
            read["row_labels"] = np.array(labels)
        read["feature_names"] = tuple(read["feature_names"])
        if read["groups"] is not None:
            read["groups"] = tuple((name, tuple(members)) for name, members in read["groups"])
        return cls(**read)

    def to_json(self) -> str:
        """`to_dict` as JSON; missing numbers become null."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def to_shap(self) -> Any:
        """The same as a ``shap.Explanation``, for shap's plots."""
        try:
            import shap
        except ImportError:
            raise ImportError("to_shap() needs the package shap: pip install shap") from None
        return shap.Explanation(
            values=self.values,
            base_values=np.broadcast_to(self.base_value, len(self)).copy(),
            data=self.data if self.groups is None else None,
            feature_names=list(self.player_names),
        )

    def _cells_of(self, name: str) -> NDArray[Any]:
        """A field with one entry per row; the base value may be one number for all of them."""
        cells = np.asarray(getattr(self, name))
        return np.broadcast_to(cells, (len(self), *cells.shape[1:]))

    def _per_row(self) -> Iterator[str]:
        return (name for name in _PER_ROW if isinstance(getattr(self, name, None), np.ndarray))


def _readable(cells: NDArray[Any]) -> Any:
    """Numbers as they are; texts and numbers together as texts, since a column of a table holds one kind."""
    if cells.dtype.kind == "f":
        return cells
    return [
        None if cell is None or cell != cell else f"{cell:.6g}" if isinstance(cell, float) else str(cell)
        for cell in cells
    ]


def _cells(rows: list[list[Any]], shape: tuple[int, int]) -> NDArray[Any]:
    """Cells from plain lists: float64 unless there is text among them."""
    text = any(isinstance(cell, str) for row in rows for cell in row)
    cells = np.array(rows, dtype=object if text else np.float64).reshape(shape)
    if text:
        cells[cells == None] = np.nan  # noqa: E711 - cell by cell
    return cells
