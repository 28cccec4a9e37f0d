"""An incident in a few plain sentences: how it began, how it spread, when it was worst.

Every number in them is one of the incident's own.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from culpa._core.words import cut, listed
from culpa.columns.units import short_names
from culpa.monitoring.digits import in_sd, times_the_limit
from culpa.monitoring.incident import Culprit, Incident
from culpa.monitoring.when import Clock

_SPREAD_NAMED = 3
_ACCOUNTS_FROM = 0.5  # share of the score from which culprits are said to account for it
_FEWEST_LASTING = 10  # flagged rows from which features are said to stay away from normal
_CLEARLY_ABOVE = 2.0  # times the limit, from which fewer rows, too, show that a process moved
_SCORES = {"t2": "T2", "mahalanobis": "the distance", "combined": "the score"}


class Storyteller:
    """Writes the sentences of incidents."""

    def __init__(
        self, clock: Clock, score_name: str, members: Mapping[str, Sequence[str]], *, noun: str, averaged: bool = False
    ) -> None:
        """``members`` are the features of every player."""
        self.clock, self.noun, self.members = clock, noun, members
        names = list(dict.fromkeys([*members, *(name for block in members.values() for name in block)]))
        self.short = dict(zip(names, short_names(names), strict=True))  # units stand beside the numbers
        self.n_features = sum(map(len, members.values()))
        self.score = _SCORES.get(score_name, "the error")
        self.read = "averaged" if averaged else "read"

    def story(self, incident: Incident, *, over: bool = True) -> str:
        """The sentences, joined; an incident that is not ``over`` has no end yet."""
        labels = [incident.start, incident.end, incident.onset.label, incident.peak_label]
        tell = {"features": self._fault, "upset": self._upset, "unclear": self._unclear}[incident.kind]
        lasted = self._lasted(incident, labels, over=over)
        parts = tell(incident, labels, lasted)
        if incident.first != incident.last:
            parts += self._spread(incident, labels) + self._worst(incident, labels)
        return " ".join(parts)

    def _fault(self, incident: Incident, labels: Sequence[Any], lasted: str) -> list[str]:
        culprits = incident.onset.culprits
        told = listed([self._against_others(culprit, k) for k, culprit in enumerate(culprits)])
        share = math.fsum(culprit.share for culprit in culprits)
        who = "It accounts" if len(culprits) == 1 else "Together they account"
        part = "all" if share >= 0.995 else f"{share:.0%}"
        accounts = [f"{who} for {part} of {self.score}."] if share >= _ACCOUNTS_FROM else []
        ties = [self._tie(culprit) for culprit in culprits if culprit.instead]
        if incident.first == incident.last:
            return [f"{self._single(incident)}, {told}.", *accounts, *ties]
        names = listed([self._name(culprit) for culprit in culprits])
        return [
            f"{self._began(incident, labels)} with {names} {lasted}.",
            f"{self._then(incident, labels)}, {told}.",
            *accounts,
            *ties,
        ]

    def _lasted(self, incident: Incident, labels: Sequence[Any], *, over: bool) -> str:
        """The end of a sentence about the beginning."""
        return f"and {'lasted' if over else 'has lasted'} until {self.clock.until(incident.end, labels)}"

    def _began(self, incident: Incident, labels: Sequence[Any]) -> str:
        return f"Began {self.clock.at(incident.start, labels, first=True)}{_in_mode(incident)}"

    def _single(self, incident: Incident) -> str:
        return f"{self.clock.span(incident.start, incident.end)}{_in_mode(incident)}"

    def _then(self, incident: Incident, labels: Sequence[Any]) -> str:
        at = self.clock.at(incident.onset.label, labels)
        return at[0].upper() + at[1:]

    def _against_others(self, culprit: Culprit, rank: int) -> str:
        actual, expected = culprit.shown
        unit = f" {culprit.unit}" if culprit.unit else ""
        others = "they" if rank else f"the other {self.noun}s"
        unseen = "" if culprit.expected_was_seen else ", a value never seen in training"
        return (
            f"{self._name(culprit)} {self.read} {actual}{unit} where {others} imply "
            f"{expected} ({in_sd(culprit.deviation)}{unseen})"
        )

    def _tie(self, culprit: Culprit) -> str:
        others = " or ".join(map(self._short, culprit.instead))
        return (
            f"{others} instead of {self._short(culprit.feature)} would explain it as well: the data cannot tell "
            "which. Treat them as one group."
        )

    def _upset(self, incident: Incident, labels: Sequence[Any], lasted: str) -> list[str]:
        culprits = incident.onset.culprits
        told = listed([self._against_normal(culprit) for culprit in culprits]) if culprits else ""
        reads = f": {told}" if told else ""
        nobody = f"no small set of {self.noun}s explains it"
        if _is_slight(incident):
            when = [] if incident.first == incident.last else [f"{self._began(incident, labels)} {lasted}."]
            at = self._then(incident, labels) if when else self._single(incident)
            return [
                *when,
                f"{at}, {self._level(incident)}, and {nobody}.",
                *([f"Among others, {told}."] if told else []),
            ]
        moved = f"the process as a whole moved: {nobody}."
        if incident.first == incident.last:
            level = self._level(incident)
            return [f"{self._single(incident)}, {moved}", f"{level[0].upper()}{level[1:]}{reads}."]
        names = listed([self._name(culprit) for culprit in culprits]) if culprits else ""
        stayed = [f"{names} moved early and stayed away from normal."] if names and _lasts(incident) else []
        return [
            f"{self._began(incident, labels)} {lasted}, and {moved}",
            *stayed,
            f"{self._then(incident, labels)}, {self._level(incident)}{reads}.",
        ]

    def _against_normal(self, culprit: Culprit) -> str:
        actual, expected = culprit.shown
        unit = f" {culprit.unit}" if culprit.unit else ""
        return (
            f"{self._name(culprit)} {self.read} {actual}{unit} where {expected} is normal ({in_sd(culprit.deviation)})"
        )

    def _unclear(self, incident: Incident, labels: Sequence[Any], lasted: str) -> list[str]:
        nobody = f"{self._level(incident)}, but no {self.noun} stands out."
        if incident.first == incident.last:
            return [f"{self._single(incident)}, {nobody}"]
        return [f"{self._began(incident, labels)} {lasted}.", f"{self._then(incident, labels)}, {nobody}"]

    def _level(self, incident: Incident) -> str:
        return f"{self.score} was {times_the_limit(incident.onset.score, incident.limit)}"

    def _spread(self, incident: Incident, labels: Sequence[Any]) -> list[str]:
        named = {name for one in incident.onset.culprits for name in self.members[one.feature]}
        later = [one for one in incident.spread if one.row > incident.onset.row and one.feature not in named]
        if not later or incident.kind == "upset":
            return []
        shown = [f"{self._short(one.feature)} ({self.clock.at(one.label, labels)})" for one in later[:_SPREAD_NAMED]]
        more = len(later) - len(shown)
        return [f"It spread to {listed([*shown, f'{more} more'] if more else shown)}."]

    def _worst(self, incident: Incident, labels: Sequence[Any]) -> list[str]:
        n = incident.worst.n_outside
        at = self.clock.at(incident.peak_label, labels)
        were = "was far outside its" if n == 1 else "were far outside their"
        outside = f"when {n} of {self.n_features} {self.noun}s {were} training range"
        new = self.joined_later(incident)
        told = [self._against_others(culprit, k) for k, culprit in enumerate(new)]
        return [f"It was worst {at}{f', {outside}' if n else ''}.", *([f"By then, {listed(told)}."] if told else [])]

    @staticmethod
    def joined_later(incident: Incident) -> list[Culprit]:
        """Culprits of the worst row that the onset does not have, where few features still explain that row."""
        if incident.kind == "upset" or not incident.worst.to_fix:
            return []
        known = {culprit.feature for culprit in incident.onset.culprits}
        return [one for one in incident.worst.culprits if one.feature not in known and one.against == "others"]

    def _name(self, culprit: Culprit) -> str:
        name = self._short(culprit.feature)
        return f"{name} ({self._short(culprit.member)})" if culprit.member else name

    def _short(self, name: str) -> str:
        return cut(self.short[name])


def _in_mode(incident: Incident) -> str:
    return "" if incident.mode is None else f" (operating in mode {incident.mode})"


def _is_slight(incident: Incident) -> bool:
    """Whether it takes more to say that a process moved: a few rows that are not far above the limit."""
    return incident.n_flagged < _FEWEST_LASTING and incident.score < _CLEARLY_ABOVE * incident.limit


def _lasts(incident: Incident) -> bool:
    """Whether there are enough rows to say that features stayed where they went."""
    return incident.n_flagged >= _FEWEST_LASTING
