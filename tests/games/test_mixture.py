"""Mixtures: scores, games and Shapley values against brute force with dense matrices, and against one Gaussian."""

import numpy as np
import pytest
from scipy import stats
from sklearn.mixture import GaussianMixture
from witness import coalitions, conditional_value, score_matrix, shapley

from culpa import PPCA, Explainer, LatentGaussian, LatentMixture, MixturePPCA, games
from culpa.games.mixture import ConditionalMixture
from culpa.models import FittedModel, as_fitted_model
from culpa.scores import MixtureScore, mahalanobis, mse, named_score, score_by_name, spe, t2

WEIGHTED = {"spe": spe, "mse": mse, "t2": t2, "mahalanobis": mahalanobis}


def some_mixture(d, seed=0, numbers=(2, 1, 3), spread=1.0):
    rng = np.random.default_rng(seed)
    modes = tuple(
        LatentGaussian(spread * rng.normal(size=d), rng.normal(size=(d, min(p, d - 1))), 0.1 + rng.random())
        for p in numbers
    )
    weights = rng.random(len(modes)) + 0.2
    return LatentMixture(weights / weights.sum(), modes)


def densities(mixture, x, S):
    """w_k p_k(x_S) of every mode, by SciPy."""
    S = list(S)
    if not S:
        return np.array(mixture.weights)
    return np.array(
        [
            weight * stats.multivariate_normal(mode.mean[S], mode.covariance[np.ix_(S, S)]).pdf(x[S])
            for weight, mode in zip(mixture.weights, mixture.modes, strict=True)
        ]
    )


def entropy(mode, S):
    S = list(S)
    return stats.multivariate_normal(mode.mean[S], mode.covariance[np.ix_(S, S)]).entropy() if S else 0.0


def brute_force_value(mixture, name, x, S):
    """The value function straight from its definition."""
    joint = densities(mixture, x, S)
    r = joint / joint.sum()
    d = mixture.n_features
    if name == "nll":
        rest = [entropy(mode, range(d)) - entropy(mode, S) for mode in mixture.modes]
        return -np.log(joint.sum()) + r @ rest
    A = [score_matrix(mode, "spe" if name == "mse" else name) / (d if name == "mse" else 1) for mode in mixture.modes]
    return sum(
        r[k] * conditional_value(mode.covariance, A[k], x - mode.mean, S) for k, mode in enumerate(mixture.modes)
    )


def brute_force(mixture, name, x):
    return shapley({S: brute_force_value(mixture, name, x, S) for S in coalitions(len(x))}, len(x))


@pytest.mark.parametrize("name", ["spe", "mse", "t2", "mahalanobis", "nll"])
@pytest.mark.parametrize("d", [2, 5, 8])
def test_exact_values_are_those_of_the_definition(name, d):
    mixture = some_mixture(d)
    X = mixture.sample(3, 1)
    X[0, 0] += 6
    why = Explainer(mixture, score=name, method="exact").explain(X)
    expected = np.array([brute_force(mixture, name, x) for x in X])
    np.testing.assert_allclose(why.values, expected, atol=1e-9 * max(1, abs(expected).max()))
    np.testing.assert_allclose(why.base_value + why.values.sum(axis=1), why.score, rtol=1e-10)
    np.testing.assert_allclose(why.score, [brute_force_value(mixture, name, x, range(d)) for x in X], rtol=1e-10)
    assert why.base_value == pytest.approx(brute_force_value(mixture, name, X[0], ()))


@pytest.mark.parametrize("name", ["spe", "nll"])
def test_missing_cells_are_no_players(name):
    mixture = some_mixture(6)
    X = mixture.sample(2, 3)
    X[0, [1, 4]], X[1, 0] = np.nan, np.nan
    why = Explainer(mixture, score=name).explain(X)
    for row, x in enumerate(X):
        seen = np.flatnonzero(~np.isnan(x)).tolist()
        full = np.nan_to_num(x)
        values = {S: brute_force_value(mixture, name, full, [seen[i] for i in S]) for S in coalitions(len(seen))}
        np.testing.assert_allclose(why.values[row, seen], shapley(values, len(seen)), atol=1e-9)
        assert (why.values[row, np.isnan(x)] == 0).all()
        assert why.score[row] == pytest.approx(values[tuple(range(len(seen)))], rel=1e-10)


