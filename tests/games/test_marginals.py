"""Contributions of all features to a coalition at once, against the values of the two coalitions that they lie between."""

import numpy as np
import pytest

from culpa import LatentGaussian, scores
from culpa.games import Conditional
from culpa.games.marginals import in_columns

D = 7
SCORES = {
    "spe": scores.spe,
    "t2": scores.t2,
    "mahalanobis": scores.mahalanobis,
    "combined": lambda gaussian: scores.combined(gaussian, 2.0, 3.0),
}


@pytest.mark.parametrize("reconstruction", ["least-squares", "posterior"])
@pytest.mark.parametrize("score", SCORES)
def test_contributions_are_differences_of_values(score, reconstruction):
    rng = np.random.default_rng(0)
    gaussian = LatentGaussian(np.zeros(D), rng.normal(size=(D, 3)), 0.4, reconstruction=reconstruction)
    game, rows = Conditional(SCORES[score](gaussian)), 2 * rng.normal(size=(4, D))
    members = np.array([[False] * D, [True] * D, *(rng.random((6, D)) < 0.5)])
    found = game.marginals.of(rows, members)
    for coalition, contributions in zip(members, found, strict=True):
        for i in range(D):
            others = [j for j in np.flatnonzero(coalition) if j != i]
            expected = game.value(rows, np.array([*others, i])) - game.value(rows, np.array(others, dtype=int))
            np.testing.assert_allclose(contributions[:, i], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "gaussian",
    [
        LatentGaussian(np.zeros(D), np.ones((D, 1)), np.linspace(0.1, 0.2, D)),
        LatentGaussian(np.zeros(D), np.ones((D, 1)), 1e-7),
        LatentGaussian(np.zeros(D), np.ones((D, 1)), 0.2, degrees_of_freedom=5.0),
    ],
    ids=["different noise", "tiny noise", "heavy tails"],
)
def test_other_models_have_none(gaussian):
    assert Conditional(scores.spe(gaussian)).marginals is None


def test_columns_fill_vectors():
    array = np.arange(6.0).reshape(2, 3)
    filled = in_columns(array)
    assert filled.shape == (2, 8)
    np.testing.assert_array_equal(filled[:, :3], array)
    assert not filled[:, 3:].any()
    assert filled.ctypes.data % 64 == 0
