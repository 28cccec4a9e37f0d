"""What the engines share: their result, and how players (groups of features) walk."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from culpa._core.types import Array, Mask, Positions
from culpa.games import Coalitions

Progress = Callable[[float, float | None], None]  # share of the work done, and the current error where it is known
Players = list[list[int]]  # each player is a feature or a group of features


class Shares(NamedTuple):
    """Shapley values (n, players), their standard errors (zero where exact), and what they took.

    ``n_evaluations`` counts the coalitions valued. ``n_replicates`` is the number of independent estimates that each
    standard error is worth, one more than its degrees of freedom (0 where exact). ``n_uncertain`` rows were sampled until
    their ranks are certain, and are not.
    """

    values: Array
    std_error: Array
    n_evaluations: int
    n_replicates: int
    n_uncertain: int = 0


def summarise(replicates: Array, n_evaluations: int) -> Shares:
    """Mean and standard error of replicates (replicates, n, players).

    A few replicates tell little about the error of one value, so intervals have few degrees of freedom. Other players
    cannot help: some matter much, and others not at all, and a mean of their errors is too small for the former.
    """
    xp, n = array_namespace(replicates), replicates.shape[0]
    values = xp.mean(replicates, axis=0)
    if n == 1:
        return Shares(values, xp.full_like(values, float("nan")), n_evaluations, n)
    return Shares(values, xp.std(replicates, axis=0, correction=1) / n**0.5, n_evaluations, n)


class Served(NamedTuple):
    """Shares of some rows, (n, all players), and which rows these are. The others have zeros."""

    shares: Shares
    rows: Mask  # (n,)

    @classmethod
    def none(cls, n_rows: int, n_players: int) -> "Served":
        """Shares of no row so far."""
        shape = (n_rows, n_players)
        return cls(Shares(np.zeros(shape), np.zeros(shape), 0, 0), np.zeros(n_rows, dtype=bool))

    def with_rows(self, rows: Positions, shares: Shares, players: Positions | slice = slice(None)) -> "Served":
        """Fill in some rows; ``players`` are those that shares are about, of all rows or of each of them (n, players)."""
        at = rows if isinstance(players, slice) else rows[:, None]
        self.shares.values[at, players], self.shares.std_error[at, players] = shares.values, shares.std_error
        self.rows[rows] = True
        evaluations = max(self.shares.n_evaluations, shares.n_evaluations)
        replicates = fewest(self.shares.n_replicates, shares.n_replicates)
        uncertain = self.shares.n_uncertain + shares.n_uncertain
        return Served(Shares(*self.shares[:2], evaluations, replicates, uncertain), self.rows)


def fewest(*n_replicates: int) -> int:
    """Replicates of values some of which are exact: as many as the worst standard error is worth; 0 if all are exact."""
    return min((n for n in n_replicates if n), default=0)


def part_of(progress: Progress | None, done: int, of: int) -> Progress | None:
    """Reports the progress of one of several parts."""
    return None if progress is None else lambda share, error: progress((done + share) / of, error)


def queue_of(players: Players) -> Positions:
    """Everybody's features one after the other, (1, k)."""
    return np.array([[feature for player in players for feature in player]], dtype=np.intp)


def join_player(coalitions: Coalitions, size: int) -> tuple[Coalitions, Array]:
    """A player of ``size`` features joins: its members one after the other, their changes of value added up."""
    coalitions, change = coalitions.join()
    for _ in range(size - 1):
        coalitions, more = coalitions.join()
        change = change + more
    return coalitions, change


def skip_player(coalitions: Coalitions, size: int) -> Coalitions:
    """A player is passed over with all its features."""
    for _ in range(size):
        coalitions = coalitions.skip()
    return coalitions