@pytest.mark.parametrize("name", ["spe", "nll"])
def test_the_game_is_the_conditional_expectation(name):
    """By sampling from the conditional distribution, with no formula of the game."""
    rng = np.random.default_rng(0)
    mixture = some_mixture(3, numbers=(1, 1))
    x, S, hidden = mixture.sample(1, 5)[0], [1], [0, 2]
    joint = densities(mixture, x, S)
    which = rng.choice(2, size=40_000, p=joint / joint.sum())
    rows = np.tile(x, (len(which), 1))
    for k, mode in enumerate(mixture.modes):
        mean, covariance = mode.conditional(x[None], S)
        here = which == k
        rows[np.ix_(here, hidden)] = rng.multivariate_normal(
            mean[0, hidden], covariance[np.ix_(hidden, hidden)], here.sum()
        )
    sampled = Explainer(mixture, score=name).score(rows - mixture.mean)
    value = brute_force_value(mixture, name, x, S)
    if name == "spe":
        assert sampled.mean() == pytest.approx(value, abs=4 * sampled.std() / 200)
    else:  # a lower bound, which misses at most the entropy of the mode
        r = joint / joint.sum()
        error = 4 * sampled.std() / 200
        assert value - error <= sampled.mean() <= value - (r * np.log(r)).sum() + error


@pytest.mark.parametrize("name", ["spe", "mse", "t2", "mahalanobis"])
def test_one_mode_is_the_gaussian_game(name):
    mode = some_mixture(6).modes[0]
    X = mode.sample(4, 0)
    one, gaussian = (Explainer(model, score=name).explain(X) for model in (LatentMixture([1.0], (mode,)), mode))
    np.testing.assert_allclose(one.values, gaussian.values, atol=1e-10)
    for part in ("score", "expected", "score_if_fixed"):
        np.testing.assert_allclose(getattr(one, part), getattr(gaussian, part), atol=1e-9)


def test_negative_log_likelihood_of_one_mode_is_half_the_mahalanobis_distance():
    mode = some_mixture(6).modes[0]
    X = mode.sample(4, 0)
    nll, distance = (Explainer(mode, score=name).explain(X) for name in ("nll", "mahalanobis"))
    np.testing.assert_allclose(nll.values, distance.values / 2, atol=1e-10)
    np.testing.assert_allclose(nll.score, -mode.log_density(X))


def test_blame_for_the_likelihood_does_not_depend_on_units():
    mixture = some_mixture(5)
    scale = np.array([1e-3, 1.0, 7.0, 1e4, 0.2])
    scaled = FittedModel.of(mixture, np.zeros(5), scale)
    X = mixture.sample(3, 2)
    np.testing.assert_allclose(
        Explainer(scaled, score="nll").explain(X * scale).values, Explainer(mixture, score="nll").explain(X).values
    )


@pytest.mark.parametrize("branching", [True, False])
@pytest.mark.parametrize("noise", [0.3, 1e-7])
@pytest.mark.parametrize("name", ["spe", "mahalanobis", "nll"])
def test_steps_agree_with_linear_solves(name, noise, branching):
    """Elimination and latent walks; the noise decides between them."""
    rng = np.random.default_rng(3)
    modes = tuple(LatentGaussian(rng.normal(size=5), rng.normal(size=(5, 2)), noise) for _ in range(3))
    game = games.ConditionalMixture(_score(LatentMixture([0.2, 0.3, 0.5], modes), name))
    X = LatentMixture([0.2, 0.3, 0.5], modes).sample(4, 1)
    queue = np.array([[3, 0, 4, 1, 2]])
    walk, value = game.start(X, queue, branching=branching), game.base_value
    for k in range(5):
        walk, change = walk.join()
        value = value + change[0]
        expected = game.value(X, np.sort(queue[0, : k + 1]))
        np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-6 * abs(expected).max())


def _score(mixture, name):
    return MixtureScore.nll(mixture) if name == "nll" else MixtureScore.weighted(name, mixture, WEIGHTED[name])


def test_sampled_values_converge_to_exact_ones():
    mixture = some_mixture(7)
    X = mixture.sample(3, 1)
    exact = Explainer(mixture).explain(X)
    sampled = Explainer(mixture, method="permutation", n_orders=2000).explain(X)
    assert not sampled.exact
    close = abs(sampled.values - exact.values) <= 5 * sampled.std_error + 1e-9
    assert close.mean() > 0.9


