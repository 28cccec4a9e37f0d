"""The game of a score that is any function of the row: a coalition is worth the mean score over draws of the others.

v(S) = E[f(x) | x_S]. Features outside S are drawn from the model of normal rows, given those in S; or independently of them
in the interventional game.

Draws are walked. Start with a draw from the model, as a conditional mean m and a deviation e. When feature j joins, with
the gain k = V[:, j] / V_jj of the conditional covariance V,

    m <- m + k (x_j - m_j)
    e <- e - k e_j
    V <- V - k V[j, :]

and m + e is a draw given the larger coalition. V, k and e are the same for all rows, and neighbouring coalitions share the
randomness, so the difference of their values varies little.
"""

from dataclasses import dataclass

import numpy as np

from culpa._core.types import Floats, Positions
from culpa.games.bases import Expected
from culpa.scores.function import Estimate, FunctionScore


class Simulated(Expected[FunctionScore]):
    """Mean of a function over draws of the features outside the coalition.

    `value` uses a fixed set of draws. `culpa.shapley.simulated` makes its own.
    """

    def __init__(self, score: FunctionScore, *, independent: bool = False) -> None:
        super().__init__(score)
        self.independent = independent

    def value(self, X: Floats, members: Positions) -> Floats:
        """Mean over draws."""
        return self.estimate(X, members).value

    def estimate(self, X: Floats, members: Positions) -> Estimate:
        """The same with its standard error."""
        if len(members):
            return self.score.given(X, members, independent=self.independent)
        mean, error = self.score.base
        return Estimate(np.full(len(X), mean), np.full(len(X), error))

    def draw(self, X: Floats, deviation: Floats) -> "Draw":
        """A draw of all features, which deviates from the mean like this, for coalitions of the rows ``X``."""
        g = self.score.gaussian
        return Draw(X, np.tile(g.mean, (len(X), 1)), deviation.copy(), g.covariance.copy(), g.noise, self.independent)


@dataclass
class Draw:
    """Rows whose unknown features are drawn, while features become known one by one."""

    rows: Floats  # (n, d): what becomes known
    mean: Floats  # (n, d)
    deviation: Floats  # (d,)
    covariance: Floats  # (d, d)
    noise: Floats  # (d,): no conditional variance is below it
    independent: bool

    def join(self, feature: int) -> None:
        """The step above."""
        if not self.independent:
            V = self.covariance
            gain = V[:, feature] / max(V[feature, feature], self.noise[feature])
            self.mean += (self.rows[:, feature] - self.mean[:, feature])[:, None] * gain
            self.deviation -= gain * self.deviation[feature]
            V -= np.outer(gain, V[feature])
            V[feature, :] = V[:, feature] = 0.0
        self.mean[:, feature] = self.rows[:, feature]
        self.deviation[feature] = 0.0

    def both(self) -> Floats:
        """The draw and the one with the opposite deviation, (n, 2, d)."""
        return np.asarray(self.mean[:, None, :] + np.stack([self.deviation, -self.deviation]))
