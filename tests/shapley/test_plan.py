"""Hundreds of players and more: a rule that is cheap to make, found only when it is needed, and honest about its error."""

import numpy as np

from culpa import Explainer, LatentGaussian, PCADetector, scores, shapley
from culpa.games import Conditional
from culpa.shapley import plan, rules
from culpa.shapley.controls import Controls, position_curves


def model(d, p=4, seed=0):
    rng = np.random.default_rng(seed)
    return LatentGaussian(np.zeros(d), rng.normal(size=(d, p)) * np.linspace(1, 0.4, p), 0.7)


def test_many_players_are_corrected_for_their_positions_only():
    positions, curves = np.argsort(np.random.default_rng(0).random((8, 400)), axis=1), position_curves(400)
    np.testing.assert_array_equal(Controls(positions, 3, curves).array, curves[positions[:, 3]])
    rule = shapley.default_rule(400, 3, 1)
    np.testing.assert_allclose(rule.weights.sum(axis=1), 1.0, rtol=1e-10)
    assert rules.smallest_regression_net(400) < 3 < rules.smallest_regression_net(396)


def test_more_players_than_sobol_has_dimensions(monkeypatch):
    monkeypatch.setattr(rules, "_MOST_SOBOL", 30)
    rule = rules.default_rule.__wrapped__(40, 3, 0)
    np.testing.assert_array_equal(np.sort(rule.orders, axis=1), np.broadcast_to(np.arange(40), rule.orders.shape))
    assert len(np.unique(rule.orders, axis=0)) == 48


def test_values_of_many_players_are_as_accurate_as_they_say():
    d = 420
    game = Conditional(scores.mahalanobis(model(d)))
    X, players = game.score.gaussian.sample(6, 1), [[i] for i in range(d)]
    X[::2, 3] += 6
    truth = shapley.permutation(game, X, players, shapley.default_rule(d, 9, 99)).values
    found = shapley.permutation(game, X, players, shapley.default_rule(d, 5, 0))
    error, size = np.linalg.norm(found.values - truth, axis=1), np.linalg.norm(truth, axis=1)
    assert np.median(error / size) < 0.03
    assert 0.6 < np.median(error / np.linalg.norm(found.std_error, axis=1)) < 1.6
    np.testing.assert_allclose(found.values.sum(axis=1), game.score(X) - game.base_value, rtol=1e-9)


def test_nothing_is_prepared_for_no_rows(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 40))
    detector = PCADetector(3).fit(X)
    monkeypatch.setattr(plan, "net_for_tolerance", None)  # would be called
    assert len(detector.explain(X[:0])) == 0
    assert not Explainer(model(40), "spe").one_pass.compiling_is_due


def test_forms_that_do_not_fit_are_ruled_out_before_sampling(monkeypatch):
    explainer = Explainer(model(40), "spe", memory_bytes=1000)
    explainer.one_pass.count_rows(np.zeros((10**6, 40)))
    monkeypatch.setattr(plan, "net_for_tolerance", None)  # would be called
    assert not explainer.one_pass.compiling_is_due


def test_progress_begins_before_the_first_estimate(monkeypatch):
    seen = []
    explainer = Explainer(model(40), "spe", tolerance=0.2, progress=lambda share, detail: seen.append(share))
    real = plan.permutation
    monkeypatch.setattr(plan, "permutation", lambda *args, **kw: (seen.append("estimate"), real(*args, **kw))[1])
    assert explainer.chosen.startswith("permutation")
    assert seen[:2] == [0.0, "estimate"]


def test_exact_samples_report_their_progress():
    """All orders of two players leave no error to divide by."""
    model = LatentGaussian(np.zeros(2), np.ones((2, 1)), 0.5)
    seen = []
    why = Explainer(model, method="permutation", progress=lambda *at: seen.append(at)).explain(np.ones((3, 2)))
    assert (1.0, 0.0) in seen
    np.testing.assert_allclose(why.values.sum(axis=1) + why.base_value, why.score)
    nothing = Explainer(LatentGaussian(np.zeros(5), np.zeros((5, 0)), 0.5), "t2", method="permutation")
    np.testing.assert_array_equal(nothing.explain(np.ones((2, 5))).values, 0.0)
