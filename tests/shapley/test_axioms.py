"""What makes a Shapley value, as properties of random models and rows."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from culpa import LatentGaussian, scores, shapley
from culpa.games import Conditional, Interventional, Retraining

ENGINES = {
    "exact": lambda game, X, players: shapley.exact(game, X, players),
    "permutation": lambda game, X, players: shapley.permutation(
        game, X, players, shapley.order_rule(len(players), 3, 0)
    ),
}


@st.composite
def settings_of_a_game(draw):
    d = draw(st.integers(2, 6))
    p = draw(st.integers(1, d - 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    per_feature = draw(st.booleans())
    noise = 10.0 ** rng.uniform(-3, 1, size=d if per_feature else None)
    gaussian = LatentGaussian(np.zeros(d), rng.normal(size=(d, p)) * 10.0 ** rng.uniform(-1, 1), noise)
    return gaussian, 3 * rng.normal(size=(2, d))


def build(gaussian, game, score=scores.spe):
    if game == "retraining":
        return Retraining(gaussian.covariance, gaussian.n_components, mean=False)
    return {"conditional": Conditional, "interventional": Interventional}[game](score(gaussian))


GAMES = st.sampled_from(["conditional", "interventional", "retraining"])


@settings(deadline=None, max_examples=60)
@given(settings_of_a_game(), GAMES, st.sampled_from(sorted(ENGINES)))
def test_efficiency(setting, name, engine):
    gaussian, X = setting
    game = build(gaussian, name)
    values = ENGINES[engine](game, X, [[i] for i in range(X.shape[1])]).values
    total = game.total(X, np.arange(X.shape[1]))
    scale = np.abs(total) + np.abs(values).sum(axis=1) + 1e-3 * (X**2).sum(axis=1)
    assert (np.abs(values.sum(axis=1) + game.base_value - total) <= 1e-10 * scale).all()


@settings(deadline=None, max_examples=60)
@given(settings_of_a_game(), GAMES)
def test_symmetry(setting, name):
    """Two features that the model cannot tell apart, with the same value, get the same blame."""
    gaussian, X = setting
    W = gaussian.loadings.copy()
    W[1] = W[0]
    twins = LatentGaussian(gaussian.mean, W, 0.5)
    X = X.copy()
    X[:, 1] = X[:, 0]
    values = shapley.exact(build(twins, name), X, [[i] for i in range(X.shape[1])]).values
    np.testing.assert_allclose(
        values[:, 0], values[:, 1], rtol=1e-8, atol=1e-8 * np.abs(values).max() + 1e-13 * (X**2).max()
    )


@settings(deadline=None, max_examples=60)
@given(settings_of_a_game(), st.sampled_from(["conditional", "interventional"]))
def test_dummy(setting, name):
    """A feature that is independent of the others and does not enter the score gets nothing."""
    gaussian, X = setting
    W = gaussian.loadings.copy()
    W[0] = 0
    loner = LatentGaussian(gaussian.mean, W, gaussian.noise_variance)
    score = scores.of_features(loner, range(1, X.shape[1]))
    game = {"conditional": Conditional, "interventional": Interventional}[name](score)
    values = shapley.exact(game, X, [[i] for i in range(X.shape[1])]).values
    assert np.abs(values[:, 0]).max() <= 1e-9 * max(1.0, np.abs(values).max())


@settings(deadline=None, max_examples=60)
@given(settings_of_a_game(), st.sampled_from(["conditional", "interventional"]), st.floats(0.1, 10), st.floats(0.1, 10))
def test_linearity(setting, name, spe_limit, t2_limit):
    """Blame for a sum of scores is the sum of the blames."""
    gaussian, X = setting
    players = [[i] for i in range(X.shape[1])]

    def values(score):
        return shapley.exact(build(gaussian, name, score), X, players).values

    together = values(lambda g: scores.combined(g, spe_limit, t2_limit))
    apart = values(scores.spe) / spe_limit + values(scores.t2) / t2_limit
    np.testing.assert_allclose(together, apart, rtol=1e-8, atol=1e-8 * np.abs(together).max())
