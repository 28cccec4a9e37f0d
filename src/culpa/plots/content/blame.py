"""What plots of an explanation show: which features are blamed, how much, and how far a value is from its expected
value."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.comparing import ranked
from culpa._core.types import Floats
from culpa._core.validation import feature_positions, read_cells, read_table
from culpa.explaining.explanation import Explanation
from culpa.plots.content.rows import Positions

LEFT_OVER = "left over by sampling"
MAX_CLOUD = 3000
_NEGLIGIBLE = 1e-6  # share of the score that may get lost in rounding


class Selection(NamedTuple):
    """Players with a bar of their own, in order, and players that share the bar "others"."""

    shown: Positions
    others: Positions

    @classmethod
    def largest(cls, weights: Floats, max_features: int | None, players: Positions | None = None) -> "Selection":
        """The ``max_features`` largest weights; one that would be left over alone is shown as well."""
        players = np.arange(len(weights)) if players is None else players
        if max_features is not None and max_features < 1:
            raise ValueError(f"max_features must be at least 1, or None for all of them, got {max_features!r}.")
        players = players[ranked(weights[players])]
        if max_features is None or len(players) <= max_features + 1:
            max_features = len(players)
        return cls(players[:max_features], players[max_features:])

    def names(self, all_names: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the bars, from top to bottom."""
        shown = tuple(all_names[i] for i in self.shown)
        return (*shown, f"{len(self.others)} others") if len(self.others) else shown

    def gather(self, values: Floats) -> Floats:
        """Values of the bars along the last axis: the shown ones, then the sum of the others."""
        shown = values[..., self.shown]
        if not len(self.others):
            return shown
        return np.concatenate([shown, values[..., self.others].sum(axis=-1, keepdims=True)], axis=-1)

    def gather_errors(self, errors: Floats, total: bool) -> Floats:
        """Errors of the bars; that of the sum is a bound, because how the parts' errors go together is not known.

        It is at most the sum of the parts' errors, and, where everybody's values add up to a known ``total``, at most the
        sum of the others' errors.
        """
        gathered = self.gather(errors)
        if len(self.others) and total:
            gathered[..., -1] = np.minimum(gathered[..., -1], errors[..., self.shown].sum(axis=-1))
        return gathered


@dataclass(frozen=True, eq=False)
class Waterfall:
    """From the base value to one row's score: ``base_value + values.sum() == score``, always.

    Bars are ordered by size. With ``n_other`` > 0 a bar is the sum of the smallest; the paper's Algorithm 1, whose values
    do not add up, leaves a last bar named `LEFT_OVER`. A row without any observed feature has no bars and score NaN.

    Attributes
    ----------
    names : tuple of str
    values, starts, errors : ndarray of shape (bars,)
        Bar k reaches from ``starts[k]`` to ``starts[k] + values[k]``; ``errors`` are half widths of 95% intervals, zero
        where exact.
    actual, expected : ndarray of shape (bars,)
        The cell and what the other features imply, in the user's units, maybe texts; NaN for groups and for sums.
    label : object
        What the user calls the row.
    limit : float or None
        Control limit of the score.
    missing : tuple of str
        Players without an observed cell, who get no bar.
    """

    names: tuple[str, ...]
    values: Floats
    starts: Floats
    errors: Floats
    actual: NDArray[Any]
    expected: NDArray[Any]
    base_value: float
    score: float
    score_name: str
    label: Any
    limit: float | None
    n_other: int
    missing: tuple[str, ...]

    @classmethod
    def of(
        cls, why: Explanation, row: int = 0, *, max_features: int | None = 12, limit: float | None = None
    ) -> "Waterfall":
        """Content for the row at position ``row``."""
        why = why[row]
        base_value = float(np.broadcast_to(why.base_value, 1)[0])
        observed = why.observed[0] & ~np.isnan(why.values[0])
        select = Selection.largest(np.abs(why.values[0]), max_features, np.flatnonzero(observed))
        values = select.gather(why.values[0])
        rest = float(why.score[0] - base_value - values.sum())
        adds_up = not abs(rest) > _NEGLIGIBLE * max(abs(why.score[0]), abs(base_value), np.abs(values).sum())
        errors = select.gather_errors(why.interval()[1][0] - why.values[0], adds_up)
        actual, expected = (_cells(why, cells[0], select) for cells in (why.data, why.expected))
        names = select.names(why.player_names)
        if not adds_up:
            names, values, errors = (*names, LEFT_OVER), np.append(values, rest), np.append(errors, 0.0)
            actual, expected = np.append(actual, np.nan), np.append(expected, np.nan)
        return cls(
            names,
            values,
            np.cumsum([base_value, *values])[:-1],
            errors,
            actual,
            expected,
            base_value,
            float(why.score[0]),
            why.score_name,
            why.row_labels[0],
            limit,
            len(select.others),
            tuple(name for name, seen in zip(why.player_names, observed, strict=True) if not seen),
        )


