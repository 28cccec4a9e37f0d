"""Controls of a sampling rule: functions of each order that have mean 0 and variance 1 over all orders.

They say at which position a player joins and, unless there are too many, who comes before it. They are uncorrelated, except
that those of who comes before add up to 0, which a common factor accounts for. `Controls` are an array of them.
`CompiledControls` are the same controls without the array: large rules are made several times faster from sums that a
kernel finds (`culpa._kernels.controls`).
"""

import numpy as np
from numpy.typing import NDArray

from culpa._core.types import Floats
from culpa._kernels.controls import SUM_OF_THOSE_BEFORE, SUMS_BEFORE
from culpa._kernels.vectors import TILE

Orders = NDArray[np.intp]

DEGREE = 4  # of the polynomial in the position
MOST_CONTROLS = 400  # estimating their covariance takes players x orders x controls^2 operations


def n_controls(n_players: int) -> int:
    """How many controls a player gets, at most."""
    return n_players + DEGREE if has_pairs(n_players) else DEGREE


def has_pairs(n_players: int) -> bool:
    """Whether controls say who comes before a player."""
    return n_players + DEGREE <= MOST_CONTROLS


def position_curves(n_players: int) -> Floats:
    """Controls by a player's position, (positions, degree): orthonormal polynomials, without the constant."""
    places = 2 * np.arange(n_players) / (n_players - 1) - 1
    curves = np.linalg.qr(np.vander(places, min(DEGREE, n_players - 1) + 1, increasing=True))[0][:, 1:]
    return np.asarray(curves * np.sqrt(n_players))


class Controls:
    """Controls of one player as an array (Q, m), from the positions of all players (Q, P)."""

    def __init__(self, positions: NDArray[np.integer], player: int, curves: Floats) -> None:
        n_players, mine, n_curves = positions.shape[1], positions[:, player], curves.shape[1]
        if not has_pairs(n_players):
            self.array = np.asarray(curves[mine])
            return
        share, size = _share_and_size(n_players)
        self.array = np.empty((len(positions), n_curves + n_players - 1))
        self.array[:, :n_curves] = curves[mine]
        # in place, because copies of such an array would take longer than the regression
        before = self.array[:, n_curves:]
        before[:, :player] = positions[:, :player] < mine[:, None]
        before[:, player:] = positions[:, player + 1 :] < mine[:, None]
        before -= share[mine][:, None]
        before /= size

    def means(self, n_nets: int) -> Floats:
        """Means over the orders of each net, (nets, m)."""
        Q, m = self.array.shape
        return np.asarray(self.array.reshape(n_nets, Q // n_nets, m).mean(axis=1))

    def squares(self) -> Floats:
        """Means of products of two controls, (m, m)."""
        return np.asarray(self.array.T @ self.array / len(self.array))

    def combined(self, slopes: Floats) -> Floats:
        """Sums of controls times ``slopes`` (r, m), (Q, r)."""
        return np.asarray(self.array @ slopes.T)


class CompiledControls:
    """The same with who comes before, from orders (Q, P) of nets and the player's places (Q,) in them.

    ``n_nets`` must be less than `TILE`.
    """

    def __init__(self, orders: Orders, places: NDArray[np.integer], player: int, curves: Floats, n_nets: int) -> None:
        n_players, self._n_curves = curves.shape
        share, self._size = _share_and_size(n_players)
        self._orders, self._places, self._player = orders, places, player
        self._table = np.zeros((n_players, TILE))  # by place: the curves, the share of others that come before, and 1
        self._table[:, : self._n_curves + 2] = np.column_stack([curves, share, np.ones(n_players)])
        sums, together = SUMS_BEFORE(orders, places, self._table, n_nets)
        self._sums, self._together = np.delete(sums, player, axis=1), _without(together, player)
        nets = np.repeat(np.arange(n_nets) * n_players, len(orders) // n_nets)
        self._visits = np.bincount(nets + places, minlength=n_nets * n_players).reshape(n_nets, n_players)

    def means(self, n_nets: int) -> Floats:
        """Means over the orders of each net, (nets, m)."""
        c, size = self._n_curves, len(self._orders) / n_nets
        own = self._visits @ self._table / size
        return np.hstack([own[:, :c], (self._sums[:, :, c + 1] / size - own[:, c, None]) / self._size])

    def squares(self) -> Floats:
        """Means of products of two controls, (m, m)."""
        Q, c = len(self._orders), self._n_curves
        own = self._table.T @ (self._visits.sum(axis=0)[:, None] * self._table) / Q
        sums = self._sums.sum(axis=0) / Q
        with_curves, with_share = (sums[:, :c] - own[c, :c]) / self._size, sums[:, c]
        pairs = (self._together / Q - with_share[:, None] - with_share[None, :] + own[c, c]) / self._size**2
        return np.block([[own[:c, :c], with_curves.T], [with_curves, pairs]])

    def combined(self, slopes: Floats) -> Floats:
        """Sums of controls times ``slopes`` (r, m), (Q, r)."""
        c, r = self._n_curves, len(slopes)
        of_before = slopes[:, c:].T / self._size
        numbers, own = np.zeros_like(self._table), np.zeros_like(self._table)
        numbers[np.arange(len(numbers)) != self._player, :r] = of_before
        own[:, :r] = self._table[:, : c + 1] @ np.vstack([slopes[:, :c].T, -of_before.sum(axis=0)])
        return np.asarray(SUM_OF_THOSE_BEFORE(self._orders, self._places, own, numbers)[:, :r])


def compiling_pays(n_players: int, n_orders: int, n_nets: int) -> bool:
    """Whether a rule of that size is made of `CompiledControls`."""
    if not has_pairs(n_players) or n_nets >= TILE:
        return False
    operations = float(n_orders) * n_players * n_controls(n_players) ** 2
    if SUMS_BEFORE.pays(operations):
        return True
    SUMS_BEFORE.note_work_without(operations)
    return False


def _share_and_size(n_players: int) -> tuple[Floats, float]:
    """The probability that another player comes before, by position, and what makes the variance of that 1."""
    share = np.arange(n_players) / (n_players - 1)
    # Given a player's position, everybody comes before it with the same probability. The covariance of these indicators is
    # v (I - J / (P - 1)) (P - 1) / (P - 2), which on vectors that add up to 0 is a multiple of I.
    v = (share * (1 - share)).mean() * (n_players - 1) / (n_players - 2)
    return share, float(np.sqrt(v))


def _without(matrix: Floats, player: int) -> Floats:
    return np.delete(np.delete(matrix, player, axis=0), player, axis=1)
