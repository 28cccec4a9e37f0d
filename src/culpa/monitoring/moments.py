"""Who is to blame at one moment of an incident, and what was to be expected of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import special

from culpa._core.comparing import ranked
from culpa._core.types import Floats
from culpa.columns import Columns
from culpa.explaining.explainer import Explainer
from culpa.fitted import FittedDetector
from culpa.monitoring.clearing import Around, RowFixer
from culpa.monitoring.incident import Culprit, Disagreement, Extent, Moment
from culpa.monitoring.running import Draft, Snapshot
from culpa.ranking.fault_odds import FaultEvidence, SharedFaults
from culpa.ranking.incident_evidence import Explained, explained_by_few
from culpa.scores import named_score
from culpa.scores.consistency import Residuals
from culpa.scores.following import LEVEL, VIEWS

FEWEST_SD = 2.0  # nothing closer to its expected value is called a culprit
_EXPLAINED = 0.75  # of the excess: from here on, a few features explain an incident
_LIKELY = 0.5  # probability from which a feature is named alone
_TIE = 3.0  # loss of log-evidence up to which another feature explains the rows equally well
_RELATED = 0.5  # partial correlation from which features can stand in for each other
_BROKEN_FROM = 0.3  # correlation of features that have a relation worth checking
_MOST_BROKEN = 3
_MOST_MOVED = 3  # features of an upset that are named
_LARGEST = 1e9  # standard deviations
_FIRST_ROWS = 5  # flagged rows among which the onset of a fault is shown
_EARLIEST, _QUARTER = 3, 0.25  # first flagged rows, and the share of blame from which somebody stands out in them


class Onset(NamedTuple):
    """How an incident began; ``first`` has the share of blame of whoever stands out in the first flagged rows."""

    extent: Extent
    explained: float
    moment: Moment
    first: dict[str, float]


class Names(NamedTuple):
    """What features and players are called, and the positions of the features behind each player."""

    features: tuple[str, ...]
    players: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, explainer: Explainer, given: tuple[str, ...] | None) -> Self:
        """As explanations have them; new rows may have ``given`` names."""
        columns = explainer.columns
        names = columns.known_names or given or columns.names
        if explainer.groups is None:
            return cls(names, names, tuple((i,) for i in range(len(names))))
        groups = explainer.groups
        return cls(names, tuple(name for name, _ in groups), tuple(tuple(at) for _, at in groups))

    def of_column(self, k: int) -> str:
        """A feature, or the player that it is alone in."""
        return next(
            (name for name, at in zip(self.players, self.columns, strict=True) if tuple(at) == (k,)), self.features[k]
        )

    @property
    def members(self) -> dict[str, list[str]]:
        """The features of every player."""
        return {name: [self.features[k] for k in at] for name, at in zip(self.players, self.columns, strict=True)}


class Judge:
    """Judges rows of incidents by the model of normal rows."""

    def __init__(
        self,
        fitted: FittedDetector,
        score: Around,
        columns: Columns,
        names: Names,
        units: Sequence[str],
        decimals: Sequence[int],
    ) -> None:
        """``score`` is that of rows around the mean of the fitted model, which may be one of several modes.

        ``units`` and ``decimals`` are those of the columns' readings.
        """
        self.fitted, self.names, self.units, self.decimals = fitted, names, units, decimals
        self._model, self._columns, self._score = fitted.model, columns, score
        self.features = [self._columns.features_of(list(block)) for block in names.columns]
        self.main = np.array([members[0] for members in self._columns.members])  # a column's present value
        self._player_of = {j: k for k, block in enumerate(self.features) for j in block}
        self._gaussian = self._model.gaussian
        covariance = self._gaussian.covariance
        self._sd = np.sqrt(np.diag(covariance))
        self._correlation = covariance / np.outer(self._sd, self._sd)
        self._distance = named_score("mahalanobis", self._model)
        self._root, self.precision = self._distance.root, self._distance.matrix
        self._faults = FaultEvidence(self.precision, self._sd)
        self._inflation = np.sqrt(fitted.normal_range.inflation)  # of standard deviations
        self._wider = self._inflation if fitted.usual_errors is None else fitted.usual_errors  # given others

    def onset(self, draft: Draft) -> Onset:
        """The first rows: a few features that explain them, or those that moved, against what is normal."""
        first = self._stand_out(draft.head[:_EARLIEST])
        names = {self.names.players[player]: share for player, share in first.items()}
        head = draft.head_in(view_of(draft))
        rows = np.stack([snapshot.standard for snapshot in head]) - shift_of(draft, head[0])
        alike = min(self.fitted.normal_range.dependence, len(rows))
        explained, faults = self._evidence(rows, alike)
        if self._is_upset(explained, rows):
            return Onset("upset", explained.share, self._began(draft, head, list(first)), names)
        moment = self._fault(_highest(head[:_FIRST_ROWS]), faults)
        return Onset("features" if moment.culprits else "unclear", explained.share, moment, names)

    def _stand_out(self, head: Sequence[Snapshot]) -> dict[int, float]:
        """Players with more than a quarter of the blame in the first rows, or in one of them, and their shares."""
        values = np.nan_to_num([snapshot.values for snapshot in head])
        scores = np.array([[snapshot.score] for snapshot in head])
        shares = np.vstack([values.sum(axis=0, keepdims=True) / scores.sum(), values / scores]).max(axis=0)
        return {
            int(k): float(shares[k]) for k in np.argsort(-shares, kind="stable")[:_MOST_MOVED] if shares[k] > _QUARTER
        }

    def _began(self, draft: Draft, head: list[Snapshot], first: list[int]) -> Moment:
        """The onset of an upset: where somebody stands out, or the highest of its first rows."""
        moved = self._ranked_by(draft.movement.stayed)
        if not first:
            return self._upset(_highest(head), moved)
        blame = [snapshot.values[first[0]] / snapshot.score for snapshot in head[:_EARLIEST]]
        at = head[int(np.argmax(np.nan_to_num(blame)))]
        return self._upset(at, [*first, *(player for player in moved if player not in first)])

    def worst(self, draft: Draft) -> Moment:
        """The moment of the row with the highest score."""
        assert draft.worst is not None
        row = draft.worst.standard[None] - shift_of(draft, draft.worst)
        explained, faults = self._evidence(row, 1.0)
        if self._is_upset(explained, row):
            movement = self.fitted.normal_range.movement(row)[0][self.main]
            return self._upset(draft.worst, self._ranked_by(np.nan_to_num(movement)))
        return self._fault(draft.worst, faults)

    def alone(self, snapshot: Snapshot, column: int) -> Moment:
        """A row with one column to blame, or none (-1), whether or not it is flagged."""
        if column < 0:
            return replace(self._moment(snapshot, [], []), to_fix={})
        player = next(k for k, at in enumerate(self.names.columns) if column in at)
        culprit = self._against_others(snapshot, player, [player], np.full(len(self.features), np.nan), None)
        return replace(self._moment(snapshot, [culprit], [player]), to_fix={}, score_if_fixed=np.nan)

    def _evidence(self, rows: Floats, dependence: float) -> tuple[Explained, SharedFaults]:
        # a missing cell at its expected value says nothing for or against its feature; squares must not overflow
        complete = np.clip(self._gaussian.impute(rows) / self._inflation, -_LARGEST, _LARGEST)
        return explained_by_few(complete, self._root, self.features), self._faults.shared(complete, dependence)

    def _is_upset(self, explained: Explained, rows: Floats) -> bool:
        """Only an excess that is not by chance tells that few features do not explain it."""
        by_chance = 2 * np.sqrt(2 * len(self.precision) * len(rows) * self.fitted.normal_range.dependence)
        return explained.share < _EXPLAINED and explained.excess > by_chance and not self._are_normal(rows)

    def _are_normal(self, rows: Floats) -> bool:
        """Whether rows are, but for one feature, no farther out than 95% of stretches of normal rows.

        These are judged by models that have not seen them, which matters where few rows are alone in what they say.
        """
        normal = self.fitted.consistency
        if normal is None or len(rows) == 1 or len(self.main) < len(self.precision):
            return False  # one row is flagged because it is farther out than normal ones
        seen = Residuals.of(self._distance, self._gaussian.impute(rows))
        return bool((seen.rest.mean(axis=0) <= normal.rest[normal.at(len(rows))]).any())

    def _ranked_by(self, of_columns: Floats) -> list[int]:
        """Positions of players, those with most evidence first."""
        evidence = [max(of_columns[list(block)]) for block in self.names.columns]
        return [int(k) for k in ranked(np.array(evidence))]

    # a few features

    def _fault(self, snapshot: Snapshot, faults: SharedFaults) -> Moment:
        log_odds = faults.log_odds
        of_player = np.array([max(log_odds[block]) for block in self.features])
        suspects = ranked(of_player).tolist()
        likeliest = {self._player_of[j] for j in faults.likeliest if j in self._player_of}  # others are given
        named = [player for player in suspects if player in likeliest]
        if not named and of_player[suspects[0]] > np.log(_LIKELY / (1 - _LIKELY)):
            named = suspects[:1]
        probability = special.expit(of_player)
        culprits: list[Culprit] = []
        while named:
            culprits = [self._against_others(snapshot, player, named, probability, faults) for player in named]
            close = [k for k, culprit in enumerate(culprits) if not abs(culprit.deviation) >= FEWEST_SD]
            if not close:
                break
            named = [player for k, player in enumerate(named) if k not in close]  # their expectations change
            culprits = []
        return self._moment(snapshot, culprits, named + [player for player in suspects if player not in named])

    def _against_others(
        self, snapshot: Snapshot, player: int, named: Sequence[int], probability: Floats, faults: SharedFaults | None
    ) -> Culprit:
        block = sorted({j for other in named for j in self.features[other]})
        expected, sd = snapshot.standard.copy(), np.zeros(len(snapshot.standard))
        observed = np.flatnonzero(~np.isnan(snapshot.standard))
        mean, covariance = self._gaussian.conditional(
            np.nan_to_num(snapshot.standard)[None], np.setdiff1d(observed, block)
        )
        others = snapshot.standard.copy()
        others[block] = np.nan
        wider = np.sqrt(self._gaussian.spread_factor(others[None])[0])
        expected[block] = mean[0, block]
        sd[block] = (self._wider * wider * np.sqrt(np.diag(covariance)))[block]
        return self._culprit(
            snapshot,
            player,
            expected,
            sd,
            "others",
            float(probability[player]),
            instead=self._instead(player, faults),
            disagrees_with=self._disagreements(snapshot, player, named),
        )

    def _instead(self, player: int, faults: SharedFaults | None) -> tuple[str, ...]:
        """Players that would explain the rows equally well, and that the model can tell from this one only by it."""
        block = self.features[player]
        feature = None if faults is None else next((j for j in faults.likeliest if j in block), None)
        if faults is None or feature is None or len(block) > 1:
            return ()
        P = self.precision
        partial = np.abs(P[feature]) / np.sqrt(P[feature, feature] * np.diag(P))
        partial[feature] = 0.0
        others = [
            self._player_of[j]
            for j in np.argsort(-partial).tolist()
            if partial[j] >= _RELATED and j in self._player_of and faults.loss_if_swapped(feature, j) < _TIE
        ]
        return tuple(self.names.players[other] for other in dict.fromkeys(others))

    def _disagreements(self, snapshot: Snapshot, player: int, named: Sequence[int]) -> tuple[Disagreement, ...]:
        """Features outside the culprits whose usual relation to this one broke most."""
        if len(self.names.columns[player]) > 1:
            return ()
        i = int(self.main[self.names.columns[player][0]])
        z, sd, rho = snapshot.standard, self._sd, self._correlation[i]
        blamed = {j for other in named for j in self.features[other]}
        found = []
        for column, j in enumerate(self.main.tolist()):
            if j in blamed or abs(rho[j]) < _BROKEN_FROM or np.isnan(z[j]):
                continue
            implied = sd[i] * rho[j] * z[j] / sd[j]
            spread = self._inflation * sd[i] * np.sqrt(max(1 - rho[j] ** 2, 1e-12))
            off = (z[i] - implied) / spread
            surprise = off**2 - (z[i] / (self._inflation * sd[i])) ** 2  # beyond what the feature's own distance tells
            if surprise > 0 and abs(off) >= FEWEST_SD:
                found.append((surprise, column, implied, spread, off))
        found.sort(reverse=True)
        result = []
        for _, column, implied, spread, off in found[:_MOST_BROKEN]:
            place = self.names.columns[player][0]
            value, half = self._shown(snapshot, place, implied, spread)
            result.append(Disagreement(self.names.features[column], value, half, float(off)))
        return tuple(result)

    # a process that moved

    def _upset(self, snapshot: Snapshot, ranked: list[int]) -> Moment:
        normal = np.zeros(len(snapshot.standard))
        sd = self._inflation * self._model.spread
        culprits = [self._culprit(snapshot, player, normal, sd, "normal") for player in ranked]
        moved = [culprit for culprit in culprits if abs(culprit.deviation) >= FEWEST_SD]
        return self._moment(snapshot, moved[:_MOST_MOVED], ranked)

    # numbers

    def _culprit(
        self,
        snapshot: Snapshot,
        player: int,
        expected: Floats,
        sd: Floats,
        against: Any,
        probability: float = np.nan,
        instead: tuple[str, ...] = (),
        disagrees_with: tuple[Disagreement, ...] = (),
    ) -> Culprit:
        columns = list(self.names.columns[player])
        features = self.main[columns]
        with np.errstate(divide="ignore", invalid="ignore"):
            off = (snapshot.standard[features] - expected[features]) / sd[features]
        furthest = int(np.argmax(np.nan_to_num(np.abs(off), nan=-1.0)))
        column, feature = columns[furthest], int(features[furthest])
        value, half = self._shown(snapshot, column, expected[feature], sd[feature])
        fixer = RowFixer(snapshot.standard, self._score, self.precision, self.features)
        return Culprit(
            feature=self.names.players[player],
            probability=probability,
            value=float(snapshot.values[player]),
            std_error=float(snapshot.std_error[player]),
            share=float(snapshot.values[player] / snapshot.score),
            actual=float(snapshot.reading.cells[0, column]),
            expected=value,
            expected_sd=half,
            deviation=float(off[furthest]),
            against=against,
            expected_was_seen=not self.fitted.normal_range.is_outside(expected)[feature],
            score_if_fixed=fixer.score_without([player]) / snapshot.scale,
            view=VIEWS[snapshot.view],
            before=self._before(snapshot, column),
            decimals=self.decimals[column],
            unit=self.units[column],
            member=self.names.features[column] if len(columns) > 1 else "",
            instead=instead,
            disagrees_with=disagrees_with,
        )

    def _shown(self, snapshot: Snapshot, column: int, value: float, sd: float) -> tuple[float, float]:
        """A standardised value of a column, and a standard deviation, in the user's units."""
        row = np.zeros((2, len(snapshot.standard)))
        row[:, self.main[column]] = value, value + sd
        both = snapshot.reading.choose([0, 0])
        low, high = self._model.to_cells(row, both, self._columns)[:, column]
        return float(low), float(abs(high - low))

    def _before(self, snapshot: Snapshot, column: int) -> float:
        """The recent level of a column, or its reading in the row before: where the view has zero; NaN for the level."""
        return np.nan if snapshot.view == LEVEL else self._shown(snapshot, column, 0.0, 0.0)[0]

    def _moment(self, snapshot: Snapshot, culprits: Sequence[Culprit], ranked: Sequence[int]) -> Moment:
        fixer = RowFixer(snapshot.standard, self._score, self.precision, self.features)
        observed = [k for k in ranked if not np.isnan(snapshot.standard[self.features[k]]).all()]
        fix = fixer.clear(observed, snapshot.limit)
        p_value = self.fitted.p_values(np.array([snapshot.score]))
        return Moment(
            snapshot.row,
            snapshot.label,
            snapshot.score,
            np.nan if p_value is None else float(p_value[0]),
            tuple(culprits),
            snapshot.n_outside,
            {} if fix is None else self._jointly(snapshot, fixer.fixed(fix.players), fix.players),
            np.nan if fix is None else fix.score / snapshot.scale,
        )

    def _jointly(self, snapshot: Snapshot, fixed: Floats, players: Sequence[int]) -> dict[str, float]:
        """What the remaining features imply for all features of these players, in the user's units."""
        cells = self._model.to_cells(fixed[None], snapshot.reading, self._columns)[0]
        return {self.names.features[k]: float(cells[k]) for player in players for k in self.names.columns[player]}


def view_of(draft: Draft) -> int:
    """The view that flagged most of the first rows of an incident."""
    views = [snapshot.view for snapshot in draft.head[:_FIRST_ROWS]]
    return min(views, key=lambda view: (-views.count(view), view))


def shift_of(draft: Draft, snapshot: Snapshot) -> Floats:
    """How far rows were from the normal mean before the onset, where that is taken into account."""
    return draft.shift if snapshot.view == LEVEL else np.zeros_like(draft.shift)


def _highest(snapshots: Sequence[Snapshot]) -> Snapshot:
    return max(snapshots, key=lambda snapshot: snapshot.score)