@dataclass(frozen=True, eq=False)
class Bars:
    """Blame of one row, or mean blame over many, largest first; with ``n_other`` > 0 the last bar is a sum.

    ``low`` and ``high`` are the ends of whiskers, whose meaning ``whiskers`` tells: for one row the 95% interval of
    sampled values, for many the middle 80% of the rows; ``None`` where there is nothing to tell. Rows without any observed
    feature do not count.
    """

    names: tuple[str, ...]
    values: Floats
    low: Floats
    high: Floats
    whiskers: str | None
    n_rows: int
    n_other: int
    label: Any
    score_name: str

    @classmethod
    def of(cls, why: Explanation, row: int | None = None, *, max_features: int | None = 12) -> "Bars":
        """Content for the row at position ``row``, or for all rows together."""
        why = _some(why) if row is None else why[row]
        why = why[~np.isnan(why.score)] if len(why) > 1 else why
        mean = why.values.mean(axis=0) if len(why) else np.zeros(len(why.player_names))
        seen = why.observed.any(axis=0) & ~np.isnan(mean)
        select = Selection.largest(np.abs(mean), max_features, np.flatnonzero(seen))
        bars = select.gather(why.values)
        values, whiskers = select.gather(mean), None
        low, high = values, values
        if len(why) > 1:
            whiskers = "middle 80% of the rows"
            low, high = np.quantile(bars, [0.1, 0.9], axis=0)
        elif not why.exact:
            whiskers = "95% interval"
            errors = select.gather_errors(why.interval()[1][0] - why.values[0], why.method != "algorithm1")
            low, high = values - errors, values + errors
        return cls(
            select.names(why.player_names),
            values,
            low,
            high,
            whiskers,
            len(why),
            len(select.others),
            why.row_labels[0] if len(why) == 1 else None,
            why.score_name,
        )


@dataclass(frozen=True, eq=False)
class Heatmap:
    """Blame of every row and player; players ordered by mean absolute blame, the last a sum where ``n_other`` > 0.

    ``values`` is (rows, players), NaN where a player had no observed cell. Of very many rows the one with the highest score
    of each stretch is shown; ``positions`` says which. ``scale`` is a size of blame that should get the strongest colour.
    """

    names: tuple[str, ...]
    values: Floats
    score: Floats
    labels: NDArray[Any]
    positions: Positions
    scale: float
    n_rows: int
    n_other: int
    score_name: str

    @classmethod
    def of(cls, why: Explanation, *, max_features: int | None = 20, max_rows: int | None = 500) -> "Heatmap":
        """Content for all rows of an explanation, in their order."""
        _some(why)
        values = np.where(why.observed, why.values, np.nan)
        filled = np.nan_to_num(values)
        select = Selection.largest(np.abs(filled).mean(axis=0), max_features)
        positions = _peaks(why.score, max_rows)
        bars = select.gather(filled)
        bars[..., : len(select.shown)] = values[:, select.shown]
        if len(select.others):
            bars[np.isnan(values[:, select.others]).all(axis=1), -1] = np.nan
        bars = bars[positions]
        return cls(
            select.names(why.player_names),
            bars,
            why.score[positions],
            why.row_labels[positions],
            positions,
            _strong(bars),
            len(why),
            len(select.others),
            why.score_name,
        )


