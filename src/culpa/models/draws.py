"""Normal rows to draw from, given some of their features.

A draw given the features S of a row x is m + s e, and m - s e is as good a draw. m is the conditional mean of the row given
x_S. e is what a draw y of Gaussian rows deviates from its own conditional mean given y_S. So one set of draws y serves all
rows and all S (common random numbers).

| normal rows | draw |
| --- | --- |
| Gaussian | s = 1 |
| Student-t, with nu degrees of freedom | s^2 = (nu - 2 + D(x_S)) / (w + D(y_S)), with w from a chi-square with nu degrees |
| in several modes | the mode in whose part of [0, 1] a number u falls, if the parts are the responsibilities r_k(x_S) |
| with margins | of the normal scores of the row, which the inverse of the margins maps to the user's units |

D is the squared Mahalanobis distance. D(y_S) is a chi-square with |S| degrees of freedom, independent of e and w. So
m + s e is Student-t with nu + |S| degrees of freedom, and its covariance is the one of `culpa.models.latent`. The draw
m - s e belongs to 1 - u.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from culpa._core.copies import CopiedInUse
from culpa._core.types import Floats, Positions
from culpa.models.distribution import Distribution
from culpa.models.fitted_model import FittedModel
from culpa.models.latent import LatentGaussian
from culpa.models.margins import Margins


class Chances(NamedTuple):
    """What is random about m draws, whatever the row and the features that are known."""

    deviations: Floats  # y minus its mean, for Gaussian rows, (modes, m, d)
    weights: Floats  # w, (modes, m); 1 for Gaussian rows, which do not need it
    places: Floats  # u, (m,)

    def of_draw(self, which: int) -> "Chances":
        """What is known of one of the draws."""
        at = slice(which, which + 1)
        return Chances(self.deviations[:, at], self.weights[:, at], self.places[at])


@dataclass(frozen=True, eq=False)
class NormalRows(CopiedInUse):
    """Normal rows in the user's units; with ``margins``, ``distribution`` is that of their normal scores.

    >>> rows = NormalRows(LatentGaussian([1.0, 2.0], [[2.0], [1.0]], 0.5))
    >>> chances = rows.chances(3, np.random.default_rng(0))
    >>> rows.given(np.array([[5.0, np.nan]]), np.array([0]), chances).shape
    (1, 6, 2)
    """

    distribution: Distribution
    margins: Margins | None = None

    @classmethod
    def of(cls, model: FittedModel) -> Self:
        """Rows of a model's features."""
        return cls(model.standard.mapped(model.centre, model.scale), model.margins)

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return self.distribution.n_features

    def expected(self, X: Floats, blocks: Sequence[Sequence[int]] | None = None) -> Floats:
        """What the other observed features imply each feature, or each block of features, should have been."""
        expected = self.distribution.expected(self.scores(X), blocks)
        return expected if self.margins is None else self.margins.to_user(expected)

    def scores(self, X: Floats) -> Floats:
        """Rows as the distribution sees them: normal scores where there are margins."""
        return X if self.margins is None else self.margins.to_normal(X)

    def to_user(self, drawn: Floats, X: Floats) -> Floats:
        """Draws (..., n, k, d) for the rows ``X`` (n, d) in the user's units; known cells are exactly those of the rows."""
        if self.margins is None:
            return drawn
        user = self.margins.to_user(drawn.reshape(-1, drawn.shape[-1])).reshape(drawn.shape)
        return np.where(drawn == self.scores(X)[:, None, :], X[:, None, :], user)

    def chances(self, n_draws: int, rng: np.random.Generator) -> Chances:
        """The random part of some draws; modes are spread over them as evenly as possible."""
        modes = self.distribution.modes
        gaussian = [replace(mode, degrees_of_freedom=np.inf) for mode in modes]
        deviations = np.stack([mode.sample(n_draws, rng) - mode.mean for mode in gaussian])
        weights = np.ones(deviations.shape[:2])
        for mode, each in zip(modes, weights, strict=True):
            if mode.tail:
                each[:] = rng.chisquare(mode.degrees_of_freedom, size=n_draws)
        first = rng.random() if len(modes) > 1 else 0.5
        return Chances(deviations, weights, (first + np.arange(n_draws) / n_draws) % 1.0)

    def given(self, X: Floats, known: Positions, chances: Chances, *, independent: bool = False) -> Floats:
        """Rows that have the known features of ``X``, two for each draw, (n, 2 m, d); the other cells do not matter.

        ``independent``: the others are drawn as if they had nothing to do with the known ones.
        """
        is_known = np.zeros(self.n_features, dtype=np.bool_)
        is_known[known] = True
        Z = np.where(is_known, self.scores(X), np.nan)
        draw = _marginal if independent else _conditional
        parts = [
            draw(mode, Z, known, deviation, weight)
            for mode, deviation, weight in zip(
                self.distribution.modes, chances.deviations, chances.weights, strict=True
            )
        ]
        log_joint = np.stack([part.log_density for part in parts]) + np.log(self.distribution.weights)[:, None]
        drawn = in_modes([(part.mean, part.deviation) for part in parts], log_joint, chances.places)
        return self.to_user(drawn.reshape(len(X), -1, self.n_features), X)


