"""The game of a score that is any function of the row: a coalition is worth the mean score over draws of the others.

v(S) = E[f(x) | x_S]. Features outside S are drawn from the model of normal rows, given those in S; or independently of them
in the interventional game.

Draws are walked. A draw (see `culpa.models.draws`) starts as the mean m and a deviation e. When feature j joins, with the
gain k = V[:, j] / V_jj of the conditional covariance V,

    m <- m + k (x_j - m_j)
    e <- e - k e_j
    V <- V - k V[j, :]

and m + e is a draw given the larger coalition. V, k and e are the same for all rows, and neighbouring coalitions share the
randomness, so the difference of their values varies little. The squared distances that Student-t rows need grow by
(x_j - m_j)^2 / V_jj and by e_j^2 / V_jj, and so does the density that tells modes apart. Each mode is walked by itself.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from culpa._core.types import Floats, Positions
from culpa.games.bases import Expected, Scored
from culpa.models import LatentGaussian
from culpa.models.draws import Chances, NormalRows, in_modes
from culpa.models.latent import log_kernel


class Estimate(NamedTuple):
    """Mean over draws and its standard error."""

    value: Floats
    std_error: Floats


class Drawn(Scored, Protocol):
    """A function of rows whose unknown features are drawn; see `culpa.scores.FunctionScore`."""

    @property
    def normal(self) -> NormalRows:
        """Normal rows to draw from."""
        ...

    @property
    def base(self) -> tuple[float, float]:
        """Mean score of normal rows, and its standard error."""
        ...

    @property
    def independent(self) -> bool:
        """Whether unknown features are drawn as if they had nothing to do with the known ones."""
        ...

    @property
    def n_draws(self) -> int:
        """For the expected score of a row with missing cells."""
        ...

    def given(self, X: Floats, observed: Positions) -> Estimate:
        """Expected score given the observed features."""
        ...

    def evaluate(self, rows: Floats) -> Floats:
        """The function itself, of complete rows."""
        ...

    def evaluations(self, complete: bool) -> int:
        """How often the function is called for the score of a row."""
        ...


class Simulated(Expected[Drawn]):
    """Mean of a function over draws of the features outside the coalition.

    `value` uses a fixed set of draws. `culpa.shapley.simulated` makes its own.
    """

    is_simulated = True

    def value(self, X: Floats, members: Positions) -> Floats:
        """Mean score over draws of the unknown features."""
        return self.estimate(X, members).value

    def walked_value(self, X: Floats, members: Positions) -> Floats:
        """At once, because each step would call the function."""
        return self.value(X, members)

    def estimate(self, X: Floats, members: Positions) -> Estimate:
        """The same with its standard error."""
        if len(members):
            return self.score.given(X, members)
        mean, error = self.score.base
        return Estimate(np.full(len(X), mean), np.full(len(X), error))

    def draw(self, X: Floats, chances: Chances) -> "Draw":
        """A draw of all features, for coalitions of the rows ``X``."""
        normal = self.score.normal
        parts = zip(normal.distribution.modes, chances.deviations[:, 0], chances.weights[:, 0].tolist(), strict=True)
        rows = normal.scores(X)
        of_modes = [_DrawInMode(mode, rows, deviation.copy(), weight) for mode, deviation, weight in parts]
        return Draw(normal, of_modes, chances.places, self.score.independent)


@dataclass
class Draw:
    """Rows whose unknown features are drawn, while features become known one by one."""

    normal: NormalRows
    of_modes: list["_DrawInMode"]
    places: Floats  # (1,): decides on the mode
    independent: bool

    def join(self, feature: int) -> None:
        """The next feature takes its value from the row, in every draw."""
        for mode in self.of_modes:
            mode.join(feature, independent=self.independent)

    def both(self) -> Floats:
        """The draw and its mirror image, (n, 2, d); with margins, their normal scores."""
        parts = [(mode.mean, mode.scaled_deviation()[:, None, :]) for mode in self.of_modes]
        log_joint = (
            np.stack([mode.log_density() for mode in self.of_modes]) + np.log(self.normal.distribution.weights)[:, None]
        )
        return in_modes(parts, log_joint, self.places)[:, 0]


@dataclass
class _DrawInMode:
    """The same in one mode."""

    mode: LatentGaussian
    rows: Floats  # (n, d): what becomes known
    deviation: Floats  # (d,)
    weight: float  # see `culpa.models.draws`
    mean: Floats = field(init=False)  # (n, d)
    covariance: Floats = field(init=False)  # (d, d)
    distance: Floats = field(init=False)  # of the known features of each row, (n,)
    own_distance: float = 0.0  # of the draw
    log_det: float = 0.0
    n_known: int = 0

    def __post_init__(self) -> None:
        self.mean = np.tile(self.mode.mean, (len(self.rows), 1))
        self.covariance = self.mode.covariance.copy()
        self.distance = np.zeros(len(self.rows))

    def join(self, feature: int, *, independent: bool) -> None:
        """The next feature takes its value from the row, in every draw."""
        if not independent:
            V = self.covariance
            variance = max(V[feature, feature], self.mode.noise[feature])  # no conditional variance is below the noise
            gain, surprise = V[:, feature] / variance, self.rows[:, feature] - self.mean[:, feature]
            self.distance += surprise**2 / variance
            self.own_distance += float(self.deviation[feature] ** 2 / variance)
            self.log_det += float(np.log(variance))
            self.n_known += 1
            self.mean += surprise[:, None] * gain
            self.deviation -= gain * self.deviation[feature]
            V -= np.outer(gain, V[feature])
            V[feature, :] = V[:, feature] = 0.0
        self.mean[:, feature] = self.rows[:, feature]
        self.deviation[feature] = 0.0

    def scaled_deviation(self) -> Floats:
        """How the draw deviates from the mean of each row, (n or 1, d)."""
        if not self.mode.tail:
            return self.deviation[None]
        above = self.mode.degrees_of_freedom - 2 + self.distance
        return np.asarray(np.sqrt(above / (self.weight + self.own_distance))[:, None] * self.deviation)

    def log_density(self) -> Floats:
        """Of what is known about each row, (n,)."""
        return log_kernel(self.mode, self.distance, self.n_known) - 0.5 * self.log_det