@dataclass(frozen=True, eq=False)
class Scatter:
    """A row among others, in the plane of a culprit and another feature, with the culprit's expected value.

    The row lies at (``x``, ``y``) and should lie at (``x``, ``expected``); ``y`` is NaN where the cell is missing. Where
    the other feature's cell is missing, ``x`` is its expected value and ``x_observed`` is false. ``cloud`` is (rows, 2), at
    most `MAX_CLOUD` of them.
    """

    feature: str
    against: str
    x: float
    y: float
    expected: float
    x_observed: bool
    cloud: Floats
    cloud_name: str
    label: Any

    @classmethod
    def of(
        cls,
        why: Explanation,
        row: int = 0,
        *,
        feature: str | int | None = None,
        against: str | int | None = None,
        normal: Any = None,
    ) -> "Scatter":
        """Content for the row at position ``row``.

        ``feature`` is the most blamed one unless named, ``against`` the one that correlates most with it, and the cloud
        are rows of the table ``normal``, or the other explained rows.
        """
        if len(why.feature_names) < 2:
            raise ValueError("a scatter plot needs a second feature.")
        texts = [isinstance(cell, str) for cell in why[row].data[0]]
        cloud = np.delete(_numbers(why.data), row, axis=0) if normal is None else _normal_rows(normal, why)
        why = replace(why, data=_numbers(why.data), expected=_numbers(why.expected))
        one = why[row]
        i = _worst(one, cloud) if feature is None else _position(feature, why, "feature")
        j = _companion(cloud, one, i) if against is None else _position(against, why, "against")
        for at in (i, j):
            if texts[at]:
                raise ValueError(
                    f"{why.feature_names[at]!r} contains text. Choose other features with feature= and against=."
                )
        x_observed = not np.isnan(one.data[0, j])
        return cls(
            why.feature_names[i],
            why.feature_names[j],
            float(one.data[0, j] if x_observed else one.expected[0, j]),
            float(one.data[0, i]),
            float(one.expected[0, i]),
            x_observed,
            cloud[:: -(-len(cloud) // MAX_CLOUD) or 1, [j, i]],
            "other explained rows" if normal is None else "normal rows",
            one.row_labels[0],
        )


def _some(why: Explanation) -> Explanation:
    if not len(why):
        raise ValueError("the explanation has no rows, so there is nothing to show.")
    return why


def _cells(why: Explanation, cells: NDArray[Any], select: Selection) -> NDArray[Any]:
    """Cells behind the bars; groups and sums have none of their own."""
    own: list[Any] = [cells[why.players[k][0]] if len(why.players[k]) == 1 else np.nan for k in select.shown]
    if cells.dtype.kind != "f":
        own = [x if isinstance(x, float) else np.nan if x is None else str(x) for x in own]
    return np.array([*own, *([np.nan] if len(select.others) else [])], dtype=cells.dtype)


def _numbers(cells: NDArray[Any]) -> Floats:
    """Cells that have a place on an axis; NaN for texts."""
    if cells.dtype.kind == "f":
        return cells
    numbers = [cell if isinstance(cell, float) else np.nan for cell in cells.ravel()]
    return np.array(numbers, dtype=np.float64).reshape(cells.shape)


def _peaks(score: Floats, max_rows: int | None) -> Positions:
    """Position of the highest score in each of at most ``max_rows`` stretches of rows."""
    if max_rows is None or len(score) <= max_rows:
        return np.arange(len(score))
    width = -(-len(score) // max_rows)
    starts = np.arange(0, len(score), width)
    padded = np.full(len(starts) * width, -np.inf)
    padded[: len(score)] = np.nan_to_num(score, nan=-np.inf)
    return np.asarray(starts + padded.reshape(len(starts), width).argmax(axis=1))


def _strong(values: Floats) -> float:
    """The 99.5% quantile of absolute values, so that one extreme row does not bleach all others."""
    sizes = np.abs(values[~np.isnan(values)])
    scale = float(np.quantile(sizes, 0.995, method="higher")) if len(sizes) else 0.0
    return scale or float(sizes.max(initial=0.0)) or 1.0


def _position(feature: str | int, why: Explanation, argument: str) -> int:
    return feature_positions([feature], why.feature_names, argument)[0]


def _normal_rows(normal: Any, why: Explanation) -> Floats:
    if why.data.dtype.kind != "f":  # a table with texts
        return np.column_stack([_numbers(read_cells(normal, k, name)) for k, name in enumerate(why.feature_names)])
    table = read_table(normal, argument="normal")
    if table.names is not None:
        return table.array[:, feature_positions(why.feature_names, table.names, "normal")]
    if table.array.shape[1] != len(why.feature_names):
        raise ValueError(
            f"normal has {table.array.shape[1]} features, but {len(why.feature_names)} were explained: "
            "pass rows with the same columns."
        )
    return table.array


def _worst(one: Explanation, cloud: Floats) -> int:
    """The most blamed feature that is a number; of a group the member that is furthest off, measured by its spread."""
    numbers = ~np.isnan(one.data[0])
    usable = np.array([numbers[list(members)].any() for members in one.players])
    if not usable.any():
        raise ValueError(f"row {one.row_labels[0]} has no number to show: name a feature.")
    members = [i for i in one.players[int(np.argmax(np.where(usable, one.values[0], -np.inf)))] if numbers[i]]
    if len(members) == 1:
        return members[0]
    spread = np.nanstd(np.vstack([cloud, one.data])[:, members], axis=0)
    off = np.abs(one.data[0, members] - one.expected[0, members]) / np.where(spread > 0, spread, 1.0)
    return members[int(np.argmax(off))]


def _companion(cloud: Floats, one: Explanation, i: int) -> int:
    """The observed feature that correlates most with feature i in the cloud; without a cloud a neighbour by position."""
    usable = ~np.isnan(one.data[0])
    usable[i] = False
    if not usable.any():
        usable = np.arange(len(usable)) != i
    strength = np.where(usable, [_correlation(cloud[:, i], cloud[:, j]) for j in range(cloud.shape[1])], -1.0)
    return int(np.argmax(strength))


def _correlation(a: Floats, b: Floats) -> float:
    """Absolute correlation over rows where both are observed; 0 where it is not defined."""
    both = ~(np.isnan(a) | np.isnan(b))
    if both.sum() < 3:
        return 0.0
    a, b = a[both] - a[both].mean(), b[both] - b[both].mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return abs(float(a @ b)) / size if size > 0 else 0.0
