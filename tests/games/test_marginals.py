"""Contributions of all players to a coalition at once, against the values of the two coalitions that they lie between."""

import numpy as np
import pytest

from culpa import LatentGaussian, scores
from culpa.games import Conditional, Given, Minimal
from culpa.games.marginals import Marginals, PlayersAtOnce

D = 7
SCORES = {
    "spe": scores.spe,
    "t2": scores.t2,
    "mahalanobis": scores.mahalanobis,
    "combined": lambda gaussian: scores.combined(gaussian, 2.0, 3.0),
    "any weights": lambda gaussian: scores.QuadraticScore("spe", gaussian, np.linspace(0, 1, D), np.linspace(2, 1, 3)),
}
MODELS = {
    "least squares": {"noise_variance": 0.4},
    "posterior": {"noise_variance": 0.4, "reconstruction": "posterior"},
    "noise differs": {"noise_variance": np.linspace(0.1, 0.9, D)},
}
PLAYERS = {"features": [[i] for i in range(D)], "groups": [[5, 0, 3], [1], [2, 6]], "some": [[2], [4, 1], [0]]}


def model(**how):
    return LatentGaussian(np.zeros(D), np.random.default_rng(0).normal(size=(D, 3)), **how)


def compare(game, players, rows):
    rng, at = np.random.default_rng(1), PlayersAtOnce(game.marginals, players, rows)
    for _ in range(8):
        members = (rng.random(D) < 0.5).astype(float)  # of features that are no players, too: they are given
        for player in players:
            members[player] = rng.random() < 0.5
        found = at.contributions(at.known(members[None]), game.marginals.moves(rows))
        for i, player in enumerate(players):
            others = np.setdiff1d(np.flatnonzero(members), player)
            expected = game.value(rows, np.union1d(others, player).astype(int)) - game.value(rows, others)
            np.testing.assert_allclose(found[:, i], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("players", PLAYERS)
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("score", SCORES)
def test_contributions_are_differences_of_values(score, kind, players):
    gaussian = model(**MODELS[kind])
    compare(Conditional(SCORES[score](gaussian)), PLAYERS[players], 2 * gaussian.sample(4, 2))


@pytest.mark.parametrize("players", PLAYERS)
def test_of_the_minimal_game(players):
    gaussian = model(noise_variance=0.4)
    compare(Minimal(scores.spe(gaussian)), PLAYERS[players], 2 * gaussian.sample(4, 2))


def test_factors_are_linear_in_the_rows():
    gaussian = model(noise_variance=np.linspace(0.1, 0.9, D))
    game, players, rows = Conditional(scores.spe(gaussian)), PLAYERS["groups"], gaussian.sample(4, 2)
    members = (np.random.default_rng(1).random((5, D)) < 0.5).astype(float)
    members[:, [0, 3]], members[:, 6] = members[:, [5]], members[:, 2]
    by_row, by_unit = (PlayersAtOnce(game.marginals, players, X) for X in (rows, np.eye(D)))
    known = by_row.known(members)
    for found, unit in zip(by_row.factors(known, rows), by_unit.factors(known, np.eye(D)), strict=True):
        np.testing.assert_allclose(found, rows @ unit, rtol=1e-10, atol=1e-12)


def test_weights_that_are_alike_need_no_sums_over_members():
    assert Conditional(scores.spe(model(noise_variance=0.4))).marginals.leak is None
    assert Conditional(scores.mahalanobis(model(noise_variance=np.linspace(0.1, 0.9, D)))).marginals.leak is None
    assert Conditional(scores.spe(model(noise_variance=np.linspace(0.1, 0.9, D)))).marginals.leak is not None


@pytest.mark.parametrize(
    "gaussian",
    [
        LatentGaussian(np.zeros(D), np.ones((D, 1)), 1e-9),
        LatentGaussian(np.zeros(D), np.ones((D, 1)), 0.2, degrees_of_freedom=5.0),
    ],
    ids=["tiny noise", "heavy tails"],
)
def test_other_models_have_none(gaussian):
    assert Conditional(scores.spe(gaussian)).marginals is None


def test_given_features_change_nothing():
    game = Conditional(scores.spe(model(noise_variance=0.4)))
    assert Given(game, np.array([2])).marginals is game.marginals


def test_products_that_do_not_fit_into_memory(monkeypatch):
    found = Marginals(np.zeros((4000, 400)), np.ones(4000), np.ones(4000), np.zeros(400))
    assert not found.fits
