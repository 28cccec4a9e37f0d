"""The conditional game of rows that have several modes.

Each mode has a conditional game of its own, v_k(S) = E_k[q_k(x) | x_S], and a density of x_S. A coalition is worth

    v(S) = sum_k r_k(x_S) v_k(S),   r_k(x_S) proportional to w_k p_k(x_S)

which is E[score | x_S] exactly. For the negative log-likelihood, v(S) = -log p(x_S) + sum_k r_k(x_S) h_k(others | S), see
`culpa.scores.mixture`.

The walks of the modes are those of `culpa.games.conditional`. When feature j joins, mode k is surprised by delta, which it
expected to have the variance V, so that

    log p_k(x_S) changes by -(log(2 pi V) + delta^2 / V) / 2
    h_k(others | S) changes by -(log(2 pi V) + 1) / 2

A step costs as much as a step of each mode, and an exponential for each mode and row. v(S) is not quadratic in the row, so
it does not compile to quadratic forms: each row is walked.

| symbol | code | meaning |
| --- | --- | --- |
| log p_k(x_S) | ``log_density`` | (B, modes, n) |
| v_k(S), or h_k(others given S) | ``of_modes`` | (B, modes, n) |
| v(S) | ``value`` | (B, n) |
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from array_api_compat import array_namespace
from scipy import special

from culpa._core.types import Array, Floats, Positions
from culpa.games.arrays import as_array_like
from culpa.games.bases import Expected, Quadratic, Scored
from culpa.games.batch import Batch
from culpa.games.conditional import Conditional
from culpa.games.game import Cost, GaussianCoalitions
from culpa.models import Distribution

_LOG_2_PI = float(np.log(2 * np.pi))
# Steps are taken with arrays, not by a compiled kernel; these are about the operations that take as long.
_SLOWER, _PER_MODE = 12.0, 400.0


class ScoreOfModes(Scored, Protocol):
    """What the modes say of a row, weighted by their probabilities; see `culpa.scores.MixtureScore`."""

    @property
    def mixture(self) -> Distribution:
        """Distribution of normal rows."""
        ...

    @property
    def of_modes(self) -> Sequence[Quadratic] | None:
        """A score for each mode, of rows around its mean; ``None`` for the negative log-likelihood."""
        ...

    @property
    def walked(self) -> Sequence[Quadratic]:
        """Scores of the modes whose walks tell the densities."""
        ...

    @property
    def entropies(self) -> Floats:
        """Of all features in each mode, (modes,)."""
        ...


class ConditionalMixture(Expected[ScoreOfModes]):
    """Expected score given some of the features, under a mixture.

    >>> from culpa.models import LatentGaussian, LatentMixture
    >>> from culpa.scores import MixtureScore, spe
    >>> modes = tuple(LatentGaussian([mean, 0.0], [[1.0], [1.0]], 0.1) for mean in (-5.0, 5.0))
    >>> game = ConditionalMixture(MixtureScore.weighted("spe", LatentMixture([0.5, 0.5], modes), spe))
    >>> game.value(np.array([[-4.0, 1.0]]), np.array([0, 1])).round(6)
    array([0.])
    """

    def __init__(self, score: ScoreOfModes) -> None:
        super().__init__(score)
        self._games = [Conditional(one) for one in score.walked]
        self._means = [np.asarray(mode.mean) for mode in score.mixture.modes]
        self._log_weights = np.log(score.mixture.weights)

    @property
    def cost(self) -> Cost:
        """That of all modes, walked with arrays."""
        costs = zip(*(game.cost for game in self._games), strict=True)
        tree_coalition, tree_row, order_coalition, order_row = (_SLOWER * sum(parts) for parts in costs)
        more = _PER_MODE * len(self._games)
        return Cost(tree_coalition, tree_row + more, order_coalition, order_row + more)

    def value(self, X: Floats, members: Positions) -> Floats:
        """From the definition, with linear solves."""
        densities, worth = [], []
        for k, (game, mean) in enumerate(zip(self._games, self._means, strict=True)):
            centred = (X - mean)[:, members]
            covariance = game.covariance[np.ix_(members, members)]
            solved = np.linalg.solve(covariance, centred.T).T if len(members) else centred
            log_det = np.linalg.slogdet(covariance)[1] if len(members) else 0.0
            distance = (centred * solved).sum(axis=1)
            densities.append(self._log_weights[k] - 0.5 * (distance + log_det + len(members) * _LOG_2_PI))
            known = 0.5 * (log_det + len(members) * (_LOG_2_PI + 1))
            worth.append(
                np.full(len(X), self.score.entropies[k] - known)
                if self.score.of_modes is None
                else game.value(X - mean, members)
            )
        log_joint = np.array(densities)
        result = (special.softmax(log_joint, axis=0) * np.array(worth)).sum(axis=0)
        return np.asarray(result - special.logsumexp(log_joint, axis=0) if self.score.of_modes is None else result)

    def total(self, X: Floats, observed: Positions) -> Floats:
        """The score itself, which knows how to treat missing cells."""
        return self.score(X)

    def start(self, X: Array, queues: Positions, *, branching: bool) -> "MixtureCoalitions":
        """Empty coalitions, in every mode."""
        xp = array_namespace(X)
        walks = tuple(
            game.start_gaussian(X - as_array_like(mean, X), queues, branching=branching)
            for game, mean in zip(self._games, self._means, strict=True)
        )
        shape = (len(queues), len(walks), X.shape[0])
        expected = [game.base_value for game in self._games] if self.score.of_modes else self.score.entropies
        of_modes = xp.broadcast_to(as_array_like(np.array(expected), X)[None, :, None], shape)
        return MixtureCoalitions(
            as_array_like(self._log_weights, X),
            self.score.of_modes is None,
            walks,
            xp.zeros(shape, dtype=X.dtype, device=X.device),
            of_modes,
            xp.full((shape[0], shape[2]), self.base_value, dtype=X.dtype, device=X.device),
        )


@dataclass(frozen=True)
class MixtureCoalitions(Batch):
    """Coalitions in every mode at once."""

    SHARED = ("log_weights", "is_density")

    log_weights: Array  # (modes,)
    is_density: bool  # whether the score is the negative log-likelihood
    walks: tuple[GaussianCoalitions, ...]  # one per mode
    log_density: Array  # (B, modes, n)
    of_modes: Array  # (B, modes, n)
    value: Array  # (B, n)

    def join(self) -> tuple[Self, Array]:
        """The next feature becomes known in each mode, and their weights are updated."""
        xp = array_namespace(self.value)
        walks, densities, worth = [], [], []
        for walk in self.walks:
            delta, variance = walk.surprise()
            log_variance = xp.log(variance)[:, None] + _LOG_2_PI
            densities.append(-0.5 * (log_variance + delta * delta / variance[:, None]))
            joined, change = walk.join()
            walks.append(joined)
            worth.append(xp.broadcast_to(-0.5 * (log_variance + 1), delta.shape) if self.is_density else change)
        log_density = self.log_density + xp.stack(densities, axis=1)
        of_modes = self.of_modes + xp.stack(worth, axis=1)
        value = _combined(log_density + self.log_weights[None, :, None], of_modes, is_density=self.is_density)
        after = replace(self, walks=tuple(walks), log_density=log_density, of_modes=of_modes, value=value)
        return after, value - self.value

    def skip(self) -> Self:
        """The feature stays outside in every mode."""
        return replace(self, walks=tuple(walk.skip() for walk in self.walks))


def _combined(log_joint: Array, of_modes: Array, *, is_density: bool) -> Array:
    """Values of coalitions, (B, n), from what the modes say, (B, modes, n)."""
    xp = array_namespace(log_joint)
    largest = xp.max(log_joint, axis=1)
    weights = xp.exp(log_joint - largest[:, None, :])
    total = xp.sum(weights, axis=1)
    value = xp.sum(weights * of_modes, axis=1) / total
    return value - largest - xp.log(total) if is_density else value
