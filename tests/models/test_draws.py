"""Draws given some features: their distribution, and that walking gives the same ones."""

import numpy as np
import pytest
from scipy import stats

from culpa import LatentGaussian
from culpa.games.simulated import Simulated
from culpa.models import LatentMixture
from culpa.models.draws import NormalRows
from culpa.models.margins import Margins
from culpa.scores import FunctionScore

RNG = np.random.default_rng(0)
LOADINGS = RNG.normal(size=(4, 2))
GAUSSIAN = LatentGaussian([1.0, 2.0, 3.0, 4.0], LOADINGS, [0.5, 0.4, 0.3, 0.6])
STUDENT = LatentGaussian(GAUSSIAN.mean, LOADINGS, 0.4, degrees_of_freedom=5.0)
OTHER = LatentGaussian([3.0, 0.0, 3.0, 1.0], RNG.normal(size=(4, 1)), 0.7)
MIXTURE = LatentMixture([0.3, 0.7], (GAUSSIAN, OTHER))
MARGINS = Margins.of(RNG.exponential(size=(300, 4)))
KINDS = {
    "gaussian": NormalRows(GAUSSIAN),
    "student": NormalRows(STUDENT),
    "mixture": NormalRows(MIXTURE),
    "copula": NormalRows(LatentGaussian(np.zeros(4), LOADINGS / 2, 0.3), MARGINS),
}
X = np.array([[3.0, 1.0, 2.0, 0.3], [0.1, 0.2, 4.0, 7.0], [2.0, 1.0, 3.0, 2.0]])


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_walking_gives_the_draws_of_the_definition(kind, independent):
    rows = KINDS[kind]
    game = Simulated(FunctionScore("f", rows, lambda R: R[:, 0], independent=independent))
    chances = rows.chances(3, np.random.default_rng(1))
    for k in range(3):
        known: list[int] = []
        walk = game.draw(X, chances.of_draw(k))
        for feature in (2, 0, 3, 1):
            at_once = rows.given(X, np.array(known, dtype=np.intp), chances.of_draw(k), independent=independent)
            walked = rows.to_user(walk.both(), X)
            np.testing.assert_allclose(walked, at_once, rtol=1e-9, atol=1e-9)
            np.testing.assert_array_equal(walked[:, :, known], np.repeat(X[:, None, known], 2, axis=1))
            walk.join(feature)
            known.append(feature)


@pytest.mark.parametrize("known", [[], [1], [0, 3], [0, 1, 3]])
def test_student_draws_have_the_conditional_distribution(known):
    chances = KINDS["student"].chances(20_000, np.random.default_rng(2))
    drawn = KINDS["student"].given(X, np.array(known, dtype=np.intp), chances)
    mean, covariance = STUDENT.conditional(X, known)
    masked = np.where(np.isin(np.arange(4), known), X, np.nan)
    nu = STUDENT.degrees_of_freedom + len(known)
    for row in range(len(X)):
        scale = np.sqrt(covariance[2, 2] * STUDENT.spread_factor(masked)[row] * (nu - 2) / nu)
        for side in (0, 1):
            standard = (drawn[row, side::2, 2] - mean[row, 2]) / scale
            assert stats.kstest(standard, stats.t(nu).cdf).pvalue > 1e-3
            assert stats.kstest(standard, stats.norm(scale=standard.std()).cdf).pvalue < 1e-3  # not Gaussian


@pytest.mark.parametrize("known", [[], [1], [0, 3]])
def test_draws_are_in_modes_by_their_responsibilities(known):
    """A feature that only tells the modes apart: draws of it count the modes."""
    flags = LatentMixture(
        MIXTURE.weights,
        tuple(
            LatentGaussian([*mode.mean, 10.0 * k], np.vstack([mode.loadings, np.zeros(mode.n_components)]), 0.01)
            for k, mode in enumerate(MIXTURE.modes)
        ),
    )
    rows = NormalRows(flags)
    new = np.column_stack([X, np.zeros(len(X))])
    chances = rows.chances(4000, np.random.default_rng(3))
    drawn = rows.given(new, np.array(known, dtype=np.intp), chances)
    masked = np.where(np.isin(np.arange(5), known), new, np.nan)
    np.testing.assert_allclose((drawn[:, :, 4] > 5).mean(axis=1), flags.responsibilities(masked)[:, 1], atol=1e-3)
    np.testing.assert_allclose(drawn.mean(axis=1), flags.impute(masked), atol=0.1)
    independent = rows.given(new, np.array(known, dtype=np.intp), chances, independent=True)
    np.testing.assert_allclose((independent[:, :, 4] > 5).mean(axis=1), 0.7, atol=1e-3)


def test_copula_draws_keep_margins_and_known_cells():
    chances = KINDS["copula"].chances(4000, np.random.default_rng(4))
    drawn = KINDS["copula"].given(X, np.array([1]), chances)
    assert (drawn[:, :, 1] == X[:, None, 1]).all()  # not even rounded
    gaussian = KINDS["copula"].distribution
    scores = MARGINS.to_normal(drawn.reshape(-1, 4)).reshape(drawn.shape)
    mean, covariance = gaussian.conditional(MARGINS.to_normal(X), [1])
    np.testing.assert_allclose(scores.mean(axis=1), mean, atol=0.03)
    np.testing.assert_allclose(np.cov(scores[0].T), covariance, atol=0.06)
    expected = MARGINS.to_user(gaussian.expected(MARGINS.to_normal(X)))
    np.testing.assert_allclose(KINDS["copula"].expected(X), expected)


def test_many_degrees_of_freedom_are_gaussian():
    almost = NormalRows(LatentGaussian(GAUSSIAN.mean, LOADINGS, GAUSSIAN.noise, degrees_of_freedom=1e10))
    known = np.array([0, 2])
    drawn = almost.given(X, known, almost.chances(50, np.random.default_rng(5)))
    same = KINDS["gaussian"].given(X, known, KINDS["gaussian"].chances(50, np.random.default_rng(5)))
    np.testing.assert_allclose(drawn, same, rtol=1e-3, atol=1e-3)
