"""Flagged rows, as they come, become incidents.

Only running sums and the worst row of an incident are kept, so that an incident may last for any number of rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa.columns import Reading
from culpa.explainer import Explainer
from culpa.explanation import Explanation
from culpa.monitoring.sentences import sentence
from culpa.monitoring.times import Span, Times
from culpa.scores import ScoredRows

_MOST_PRUNED = 8  # culprits that are tried one by one for whether they are needed
_MANY = 3  # culprits above which others are tried
# Whoever brings a score down to this part of the limit above it, and of what it was above, is named alone.
_CHANCE = 0.25
_SHOWN = 5  # culprits that an incident lists, unless more must be fixed to clear the alarm


@dataclass(frozen=True, slots=True)
class Culprit:
    """A feature (or group of features) to blame for an incident.

    ``value`` is its mean Shapley value over the incident's flagged rows, ``share`` that value over their mean score.
    ``std_error`` is the standard error of that mean: from row to row, and from sampling where values are sampled (it takes
    rows for independent, so it is too small where they follow each other closely). ``actual``, ``expected`` (what all other
    features imply) and ``score_if_fixed`` (the score with this culprit alone at its expected value) belong to the
    incident's worst row and are in the user's units. A group of several features has no ``actual`` and ``expected`` of its
    own: they are NaN.
    """

    feature: str
    value: float
    std_error: float
    share: float
    actual: float
    expected: float
    score_if_fixed: float
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Incident:
    """Flagged rows that belong together.

    ``first``, ``last`` and ``peak`` (the worst row) are positions in the table, from 0; ``start``, ``end`` and
    ``peak_label`` are what the user calls these rows: times where there are some (pandas Timestamps for dates), else row
    labels. ``score`` is that of the worst row, ``limit`` the detector's.

    ``culprits`` are the worst ones, most to blame first (by Shapley values, or by the detector's ``ranking``), after the
    first ``n_to_fix``: fixing these together clears the alarm in the worst row, and fixing fewer of them does not.
    ``joint_expected`` has the value that the remaining features imply for each feature among them, and
    ``score_if_fixed`` the score with all of them at these values. ``n_to_fix`` is ``None`` where nothing would clear it.
    """

    first: int
    last: int
    peak: int
    start: Any
    end: Any
    peak_label: Any
    n_flagged: int
    score: float
    limit: float
    culprits: tuple[Culprit, ...]
    n_to_fix: int | None
    joint_expected: dict[str, float]
    score_if_fixed: float
    sentence: str = ""

    def __str__(self) -> str:
        return self.sentence


@dataclass(slots=True)
class _Draft:
    """Running sums over an incident, and its worst row so far."""

    first: int
    last: int
    peak: int
    labels: list[Any]  # of the three
    n: int
    score_sum: float
    mean: Floats  # of the values
    spread: Floats  # root of the sum of squared deviations of the values from their mean, which might overflow
    error_sum: Floats
    blame_sum: Floats  # of what culprits are ranked by
    score: float
    worst: dict[str, Floats] = field(repr=False)
    reading: Reading = field(repr=False)  # of the worst row

    def merge(self, other: "_Draft") -> None:
        """Add the rows that follow (Chan, Golub and LeVeque)."""
        n = self.n + other.n
        step = other.mean - self.mean
        self.spread = np.hypot(np.hypot(self.spread, other.spread), step * np.sqrt(self.n * other.n / n))
        self.mean = self.mean + step * (other.n / n)
        self.error_sum = self.error_sum + other.error_sum
        self.blame_sum = self.blame_sum + other.blame_sum
        self.n, self.score_sum, self.last, self.labels[1] = (
            n,
            self.score_sum + other.score_sum,
            other.last,
            other.labels[1],
        )
        if other.score > self.score:
            self.peak, self.labels[2] = other.peak, other.labels[2]
            self.score, self.worst, self.reading = other.score, other.worst, other.reading

    def std_error(self) -> Floats:
        """Of the mean; rows share the orders of a sampled rule, so their sampling errors do not average out."""
        sampling = self.error_sum / self.n
        if self.n == 1:
            return sampling
        return np.asarray(np.hypot(self.spread / np.sqrt(self.n * (self.n - 1)), sampling))


class _Fix(NamedTuple):
    """Players that clear the alarm together, most to blame first; what is expected of their features; the score then."""

    players: tuple[int, ...]
    joint_expected: dict[str, float]
    score: float


class _Rows(NamedTuple):
    """The worst rows of some incidents."""

    standard: Floats
    reading: Reading

    def choose(self, at: list[int]) -> "_Rows":
        return _Rows(self.standard[at], self.reading.choose(at))


class Grouping:
    """Takes flagged rows in order and hands out the incidents that are over."""

    def __init__(
        self,
        explainer: Explainer,
        limit: float,
        *,
        gap: int | Span = 0,
        min_length: int = 1,
        units: Sequence[str] | None = None,
        time_name: str | None = None,
        noun: str = "feature",
        dated: bool = False,
        daily: bool = False,
    ) -> None:
        if not isinstance(min_length, (int, np.integer)) or min_length < 1:
            raise ValueError(f"min_length must be a whole number of at least 1, got {min_length!r}.")
        self.model, self.score, self.limit = explainer.model, explainer.score, limit
        self.gap, self.min_length, self.time_name = gap, min_length, time_name
        self._noun, self._dated, self._daily = noun, dated, daily
        self._units = None if units is None else units_of_columns(explainer, units)
        self._columns = explainer.columns
        self._names: tuple[str, ...] = ()  # of the columns, as the rows' table has them
        self._players: list[tuple[str, tuple[int, ...]]] = []  # each player's name, and the columns behind it
        self._open: _Draft | None = None
        self._last: tuple[int, Any] | None = None  # position and time of the last flagged row

    def add(
        self,
        positions: NDArray[np.int64],
        rows: ScoredRows,
        why: Explanation,
        labels: Any,
        times: Times | None = None,
    ) -> list[Incident]:
        """Take the next flagged rows with their explanation, and return the incidents that are over.

        Rows have positions in the table, labels, and times if there are some.
        """
        if not len(positions):
            return []
        self._names, self._players = why.feature_names, list(zip(why.player_names, why.players, strict=True))
        starts = np.flatnonzero(self._begins(positions, times))
        goes_on = not len(starts) or starts[0] != 0
        cuts = np.concatenate([[0], starts]) if goes_on else starts
        pieces = list(self._pieces(why, rows, positions, labels, cuts))
        self._last = int(positions[-1]), None if times is None else times[-1]
        if goes_on:
            assert self._open is not None
            self._open.merge(pieces.pop(0))
        closed = [] if self._open is None else [self._open]
        self._open, over = (closed + pieces)[-1], (closed + pieces)[:-1]
        return self._finished(over)

    def finish(self) -> list[Incident]:
        """The incident that the table ended in, if any."""
        over = [] if self._open is None else [self._open]
        self._open = None
        return self._finished(over)

    def _begins(self, positions: NDArray[np.int64], times: Times | None) -> NDArray[np.bool_]:
        """Which flagged rows begin an incident."""
        result = np.ones(len(positions), dtype=bool)
        if isinstance(self.gap, int):
            result[1:] = np.diff(positions) - 1 > self.gap
            if self._last is not None:
                result[0] = positions[0] - self._last[0] - 1 > self.gap
        else:
            assert times is not None
            result[1:] = np.asarray(times[1:] - times[:-1] > self.gap)
            if self._last is not None:
                result[0] = times[0] - self._last[1] > self.gap
        return result

    def _pieces(
        self, why: Explanation, rows: ScoredRows, positions: NDArray[np.int64], labels: Any, cuts: NDArray[np.int64]
    ) -> Iterator[_Draft]:
        counts = np.diff([*cuts, len(positions)])
        means = np.add.reduceat(why.values, cuts, axis=0) / counts[:, None]
        spread = np.abs(np.hypot.reduceat(why.values - np.repeat(means, counts, axis=0), cuts, axis=0))
        errors = np.add.reduceat(why.std_error, cuts, axis=0)
        # who is not there in a row is as little to blame for it as the least suspect
        least = np.fmin.reduce(why.blame, axis=1, keepdims=True)
        blame = np.add.reduceat(np.where(why.observed, why.blame, least), cuts, axis=0)
        # the detector's score, which may differ from what the values of a game add up to where cells are missing
        score = rows.score
        sums = np.add.reduceat(score, cuts)
        for k, (cut, n) in enumerate(zip(cuts.tolist(), counts.tolist(), strict=True)):
            peak = cut + int(np.argmax(score[cut : cut + n]))
            yield _Draft(
                int(positions[cut]),
                int(positions[cut + n - 1]),
                int(positions[peak]),
                [_label(labels[at]) for at in (cut, cut + n - 1, peak)],
                n,
                float(sums[k]),
                means[k],
                spread[k],
                errors[k],
                blame[k],
                float(score[peak]),
                {
                    "data": why.data[peak].copy(),
                    "expected": why.expected[peak].copy(),
                    "score_if_fixed": why.score_if_fixed[peak].copy(),
                    "standard": rows.standard[peak].copy(),
                },
                rows.reading.choose(peak),
            )

    def _finished(self, drafts: list[_Draft]) -> list[Incident]:
        drafts = [draft for draft in drafts if draft.n >= self.min_length]
        if not drafts:
            return []
        ranked = np.argsort(-np.stack([draft.blame_sum for draft in drafts]), axis=1, kind="stable")
        standard = np.stack([draft.worst["standard"] for draft in drafts])
        worst = _Rows(standard, Reading.joined([draft.reading for draft in drafts]))
        fixes = self._fixes(worst, ranked, np.full(len(drafts), self.limit))
        several = [at for at, fix in enumerate(fixes) if fix is None or len(fix.players) > 1]
        above = np.array([drafts[at].score - self.limit for at in several])
        nearly = self.limit + _CHANCE * np.minimum(above, self.limit)
        told = list(fixes)
        for at, fix in zip(several, self._fixes(worst.choose(several), ranked[several], nearly), strict=True):
            told[at] = fix
        return [self._incident(*parts) for parts in zip(drafts, ranked.tolist(), fixes, told, strict=True)]

    def _fixes(self, rows: _Rows, ranked: NDArray[np.intp], bounds: Floats) -> list[_Fix | None]:
        """Culprits that bring scores down to ``bounds`` when they are fixed together, and none of whom can be left out.

        They are found among the top ones: as many as it takes, and then without those that are not needed. A healthy
        sensor may be blamed more than two broken ones that vouch for each other. Where many would be needed, those are
        tried instead whose fix helps most, one after the other.
        """
        result = self._from_the_top(rows, ranked, bounds)
        for at, fix in enumerate(result):
            if fix is None or len(fix.players) > _MANY:
                other = self._one_by_one(rows.choose([at]), ranked[at], bounds[at])
                if other is not None and (fix is None or len(other.players) < len(fix.players)):
                    result[at] = other
        return result

    def _from_the_top(self, rows: _Rows, ranked: NDArray[np.intp], bounds: Floats) -> list[_Fix | None]:
        result: list[_Fix | None] = [None] * len(rows.standard)
        waiting = list(range(len(result)))
        for k in range(1, ranked.shape[1] + 1):
            for at, fix in self._try({at: tuple(ranked[at, :k].tolist()) for at in waiting}, rows):
                if fix.score <= bounds[at]:
                    result[at] = fix
            waiting = [at for at in waiting if result[at] is None]
            if not waiting:
                break
        shrinking = {
            at: fix for at, fix in enumerate(result) if fix is not None and 1 < len(fix.players) <= _MOST_PRUNED
        }
        while shrinking:
            smaller: dict[int, _Fix] = {}
            for left_out in reversed(
                range(max(len(fix.players) for fix in shrinking.values()))
            ):  # the least blamed first
                sets = {
                    at: fix.players[:left_out] + fix.players[left_out + 1 :]
                    for at, fix in shrinking.items()
                    if at not in smaller and left_out < len(fix.players)
                }
                smaller |= {at: fix for at, fix in self._try(sets, rows) if fix.score <= bounds[at]}
            for at, fix in smaller.items():
                result[at] = fix
            shrinking = {at: fix for at, fix in smaller.items() if len(fix.players) > 1}
        return result

    def _one_by_one(self, row: _Rows, ranked: NDArray[np.intp], bound: float) -> _Fix | None:
        """The player whose fix helps most, then the one that helps most besides, and so on."""
        chosen: tuple[int, ...] = ()
        while len(chosen) < _MOST_PRUNED:
            others = [player for player in ranked.tolist() if player not in chosen]
            tried = [fix for player in others for _, fix in self._try({0: (*chosen, player)}, row)]
            if not tried:
                return None
            best = min(tried, key=lambda fix: fix.score)
            chosen = best.players
            if best.score <= bound:
                return best._replace(players=tuple(sorted(chosen, key=ranked.tolist().index)))
        return None

    def _try(self, sets: dict[int, tuple[int, ...]], rows: _Rows) -> Iterator[tuple[int, _Fix]]:
        """Fix a set of players in each of some rows."""
        alike: dict[tuple[int, ...], list[int]] = {}
        for at, players in sets.items():
            alike.setdefault(tuple(sorted(i for player in players for i in self._players[player][1])), []).append(at)
        for block, at_rows in alike.items():
            members = self._columns.features_of(block)
            here = rows.choose(at_rows)
            expected, fixed = self.score.fix(here.standard, members)
            here.standard[:, members] = expected
            values = self.model.to_cells(here.standard, here.reading, self._columns)[:, block]
            for at, score, value in zip(at_rows, fixed, values, strict=True):
                jointly = dict(zip((self._names[i] for i in block), value.tolist(), strict=True))
                yield at, _Fix(sets[at], jointly, float(score))

    def _incident(self, draft: _Draft, ranked: list[int], fix: _Fix | None, told: _Fix | None) -> Incident:
        """``fix`` clears the alarm; ``told`` are those that the sentence names."""
        first = () if fix is None else fix.players
        shown = [*first, *(player for player in ranked if player not in first)][: max(_SHOWN, len(first))]
        start, end, peak_label = draft.labels
        incident = Incident(
            draft.first,
            draft.last,
            draft.peak,
            start,
            end,
            peak_label,
            n_flagged=draft.n,
            score=draft.score,
            limit=self.limit,
            culprits=tuple(self._culprit(draft, player) for player in shown),
            n_to_fix=None if fix is None else len(first),
            joint_expected={} if fix is None else fix.joint_expected,
            score_if_fixed=np.nan if fix is None else fix.score,
        )
        named, jointly = (told.players, told.joint_expected) if told is not None else (ranked[:1], {})
        culprits = [self._culprit(draft, player) for player in named]
        implied = [
            jointly.get(self._names[self._players[player][1][0]], culprit.expected)
            for player, culprit in zip(named, culprits, strict=True)
        ]
        text = sentence(
            incident,
            culprits,
            implied,
            self.score.name,
            noun=self._noun,
            verb="read" if self._columns.smooth is None else "averaged",
            time_name=self.time_name,
            dated=self._dated,
            daily=self._daily,
        )
        return replace(incident, sentence=text)

    def _culprit(self, draft: _Draft, player: int) -> Culprit:
        name, columns = self._players[player]
        single = columns[0] if len(columns) == 1 else None
        return Culprit(
            name,
            float(draft.mean[player]),
            float(draft.std_error()[player]),
            float(draft.mean[player] * draft.n / draft.score_sum),
            np.nan if single is None else float(draft.worst["data"][single]),
            np.nan if single is None else float(draft.worst["expected"][single]),
            float(draft.worst["score_if_fixed"][player]),
            "" if single is None or self._units is None else self._units[single],
        )


def units_of_columns(explainer: Explainer, units: Sequence[str]) -> tuple[str, ...]:
    """Units of the explainer's columns from those of the model's: a past value has that of its sensor."""
    of_feature = {i: unit for unit, at in zip(units, explainer.model.columns.members, strict=True) for i in at}
    return tuple(of_feature[at[0]] for at in explainer.columns.members)


def _label(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) and not isinstance(label, np.datetime64) else label
