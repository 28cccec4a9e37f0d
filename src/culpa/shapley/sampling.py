"""What sampling of coalitions and of orders have in common: replicates, standard errors, and how much is sampled."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from array_api_compat import array_namespace

from culpa._core.copies import CopiedInUse
from culpa._core.kinds import top_of
from culpa._core.types import Array, Floats, Mask, Positions
from culpa.games import Game
from culpa.shapley.forms import QuadraticForms
from culpa.shapley.leading import until_certain
from culpa.shapley.partial_order import PartialOrder
from culpa.shapley.plan import FormsCost, Settings
from culpa.shapley.shares import Players, Shares, summarise


class Part(NamedTuple):
    """Rows in which the same features are observed; cells of the others hold any number.

    Or rows that miss some features each, with NaN there: those of all players that have one feature.
    """

    game: Game
    rows: Array
    players: Players
    present: Sequence[int]  # which of all players these are
    seen: Mask | None = None  # which cells are not missing, (n, d), if that differs from row to row


class SamplingRule(Protocol):
    """What is sampled: how many coalitions, in how many independent replicates."""

    @property
    def n_coalitions(self) -> int:
        """Number of coalitions that are valued."""
        ...

    @property
    def n_replicates(self) -> int:
        """Number of independent estimates."""
        ...


Rows = Callable[[], Floats]
AnyRule = TypeVar("AnyRule", bound=SamplingRule)


class Sampling(CopiedInUse, ABC, Generic[AnyRule]):
    """Sampled Shapley values. The rule is found on ``reference`` rows, so it does not depend on the rows to explain."""

    def __init__(
        self, game: Game, players: Players, settings: Settings, reference: Rows, order: PartialOrder | None = None
    ) -> None:
        self.game, self.players, self.settings, self.reference, self.order = game, players, settings, reference, order

    @cached_property
    def rule(self) -> AnyRule:
        """As much as was asked for."""
        return self._find_rule()

    @property
    def n_leading(self) -> int | None:
        """How many of the most blamed players must be certain; ``None`` if something else decides how much is sampled."""
        return None if self.settings.n_orders is not None else top_of(self.settings.tolerance)

    def share_out(self, part: Part) -> Shares:
        """As many samples as were asked for, or until the most blamed players of each row are certain."""
        if self.n_leading is None:
            return summarise(self.replicated(part, self.rule), self.rule.n_coalitions)

        def sample(rows: Floats, rule: AnyRule) -> Shares:
            return summarise(self.replicated(part._replace(rows=rows), rule), rule.n_coalitions)

        return until_certain(sample, part.rows, self.n_leading, self.rules_until_certain, self.settings.progress)

    @property
    def chosen(self) -> str:
        """How much is sampled, in words."""
        if self.n_leading is None:
            return f"{self.in_words(self.rule)} in {self.rule.n_replicates} replicates"
        most = self.in_words(self.rules_until_certain[-1])
        return f"at most {most}, until the {self.n_leading} highest values of each row are certain"

    @property
    def whole(self) -> Part:
        """The reference rows, with all features observed."""
        return Part(self.game, self.reference(), self.players, range(len(self.players)))

    def serves(self, game: Game, rows: Floats) -> Mask:
        """Which rows with missing cells can be explained together, whatever their patterns, (n,)."""
        return np.zeros(len(rows), dtype=bool)

    @abstractmethod
    def in_words(self, rule: AnyRule) -> str:
        """How many coalitions or orders a rule has."""

    @abstractmethod
    def replicated(self, part: Part, rule: AnyRule) -> Array:
        """Shapley values by each replicate, (replicates, n, players), each adding up to the score."""

    @abstractmethod
    def forms(self, game: Game, players: Players, present: Sequence[int], features: Positions | None) -> QuadraticForms:
        """Quadratic forms behind the values of rows that have these features (all by default)."""

    @abstractmethod
    def cost(self, n_features: int) -> FormsCost:
        """Operations of such forms, and of rows without them."""

    @cached_property
    @abstractmethod
    def rules_until_certain(self) -> list[AnyRule]:
        """Rules to try until the most blamed players are certain."""

    @abstractmethod
    def _find_rule(self) -> AnyRule: ...


def relative_error(shares: Shares) -> float:
    """Of the median row: the norm of its standard errors over that of its values."""
    xp = array_namespace(shares.values)
    errors, sizes = (np.asarray(xp.linalg.vector_norm(a, axis=1)) for a in (shares.std_error, shares.values))
    return float(np.median(np.divide(errors, sizes, out=np.zeros_like(errors), where=errors > 0)))