Expecting = Distribution | NormalRows  # what knows what to expect of some features given others


class _Part(NamedTuple):
    """What one mode says about rows of which some features are known."""

    mean: Floats  # (n, d)
    deviation: Floats  # s e, (n or 1, m, d)
    log_density: Floats  # of the known features, (n,)


def _conditional(mode: LatentGaussian, Z: Floats, known: Positions, deviation: Floats, weight: Floats) -> _Part:
    mean = mode.conditional(np.nan_to_num(Z, nan=0.0), known)[0]
    draws = mode.mean + deviation
    left = (draws - mode.conditional(draws, known)[0])[None]
    left[..., known] = 0.0
    if mode.tail:
        seen = np.full_like(draws, np.nan)
        seen[:, known] = draws[:, known]
        above = mode.degrees_of_freedom - 2 + mode.squared_distance(Z)
        left = left * np.sqrt(above[:, None] / (weight + mode.squared_distance(seen)))[:, :, None]
    return _Part(mean, left, mode.log_density(Z))


def _marginal(mode: LatentGaussian, Z: Floats, known: Positions, deviation: Floats, weight: Floats) -> _Part:
    left = deviation[None].copy()
    left[..., known] = 0.0
    if mode.tail:
        left *= np.sqrt((mode.degrees_of_freedom - 2) / weight)[:, None]
    return _Part(np.where(np.isnan(Z), mode.mean, Z), left, np.zeros(len(Z)))


def in_modes(parts: Sequence[tuple[Floats, Floats]], log_joint: Floats, places: Floats) -> Floats:
    """Draws and their mirror images in the modes that are due, (n, m, 2, d).

    ``parts`` has means (n, d) and deviations (n or 1, m, d) of each mode. ``log_joint`` (modes, n) has the logarithms of
    their probabilities, up to a constant per row.
    """
    both = [mean[:, None, None] + np.stack([left, -left], axis=2) for mean, left in parts]
    if len(both) == 1:
        return np.asarray(both[0])
    which = _modes_due(log_joint, np.stack([places, 1.0 - places], axis=1))
    return np.asarray(np.take_along_axis(np.stack(both), which[None, ..., None], axis=0)[0])


def _modes_due(log_joint: Floats, places: Floats) -> NDArray[np.intp]:
    """In which mode's part of [0, 1] each place falls, (n, *places.shape)."""
    upper = np.cumsum(special.softmax(log_joint, axis=0), axis=0)[:-1]  # the last mode has whatever is left
    return np.asarray((places >= upper[(..., *[None] * places.ndim)]).sum(axis=0))
