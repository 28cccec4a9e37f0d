"""How abnormal is a row whose normal rows have several modes?

With r_k(x) the probability of mode k given the row and q_k the quadratic score of the row in mode k:

| score | formula | value of the coalition S |
| --- | --- | --- |
| spe, mse, t2, mahalanobis | sum_k r_k(x) q_k(x) | E[score given x_S] = sum_k r_k(x_S) E_k[q_k(x) given x_S] |
| nll, negative log-likelihood | -log p(x) | -log p(x_S) + sum_k r_k(x_S) h_k(others given S) |

The first line is exact: the responsibility of a mode is the expectation of its indicator, so that
E[r_k(x) q_k(x) given x_S] = E[1(mode k) q_k(x) given x_S].

E[-log p(x) given x_S] has no closed form for a mixture. In the second line, h_k(others given S) is the entropy of the
features outside S, given those in S, in mode k. It takes the place of the entropy that the mixture gives them, which is
larger by at most the entropy of the mode given x_S, and so by at most log(number of modes). With one mode, the second line
is E[-log p(x) given x_S] itself. All features have the value -log p(x), no feature has sum_k w_k h_k(all features), and a
change of units changes neither blame nor order.

A row with missing cells has the value of its observed features as its score.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy import special

from culpa._core.choices import GameName
from culpa._core.types import Floats
from culpa.games import ConditionalMixture, Game
from culpa.models import Distribution, FittedModel, LatentGaussian
from culpa.scores.quadratic import QuadraticScore, mahalanobis, spe
from culpa.scores.score import GameSettings, InPlace, Score

Builder = Callable[[LatentGaussian], QuadraticScore]


@dataclass(frozen=True, eq=False)
class MixtureScore(Score):
    """A score of rows around the mean of a mixture: what their modes say, weighted by responsibilities, or their density.

    ``of_modes`` has a quadratic score for each mode, of rows around the mean of that mode. It is ``None`` for the negative
    log-likelihood.

    >>> from culpa.models import LatentGaussian, LatentMixture
    >>> from culpa.scores import spe
    >>> modes = tuple(LatentGaussian([mean, 0.0], [[1.0], [1.0]], 0.1) for mean in (-5.0, 5.0))
    >>> score = MixtureScore.weighted("spe", LatentMixture([0.5, 0.5], modes), spe)
    >>> score(np.array([[-4.0, 1.0], [6.0, -1.0]])).round(6)
    array([0., 2.])
    """

    name: str
    mixture: Distribution
    of_modes: tuple[QuadraticScore, ...] | None

    @classmethod
    def weighted(cls, name: str, mixture: Distribution, build: Builder, units: Floats | None = None) -> Self:
        """The score that ``build`` makes of each mode, in ``units`` of the mode's own."""
        scores = [build(replace(mode, mean=np.zeros(mode.n_features))) for mode in mixture.modes]
        if units is not None:
            scores = [score.divided_by(float(unit)) for score, unit in zip(scores, units, strict=True)]
        return cls(name, mixture, tuple(scores))

    @classmethod
    def nll(cls, mixture: Distribution) -> Self:
        """The negative log-likelihood."""
        return cls("nll", mixture, None)

    @property
    def distribution(self) -> Distribution:
        """Of rows around the mean of all modes."""
        return self.mixture

    @cached_property
    def expectation(self) -> float:
        """Value of the empty coalition; of a weighted score, its mean over normal rows."""
        if self.of_modes is None:
            return float(self.mixture.weights @ self.entropies)
        return float(self.mixture.weights @ [score.expectation for score in self.of_modes])

    @cached_property
    def entropies(self) -> Floats:
        """Entropy of all features in each mode, (modes,)."""
        return np.array(
            [float(_entropies(mode.log_density(mode.mean[None]), mode.n_features)[0]) for mode in self.mixture.modes]
        )

    @property
    def is_quadratic(self) -> bool:
        """In each mode; the negative log-likelihood is half the Mahalanobis distance there, but for a constant."""
        return True

    @cached_property
    def walked(self) -> tuple[QuadraticScore, ...]:
        """Scores whose walks tell the densities: any will do where these are all that is needed."""
        return self.of_modes or MixtureScore.weighted("spe", self.mixture, spe).walked

    def game(self, name: GameName, settings: GameSettings) -> Game:
        """The conditional game of a mixture."""
        if name != "conditional":
            raise ValueError(
                f"game={name!r} is not available for a model with several modes or for score='nll': use 'conditional'."
            )
        return ConditionalMixture(self)

    def in_place(self, model: FittedModel, X: Floats) -> Iterator[InPlace]:
        """What the most probable mode says of each row."""
        for k, at in self.mixture.by_mode(X):
            view = model.in_mode(k)
            own = mahalanobis(view.gaussian) if self.of_modes is None else self.of_modes[k]
            yield InPlace(at, view, X[at] - self.mixture.modes[k].mean, own)

    def __call__(self, X: Floats) -> Floats:
        """Score of each row; NaN where nothing is observed."""
        log_joint = self.mixture.log_densities(X) + np.log(self.mixture.weights)
        result = np.asarray((special.softmax(log_joint, axis=1) * self.parts(X)).sum(axis=1))
        if self.of_modes is None:
            result -= special.logsumexp(log_joint, axis=1)
        result[np.isnan(X).all(axis=1)] = np.nan
        return result

    def parts(self, X: Floats) -> Floats:
        """What each mode says of each row, (n, modes): its score, or the entropy of the row's missing cells."""
        if self.of_modes is not None:
            pairs = zip(self.of_modes, self.mixture.modes, strict=True)
            return np.column_stack([np.nan_to_num(score(X - mode.mean)) for score, mode in pairs])
        missing = np.isnan(X)
        if not missing.any():
            return np.zeros((len(X), self.mixture.n_modes))
        result = np.empty((len(X), self.mixture.n_modes))
        kinds, kind_of_row = np.unique(missing, axis=0, return_inverse=True)
        for k, mode in enumerate(self.mixture.modes):
            at_mean = mode.log_density(np.where(kinds, np.nan, mode.mean))
            known = _entropies(at_mean, (~kinds).sum(axis=1))
            result[:, k] = (self.entropies[k] - known)[kind_of_row.ravel()]
        return result


def _entropies(log_density_at_mean: Floats, n_features: Floats | int) -> Floats:
    """Entropy of Gaussians, from their largest log-density."""
    return np.asarray(0.5 * n_features - log_density_at_mean)