def test_groups_and_given_features():
    mixture = some_mixture(5)
    X = mixture.sample(2, 4)
    why = Explainer(mixture, score="nll", groups={"pair": [0, 3]}).explain(X)
    assert why.values.shape == (2, 4)
    np.testing.assert_allclose(why.base_value + why.values.sum(axis=1), why.score)
    known = Explainer(mixture, given=[2]).explain(X)
    np.testing.assert_allclose(known.base_value + known.values.sum(axis=1), known.score)
    np.testing.assert_allclose(known.base_value, [brute_force_value(mixture, "spe", x, [2]) for x in X])


def test_expected_values_and_fixes_condition_on_the_other_features():
    mixture = some_mixture(4)
    X = mixture.sample(2, 4)
    why = Explainer(mixture).explain(X)
    for row, x in enumerate(X):
        for i in range(4):
            others = [j for j in range(4) if j != i]
            joint = densities(mixture, x, others)
            means = [mode.conditional(x[None], others)[0][0, i] for mode in mixture.modes]
            expected = joint @ means / joint.sum()
            assert why.expected[row, i] == pytest.approx(expected)
            fixed = x.copy()
            fixed[i] = expected
            value = brute_force_value(mixture, "spe", fixed, range(4))
            assert why.score_if_fixed[row, i] == pytest.approx(value)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_gaussian_mixtures_of_scikit_learn_are_explained_for_their_own_score(covariance_type):
    X = some_mixture(4, spread=4.0).sample(300, 0)
    model = GaussianMixture(3, covariance_type=covariance_type, random_state=0).fit(X)
    rows = X[:3] + np.array([4.0, 0, 0, 0])
    why = Explainer(model).explain(rows)
    assert why.score_name == "nll"
    np.testing.assert_allclose(why.score, -model.score_samples(rows), rtol=1e-9)
    fitted = as_fitted_model(model)
    mixture = fitted.standard
    expected = [brute_force(mixture, "nll", row - fitted.centre) for row in rows]
    np.testing.assert_allclose(why.values, expected, atol=1e-9)
    full = model.covariances_
    for k, mode in enumerate(mixture.modes):
        dense = {
            "full": full[k],
            "tied": full,
            "diag": np.diag(np.atleast_1d(full[k])),
            "spherical": full[k] * np.eye(4),
        }
        np.testing.assert_allclose(mode.covariance, dense[covariance_type], atol=1e-10)


@pytest.mark.parametrize("ranking", ["rbc", "leave-one-out", "fault-odds", "z-score"])
def test_rankings_are_those_of_the_mode(ranking):
    mixture = some_mixture(5, spread=30.0)
    X = mixture.sample(6, 2)
    X[:, 1] += 5
    why = Explainer(mixture, ranking=ranking).explain(X)
    for row, mode in enumerate(mixture.mode_of(X)):
        alone = Explainer(mixture.modes[mode], ranking=ranking).explain(X[row : row + 1])
        np.testing.assert_allclose(why.blame[row], alone.blame[0], rtol=1e-8)


@pytest.mark.parametrize("game", ["retraining", "interventional"])
def test_what_needs_one_mode_is_refused(game):
    with pytest.raises(ValueError, match="not available for a model with several modes"):
        Explainer(some_mixture(3), game=game)


def test_compiling_is_refused():
    with pytest.raises(ValueError, match="cannot be compiled"):
        Explainer(some_mixture(3)).compile()


def test_other_refusals():
    mixture = some_mixture(3)
    with pytest.raises(ValueError, match="use 'mahalanobis'"):
        Explainer(mixture, score="combined")
    with pytest.raises(ValueError, match="several modes"):
        Explainer(mixture, features=[0])
    with pytest.raises(ValueError, match="not available for a model with several modes, and this one has 3"):
        named_score("spe", FittedModel.of(mixture))


def test_a_fitted_mixture_of_one_mode_equals_ppca():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(200, 5))
    one, ppca = MixturePPCA(1, 2).fit(X), PPCA(2).fit(X)
    why, same = (Explainer(model).explain(X[:5]) for model in (one, ppca))
    np.testing.assert_allclose(why.values, same.values, atol=1e-10)
    np.testing.assert_allclose(one.score_samples(X), ppca.score_samples(X), rtol=1e-10)


def test_modes_matter():
    """A mixture of one of the modes is another game: so the tests above can fail."""
    mixture = some_mixture(4)
    X = mixture.sample(2, 0)
    whole, part = (Explainer(model).explain(X).values for model in (mixture, mixture.modes[0]))
    assert abs(whole - part).max() > 0.1
    assert isinstance(Explainer(mixture).game, ConditionalMixture)
    assert isinstance(score_by_name("spe", FittedModel.of(mixture)), MixtureScore)
