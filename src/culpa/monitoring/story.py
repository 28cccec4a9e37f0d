"""An incident in a few plain sentences: who stood out first, who stayed off, whether it goes on, and where to look.

Every number in them is one of the incident's own. The first sentence names the culprit in at most 30 words.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from culpa._core.words import cut, listed
from culpa.columns.units import short_names
from culpa.monitoring.digits import change, in_sd, reading, times_the_limit
from culpa.monitoring.incident import Culprit, Incident
from culpa.monitoring.when import Clock

_NAMED, _WIDE = 3, 60  # features that a sentence lists, and characters of their names
_MOST_WORDS = 30  # of the first sentence
_ACCOUNTS_FROM = 0.5  # share of the score from which culprits are said to account for it
_WELL = (
    0.8  # share of its variance that others predict, from which a wrong sensor and a process that moved look different
)
_SCORES = {"t2": "T2", "mahalanobis": "the distance", "combined": "the score"}
_WHY = {
    "alone": "Check {subject} and its wiring: without it, the other {noun}s are normal.",
    "output": "A controller sets {first}, so the cause may be anything that it reacts to.",
    "unclear": "These rows do not tell whether a sensor or the process is at fault.",
    "brief": "These rows do not tell whether a sensor or the process is at fault: they are few and not far off.",
    "early": "It is too early to say whether a sensor or the process is at fault.",
    "agree": "The process moved: the {noun}s are far from normal and agree with each other.",
    "loop": "Either the reading of {first} is wrong and a control loop follows it, or the process moved.",
    "pair": "Either the readings of {both} are wrong, or the process moved.",
    "several": "The process moved: no single reading explains these rows.",
    "unit": "The unit of {first} may have changed from {units}: its readings then agree with the other {noun}s.",
    "unknown": "",
}


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

    def story(self, incident: Incident) -> str:
        """The sentences about an incident, joined."""
        labels = [incident.start, incident.end, incident.onset.label, incident.peak_label]
        first, has_numbers = self._first(incident, labels)
        culprits, parts = incident.onset.culprits, [first]
        if culprits and not has_numbers:
            parts.append(
                f"{self._then(incident, labels)}, {listed([self._told(one, k) for k, one in enumerate(culprits)])}."
            )
        parts += self._accounts(incident) + [self._tie(culprit) for culprit in culprits if culprit.instead]
        parts += self._course(incident, labels) + self._verdict(incident)
        if incident.first != incident.last:
            parts += self._later(incident, labels) + self._worst(incident, labels)
        elif incident.extent == "upset":
            level = self._level(incident)
            parts.append(f"{level[0].upper()}{level[1:]}.")
        return " ".join(parts)

    def signal(self, incident: Incident, value: float, usual: float) -> str:
        """About a signal that is wrong by itself: its value, and its longest normal run or the end of its range."""
        labels, culprits = [incident.start, incident.end], incident.onset.culprits
        since = self.clock.at(incident.start, labels, first=True)
        over = f"Over since {self.clock.until(incident.end, labels)}."
        state = over if incident.status == "over" else "Still open."
        if incident.kind == "stopped":
            told = f"The recording stopped {since}: nearly all {self.noun}s repeat their values"
            return f"{told}. {state} Check the connection to the data source."
        name, culprit = self._name(culprits[0]), culprits[0]
        shown, unit = reading(value, culprit.decimals), f" {culprit.unit}" if culprit.unit else ""
        what = {
            "frozen": "froze",
            "limit": "stood still at or beyond an end of its normal range",
            "range": "left its physical range",
        }
        if incident.kind == "range":
            beyond = f"it read {shown}{unit}, beyond {reading(usual, culprit.decimals)}{unit}"
        else:
            longest = f"repeats a value in at most {usual:,.0f} rows" if usual > 1 else "never repeats a value"
            beyond = f"it reads {shown}{unit}, and normally {longest}"
        return f"{name} {what[incident.kind]} {since}: {beyond}. {state}"

    def _first(self, incident: Incident, labels: Sequence[Any]) -> tuple[str, bool]:
        """Who stood out first, and what they read if there is room; whether there is."""
        names, culprits = self._names(incident), incident.onset.culprits
        single = incident.first == incident.last
        if not names:
            return f"{self._when(incident, labels)}, {self._level(incident)}, but no {self.noun} stands out.", False
        told = [self._told(culprit, k) for k, culprit in enumerate(culprits)]
        if single and culprits and len(culprits) == len(names):
            long = f"{self._when(incident, labels)}, {listed(told)}."
        elif len(names) == len(told) == 1:
            later = incident.onset.label != incident.start
            at = f"{self.clock.at(incident.onset.label, labels)} " if later else ""
            after = told[0].removeprefix(f"{names[0]} ")
            long = f"{names[0]} {self._verb(incident)} {self._at_start(incident, labels)}, and {at}{after}."
        else:
            long = ""
        shown = names[:_NAMED] if len(names) <= _NAMED else [*names[:_NAMED], f"{len(names) - _NAMED} more"]
        tries = [
            long,
            *(
                f"{listed(some)} {self._verb(incident)} {self._at_start(incident, labels)}."
                for some in (shown, names[:1])
            ),
        ]
        fitting = [text for text in tries if text and len(text.split()) <= _MOST_WORDS]
        text = fitting[0] if fitting else tries[-1]
        return text, text == long

    def _names(self, incident: Incident) -> list[str]:
        """Whoever stands out in the first rows; culprits of the onset if nobody does."""
        culprits = {one.feature: self._name(one) for one in incident.onset.culprits}
        first = sorted(incident.blamed_first, key=lambda name: name not in culprits)
        return [culprits.get(name, self._short(name)) for name in first or culprits]

    @staticmethod
    def _verb(incident: Incident) -> str:
        by_blame = incident.blamed_first or incident.extent == "features"
        return "stood out first," if by_blame else "moved early, beginning"

    def _at_start(self, incident: Incident, labels: Sequence[Any]) -> str:
        return self.clock.at(incident.start, labels, first=True) + self._in_mode(incident)

    @staticmethod
    def _in_mode(incident: Incident) -> str:
        return "" if incident.mode is None else f" (operating in mode {incident.mode})"

    def _when(self, incident: Incident, labels: Sequence[Any]) -> str:
        """The beginning of a sentence about the row that culprits and level of the onset are of."""
        at = self.clock.at(incident.onset.label, labels, first=True) + self._in_mode(incident)
        return at[0].upper() + at[1:]

    def _then(self, incident: Incident, labels: Sequence[Any]) -> str:
        at = self.clock.at(incident.onset.label, labels)
        return at[0].upper() + at[1:]

    def _told(self, culprit: Culprit, rank: int) -> str:
        """What a culprit read, and what was to be expected."""
        actual, expected = culprit.shown
        unit = f" {culprit.unit}" if culprit.unit else ""
        if culprit.against == "normal":
            implied, unseen = f"{expected} {'is normal' if culprit.view == 'level' else 'was usual'}", ""
        else:
            implied = f"{'they' if rank else f'the other {self.noun}s'} imply {expected}"
            unseen = "" if culprit.expected_was_seen else ", a value never seen in training"
        told = f"{self._name(culprit)} {self._moved(culprit)}{self.read} {actual}{unit}"
        return f"{told} where {implied} ({in_sd(culprit.deviation)}{unseen})"

    @staticmethod
    def _moved(culprit: Culprit) -> str:
        """By how much a culprit differs from the row before, or from its recent level."""
        if math.isnan(culprit.before):
            return ""
        unit = f" {culprit.unit}" if culprit.unit else ""
        by = f"{change(culprit.actual, culprit.before)}{unit}"
        return f"jumped by {by} and " if culprit.view == "jump" else f"left its recent level by {by} and "

    def _accounts(self, incident: Incident) -> list[str]:
        """Which part of the score the culprits have, where that is most of it."""
        culprits = incident.onset.culprits
        share = math.fsum(culprit.share for culprit in culprits)
        if incident.extent != "features" or share < _ACCOUNTS_FROM:
            return []
        who = "It accounts" if len(culprits) == 1 else "Together they account"
        return [f"{who} for {'all' if share >= 0.995 else f'{share:.0%}'} of {self.score}."]

    def _tie(self, culprit: Culprit) -> str:
        others = " or ".join(map(self._short, culprit.instead))
        together = ",".join([culprit.feature, *culprit.instead])
        return (
            f"{others} instead of {self._short(culprit.feature)} would explain it as well: the data cannot tell which. "
            f"To blame them together, fit with the group {cut(together)}."
        )

    def _course(self, incident: Incident, labels: Sequence[Any]) -> list[str]:
        """Who stayed off, who came back, and whether it goes on."""
        goes_on, stayed, back = incident.status == "open", incident.stayed_off, incident.came_back
        has = "has" if len(stayed) == 1 else "have"
        parts = [f"{self._some(stayed, incident)} {f'{has} stayed off' if goes_on else 'stayed off'}"] if stayed else []
        parts += [f"{self._some(back, incident)} came back to normal"] if back else []
        course = [
            f"{told[0].upper() if told.startswith('it ') else told[0]}{told[1:]}."
            for told in [", and ".join(parts)]
            if told
        ]
        if goes_on and incident.shifted:
            return [*course, f"Still open: off its usual level since {self.clock.until(incident.start, labels)}."]
        if goes_on:
            return [*course, f"Still open: flagged last {self.clock.at(incident.end, labels)}."]
        if incident.first == incident.last:
            return course
        return [*course, f"Over since {self.clock.until(incident.end, labels)}."]

    def _some(self, names: Sequence[str], incident: Incident) -> str:
        """The first ones; "it" if that is the only one that the first sentence names."""
        if len(names) == 1 and self._names(incident) == [self._short(names[0])]:
            return "it"
        shown = [self._short(name) for name in names[:_NAMED]]
        while len(shown) > 1 and len(", ".join(shown)) > _WIDE:
            shown = shown[:-1]
        more = len(names) - len(shown)
        return listed([*shown, f"{more} more"] if more else shown)

    def _verdict(self, incident: Incident) -> list[str]:
        """The sentence that says whether a sensor or the process is at fault."""
        names = [self._short(name) for name in incident.suspects[:2]]
        first = names[0] if names else ""
        subject = f"this {self.noun}" if self._names(incident) == names[:1] else first
        text = _WHY[incident.why].format(
            subject=subject,
            units=incident.unit_change,
            first=first,
            both=listed(names) if names else "",
            noun=self.noun,
        )
        if incident.why == "alone" and incident.predicted < _WELL:
            text += f" The others predict only {incident.predicted:.0%} of its variance, so the process may have moved."
        return [text] if text else []

    def _level(self, incident: Incident) -> str:
        return f"{self.score} was {times_the_limit(incident.onset.score, incident.limit)}"

    def _later(self, incident: Incident, labels: Sequence[Any]) -> list[str]:
        named = {name for one in incident.onset.culprits for name in self.members[one.feature]}
        later = [one for one in incident.spread if one.row > incident.onset.row and one.feature not in named]
        if not later:
            return []
        shown = [f"{self._short(one.feature)} ({self.clock.at(one.label, labels)})" for one in later[:_NAMED]]
        more = len(later) - len(shown)
        return [f"Later also off: {listed([*shown, f'{more} more'] if more else shown)}."]

    def _worst(self, incident: Incident, labels: Sequence[Any]) -> list[str]:
        n = incident.worst.n_outside
        level = times_the_limit(incident.score, incident.limit)
        at = self.clock.at(incident.peak_label, labels)
        were = "was far outside its" if n == 1 else "were far outside their"
        outside = f"when {n} of {self.n_features} {self.noun}s {were} training range"
        told = [self._told(culprit, k) for k, culprit in enumerate(self.joined_later(incident))]
        return [
            f"It was worst {at}, {level}{f', {outside}' if n else ''}.",
            *([f"By then, {listed(told)}."] if told else []),
        ]

    @staticmethod
    def joined_later(incident: Incident) -> list[Culprit]:
        """Culprits of the worst row that the onset does not have, where few features still explain that row."""
        if incident.extent == "upset" or not incident.worst.to_fix:
            return []
        known = {culprit.feature for culprit in incident.onset.culprits}
        return [one for one in incident.worst.culprits if one.feature not in known and one.against == "others"]

    def _name(self, culprit: Culprit) -> str:
        name = self._short(culprit.feature)
        return f"{name} ({self._short(culprit.member)})" if culprit.member else name

    def _short(self, name: str) -> str:
        return cut(self.short[name])
